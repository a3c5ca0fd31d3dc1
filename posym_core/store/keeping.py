"""One store for all that is kept: whole or not there, checked when it is read, gone on with only as it was begun.

*Sealed folders* hold files beside a description that is written last, records each file's size and SHA-256, and carries
a checksum of its own: results, profiles, surveys. A folder that takes long to make and depends on its key alone, such
as a converted model, is made once (:func:`cache_folder`).

*Unfinished work* is a folder that says in ``begun.json`` what it is of (settings, code, versions of libraries), with
finished parts, each an own file of arrays with a checksum: chunks of a profile, parts of a measurement, checkpoints.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posym_core.store.provenance import digest_code, list_library_versions

BEGUN, MANIFEST, UNFINISHED = "begun.json", "posym-manifest.json", ".unfinished"


class DamagedError(ValueError):
    """A file is missing, altered, truncated or of another run."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write bytes to a temporary file beside ``path``, then rename it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files one after the other, each whole or not at all; the description of the others is to be the last."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        write_atomically(folder / name, content)


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def record(content: bytes | Path) -> dict[str, Any]:
    """What tells the content of a file from any other: ``size`` and ``sha256``."""
    if isinstance(content, Path):
        return {"size": content.stat().st_size, "sha256": sha256(content)}
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def require_whole(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse files that are not as :func:`record` found them.

    Args:
        folder: where they are.
        files: name -> record; the size may be left out.

    Raises:
        DamagedError: naming the first that is missing, altered or truncated.
    """
    # Sizes first: they tell of most damage without reading a gigabyte.
    for name, recorded in files.items():
        if not (folder / name).is_file():
            raise DamagedError(f"{name} is missing")
        size = (folder / name).stat().st_size
        if size != recorded.get("size", size):
            raise DamagedError(
                f"{name} was altered or truncated: it has {size:,} bytes instead of {recorded['size']:,}"
            )
    for name, recorded in files.items():
        if (found := sha256(folder / name)) != recorded["sha256"]:
            raise DamagedError(
                f"{name} was altered or truncated: its SHA-256 is {found[:12]}..., not {recorded['sha256'][:12]}..."
            )


def seal(description: Mapping[str, Any]) -> bytes:
    """A description as JSON that carries its own ``checksum``, for :func:`unseal`."""
    return (json.dumps({**description, "checksum": _digest_of(description)}, indent=1) + "\n").encode()


def unseal(path: Path, *, format: int | None = None) -> dict[str, Any]:
    """Read a description that :func:`seal` made, without its checksum.

    Raises:
        DamagedError: if it is no such description, was altered (layout does not count), or has another ``format``.
    """
    try:
        description = json.loads(path.read_bytes())
        own = description.pop("checksum")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"{path.name} is not a whole description ({error!r})") from error
    if own != _digest_of(description):
        raise DamagedError(f"{path.name} was altered: its own checksum is not that of its content")
    if description.get("format") != format:
        raise DamagedError(f"{path.name} has format {description.get('format')}, this code reads {format}")
    return description


def _digest_of(description: Mapping[str, Any]) -> str:
    """SHA-256 of what JSON can hold, however it is laid out as text."""
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()


def describe_work(settings: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """What unfinished work is of, as JSON: ``settings``, the code, versions of libraries, and what more there is."""
    made_with = {"code": digest_code(), "versions of libraries": list_library_versions()}
    return json.loads(json.dumps({"settings": dict(settings), **more, **made_with}))


def describe_difference(there: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """In what two identities differ, for "has other ..."; nothing if in nothing.

    >>> describe_difference({"settings": {"size": 2}, "code": "a"}, {"settings": {"size": 3}, "code": "b"})
    'settings (size: 2 there, 3 now) and other code ("a" there, "b" now)'
    >>> describe_difference({"settings": {"stop": float("nan")}}, {"settings": {"stop": float("nan")}})
    ''
    """
    said = []
    for name in {**asked, **there}:
        old, new = there.get(name), asked.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            parts = [_both(old.get(key), new.get(key), f"{key}: ") for key in {**new, **old}]
        else:
            parts = [_both(old, new)]
        if any(parts):
            said.append(f"{name} ({', '.join(filter(None, parts))})")
    return " and other ".join(said)


def _both(old: Any, new: Any, name: str = "") -> str:
    texts = [json.dumps(value) for value in (old, new)]
    if old == new or texts[0] == texts[1]:  # a NaN is as good as another
        return ""
    shown = [text if len(text) <= 40 else f"{text[:37]}..." for text in texts]
    return f"{name}{shown[0]} there, {shown[1]} now"


def begin(folder: Path, asked: Mapping[str, Any]) -> None:
    """Make a folder of unfinished work; ``asked`` is what it is of, see :func:`describe_work`."""
    write_files(folder, {BEGUN: seal(asked)})


def read_begun(folder: Path) -> dict[str, Any] | None:
    """What unfinished work is of; None if none was begun."""
    return unseal(folder / BEGUN) if (folder / BEGUN).is_file() else None


def end(folder: Path, parts: str = "*") -> None:
    """Remove unfinished work: its description and the parts of this name, and the folder if nothing else is in it."""
    for pattern in (BEGUN, f".{BEGUN}.*", f"{parts}.safetensors", f".{parts}.safetensors.*"):
        for path in folder.glob(pattern):
            path.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def write_part(path: Path, arrays: Mapping[str, np.ndarray | Tensor], about: Mapping[str, Any] | None = None) -> None:
    """Write a finished part: one safetensors file, with the checksum of all that is in it.

    Args:
        path: with the ending ``.safetensors``, in a folder of unfinished work or, for one part alone, anywhere.
        arrays: what was found, on any device; no texts.
        about: what else to keep, as JSON.
    """
    from safetensors.torch import save

    tensors = {
        name: (x.detach().cpu() if isinstance(x, Tensor) else torch.tensor(x)).contiguous()
        for name, x in arrays.items()
    }
    said = json.dumps({"of": _run(path.parent), "about": dict(about or {})})
    metadata = {"said": said, "checksum": _part_checksum(tensors, said)}
    write_files(path.parent, {path.name: save(tensors, metadata=metadata)})


def read_part(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The arrays of a finished part, and what else was kept of it.

    Raises:
        DamagedError: if it is altered, truncated or of other work than that begun in its folder.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError) as error:
        raise DamagedError(f"{path.name} cannot be read ({error})") from error
    said = metadata.get("said", "")
    if metadata.get("checksum") != _part_checksum(tensors, said):
        raise DamagedError(f"{path.name} was altered: its own checksum is not that of its content")
    if json.loads(said)["of"] != _run(path.parent):
        raise DamagedError(f"{path.name} belongs to another run")
    return tensors, json.loads(said)["about"]


def _run(folder: Path) -> str | None:
    there = read_begun(folder)
    return None if there is None else _digest_of(there)


def _part_checksum(tensors: Mapping[str, Tensor], said: str) -> str:
    digest = hashlib.sha256(said.encode())
    for name, x in sorted(tensors.items()):
        digest.update(f"{name} {x.dtype} {tuple(x.shape)}\n".encode())
        digest.update(x.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def find_cache_root() -> Path:
    """Where converted models are kept: ``$POSYM_CACHE``, else ``posym`` in the user's cache folder."""
    from platformdirs import user_cache_path

    chosen = os.environ.get("POSYM_CACHE")
    return Path(chosen).expanduser() if chosen else user_cache_path("posym", appauthor=False)


def cache_folder(name: str, key: Mapping[str, str], build: Callable[[Path], None], *, root: Path, room: int) -> Path:
    """The folder that ``build`` made for ``key``, made now if it is missing or damaged.

    A manifest with the key and a record of every file is written with it and checked at each call. The folder is built
    under another name and renamed when it is complete, so that it is never seen half-made. When several processes ask
    for it at once, one builds and the others wait.

    Args:
        name: beginning of the folder's name; a digest of the key follows.
        key: everything the content depends on: versions, checksums of inputs.
        build: fills an empty folder.
        root: where the folder stands; made if missing.
        room: bytes that building needs.

    Raises:
        OSError: if ``root`` cannot be written or has less than ``room`` left.

    Warns:
        UserWarning: when a damaged folder is built anew, with what is wrong with it.
    """
    from filelock import FileLock

    folder = root / f"{name}-{_digest_of(dict(key))[:16]}"
    # A whole folder is used without the lock, so that it may stand where nothing can be written.
    if folder.exists() and find_damage(folder, key) is None:
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f".{folder.name}.lock"):
        if folder.exists():
            damage = find_damage(folder, key)
            if damage is None:
                return folder
            warnings.warn(f"{folder} is damaged ({damage}); it is converted anew", UserWarning, stacklevel=3)
        work = root / f".{folder.name}{UNFINISHED}"
        _remove_killed(root, name, held=work)
        free = shutil.disk_usage(root).free
        if free < room:
            raise OSError(
                f"converting {name} needs {room / 1e9:.1f} GB in {root}, but only {free / 1e9:.1f} GB are free; make "
                "room or set POSYM_CACHE to a folder on a larger disk"
            )
        try:
            work.mkdir()
            build(work)
            # What some libraries write is private; a cache on a shared machine need not be.
            for path in work.iterdir():
                path.chmod(0o644)
            manifest = {"key": dict(key), "files": {path.name: record(path) for path in sorted(work.iterdir())}}
            (work / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
            shutil.rmtree(folder, ignore_errors=True)
            work.rename(folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return folder


def _remove_killed(root: Path, name: str, *, held: Path) -> None:
    """Remove what killed processes left of a name: of this key, whose lock is held, and of others nobody works at."""
    from filelock import FileLock, Timeout

    shutil.rmtree(held, ignore_errors=True)
    for other in root.glob(f".{name}-*{UNFINISHED}"):
        with contextlib.suppress(Timeout), FileLock(other.with_suffix(".lock"), timeout=0):
            shutil.rmtree(other, ignore_errors=True)


def find_damage(folder: Path, key: Mapping[str, str]) -> str | None:
    """What is wrong with a kept folder, or None if every file is as it was when it was made."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        recorded = manifest["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return f"{MANIFEST} cannot be read"
    if manifest.get("key") != dict(key):
        return "it was made from something else"
    try:
        require_whole(folder, recorded)
    except DamagedError as error:
        return str(error)
    return None
