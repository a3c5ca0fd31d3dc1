"""What every chapter must be before it is run: clean, short-celled, checked by assertions, and openable in Colab."""

from __future__ import annotations

import ast
import dis
import functools
import importlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType

import address
import nbformat
from nbformat import NotebookNode, reader
from sphinx_external_toc.parsing import parse_toc_yaml

ROOT = Path(__file__).resolve().parents[2]
LONGEST_CELL = 25
# Calls by which a chapter makes a figure: of Matplotlib, or of the package's own plots.
DRAWING_MODULES = {"matplotlib.pyplot", "posym_companion.book.chapter_plots", "posym_figures.plots"}

LISTED = list(parse_toc_yaml(ROOT / "_toc.yml"))
CHAPTERS = sorted((ROOT / "book").rglob("*.ipynb"))


@functools.cache
def notebooks() -> dict[str, NotebookNode]:
    """All chapters by their place in the book, before anything is validated or mended."""
    return {str(path.relative_to(ROOT)): reader.reads(path.read_text(encoding="utf-8")) for path in CHAPTERS}


def none_has(wrong: Callable[[NotebookNode], object], advice: str = "") -> None:
    """No chapter has what ``wrong`` finds; all that do are named with it."""
    found = {name: what for name, notebook in notebooks().items() if (what := wrong(notebook))}
    assert not found, "\n".join([advice, *(f"{name}: {what}" for name, what in found.items())])


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def opening(cell: NotebookNode) -> str:
    """The first line of a cell, to name it by."""
    return (cell.source.splitlines() or [""])[0]


def drawing_names(tree: ast.AST) -> set[str]:
    """The names by which a cell imports modules that draw, or functions of them."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name for alias in node.names if alias.name in DRAWING_MODULES}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if node.module in DRAWING_MODULES or f"{node.module}.{alias.name}" in DRAWING_MODULES:
                    names.add(alias.asname or alias.name)
    return names


def draws(tree: ast.AST, names: set[str]) -> bool:
    """Whether a cell calls one of ``names`` or something of it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            while isinstance(called, ast.Attribute):
                if ast.unparse(called) in names:
                    return True
                called = called.value
            if isinstance(called, ast.Name) and called.id in names:
                return True
    return False


def test_all_chapters_are_in_the_table_of_contents_and_it_lists_no_others() -> None:
    pages = [*CHAPTERS, *(path for path in (ROOT / "book").rglob("*.md") if path.parent.name != "expected")]
    assert sorted(path.relative_to(ROOT).with_suffix("").as_posix() for path in pages) == sorted(LISTED)


def test_first_code_cells_serve_colab() -> None:
    assert not address.differing(ROOT, write=False), "run `python tools/address.py --write`"


def test_source_is_stored_line_by_line() -> None:
    """So that a difference between two versions can be read."""
    stored = {path.stem: json.loads(path.read_text(encoding="utf-8"))["cells"] for path in CHAPTERS}
    assert not [name for name, cells in stored.items() if any(not isinstance(cell["source"], list) for cell in cells)]


def without_title(notebook: NotebookNode) -> str:
    first = notebook.cells[0]
    return "" if first.cell_type == "markdown" and first.source.startswith("# ") else opening(first)


def test_chapters_open_with_their_titles() -> None:
    none_has(without_title, "these open with another cell than their title")


def test_no_outputs_are_stored() -> None:
    none_has(lambda x: [opening(cell) for cell in code_cells(x) if cell.outputs or cell.execution_count is not None])


def test_cells_are_short() -> None:
    none_has(lambda x: [opening(cell) for cell in code_cells(x) if len(cell.source.splitlines()) > LONGEST_CELL])


def asserts_nothing(notebook: NotebookNode) -> bool:
    trees = [ast.parse(cell.source) for cell in code_cells(notebook)]
    return not any(isinstance(node, ast.Assert) for tree in trees for node in ast.walk(tree))


def test_chapters_check_themselves() -> None:
    none_has(asserts_nothing, "these assert nothing")


def silent_figures(notebook: NotebookNode) -> list[str]:
    names: set[str] = set()
    silent = []
    for cell in code_cells(notebook):
        tree = ast.parse(cell.source)
        names |= drawing_names(tree)
        alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
        if draws(tree, names) and not alt.strip():
            silent.append(opening(cell))
    return silent


def test_figures_say_what_is_seen() -> None:
    none_has(silent_figures, "these cells draw, but their metadata lack mystnb.image.alt")


def written(value: ast.expr, named: dict[str, ast.expr]) -> str:
    """A text as it stands in a chapter, whatever is filled into it."""
    if isinstance(value, ast.Name) and value.id in named:
        return written(named[value.id], named)
    parts = value.values if isinstance(value, ast.JoinedStr) else [value]
    return "".join(part.value if isinstance(part, ast.Constant) else "0" for part in parts)


