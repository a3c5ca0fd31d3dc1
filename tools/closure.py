"""What a chapter's outputs depend on, found without running it: its cells, the code behind them, and what they read.

Imports are followed name by name: ``from room import name`` leads through the room's ``__init__`` to the file that
defines the name, and on to what that file imports. Docstrings and comments do not count. Data files of the packages
belong to the modules beside them that name them, or to all of these. An experiment and its judge bring its folder of
``results``; so does a string that begins with the name of one. A row of the ledger brings the module that judges it,
and the module that reads the tables of devices brings these.
``python tools/closure.py CHAPTER`` lists what a chapter depends on.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import platform
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from address import ROOT, is_setup_cell

PACKAGES = ("posym_core", "posym_profile", "posym_figures", "posym_companion")
COMPANION = "posym_companion"
CLAIMS = f"{COMPANION}.claims"
# The tables of devices, and the module by which they are read.
DEVICES, CARDS = "benchmarks/devices", f"{COMPANION}.cards"
# What every chapter depends on: the versions of libraries, the packaged models' among them, and how cells are run.
EVERYWHERE = ("requirements.txt", "requirements-bare.txt", "tools/execute.py")
CLAIM = re.compile(r"\b(?:[a-z]+-)?([A-Z](?:\d\d)?-T?\d+[a-cg]?)\b", re.IGNORECASE)
CLAIM_TAG = re.compile(r'"((?:shows|live)-[a-z]\d+-t?\d+[a-c]?)"')
# What no page is made from: leftovers, and what chapters printed when it was accepted.
IGNORED = {"__pycache__", ".ipynb_checkpoints", "expected"}


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The code cells of a notebook as JSON, each with its source as one text, without the one that serves Colab."""
    cells = [cell | {"source": "".join(cell["source"])} for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [cell for cell in cells if not is_setup_cell(cell["source"])]


def claim_tags(root: Path) -> list[str]:
    """Which chapters have cells that show which claims."""
    return [
        f"{chapter.name} {tag}"
        for chapter in sorted((root / "book").rglob("*.ipynb"))
        for tag in CLAIM_TAG.findall(chapter.read_text(encoding="utf-8"))
    ]


def strings(tree: ast.AST) -> list[str]:
    """The texts in a piece of code, parts of f-strings included."""
    return [x.value for x in ast.walk(tree) if isinstance(x, ast.Constant) and isinstance(x.value, str)]


def digest(path: Path) -> str:
    """The hash of a file, or of the code in it."""
    from posym_core.store._provenance import strip_code

    content = path.read_bytes()
    return hashlib.sha256(strip_code(content.decode()).encode() if path.suffix == ".py" else content).hexdigest()


class Project:
    """The packages and results of a project, as files that depend on each other."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self._imports: dict[Path, set[Path]] = {}
        self._faces: dict[Path, dict[str, tuple[str, str | None]]] = {}
        self._data: dict[Path, dict[Path, set[Path]]] = {}
        self._digest = functools.cache(digest)

    def module(self, name: str) -> Path | None:
        """The file of a module of ours, or None."""
        if name.partition(".")[0] not in PACKAGES:
            return None
        path = self.root.joinpath(*name.split("."))
        files = (path / "__init__.py", path.with_suffix(".py"))
        return next((file for file in files if file.is_file()), None)

    def defining(self, module: str, name: str | None) -> Path | None:
        """The file that defines a name which is imported from a module; that of the module where there is no name."""
        file = (self.module(f"{module}.{name}") if name else None) or self.module(module)
        if file is None or name is None or file.name != "__init__.py" or file == self.module(f"{module}.{name}"):
            return file
        source, original = self._face(file).get(name, (None, None))
        return self.defining(source, original) if source else file

    def _face(self, file: Path) -> dict[str, tuple[str, str | None]]:
        if file not in self._faces:
            tree = ast.parse(file.read_text(encoding="utf-8"))
            found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
            self._faces[file] = {a.asname or a.name: (x.module or "", a.name) for x in found for a in x.names}
        return self._faces[file]

    def imported(self, tree: ast.AST) -> set[Path]:
        """The files that a piece of code imports, also within functions and by a name in a text."""
        names: list[tuple[str, str | None]] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names += [(alias.name, None) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                if node.level:
                    raise ValueError(f"`{ast.unparse(node)}` is relative; name the module in full")
                names += [(node.module or "", alias.name) for alias in node.names]
        files = {file for module, name in names if (file := self.defining(module, name)) is not None}
        for text in strings(tree):
            # The name of a module, or in an f-string the beginning of the name of one or another module of a room; the
            # name of a room alone serves to find its data.
            if "." in text and (file := self.module(text.removesuffix("."))) is not None:
                room = file.name == "__init__.py"
                files |= set(file.parent.glob("*.py")) if text.endswith(".") else set() if room else {file}
        return files

    def closure(self, files: Iterable[Path]) -> set[Path]:
        """The files and all that they import, directly or not."""
        reached: set[Path] = set()
        waiting = set(files)
        while waiting:
            file = waiting.pop()
            reached.add(file)
            if file not in self._imports:
                tree = ast.parse(file.read_text(encoding="utf-8"))
                if file == self.module(CLAIMS):  # it imports the judges of the rows it is asked for, see `judges`
                    tree = ast.Module([x for x in tree.body if isinstance(x, ast.Import | ast.ImportFrom)], [])
                self._imports[file] = self.imported(tree)
            waiting |= self._imports[file] - reached
        return reached

    def judges(self, trees: list[ast.AST], tags: Iterable[str]) -> set[Path]:
        """The modules that judge the claims which a chapter names; all where it asks for the whole ledger."""
        table = tomllib.loads((self.root / COMPANION / "claims.toml").read_text(encoding="utf-8"))
        judges: dict[str, set[Path]] = {}
        for claim, entry in table.items():
            file = self.module(f"{COMPANION}.{entry.get('judge', '').partition(':')[0]}")
            for each in (claim, entry.get("column_of", claim)):  # who asks a claim asks its columns
                judges.setdefault(each.lower(), set()).update({file} if file else ())
        calls = [x for tree in trees for x in ast.walk(tree) if isinstance(x, ast.Call)]
        whole = any(ast.unparse(x.func).endswith("ledger") and not x.args for x in calls)
        texts = [text for tree in trees for text in strings(tree)]
        asked = {found.lower() for text in (*texts, *tags) for found in CLAIM.findall(text)}
        return set().union(*(judges[claim] for claim in (judges if whole else asked & set(judges))))

    def data(self, files: set[Path]) -> Iterator[Path]:
        """The data files that belong to modules: in their folders, or in ``static`` there."""
        for folder in {file.parent for file in files}:
            for path, readers in self._readers(folder).items():
                if not readers or readers & files:
                    yield path

    @functools.cached_property
    def _sources(self) -> dict[Path, str]:
        files = (file for package in PACKAGES for file in (self.root / package).rglob("*.py"))
        return {file: file.read_text(encoding="utf-8") for file in files}

    def _readers(self, folder: Path) -> dict[Path, set[Path]]:
        if folder not in self._data:
            found = [path for path in (*folder.iterdir(), *(folder / "static").rglob("*")) if path.is_file()]
            self._data[folder] = {
                path: {file for file, text in self._sources.items() if path.name in text}
                for path in found
                if path.suffix != ".py" and path.name != "py.typed"
            }
        return self._data[folder]

    def results(self, files: set[Path], texts: Iterable[str]) -> Iterator[Path]:
        """The stored results of experiments and of what judges them, and those that are named."""
        names = {file.stem for file in files if file.is_relative_to(self.root / COMPANION)}
        names |= {text.partition("/")[0] for text in texts}
        for name in sorted(names):
            folder = self.root / "results" / name
            if name.isidentifier() and folder.is_dir():
                yield from (path for path in folder.iterdir() if path.is_file())

    def behind(self, notebook: dict[str, Any]) -> set[Path]:
        """All files, below the packages and the results, that a chapter's outputs depend on."""
        cells = code_cells(notebook)
        trees: list[ast.AST] = [ast.parse(cell["source"]) for cell in cells]
        tags = [tag for cell in notebook["cells"] for tag in cell["metadata"].get("tags", [])]
        texts = [text for tree in trees for text in strings(tree)]
        run = [file for text in texts if (file := self.module(f"{text}.__main__")) is not None]  # python -m package
        files = self.closure(set(run).union(*map(self.imported, trees)))
        if self.module(CLAIMS) in files:
            files = self.closure(files | self.judges(trees, tags))
        tables = self.root.joinpath(DEVICES).glob("*.json") if self.module(CARDS) in files else ()
        return files | set(self.data(files)) | set(self.results(files, texts)) | set(tables)

    def key(self, notebook: dict[str, Any]) -> str:
        """A hash over everything that a chapter's outputs depend on."""
        cells = [(x["source"], "raises-exception" in x["metadata"].get("tags", [])) for x in code_cells(notebook)]
        files = self.behind(notebook) | {path for name in EVERYWHERE if (path := self.root / name).is_file()}
        parts: list[Any] = [platform.python_version(), cells]
        parts += sorted((file.relative_to(self.root).as_posix(), self._digest(file)) for file in files)
        if any(".ipynb" in source for source, _ in cells):  # a chapter that reads its neighbours
            parts.append(claim_tags(self.root))
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def main() -> int:
    """Command line: ``python tools/closure.py CHAPTER``."""
    chapter = Path(sys.argv[1])
    files = Project().behind(json.loads(chapter.read_text(encoding="utf-8")))
    print("\n".join(sorted(file.relative_to(ROOT).as_posix() for file in files)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
