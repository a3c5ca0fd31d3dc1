"""What every chapter must be: a program in sight, whose numbers are printed and whose exercises can be solved."""

from __future__ import annotations

import ast
import functools
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from accept import TAG, read_expected
from execute import ROOT
from nbformat import NotebookNode, reader
from rerun import HIDDEN
from sphinx_external_toc.parsing import parse_toc_yaml

from posym_companion.results import list_results, load_result

LISTED = list(parse_toc_yaml(ROOT / "_toc.yml"))
CHAPTERS = sorted((ROOT / "book").rglob("*.ipynb"))
COLUMNS, LINES, IMPORTS = 79, 20, 6
FOLDS = {"Proof", "Solution"}
NUMBER = re.compile(r"(?<![\w.$\\{])(?:\d*\.\d+(?:\s?%)?|\d+\s?%)(?!\w)")
# Where a number is part of a statement, a formula, code or an address.
NO_PROSE = re.compile(
    r"(?P<fence>`{3,}|:{3,})\{(?:prf:\w+|exercise|solution|math)[^\n]*\n.*?\n(?P=fence)(?![`:])|```.*?```"
    r'|\$\$.*?\$\$|\$[^$]*\$|`[^`]*`|\]\([^)]*\)|href="[^"]*"',
    re.DOTALL,
)
FIGURES = sorted((ROOT / "posym_companion" / "figures").glob("[a-z]*.py"))


@functools.cache
def notebooks() -> dict[Path, NotebookNode]:
    """All chapters, before anything is validated or mended."""
    return {path: reader.reads(path.read_text(encoding="utf-8")) for path in CHAPTERS}


def none_has(wrong: Callable[[NotebookNode], object], advice: str = "") -> None:
    """No chapter has what ``wrong`` finds; all that do are named with it."""
    found = {path.stem: what for path, notebook in notebooks().items() if (what := wrong(notebook))}
    assert not found, "\n".join([advice, *(f"{name}: {what}" for name, what in found.items())])


def tags(cell: NotebookNode) -> set[str]:
    return set(cell.metadata.get("tags", []))


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def in_sight(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in code_cells(notebook) if not HIDDEN & tags(cell)]


def test_all_chapters_are_in_the_table_of_contents_and_it_lists_no_others() -> None:
    pages = [*CHAPTERS, *(path for path in (ROOT / "book").rglob("*.md") if path.parent.name != "expected")]
    assert sorted(path.relative_to(ROOT).with_suffix("").as_posix() for path in pages) == sorted(LISTED)


def test_chapters_are_stored_line_by_line_with_their_titles_first_and_without_outputs() -> None:
    stored = {path.stem: json.loads(path.read_text(encoding="utf-8"))["cells"] for path in CHAPTERS}
    assert not [name for name, cells in stored.items() if any(not isinstance(cell["source"], list) for cell in cells)]
    none_has(lambda x: x.cells[0].cell_type != "markdown" or not x.cells[0].source.startswith("# "))
    none_has(lambda x: [cell.id for cell in code_cells(x) if cell.outputs or cell.execution_count is not None])


def test_cells_have_ids_of_their_own_and_the_kernel_is_the_one_every_machine_has() -> None:
    none_has(lambda x: [name for name, often in Counter(cell.get("id") for cell in x.cells).items() if often > 1])
    for notebook in notebooks().values():
        nbformat.validate(notebook)
    none_has(lambda x: x.metadata.kernelspec.name != "python3")


def test_code_in_sight_is_short_and_narrow() -> None:
    none_has(lambda x: [cell.id for cell in in_sight(x) if len(cell.source.splitlines()) > LINES])
    none_has(lambda x: [line for cell in in_sight(x) for line in cell.source.splitlines() if len(line) > COLUMNS])


def test_the_first_cell_in_sight_is_the_imports() -> None:
    def strays(notebook: NotebookNode) -> object:
        first, *others = in_sight(notebook) or [None]
        lines = [] if first is None else [line for line in first.source.splitlines() if line.strip()]
        late = [cell.id for cell in others if re.search(r"^(?:import|from) ", cell.source, re.MULTILINE)]
        return len(lines) > IMPORTS or late

    none_has(strays, f"imports stand in the first cell in sight, in at most {IMPORTS} lines")


def test_prose_stands_in_the_text_and_not_in_code() -> None:
    none_has(lambda x: [cell.id for cell in code_cells(x) if re.search(r"\bsay\(", cell.source)])


def test_folds_are_proofs_and_solutions() -> None:
    def others(notebook: NotebookNode) -> list[str]:
        folded = [cell for cell in code_cells(notebook) if {"hide-cell", "hide-input"} & tags(cell)]
        return [cell.id for cell in folded if cell.metadata.get("mystnb", {}).get("code_prompt_show") not in FOLDS]

    none_has(others)


