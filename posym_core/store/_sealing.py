"""Files that are whole or not there, and sealed descriptions, which are checked when they are read.

Beside a result's files stands a description that is written last, names their SHA-256 and carries a checksum of its
own.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


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


def sha256(content: bytes | Path) -> str:
    """Return the hexadecimal SHA-256 of bytes, or of a file."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with open(content, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_whole(folder: Path, files: Mapping[str, str]) -> None:
    """Raise :class:`DamagedError` with the first of some files, by their SHA-256, that is missing or was altered."""
    for name, expected in files.items():
        if not (folder / name).is_file():
            raise DamagedError(f"{name} is missing")
        if (digest := sha256(folder / name)) != expected:
            raise DamagedError(
                f"{name} was altered or truncated: its SHA-256 is {digest[:12]}..., not {expected[:12]}..."
            )


def seal(description: Mapping[str, Any]) -> bytes:
    """Return a description as JSON that carries its own ``checksum``, for :func:`unseal`."""
    return (json.dumps({**description, "checksum": digest_of(description)}, indent=1) + "\n").encode()


def unseal(path: Path, *, format: int | None = None) -> dict[str, Any]:
    """Read a description that :func:`seal` made, without its checksum.

    Raises:
        DamagedError: if it is no such description, was altered (layout does not count), or has another ``format``.
    """
    try:
        description = json.loads(path.read_bytes())
        checksum = description.pop("checksum")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"{path.name} is not a whole description ({error!r})") from error
    if checksum != digest_of(description):
        raise DamagedError(f"{path.name} was altered: its own checksum is not that of its content")
    if description.get("format") != format:
        raise DamagedError(f"{path.name} has format {description.get('format')}, this code reads {format}")
    return description


def digest_of(description: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what JSON can hold, however it is laid out as text."""
    return sha256(json.dumps(description, sort_keys=True).encode())
