"""Write what ``make test`` compares: chapters cut down to the cells tagged ``nbval-check-output`` and what they need.

The outputs in ``_build/compare`` are those of the last build, and nbval runs the cells a second time: the numbers and
tables that the text quotes must come out the same. Without a build there is nothing to compare with, and every chapter
is only run.
"""

from __future__ import annotations

import ast
import copy
import json
import shutil
import symtable
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from address import is_setup_cell
from build_book import chapters, with_outputs
from closure import ROOT, Project
from execute import executed, last_run, read

TAG = "nbval-check-output"
# A cell that draws random numbers changes the state of what it draws from.
RANDOM = ("rand", "normal", "uniform", "seed", "sample", "shuffle", "permutation", "integers", "choice")
# What shows values changes none: these functions, and whatever a chapter imports from these rooms.
SHOWING, SHOWN_BY = {"print", "display"}, ("posym_core.figures", "posym_companion.book")


@dataclass(frozen=True, kw_only=True)
class Names:
    """Names of a code cell: what it sets or ``changed``, what it ``needed`` before, what is surely set ``anew`` by it,
    and for each of its functions what it looks up ``later``, whenever it is called."""

    changed: set[str]
    needed: set[str]
    anew: set[str]
    later: dict[str, set[str]]


def names(source: str, imported: Collection[str] = (), showing: Collection[str] = SHOWING) -> Names:
    """Names of a cell; functions and modules ``showing`` things, and methods of what is not imported, change no
    argument.
    """
    tree = ast.parse(source)
    changed, later = set().union(*map(_set, tree.body)), dict[str, set[str]]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            changed |= _owners(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = _owners(node.value.func)
            if called.isdisjoint(showing) and isinstance(node.value.func, ast.Attribute):
                changed |= called  # such as rows.append(row)
            if called.isdisjoint(showing) and (isinstance(node.value.func, ast.Name) or called & {*imported}):
                changed |= _arguments(node.value)  # such as fill(rows) and np.fill_diagonal(rows, 0)
        elif isinstance(node, ast.Call) and any(word in ast.unparse(node.func).lower() for word in RANDOM):
            changed |= _owners(node.func) | _arguments(node)
        elif isinstance(node, ast.FunctionDef) or (isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda)):
            later |= dict.fromkeys(_set(node), _used(node))
    needed, anew = _flow(tree.body, set())
    return Names(changed=changed, needed=needed, anew=anew, later=later)


def _flow(body: list[ast.stmt], known: set[str]) -> tuple[set[str], set[str]]:
    """Names that statements use before they set them, and those that are surely set, where ``known`` were before."""
    needed, known = set[str](), set(known)
    for statement in body:
        if isinstance(statement, ast.For | ast.While | ast.If | ast.With):
            blocks = [statement.body, getattr(statement, "orelse", [])]
            head = copy.copy(statement)
            head.body, head.orelse = [ast.Pass()], []
            needed |= _used(head) - known
            flows = [_flow(block, known | _set(head)) for block in blocks]
            needed |= flows[0][0] | flows[1][0]
            known |= flows[0][1] if isinstance(statement, ast.For | ast.With) else set()  # no loop is empty
        else:
            needed |= _used(statement) - known
            known |= _set(statement) if not isinstance(statement, ast.Try | ast.Match) else set()
    return needed, known


def _scopes(node: ast.AST) -> list[symtable.SymbolTable]:
    """The scopes of a piece of a cell, its own first."""
    scopes = [symtable.symtable(ast.unparse(node), "cell", "exec")]
    for scope in scopes:
        scopes += scope.get_children()
    return scopes


def _used(node: ast.AST) -> set[str]:
    """Names of the chapter, and of Python, that are looked up here or in a function that is written here."""
    own, *inner = _scopes(node)
    symbols = [*own.get_symbols(), *(symbol for scope in inner for symbol in scope.get_symbols() if symbol.is_global())]
    added = (part.target for part in ast.walk(node) if isinstance(part, ast.AugAssign))
    return {symbol.get_name() for symbol in symbols if symbol.is_referenced()}.union(*map(_owners, added))


def _set(node: ast.AST) -> set[str]:
    """Names of the chapter that are set here."""
    return {s.get_name() for s in _scopes(node)[0].get_symbols() if s.is_assigned() or s.is_imported()}


def _arguments(call: ast.Call) -> set[str]:
    return set().union(*map(_owners, (*call.args, *(keyword.value for keyword in call.keywords))))


def _owners(node: ast.AST) -> set[str]:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2][0].isupper():
            return set()  # a new object, such as torch.Generator()
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def needed(cells: list[dict[str, Any]]) -> list[bool]:
    """For each code cell whether it is compared, or sets or changes what a later cell that is needed uses."""
    sources = ["".join(cell["source"]) for cell in cells]
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    modules = {(alias.asname or alias.name, getattr(node, "module", None))
               for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}  # fmt: skip
    showing = SHOWING | {name for name, module in modules if module in SHOWN_BY}
    each = [names(source, {name for name, _ in modules}, showing) for source in sources]
    compared = [TAG in cell["metadata"].get("tags", []) for cell in cells]
    looked_up, before = set[str](), None
    while looked_up != before:
        wanted, keep, before = set[str](), list(compared), set(looked_up)
        for place in reversed(range(len(cells))):
            cell, known = each[place], wanted | looked_up if any(keep[place:]) else set()
            if keep[place] or cell.changed & known:
                keep[place], wanted = True, wanted - cell.anew | cell.needed
                looked_up |= set().union(*(cell.later[name] for name in cell.later.keys() & known))
    return keep


def cut(notebook: dict[str, Any], *, compared: bool) -> dict[str, Any]:
    """What of a chapter is run again: what its tagged cells need, with outputs, or the whole chapter without them."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    cells = [cell for cell in cells if not is_setup_cell("".join(cell["source"]))]
    kept = needed(cells) if compared else [True] * len(cells)
    chosen = {"raises-exception", TAG} if compared else {"raises-exception"}
    for cell in cells:
        cell["metadata"] = {"tags": sorted(chosen & set(cell["metadata"].get("tags", [])))}
    return notebook | {"cells": [cell for cell, keep in zip(cells, kept, strict=True) if keep]}


def main() -> int:
    """Command line: ``python tools/compare.py``."""
    target, project, missing = ROOT / "_build" / "compare", Project(), []
    shutil.rmtree(target, ignore_errors=True)
    for chapter in chapters(ROOT):
        compared = last_run(ROOT, chapter).get("key") == project.key(read(chapter))
        short = cut(with_outputs(chapter, executed(ROOT, chapter)) if compared else read(chapter), compared=compared)
        if not compared:
            missing.append(chapter.stem)
        if short["cells"]:
            path = target / chapter.relative_to(ROOT)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(short), encoding="utf-8")
    if missing:
        print(f"run without comparison, since `make book` has not executed them: {', '.join(missing)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
