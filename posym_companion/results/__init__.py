"""Named results of long runs: arrays with where they came from, checked when they are read.

A result ``experiment/setting`` is two files in the folder ``experiment``: ``setting.npz`` (arrays, no pickle) and
``setting.json`` (settings, seeds, what each dimension of each array is, code version, device, date, duration, library
versions, the SHA-256 of the arrays' file, and last its own). The description is written last, so a result exists only
when it is whole.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import torch

try:
    import fcntl
except ModuleNotFoundError:
    fcntl = None

from posym_core.store import (
    DamagedError,
    ResultError,
    record_provenance,
    require_whole,
    seal,
    sha256,
    unseal,
    write_files,
)

__all__ = [
    "MissingResultError",
    "Result",
    "find_attached_file",
    "find_results_folder",
    "list_results",
    "load_result",
    "load_stored_results",
    "result_path",
    "save_result",
    "work_folder",
]

FORMAT = 3
REMEDY = "restore it with git checkout, or run the experiment again"


class MissingResultError(ResultError):
    """A result is not there, or there is no folder of results."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """Arrays of one run and their provenance.

    Attributes:
        name: experiment and setting, ``"multihop/number_0"``.
        arrays: name -> numpy array.
        dims: name of the array -> names of its dimensions.
        settings: what the run was asked to do, seeds included.
        provenance: ``code_version``, ``code_digest``, ``device``, ``date``, ``seconds``, ``versions``, ``checksum``,
            and ``attached``, the checksums of files beside it.
    """

    name: str
    arrays: Mapping[str, np.ndarray]
    dims: Mapping[str, Sequence[str]]
    settings: Mapping[str, Any]
    provenance: Mapping[str, Any]

    def __getitem__(self, array: str) -> np.ndarray:
        try:
            return self.arrays[array]
        except KeyError:
            raise KeyError(f"result {self.name!r} holds no array {array!r}; it holds {sorted(self.arrays)}") from None

    def __repr__(self) -> str:
        held = ", ".join(f"{name} {list(np.shape(array))}" for name, array in self.arrays.items())
        return f"<{self.describe()}; {held}>"

    def describe(self) -> str:
        """One sentence for the caption of a figure."""
        p = self.provenance
        return (
            f"Result {self.name}: posym_core {p['code_version']} (code {p['code_digest'][:8]}), {p['device']}, "
            f"{p['date'][:10]}, {p['seconds']:.0f} s, seed {self.settings.get('seed', 'in settings')}, "
            f"sha256 {p['checksum'][:12]}"
        )


def find_results_folder() -> Path:
    """Return where results are kept: ``POSYM_RESULTS``, else ``results`` in this folder or the nearest one above it."""
    if configured := os.environ.get("POSYM_RESULTS"):
        return Path(configured)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "results").is_dir() and (folder / "pyproject.toml").is_file():
            return folder / "results"
    raise MissingResultError(
        f"no folder 'results' beside a pyproject.toml in {here} or above it; run from a checkout of the repository or "
        "set POSYM_RESULTS to the folder that holds the results"
    )


def list_results(experiment: str = "*", *, folder: Path | str | None = None) -> list[str]:
    """Return names of the results of an experiment, or of all, that are there."""
    files = _folder(folder).glob(f"{experiment}/[!.]*.json")
    return sorted(f"{file.parent.name}/{file.stem}" for file in files)


def name_dims(dims: Mapping[str, str], arrays: Mapping[str, np.ndarray]) -> dict[str, list[str]]:
    """Names of every array's dimensions, from patterns.

    >>> name_dims({"mean_* std_*": "layer head", "*": "prompt layer head"}, {"mean_score": np.zeros((2, 3))})
    {'mean_score': ['layer', 'head']}
    """
    dims_of = {}
    for name, array in arrays.items():
        named = next(
            (named for names, named in dims.items() if any(fnmatchcase(name, one) for one in names.split())), None
        )
        if named is None:
            raise ValueError(f"array {name!r} has no named dimensions; add it to dims, which names {', '.join(dims)}")
        if len(named.split()) != array.ndim:
            raise ValueError(f"dims of array {name!r} are [{named}], but it has shape {array.shape}")
        dims_of[name] = named.split()
    return dims_of


def save_result(
    name: str,
    arrays: Mapping[str, np.ndarray | torch.Tensor],
    *,
    dims: Mapping[str, str],
    settings: Mapping[str, Any],
    device: str,
    seconds: float,
    folder: Path | str | None = None,
    attached: Mapping[str, bytes] | None = None,
    versions: Mapping[str, str] | None = None,
) -> Result:
    """Write a result, whole or not at all.

    ``dims`` are names of the arrays' dimensions, see :func:`name_dims`; ``attached`` are files by their ending.
    """
    place = result_path(name, folder=folder)
    plain = {key: np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x) for key, x in arrays.items()}
    for key, array in plain.items():
        if array.dtype.hasobject:
            raise ValueError(f"array {key!r} holds Python objects; store numbers, booleans or fixed-width strings")
    named = name_dims(dims, plain)
    payload = _packed(plain)
    beside = {f"{place.name}{ending}": content for ending, content in (attached or {}).items()}
    digests = {file: sha256(content) for file, content in beside.items()}
    description = {
        "format": FORMAT,
        "experiment": place.parent.name,
        "setting": place.name,
        "settings": json.loads(json.dumps(dict(settings))),
        "arrays": {k: {"shape": list(a.shape), "dtype": str(a.dtype), "dims": named[k]} for k, a in plain.items()},
        "provenance": {
            **record_provenance(seconds, device=device),
            **({"versions": dict(versions)} if versions else {}),
            "checksum": sha256(payload),
            **({"attached": digests} if digests else {}),
        },
    }
    with _writing_excluded(place.parent):
        write_files(place.parent, {**beside, f"{place.name}.npz": payload, f"{place.name}.json": seal(description)})
    return load_result(name, folder=folder)


def _packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays as an ``.npz``, packed by LZMA, which leaves a tenth less of them than :func:`numpy.savez_compressed`."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_LZMA) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue(), zipfile.ZIP_LZMA)
    return packed.getvalue()


def load_result(name: str, *, folder: Path | str | None = None) -> Result:
    """Read a result and check it against its checksum."""
    place = result_path(name, folder=folder)
    description_file, array_file = (place.with_name(f"{place.name}{end}") for end in (".json", ".npz"))
    for file in (description_file, array_file):
        if not file.is_file():
            raise MissingResultError(
                f"result {name!r} is not there: {file.name} is missing in {file.parent.name}; {REMEDY}"
            )
    result = _read_result(name, place, *(file.stat().st_mtime_ns for file in (description_file, array_file)))
    return replace(result, arrays={key: array.copy() for key, array in result.arrays.items()})


@functools.lru_cache(maxsize=1000)  # of which all that is stored takes some sixty megabytes
def _read_result(name: str, place: Path, *_: int) -> Result:
    """Read a result once, as long as its files, whose times of change are named, stay as they are."""
    file = f"{place.name}.json"
    with _remedied(), _writing_excluded(place.parent, exclusive=False):
        try:
            description = unseal(place.with_name(file), format=FORMAT)
            own = f"{description['experiment']}/{description['setting']}"
            provenance, settings = dict(description["provenance"]), dict(description["settings"])
            dims = {key: list(each["dims"]) for key, each in description["arrays"].items()}
            digest, attached = provenance["checksum"], dict(provenance.get("attached", {}))
        except DamagedError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise DamagedError(f"{file} is no description of a result ({error!r})") from error
        if own != name:
            raise DamagedError(f"{file} describes the result {own!r}, not {name!r}, which is its path")
        if named := [one for one in attached if Path(one).name != one or one in ("", "..")]:
            raise DamagedError(f"{file} names {named[0]!r}, which is no file beside it")
        require_whole(place.parent, {f"{place.name}.npz": digest})
        try:
            with np.load(place.with_name(f"{place.name}.npz"), allow_pickle=False) as stored:
                arrays = {key: stored[key] for key in stored.files}
        except (ValueError, TypeError, MemoryError, OSError, zipfile.BadZipFile) as error:
            raise DamagedError(f"{place.name}.npz holds no arrays that can be read ({error})") from error
    if set(arrays) != set(dims):
        differing = sorted(set(arrays) ^ set(dims))
        raise ResultError(f"{place.name}.npz does not hold the arrays of {file}, by {differing}; {REMEDY}")
    return Result(name=name, arrays=arrays, dims=dims, settings=settings, provenance=provenance)


def load_stored_results(names: Sequence[str], folder: Path | str | None = None, *, least: int = 0) -> list[Result]:
    """Return those of the named results that are there."""
    results, missing = [], None
    for name in names:
        try:
            results.append(load_result(name, folder=folder))
        except MissingResultError as error:
            missing = error
    if len(results) < least and missing is not None:
        raise missing
    return results


def find_attached_file(result: Result, file: str, *, folder: Path | str | None = None) -> Path:
    """Return where a file that belongs to a result is, checked against its checksum."""
    path = result_path(result.name, folder=folder).parent / file
    expected = result.provenance.get("attached", {}).get(file)
    if expected is None:
        raise ResultError(f"result {result.name!r} has no attached file {file!r}")
    with _remedied():
        require_whole(path.parent, {file: expected})
    return path


def result_path(name: str, *, folder: Path | str | None = None) -> Path:
    """Return where a result's files are, without their endings."""
    if not re.fullmatch(r"[\w-]+/[\w-]+", name, re.ASCII):
        raise ValueError(f"a result is named experiment/setting, in letters, digits, '_' and '-'; got {name!r}")
    return _folder(folder) / name


def work_folder(name: str, *, folder: Path | str | None = None) -> Path:
    """Return where an unfinished run keeps what it goes on from: ``experiment/.setting.work``."""
    place = result_path(name, folder=folder)
    return place.with_name(f".{place.name}.work")


def _folder(folder: Path | str | None) -> Path:
    return Path(folder) if folder is not None else find_results_folder()


@contextlib.contextmanager
def _writing_excluded(folder: Path, *, exclusive: bool = True) -> Iterator[None]:
    """Within the block nobody else writes results into this folder: a second writer waits, and so does a reader.

    The system knows of it, so nothing is left behind by a process that is killed; Windows has no such lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _remedied() -> Iterator[None]:
    """Within the block, what is damaged is a :class:`ResultError` that says what to do."""
    try:
        yield
    except DamagedError as error:
        raise ResultError(f"{error}; {REMEDY}") from error
