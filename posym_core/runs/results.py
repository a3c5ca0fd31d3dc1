"""Named results of long runs: arrays with where they came from, checked when they are read.

A result ``name`` is two files: ``name.npz`` (arrays, no pickle) and ``name.json`` (settings, seeds, code version,
device, date, duration, library versions, the SHA-256 of the arrays' file, and last its own). The description is written
last, so a result exists only when it is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from posym_core.runs.files import sha256, write_atomically
from posym_core.runs.provenance import code_version, library_versions

# Descriptions of format 1 lack a checksum of their own.
FORMATS = (1, 2)


class ResultError(RuntimeError):
    """A result is missing, altered or truncated."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """Arrays of one run and their provenance.

    Attributes:
        name: what the two files are called.
        arrays: name -> numpy array.
        settings: what the run was asked to do, seeds included.
        provenance: ``code_version``, ``code_digest``, ``device``, ``date``, ``seconds``, ``versions``, ``checksum``,
            and ``attached``, the checksums of files beside it.
    """

    name: str
    arrays: Mapping[str, np.ndarray]
    settings: Mapping[str, Any]
    provenance: Mapping[str, Any]

    def __getitem__(self, array: str) -> np.ndarray:
        try:
            return self.arrays[array]
        except KeyError:
            raise KeyError(f"result {self.name!r} holds no array {array!r}; it holds {sorted(self.arrays)}") from None

    def describe(self) -> str:
        """One sentence for the caption of a figure."""
        p = self.provenance
        return (
            f"Result {self.name}: posym_core {p['code_version']} (code {p['code_digest'][:8]}), {p['device']}, "
            f"{p['date'][:10]}, {p['seconds']:.0f} s, seed {self.settings.get('seed', 'in settings')}, "
            f"sha256 {p['checksum'][:12]}"
        )


def results_folder() -> Path:
    """Where results are kept: ``POSYM_RESULTS``, else ``results`` in this folder or the nearest one above it.

    Raises:
        ResultError: if there is none.
    """
    if configured := os.environ.get("POSYM_RESULTS"):
        return Path(configured)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "results").is_dir() and (folder / "pyproject.toml").is_file():
            return folder / "results"
    raise ResultError(
        f"no folder 'results' beside a pyproject.toml in {here} or above it; run from a checkout of the repository or "
        "set POSYM_RESULTS to the folder that holds the results"
    )


def save_result(
    name: str,
    arrays: Mapping[str, np.ndarray | torch.Tensor],
    *,
    settings: Mapping[str, Any],
    device: str,
    seconds: float,
    folder: Path | str | None = None,
    attached: Sequence[str] = (),
) -> Result:
    """Write a result, whole or not at all.

    Args:
        name: letters, digits, ``_`` and ``-``.
        arrays: what was measured; tensors are moved to the CPU. No object arrays.
        settings: what was asked for; must be JSON.
        device: what it ran on, as :func:`posym_core.runs.devices.device_name` says it.
        seconds: how long it took.
        folder: by default :func:`results_folder`.
        attached: names of files in the folder that belong to the result; see :func:`attached_file`.

    Raises:
        ValueError: if the name or an array cannot be stored.
    """
    if not name or not all(c.isalnum() or c in "_-" for c in name):
        raise ValueError(f"a result's name has letters, digits, '_' and '-' only; got {name!r}")
    folder = Path(folder) if folder is not None else results_folder()
    plain = {key: np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x) for key, x in arrays.items()}
    for key, array in plain.items():
        if array.dtype.hasobject:
            raise ValueError(f"array {key!r} holds Python objects; store numbers, booleans or fixed-width strings")
    folder.mkdir(parents=True, exist_ok=True)
    payload = write_atomically(
        folder / f"{name}.npz", lambda file: np.savez_compressed(file, allow_pickle=False, **plain)
    )
    description = {
        "format": FORMATS[-1],
        "name": name,
        "settings": json.loads(json.dumps(dict(settings))),
        "arrays": {key: {"shape": list(a.shape), "dtype": str(a.dtype)} for key, a in plain.items()},
        "provenance": {
            **code_version(),
            "device": device,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(seconds, 1),
            "versions": library_versions(),
            "checksum": sha256(payload),
            **({"attached": {file: sha256(folder / file) for file in attached}} if attached else {}),
        },
    }
    text = json.dumps({**description, "checksum": _digest(description)}, indent=1) + "\n"
    write_atomically(folder / f"{name}.json", lambda file: file.write(text.encode()))
    return load_result(name, folder=folder)


def load_result(name: str, *, folder: Path | str | None = None) -> Result:
    """Read a result and check it against its checksum.

    Raises:
        ResultError: if it is missing, altered or truncated; the message names the file and what to do.
    """
    folder = Path(folder) if folder is not None else results_folder()
    description_file, array_file = folder / f"{name}.json", folder / f"{name}.npz"
    remedy = "restore it with git checkout, or run the experiment again"
    if not description_file.is_file() or not array_file.is_file():
        missing = description_file if not description_file.is_file() else array_file
        raise ResultError(f"result {name!r} is not there: {missing.name} is missing in {folder.name}; {remedy}")
    try:
        description = json.loads(description_file.read_text())
        provenance, settings = description["provenance"], description["settings"]
        expected = provenance["checksum"]
    except (ValueError, KeyError, TypeError) as error:
        raise ResultError(f"{description_file.name} is not a whole description ({error}); {remedy}") from error
    own = description.pop("checksum", None)
    if description.get("format") not in FORMATS:
        raise ResultError(
            f"{description_file.name} has format {description.get('format')}, this code reads {FORMATS}; {remedy}"
        )
    if own != (None if description["format"] == 1 else _digest(description)):
        raise ResultError(f"{description_file.name} was altered: its own checksum is not that of its content; {remedy}")
    found = sha256(array_file)
    if found != expected:
        raise ResultError(
            f"{array_file.name} was altered or truncated: its SHA-256 is {found[:12]}..., its description says "
            f"{expected[:12]}...; {remedy}"
        )
    with np.load(array_file, allow_pickle=False) as stored:
        arrays = {key: stored[key] for key in stored.files}
    return Result(name=name, arrays=arrays, settings=settings, provenance=provenance)


def attached_file(result: Result, file: str, *, folder: Path | str | None = None) -> Path:
    """Where a file that belongs to a result is, checked against its checksum.

    Raises:
        ResultError: if the result has no such file, or it is missing, altered or truncated.
    """
    path = (Path(folder) if folder is not None else results_folder()) / file
    remedy = "restore it with git checkout, or run the experiment again"
    expected = result.provenance.get("attached", {}).get(file)
    if expected is None:
        raise ResultError(f"result {result.name!r} has no attached file {file!r}")
    if not path.is_file():
        raise ResultError(f"{file}, which belongs to result {result.name!r}, is missing; {remedy}")
    if (found := sha256(path)) != expected:
        raise ResultError(
            f"{file} was altered or truncated: its SHA-256 is {found[:12]}..., result {result.name!r} says "
            f"{expected[:12]}...; {remedy}"
        )
    return path


def _digest(description: Mapping[str, Any]) -> str:
    """SHA-256 of a description, however it is laid out as text."""
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()


def stored(names: Sequence[str], folder: Path | None = None, *, least: int = 0) -> list[Result]:
    """Those of the named results that are there.

    Raises:
        ResultError: if one is altered, or there are fewer than ``least``.
    """
    found, missing = [], None
    for name in names:
        try:
            found.append(load_result(name, folder=folder))
        except ResultError as error:
            if "is not there" not in str(error):
                raise
            missing = error
    if len(found) < least and missing is not None:
        raise missing
    return found
