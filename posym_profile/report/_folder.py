"""Keep profiles of whole sets of prompts in folders.

A folder holds ``scores.nc`` (all that was measured, an :class:`xarray.Dataset` with its settings and where its numbers
come from), ``heads.csv`` (a row a head) and what else was asked for, such as figures. It is written beside its place,
under another name, and then renamed: a folder is a finished profile.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posym_core.store import ResultError, write_files
from posym_profile.scores._head_table import tabulate_heads

if TYPE_CHECKING:
    from pandas import DataFrame
    from xarray import Dataset

SCORES, HEADS = "scores.nc", "heads.csv"
# Names of what a profile may hold.
ENDINGS = {".nc", ".csv", ".svg", ".html"}


class ProfileError(ResultError):
    """A folder's profile is missing or damaged, or its place is taken."""


def require_place(folder: Path, *, force: bool = False) -> None:
    """Raise if a folder can hold no profile: it must be new or empty, or hold a profile.

    Raises:
        ProfileError: if it holds something else, or with ``force`` something beside a profile.
        NotADirectoryError: if it, or what it is to lie in, is a file.
    """
    above = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not above.is_dir():
        raise NotADirectoryError(f"{above} is no folder, so none can be made there; pass another --out")
    held = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if held and SCORES not in held:
        raise ProfileError(f"{folder} holds other files, such as {min(held)}; pass a new folder as --out")
    if force and (others := {name for name in held if Path(name).suffix not in ENDINGS}):
        raise ProfileError(f"{folder} holds {min(others)} beside a profile, which --force would discard; move it away")


def find_finished(folder: Path, settings: Mapping[str, Any]) -> Dataset | None:
    """Return the profile with these settings that a folder holds, or None; raise if it holds one with others."""
    if not (folder / SCORES).exists():
        return None
    finished = read_scores(folder)
    if json.loads(finished.attrs.get("settings", "null")) == json.loads(json.dumps(settings)):
        return finished
    raise ProfileError(
        f"{folder} holds a profile with other settings; pass another --out, or --force to put this one in its place"
    )


def read_scores(folder: Path) -> Dataset:
    """Read the scores of a finished profile."""
    import xarray

    try:
        return xarray.load_dataset(folder / SCORES, engine="scipy")
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise ProfileError(f"{folder / SCORES} cannot be read ({error}); measure again with --force") from error


def write_profile(folder: Path, scores: Dataset, pages: Mapping[str, bytes]) -> None:
    """Write a profile with its pages to its folder: beside its place, and then in one step there."""
    contents = {HEADS: _write_csv(tabulate_heads(scores)), **pages}
    place = folder.absolute()
    beside, replaced = (place.with_name(f".{place.name}.{os.getpid()}{end}") for end in ("", ".replaced"))
    try:
        write_files(beside, {**contents, SCORES: bytes(scores.to_netcdf(engine="scipy"))})
        if place.exists():
            place.rename(replaced)  # in one step, as half of it would be taken for a profile
        beside.rename(place)
        shutil.rmtree(replaced, ignore_errors=True)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def write_table_of_models(scores: Mapping[str, Dataset]) -> bytes:
    """Write the heads of several models as one table, whose first column names the model."""
    import pandas

    # A name that a spreadsheet would take for a formula becomes text.
    cells = {name: f"'{name}" if name[0] in "=+-@" else name for name in scores}
    tables = [tabulate_heads(x).assign(model=cells[name]) for name, x in scores.items()]
    columns = ["model", *dict.fromkeys(name for table in tables for name in table if name != "model")]
    return _write_csv(pandas.concat(tables).loc[:, columns])


def _write_csv(table: DataFrame) -> bytes:
    return table.to_csv(index=False, float_format="%.7g", lineterminator="\n").encode(errors="backslashreplace")
