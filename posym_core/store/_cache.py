"""Folders that take long to make and depend on their keys alone, such as converted models: each is made once."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from posym_core.store._sealing import DamagedError, digest_of, require_whole, sha256

MANIFEST, UNFINISHED = "posym-manifest.json", ".unfinished"


def find_cache_root() -> Path:
    """Return where converted models are kept: ``$POSYM_CACHE``, else ``posym`` in the user's cache folder."""
    from platformdirs import user_cache_path

    chosen = os.environ.get("POSYM_CACHE")
    return Path(chosen).expanduser() if chosen else user_cache_path("posym", appauthor=False)


def cache_folder(name: str, key: Mapping[str, str], build: Callable[[Path], None], *, root: Path, room: int) -> Path:
    """Return the folder that ``build`` made for ``key``, made now if it is missing or damaged.

    A manifest with the key and every file's SHA-256 is written with it and checked at each call. The folder is built
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
        UserWarning: when a damaged folder is built again, with what is wrong with it.
    """
    from filelock import FileLock

    folder = root / f"{name}-{digest_of(dict(key))[:16]}"
    # A whole folder is used without the lock, so that it may stand where nothing can be written.
    if folder.exists() and find_damage(folder, key) is None:
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f".{folder.name}.lock"):
        if folder.exists():
            damage = find_damage(folder, key)
            if damage is None:
                return folder
            warnings.warn(f"{folder} is damaged ({damage}); it is converted again", UserWarning, stacklevel=3)
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
            files = {path.name: {"sha256": sha256(path)} for path in sorted(work.iterdir())}
            manifest = json.dumps({"key": dict(key), "files": files}, indent=1) + "\n"
            (work / MANIFEST).write_text(manifest, encoding="utf-8")
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
    """Say what is wrong with a kept folder; None if every file is as it was when it was made."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        recorded = {name: file["sha256"] for name, file in manifest["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"{MANIFEST} cannot be read"
    if manifest.get("key") != dict(key):
        return "it was made from something else"
    try:
        require_whole(folder, recorded)
    except DamagedError as error:
        return str(error)
    return None