def captions(notebook: NotebookNode) -> list[str]:
    """What stands under figures: in the metadata of cells that draw, and in calls that take a caption."""
    names: set[str] = set()
    named: dict[str, ast.expr] = {}
    found = []
    for cell in code_cells(notebook):
        tree = ast.parse(cell.source)
        names |= drawing_names(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                named[node.targets[0].id] = node.value
            elif isinstance(node, ast.keyword) and node.arg == "caption":
                found.append(written(node.value, named))
        metadata = cell.metadata.get("mystnb", {})
        if draws(tree, names) or "image" in metadata:
            found.append(metadata.get("figure", {}).get("caption", ""))
    return found


def sentences(text: str) -> int:
    """How many sentences end in a text; a number's point ends none."""
    return len(re.findall(r"[.?!](?=\s|$)", text))


def test_captions_say_what_to_look_at_and_what_to_conclude() -> None:
    none_has(lambda x: [caption for caption in captions(x) if sentences(caption) < 2])


def shared_ids(notebook: NotebookNode) -> list[str | None]:
    identifiers = [cell.get("id") for cell in notebook.cells]
    return [each for each, often in Counter(identifiers).items() if not each or often > 1]


def test_cells_have_ids_of_their_own() -> None:
    none_has(shared_ids, "cells without an id, or with another cell's")


def broken_format(notebook: NotebookNode) -> str:
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        return str(error)
    return "" if notebook.metadata.kernelspec.name == "python3" else f"kernel {notebook.metadata.kernelspec.name}"


def test_kernel_is_the_one_every_machine_has() -> None:
    none_has(broken_format)


def operations(source: str, *kinds: str) -> Iterator[str]:
    """The names at which a piece of code, with the functions in it, does what the kinds of operation say."""
    waiting = [compile(source, "cell", "exec")]
    while waiting:
        code = waiting.pop()
        yield from (each.argval for each in dis.get_instructions(code) if each.opname in kinds)
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]


def moved_on(sources: list[str]) -> dict[str, set[str]]:
    """For each live figure's ``compute``, what it looks up and a later cell sets anew; imported names stay."""
    looked_up, found = dict[str, set[str]](), dict[str, set[str]]()
    for place, source in enumerate(sources):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) or (
                isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda)
            ):
                name = node.name if isinstance(node, ast.FunctionDef) else ast.unparse(node.targets[0])
                looked_up[name] = set(operations(ast.unparse(node), "LOAD_GLOBAL"))
            elif isinstance(node, ast.keyword) and node.arg == "compute":
                used = set(operations(ast.unparse(node.value), "LOAD_NAME", "LOAD_GLOBAL"))
                while more := set().union(*(looked_up.get(name, set()) for name in used)) - used:
                    used |= more
                anew = {name for later in sources[place + 1 :] for name in operations(later, "STORE_NAME")}
                found[ast.unparse(node.value)] = used & anew
    return found


def lost_names(notebook: NotebookNode) -> dict[str, list[str]]:
    found = moved_on([cell.source for cell in code_cells(notebook)])
    return {compute: sorted(anew) for compute, anew in found.items() if anew}


def test_live_figures_compute_the_same_when_the_chapter_has_run_to_its_end() -> None:
    none_has(lost_names, "give these names of their own")


def exported(tree: ast.AST) -> list[str]:
    """The modules of ours that a cell imports, or imports from."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [
        [node.module or ""] if isinstance(node, ast.ImportFrom) else [x.name for x in node.names] for node in found
    ]
    return [name for each in names for name in each if name.startswith("posym_")]


def test_chapters_import_the_faces_of_rooms() -> None:
    names = {
        name for each in notebooks().values() for cell in code_cells(each) for name in exported(ast.parse(cell.source))
    }
    assert not [name for name in names if not ROOT.joinpath(*name.split("."), "__init__.py").is_file()]
    assert 5 < len(names) <= 30


SHOWN_IMPORT = re.compile(r"^\s*(from posym_\w+(?:\.\w+)* import (?:\([^)]*\)|[^\n(]+))", re.MULTILINE)


def lost_imports(notebook: NotebookNode) -> list[str]:
    """Imports of the packages in code that is shown and not run, in which a name does not exist."""
    shown = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    lines = [line for text in shown for line in SHOWN_IMPORT.findall(text)]
    modules = [(node.module, name.name) for line in lines for node in ast.parse(line).body for name in node.names]
    return [f"{module}.{name}" for module, name in modules if not hasattr(importlib.import_module(module), name)]


def test_solutions_import_names_that_exist() -> None:
    none_has(lost_imports, "names are imported in a solution that the packages do not have")
    lost = nbformat.v4.new_markdown_cell("```python\nfrom posym_core import rope_angles, rope_angels\n```")
    assert lost_imports(nbformat.v4.new_notebook(cells=[lost])) == ["posym_core.rope_angels"]
