"""Write what ``make test`` compares: chapters cut down to the cells tagged ``nbval-check-output`` and what they need.

The outputs in ``_build/compare`` are those of the last build, and nbval runs the cells a second time: the numbers and
tables that the text quotes must come out the same. Without a build there is nothing to compare with, and every chapter
is only run.
"""

from __future__ import annotations

import ast
import json
import shutil
import sys
from collections.abc import Iterator
from typing import Any

from address import is_setup_cell
from build_book import chapters, with_outputs
from closure import ROOT, Project
from execute import executed, last_run, read

TAG = "nbval-check-output"
# A cell that draws random numbers changes the state of what it draws from.
RANDOM = ("rand", "normal", "uniform", "seed", "sample", "shuffle", "permutation", "integers", "choice")

SHOWING = ("print", "display")


def names(tree: ast.AST) -> tuple[set[str], set[str]]:
    """The names that a cell sets or changes, and those that it uses."""
    changed, used = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else changed).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            changed.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            changed |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            changed |= _owners(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value  # such as rows.append(row) and fill(rows)
            changed |= _owners(call.func) if isinstance(call.func, ast.Attribute) else _arguments(call)
        elif isinstance(node, ast.Call) and any(word in ast.unparse(node.func).lower() for word in RANDOM):
            changed |= _owners(node.func) | _arguments(node)
    return changed, used


def _arguments(call: ast.Call) -> set[str]:
    if isinstance(call.func, ast.Name) and call.func.id in SHOWING:
        return set()
    return set().union(*map(_owners, (*call.args, *(keyword.value for keyword in call.keywords))))


def _owners(node: ast.AST) -> set[str]:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def needed(cells: list[dict[str, Any]]) -> Iterator[bool]:
    """For each code cell whether it is compared, or sets or changes what a later cell that is needed uses."""
    wanted: set[str] = set()
    found = []
    for cell in reversed(cells):
        changed, used = names(ast.parse("".join(cell["source"])))
        keep = TAG in cell["metadata"].get("tags", []) or bool(changed & wanted)
        wanted |= used if keep else set()
        found.append(keep)
    yield from reversed(found)


def cut(notebook: dict[str, Any], *, compared: bool) -> dict[str, Any]:
    """What of a chapter is run again: what its tagged cells need, with outputs, or the whole chapter without them."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    cells = [cell for cell in cells if not is_setup_cell("".join(cell["source"]))]
    kept = list(needed(cells)) if compared else [True] * len(cells)
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
