"""Where numbers come from: the version of the code, a digest of it, and the libraries beside it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

PACKAGES = ("posym_core", "posym_profile", "posym_figures", "posym_companion")


@functools.cache
def code_version() -> dict[str, str]:
    """Return ``code_version`` and ``code_digest``: the package's version and a digest of its source files.

    They are those of the moment when this process first asks, because editing files does not change what is loaded.

    Raises:
        ImportError: if the package is not installed, so that it has no version.
    """
    digest, root = hashlib.sha256(), Path(__file__).resolve().parents[2]
    for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return {"code_version": version("posym-core"), "code_digest": digest.hexdigest()}


@functools.cache
def list_library_versions() -> dict[str, str]:
    """Return the versions of what numbers depend on besides this package."""
    versions = {"python": platform.python_version(), "torch": torch.__version__.split("+")[0], "numpy": np.__version__}
    with contextlib.suppress(PackageNotFoundError):
        versions["transformers"] = version("transformers")
    return versions


def record_provenance(seconds: float, **more: Any) -> dict[str, Any]:
    """Return where what is kept comes from: code, what more is known, date, duration, versions of libraries."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return {**code_version(), **more, "date": date, "seconds": round(seconds, 1), "versions": list_library_versions()}


def digest_code() -> str:
    """Return the digest of the code, see :func:`code_version`."""
    return code_version()["code_digest"]
