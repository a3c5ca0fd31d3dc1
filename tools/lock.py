"""Write ``requirements.txt`` anew: resolve the ranges of ``pyproject.toml`` in a fresh environment and freeze it.

With ``--lowest`` it prints the lowest version of every range that the core needs instead, which a workflow tests.

The lock holds names and versions only. Packages that a platform adds to PyTorch (its CUDA libraries) stay out of it, as
do local version labels, so that one lock serves machines with and without a GPU. What is installed without the packages
that it declares stands in ``requirements-bare.txt``, pinned by hand to the weights that the code knows.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PLATFORM_PACKAGES = re.compile(r"(nvidia|cuda|triton|pytorch-triton)(-|$)")
# The release that the committed results were computed with; raise it together with them.
HELD = ("torch==2.13.0",)
HEADER = "# Made by `make lock` from the ranges in pyproject.toml; do not edit by hand.\n"


def locked_lines(frozen: str) -> list[str]:
    """The lines of a lock from the output of ``pip freeze``."""
    lines = []
    for line in frozen.splitlines():
        name, separator, version = line.strip().partition("==")
        if not separator:
            raise ValueError(f"{line!r} names no version; install it from a package index before freezing")
        if not PLATFORM_PACKAGES.match(name.lower()):
            lines.append(f"{name}=={version.partition('+')[0]}")
    return sorted(lines, key=str.lower)


def lowest_lines(project: Mapping[str, Any]) -> list[str]:
    """Requirements of the core and of the packaged model, each at the bottom of its range."""
    ranges = [*project["dependencies"], *project["optional-dependencies"]["lm"]]
    return [re.sub(r">=([^,]+).*", r"==\1", text) for text in ranges]


def main() -> int:
    """Command line: ``python tools/lock.py [--lowest]``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lowest", action="store_true", help="print the lowest versions and write nothing")
    if parser.parse_args().lowest:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        print("\n".join(lowest_lines(project)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        python = str(Path(folder) / "bin" / "python")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"{ROOT}[lm,book,test]", *HELD], check=True)
        freeze = [python, "-m", "pip", "freeze", "--exclude", "posym-core"]
        frozen = subprocess.run(freeze, check=True, capture_output=True, text=True).stdout
    fresh = ROOT / "requirements.txt.new"
    fresh.write_text(HEADER + "\n".join(locked_lines(frozen)) + "\n", encoding="utf-8")
    fresh.replace(ROOT / "requirements.txt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