def list_solutions() -> dict[str, tuple[NotebookNode, str]]:
    """The Python that is shown in texts of chapters, which no cell runs; tools of others have a test of their own."""
    fences = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
    texts = {
        path: "\n".join(x.source for x in book.cells if x.cell_type == "markdown") for path, book in notebooks().items()
    }
    shown = {path: "".join(fences.findall(text)) for path, text in texts.items() if path.stem != "your_model"}
    return {path.stem: (notebooks()[path], code) for path, code in shown.items() if code}


def list_names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {x.id for x in ast.walk(node) if isinstance(x, ast.Name) and isinstance(x.ctx, context)}


def select_definitions(notebook: NotebookNode, code: str) -> str:
    """Imports, functions and values of a chapter's cells that some code reads, and what these read in turn."""
    tree, chosen = ast.parse(code), list[ast.stmt]()
    wanted = list_names(tree, ast.Load) - list_names(tree, ast.Store)
    for statement in reversed([x for cell in in_sight(notebook) for x in ast.parse(cell.source).body]):
        defined = list_names(statement, ast.Store) if isinstance(statement, ast.Assign) else set[str]()
        if isinstance(statement, ast.Import | ast.ImportFrom):
            defined = {name.asname or name.name for name in statement.names}
        elif isinstance(statement, ast.FunctionDef):
            defined = {statement.name}
        if defined & wanted:
            chosen.insert(0, statement)
            wanted |= list_names(statement, ast.Load)
    return ast.unparse(ast.Module(chosen, []))


@pytest.mark.parametrize("name", list_solutions())
def test_the_python_that_texts_show_runs_behind_the_cells_of_their_chapter(name: str) -> None:
    notebook, code = list_solutions()[name]
    code = code.replace("(800,", "(8,")  # sequences, which take a minute
    exec(f"{select_definitions(notebook, code)}\n{code}", {})


def plain(number: str) -> str:
    """A number as it is compared: without spaces, commas and a leading zero."""
    number = re.sub(r"[\s,]", "", number)
    return number if number.endswith("%") else number.lstrip("0")


def shows(text: str) -> set[str]:
    """The numbers of a text, fractions also as percentages."""
    found = {plain(match) for match in re.findall(r"\d*\.\d+\s?%|\d*\.\d+|\d+\s?%", text)}
    fractions = [float(number) for number in found if not number.endswith("%")]
    return found | {f"{100 * number:.{digits}f}%" for number in fractions for digits in (0, 1)}


def unshown(path: Path, notebook: NotebookNode) -> list[str]:
    """Numbers in a chapter's prose that no output shows and that its metadata do not say to be another's."""
    known = shows("\n".join(read_expected(ROOT, path).values()))
    known |= shows(" ".join(notebook.metadata.get("stated", {})))
    prose = [NO_PROSE.sub(" ", cell.source) for cell in notebook.cells if cell.cell_type == "markdown"]
    written = {match[0] for text in prose for match in NUMBER.finditer(text)}
    return sorted(number for number in written if plain(number) not in known)


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_numbers_in_prose_are_numbers_that_the_chapter_prints(path: Path) -> None:
    assert unshown(path, notebooks()[path]) == []


def test_what_is_printed_in_sight_is_compared() -> None:
    """Each cell that prints is tagged, so that nbval compares what it prints."""
    none_has(lambda x: [c.id for c in in_sight(x) if re.search(r"^ *print\(", c.source, re.M) and TAG not in tags(c)])


def test_a_run_of_the_readers_own_takes_as_long_as_the_cell_says() -> None:
    """It is small on the page, and in full what the stored run took, on as many cores."""
    said = re.compile(r'^SIZE = "small"  # seconds; "full": (.*)$.*?"(frequency_control|\w+/[\w-]+)"', re.M | re.S)
    found = {match[2]: match[1] for x in notebooks().values() for c in in_sight(x) for match in said.finditer(c.source)}
    assert len(found) > 9
    for name, time in found.items():
        (stored,) = list_results(name) if "/" not in name else [name]
        made = load_result(stored).provenance
        cores = "two cores" if "2 threads" in made["device"] else "one core"
        assert time == f"{made['seconds'] / 60:.0f} min on {cores}", name


def test_a_verdict_stands_once_on_a_page() -> None:
    for path, notebook in notebooks().items():
        text = "\n".join(cell.source for cell in notebook.cells)
        shown = re.findall(r"\{claim\}`([^`]+)`", text)
        shown += [
            name for call in re.findall(r"show_verdicts\(([^)]*)\)", text) for name in re.findall(r'"(.*?)"', call)
        ]
        assert not [name for name, count in Counter(shown).items() if count > 1], path.name


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.stem)
def test_figures_are_short_functions_with_a_caption_and_a_text_for_those_who_do_not_see_them(path: Path) -> None:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 45, node.name
        if isinstance(node, ast.FunctionDef) and any(ast.unparse(one) == "shown" for one in node.decorator_list):
            given = [word for one in ast.walk(node) if isinstance(one, ast.Call) for word in one.keywords]
            texts = {word.arg: word.value for word in given if word.arg in ("caption", "alt")}
            assert set(texts) == {"caption", "alt"} or "figure(" in ast.unparse(node), node.name
            assert ast.get_docstring(node), node.name
