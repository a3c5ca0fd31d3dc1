"""The project's public address in every place that names it, and the first code cell of chapters, which needs it.

Its source is ``repository.url`` of ``_config.yml``. ``python tools/address.py`` names the chapters that differ from it,
``--write`` corrects them, and ``--set URL`` changes the address everywhere. As long as it is the placeholder, the first
cell refuses to install anything: whoever came to own an invented address could run code there.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import nbformat
import yaml

ROOT = Path(__file__).resolve().parent.parent
ADDRESS = re.compile(r"https://[\w.-]+/[\w.-]+/[\w.-]+/?")
NAMED_IN = (
    *("_config.yml", "pyproject.toml", "CITATION.cff", "README.md", "SECURITY.md", "CODE_OF_CONDUCT.md"),
    ".github/ISSUE_TEMPLATE/config.yml",
)
TAGS = ["remove-cell"]
TEMPLATE = """\
# In Colab, fetch the book and install its package; anywhere else this cell does nothing.
import sys

if "google.colab" in sys.modules:
    address, folder = "{address}", "{folder}"
    if "/OWNER/" in address:
        raise RuntimeError(f"{{address}} is a placeholder; set the repository's own with tools/address.py --set URL")
    get_ipython().system(f"git clone --quiet --depth 1 {{address}} posym")
    get_ipython().run_line_magic("run", f"posym/tools/colab.py {{folder}}")"""


def repository_address(root: Path = ROOT) -> str:
    """Return the project's public address."""
    return yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]


def is_setup_cell(source: str) -> bool:
    """Return whether a cell is a set-up cell, of this or another address."""
    return source.splitlines()[:1] == TEMPLATE.splitlines()[:1]


def write_setup_cell(notebook: nbformat.NotebookNode, address: str, folder: str) -> bool:
    """Make the set-up cell, hidden from the page, the first code cell; return whether it was not."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    source = TEMPLATE.format(address=address, folder=folder)
    if code and code[0].source == source and code[0].metadata.get("tags") == TAGS:
        return False
    if not (code and is_setup_cell(code[0].source)):
        code.insert(0, nbformat.v4.new_code_cell(id="setup"))
        notebook.cells.insert(notebook.cells.index(code[1]) if code[1:] else len(notebook.cells), code[0])
    code[0].source, code[0].metadata["tags"] = source, TAGS
    return True


def set_address(address: str, root: Path) -> list[Path]:
    """Name another address in all files that name the present one, and return these."""
    present, changed = repository_address(root), []
    for path in (*(root / name for name in NAMED_IN), *sorted((root / "book").rglob("*.ipynb"))):
        if present in (text := path.read_text(encoding="utf-8")):
            path.write_text(text.replace(present, address), encoding="utf-8")
            changed.append(path)
    return changed


def differing(root: Path = ROOT, *, write: bool) -> list[Path]:
    """Return the chapters whose first code cell is not the set-up cell of the present address, corrected if wanted."""
    address, wrong = repository_address(root), []
    for path in sorted((root / "book").rglob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        if write_setup_cell(notebook, address, path.parent.relative_to(root).as_posix()):
            wrong.append(path)
            if write:
                nbformat.write(notebook, path)
    return wrong


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Command line: check, correct or set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="correct the first cells of chapters")
    parser.add_argument("--set", metavar="URL", help="change the address everywhere")
    chosen = parser.parse_args(arguments)
    if chosen.set and not ADDRESS.fullmatch(chosen.set):
        parser.error(f"an address reads https://host/owner/name; got {chosen.set!r}")
    changed = set_address(chosen.set.removesuffix("/"), root) if chosen.set else []
    wrong = differing(root, write=chosen.write)
    for path in changed + wrong:
        print(f"{'differs in' if path in wrong and not chosen.write else 'written to'} {path.relative_to(root)}")
    return 1 if wrong and not chosen.write else 0


if __name__ == "__main__":
    sys.exit(main())
