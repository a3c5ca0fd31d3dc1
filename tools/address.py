"""The project's public address in every place that names it, and the first code cell of chapters, which needs it.

``python tools/address.py`` writes the first cells, ``--set URL`` changes ``repository.url`` of ``_config.yml`` and what
follows from it. As long as this is the placeholder, the first cell installs nothing, since whoever came to own an
invented address could run code there; it says what to set, and goes on where the package is.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import nbformat
import yaml

ROOT = Path(__file__).resolve().parent.parent
ADDRESS = re.compile(r"https://[\w.-]+/[\w.-]+/[\w.-]+/?")
NAMED_IN = (
    *("_config.yml", "pyproject.toml", "CITATION.cff", "README.md", "SECURITY.md", "CODE_OF_CONDUCT.md"),
    ".github/ISSUE_TEMPLATE/config.yml",
)
FIRST = 'if "google.colab" in str(get_ipython()):  # in Colab, fetch the book'
INSTALL = """
    get_ipython().system("git clone -q --depth 1 {address} posym")
    get_ipython().run_line_magic("run", "posym/tools/colab.py {folder}")"""
ASK = """
    from importlib.util import find_spec
    asked = "this notebook has no address to install posym from: run tools/address.py --set URL in its repository"
    if not find_spec("posym_companion"):
        raise ModuleNotFoundError(asked)
    print(asked)"""


def repository_address(root: Path = ROOT) -> str:
    """Return the project's public address."""
    return yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]


def write_setup_cells(address: str, root: Path = ROOT) -> None:
    """Make the set-up cell, hidden from the page, the first code cell of each chapter."""
    for path in sorted((root / "book").rglob("*.ipynb")):
        notebook, folder = nbformat.read(path, as_version=4), path.parent.relative_to(root).as_posix()
        cell = next(cell for cell in notebook.cells if cell.cell_type == "code")
        if not cell.source.startswith(FIRST):
            cell = nbformat.v4.new_code_cell(id="setup", metadata={"tags": ["remove-cell"]})
            notebook.cells.insert(1, cell)
        cell.source = FIRST + (ASK if "/OWNER/" in address else INSTALL).format(address=address, folder=folder)
        nbformat.write(notebook, path)


def set_address(address: str, root: Path = ROOT) -> None:
    """Name another address in all files that name the present one."""
    present = repository_address(root)
    for path in (root / name for name in NAMED_IN):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(present, address), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", metavar="URL", help="change the address everywhere")
    chosen = parser.parse_args()
    if chosen.set and not ADDRESS.fullmatch(chosen.set):
        parser.error(f"an address reads https://host/owner/name; got {chosen.set!r}")
    if chosen.set:
        set_address(chosen.set.removesuffix("/"))
    write_setup_cells(repository_address())
