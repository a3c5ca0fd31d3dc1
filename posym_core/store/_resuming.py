"""Work that is begun, interrupted and resumed: gone on with only as it was begun."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posym_core.store._provenance import code_version, digest_code, list_library_versions
from posym_core.store._sealing import DamagedError, digest_of, seal, unseal, write_files

BEGUN = "begun.json"
# Bytes that must be free before anything is measured: results have up to 10 MB, and checkpoints some times that.
ROOM = 100_000_000


class ResultError(RuntimeError):
    """A result or a profile is missing, altered or truncated."""


def require_keeping(folder: Path, room: int = ROOM) -> None:
    """Refuse early what would stop results from being kept when they are measured.

    Args:
        folder: made if missing.
        room: bytes that must be free in it.

    Raises:
        ImportError: if the package is not installed, see ``code_version``.
        OSError: if nothing can be written to the folder, or it has too little room.
    """
    code_version()
    list_library_versions()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(
            f"what is measured cannot be kept in {folder} ({error.strerror}); pass a folder that can be written to"
        ) from error
    free = shutil.disk_usage(folder).free
    if free < room:
        raise OSError(
            f"{folder} has {free / 1e6:.0f} MB free, and {room / 1e6:.0f} MB must be for what is measured; make room "
            "or pass a folder on another disk"
        )


def describe_work(settings: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return what unfinished work is of, as JSON: ``settings``, the code, versions of libraries, and more."""
    made_with = {"code": digest_code(), "versions of libraries": list_library_versions()}
    return json.loads(json.dumps({"settings": dict(settings), **more, **made_with}))


def describe_difference(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Say in what two identities differ, for "has other ..."; nothing if in nothing.

    >>> describe_difference({"settings": {"size": 2}, "code": "a"}, {"settings": {"size": 3}, "code": "b"})
    'settings (size: 2 there, 3 now) and other code ("a" there, "b" now)'
    >>> describe_difference({"settings": {"stop": float("nan")}}, {"settings": {"stop": float("nan")}})
    ''
    """
    differing = []
    for name in {**wanted, **stored}:
        old, new = stored.get(name), wanted.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            parts = [_both(old.get(key), new.get(key), f"{key}: ") for key in {**new, **old}]
        else:
            parts = [_both(old, new)]
        if any(parts):
            differing.append(f"{name} ({', '.join(filter(None, parts))})")
    return " and other ".join(differing)


def _both(old: Any, new: Any, name: str = "") -> str:
    texts = [json.dumps(value) for value in (old, new)]
    if old == new or texts[0] == texts[1]:  # a NaN is as good as another
        return ""
    shown = [text if len(text) <= 40 else f"{text[:37]}..." for text in texts]
    return f"{name}{shown[0]} there, {shown[1]} now"


class UnfinishedWork:
    """A folder that says in ``begun.json`` what it is of (settings, code, versions of libraries), with finished parts.

    Each part is a file of arrays with a checksum: a chunk of a profile, a part of a measurement, a checkpoint.

    Args:
        folder: where the work is; made when it begins.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def read(self) -> dict[str, Any] | None:
        """Return what the work is of; None if none was begun.

        Raises:
            DamagedError: if its description was altered.
        """
        path = self.folder / BEGUN
        return unseal(path) if path.is_file() else None

    def resume(self, identity: Mapping[str, Any]) -> str:
        """Begin the work, or say in what the work that was begun differs from ``identity``: nothing if it may go on.

        Args:
            identity: from :func:`describe_work`.

        Raises:
            DamagedError: if its description was altered.
        """
        begun = self.read()
        if begun is None:
            write_files(self.folder, {BEGUN: seal(identity)})
        return "" if begun is None else describe_difference(begun, identity)

    def remove(self, parts: str = "*") -> None:
        """Remove its description and the parts of this name, and the folder if nothing else is in it."""
        for pattern in (BEGUN, f".{BEGUN}.*", f"{parts}.safetensors", f".{parts}.safetensors.*"):
            for path in self.folder.glob(pattern):
                path.unlink()
        with contextlib.suppress(OSError):
            self.folder.rmdir()


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
    header = json.dumps({"of": _run(path.parent), "about": dict(about or {})})
    metadata = {"said": header, "checksum": _part_checksum(tensors, header)}
    write_files(path.parent, {path.name: save(tensors, metadata=metadata)})


def read_part(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the arrays of a finished part, and what else was kept of it.

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
    header = metadata.get("said", "")
    if metadata.get("checksum") != _part_checksum(tensors, header):
        raise DamagedError(f"{path.name} was altered: its own checksum is not that of its content")
    if json.loads(header)["of"] != _run(path.parent):
        raise DamagedError(f"{path.name} belongs to another run")
    return tensors, json.loads(header)["about"]


def _run(folder: Path) -> str | None:
    begun = UnfinishedWork(folder).read()
    return None if begun is None else digest_of(begun)


def _part_checksum(tensors: Mapping[str, Tensor], header: str) -> str:
    digest = hashlib.sha256(header.encode())
    for name, x in sorted(tensors.items()):
        digest.update(f"{name} {x.dtype} {tuple(x.shape)}\n".encode())
        digest.update(x.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
