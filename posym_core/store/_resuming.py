"""Work that is begun, interrupted and resumed: gone on with only as it was begun."""

from __future__ import annotations

import contextlib
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
from posym_core.store._sealing import DamagedError, seal, unseal, write_files

BEGUN = "begun.json"
# Bytes that must be free before anything is measured: results have up to 10 MB, and checkpoints some times that.
ROOM = 100_000_000


class ResultError(RuntimeError):
    """A result or a profile is missing, altered or truncated."""


def require_keeping(folder: Path) -> None:
    """Raise early what would stop results from being kept in a folder, made if missing, when they are measured.

    Raises:
        ImportError: if the package is not installed, see ``code_version``.
        OSError: if nothing can be written to the folder, or it has too little room.
    """
    code_version()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(
            f"what is measured cannot be kept in {folder} ({error.strerror}); pass a folder that can be written to"
        ) from error
    if (free := shutil.disk_usage(folder).free) < ROOM:
        raise OSError(
            f"{folder} has {free / 1e6:.0f} MB free, and {ROOM / 1e6:.0f} MB must be for what is measured; make room "
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

    Args:
        folder: where the work is; made when it begins.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def resume(self, identity: Mapping[str, Any]) -> str:
        """Begin the work, or say in what the work that was begun differs from ``identity``: nothing if it may go on.

        Args:
            identity: from :func:`describe_work`.

        Raises:
            DamagedError: if the description of what was begun was altered.
        """
        if (self.folder / BEGUN).is_file():
            return describe_difference(unseal(self.folder / BEGUN), identity)
        write_files(self.folder, {BEGUN: seal(identity)})
        return ""

    def remove(self) -> None:
        """Remove its description and parts, and the folder if nothing else is in it."""
        for pattern in (BEGUN, f".{BEGUN}.*", "*.safetensors", ".*.safetensors.*"):
            for path in self.folder.glob(pattern):
                path.unlink()
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def write_part(path: Path, arrays: Mapping[str, np.ndarray | Tensor], about: Mapping[str, Any] | None = None) -> None:
    """Write a finished part: one safetensors file, whole or not at all.

    Args:
        path: with the ending ``.safetensors``.
        arrays: what was found, on any device; no texts.
        about: what else to keep, as JSON.
    """
    from safetensors.torch import save

    tensors = {name: torch.as_tensor(x).detach().cpu().contiguous() for name, x in arrays.items()}
    write_files(path.parent, {path.name: save(tensors, metadata={"about": json.dumps(dict(about or {}))})})


def read_part(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the arrays of a finished part, and what else was kept of it.

    Raises:
        DamagedError: if it cannot be read.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
            return tensors, json.loads((file.metadata() or {})["about"])
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise DamagedError(f"{path.name} cannot be read ({error})") from error
