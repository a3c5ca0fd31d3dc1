"""The first code cell of every chapter: it installs the package in Colab and does nothing anywhere else.

``python tools/setup_cell.py`` names the chapters whose first cell differs; ``--write`` puts the cell into them. The
address in it is ``repository.url`` of ``_config.yml``, so after a change there one call brings all chapters along.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import nbformat
import yaml

ROOT = Path(__file__).resolve().parent.parent
TAGS = ["remove-cell"]
TEMPLATE = """\
# In Colab, fetch the book and install its package; anywhere else this cell does nothing.
import os
import subprocess
import sys

if "google.colab" in sys.modules:
    if not os.path.isdir("posym"):
        clone = ["git", "clone", "--quiet", "--depth", "1"]
        pip = [sys.executable, "-m", "pip", "install", "--quiet"]
        subprocess.run([*clone, "{address}", "posym"], check=True)
        subprocess.run([*pip, "./posym[lm]", "matplotlib", "sympy"], check=True)
    os.chdir("posym/book")"""


def repository_address(root: Path = ROOT) -> str:
    """The project's public address."""
    return yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]


def setup_cell(address: str) -> str:
    """The text of the cell for a repository at ``address``."""
    return TEMPLATE.format(address=address)


def is_setup_cell(source: str) -> bool:
    """Whether a cell is a set-up cell, of this or another address."""
    return source.splitlines()[:1] == TEMPLATE.splitlines()[:1]


def has_setup_cell(notebook: nbformat.NotebookNode, address: str) -> bool:
    """Whether the first code cell is the set-up cell, hidden from the page."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return bool(code) and code[0].source == setup_cell(address) and code[0].metadata.get("tags") == TAGS


def write_setup_cell(notebook: nbformat.NotebookNode, address: str) -> None:
    """Put the cell in its place: where the first code cell is one already, or else before the first code cell."""
    code = [index for index, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    place = code[0] if code else len(notebook.cells)
    if code and is_setup_cell(notebook.cells[place].source):
        notebook.cells[place].source = setup_cell(address)
    else:
        notebook.cells.insert(place, nbformat.v4.new_code_cell(setup_cell(address), id="setup"))
    notebook.cells[place].metadata["tags"] = TAGS


def main() -> int:
    """Command line: check, or with ``--write`` correct, the first cells of all chapters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the cell into the chapters that lack it")
    write = parser.parse_args().write
    address = repository_address()
    wrong = 0
    for path in sorted((ROOT / "book").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        if has_setup_cell(notebook, address):
            continue
        if write:
            write_setup_cell(notebook, address)
            nbformat.write(notebook, path)
        else:
            wrong += 1
        print(f"{'written to' if write else 'differs in'} {path.relative_to(ROOT)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
