"""Files that are whole or not there, and whether they are still what they were when they were recorded."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: bytes | Callable[[Any], Any]) -> Path:
    """Write bytes, or let ``content(file)`` write, to a temporary file beside ``path``, then rename it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content) if isinstance(content, bytes) else content(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def record(path: Path) -> dict[str, Any]:
    """What tells a file from any other: ``size`` and ``sha256``."""
    return {"size": path.stat().st_size, "sha256": sha256(path)}


def find_damage(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> str | None:
    """What is wrong with the files of a folder, or None if all are as :func:`record` found them.

    Args:
        folder: where they are.
        files: name -> record; the size may be left out.
    """
    # Sizes first: they tell of most damage without reading a gigabyte.
    for name, recorded in files.items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        size = (folder / name).stat().st_size
        if size != recorded.get("size", size):
            return f"{name} was altered or truncated: it has {size:,} bytes instead of {recorded['size']:,}"
    for name, recorded in files.items():
        if (found := sha256(folder / name)) != recorded["sha256"]:
            return f"{name} was altered or truncated: its SHA-256 is {found[:12]}..., not {recorded['sha256'][:12]}..."
    return None


def seal(description: Mapping[str, Any]) -> bytes:
    """A description as JSON that carries its own ``checksum``, for :func:`unseal`."""
    return (json.dumps({**description, "checksum": digest_of(description)}, indent=1) + "\n").encode()


def unseal(path: Path) -> dict[str, Any]:
    """Read a description that :func:`seal` made, without its checksum.

    Raises:
        ValueError: if it is no such description, or was altered; layout does not count.
    """
    try:
        description = json.loads(path.read_bytes())
        own = description.pop("checksum")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path.name} is not a whole description ({error!r})") from error
    if own != digest_of(description):
        raise ValueError(f"{path.name} was altered: its own checksum is not that of its content")
    return description


def digest_of(description: Mapping[str, Any]) -> str:
    """SHA-256 of what JSON can hold, however it is laid out as text."""
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()
