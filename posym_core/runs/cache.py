"""Folders that take long to make, made once and kept: complete, checked at each use, safe between processes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

MANIFEST = "posym-manifest.json"
# Between two of its steps another process may take the folder's place; that happens once or twice, not more often.
ATTEMPTS = 5
UNFINISHED = ".unfinished-"
ABANDONED_AFTER = 24 * 3600


def cache_root() -> Path:
    """Where converted models are kept: ``$POSYM_CACHE``, else ``posym`` in the user's cache folder."""
    if chosen := os.environ.get("POSYM_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "posym"


def kept_folder(name: str, key: Mapping[str, str], build: Callable[[Path], None], *, root: Path, room: int) -> Path:
    """The folder that ``build`` made for ``key``, made now if it is missing or damaged.

    A manifest with the key and the SHA-256 of every file is written with it and checked at each call. The folder is
    built under another name and renamed when it is complete, so that it is never seen half-made; when two processes
    build it at once, the first to finish wins and the other uses its result.

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
    digest = hashlib.sha256(json.dumps(dict(key), sort_keys=True).encode()).hexdigest()
    folder = root / f"{name}-{digest[:16]}"
    if folder.exists():
        damage = find_damage(folder, key)
        if damage is None:
            return folder
        warnings.warn(f"{folder} is damaged ({damage}); it is converted anew", UserWarning, stacklevel=3)
    root.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(root)
    free = shutil.disk_usage(root).free
    if free < room:
        raise OSError(
            f"converting {name} needs {room / 1e9:.1f} GB in {root}, but only {free / 1e9:.1f} GB are free; make room "
            "or set POSYM_CACHE to a folder on a larger disk"
        )
    work = Path(tempfile.mkdtemp(dir=root, prefix=UNFINISHED))
    try:
        build(work)
        _write_manifest(work, key)
        # Temporary folders, and what some libraries write, are private; a cache on a shared machine need not be.
        for path in work.iterdir():
            path.chmod(0o644)
        work.chmod(0o755)
        _install(work, folder, key)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def find_damage(folder: Path, key: Mapping[str, str]) -> str | None:
    """What is wrong with a kept folder, or None if every file is as it was when it was made."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files = manifest["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return f"{MANIFEST} cannot be read"
    if manifest.get("key") != dict(key):
        return "it was made from something else"
    # Sizes first: they tell of most damage without reading a gigabyte.
    for name, recorded in files.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != recorded["size"]:
            return f"{name} has {path.stat().st_size} bytes instead of {recorded['size']}"
    for name, recorded in files.items():
        if _sha256(folder / name) != recorded["sha256"]:
            return f"{name} has another SHA-256 than when it was made"
    return None


def _write_manifest(folder: Path, key: Mapping[str, str]) -> None:
    files = {
        path.name: {"size": path.stat().st_size, "sha256": _sha256(path)}
        for path in sorted(folder.iterdir())
        if path.name != MANIFEST
    }
    text = json.dumps({"key": dict(key), "files": files}, indent=1)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def _install(work: Path, folder: Path, key: Mapping[str, str]) -> None:
    """Put ``work`` in ``folder``'s place, unless a whole one stands there; others may be doing the same."""
    for attempt in range(ATTEMPTS):
        try:
            work.rename(folder)
            return
        except OSError:
            if attempt == ATTEMPTS - 1:
                raise
        if folder.exists() and find_damage(folder, key) is None:
            return
        # A folder cannot replace a full one, and another process may still read the damaged one.
        aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=UNFINISHED))
        try:
            with contextlib.suppress(FileNotFoundError):
                folder.rename(aside / "damaged")
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _remove_abandoned(root: Path) -> None:
    """What killed processes left; younger folders may belong to running ones."""
    for folder in root.glob(f"{UNFINISHED}*"):
        if time.time() - folder.stat().st_mtime > ABANDONED_AFTER:
            shutil.rmtree(folder, ignore_errors=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
