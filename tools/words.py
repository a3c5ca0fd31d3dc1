"""Words in sight: how much a page gives to read before anything is unfolded.

``python tools/words.py [PAGE ...]`` prints a table, by default of all pages, and the sum of the reading path. Counted
is the Markdown text of a page's source outside code blocks, tables, formulas, the options of directives, and whatever
the page folds (``:class: dropdown``); of a fold its title counts. What cells print or draw is not counted.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

import nbformat
from closure import ROOT
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser
from sphinx_external_toc.parsing import parse_toc_yaml

WORDS_A_MINUTE = 200
# Pages to look things up in: nobody reads them from front to back.
LOOKED_UP = ("book/reference/", "book/package/")
WORD = re.compile(r"\w+(?:[-'’.,/]\w+)*")
DIRECTIVE = re.compile(r"\{(?P<name>[\w:-]+)\}(?P<title>.*)")
OPTION = re.compile(r":(?P<name>[\w-]+):(?P<value>.*)")
# Directives whose body is not prose: formulas, tables, code, and what Sphinx fills in.
NO_PROSE = {"math", "table", "list-table", "csv-table", "code", "code-block", "bibliography", "toctree", "automodule"}


@cache
def parser() -> MarkdownIt:
    """A parser for the Markdown of the book."""
    extensions = {"amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"}
    return create_md_parser(MdParserConfig(enable_extensions=extensions), RendererHTML)


def words(text: str) -> int:
    """How many words of a piece of Markdown are in sight.

    >>> words("Two **kinds** of [heads](heads.md), where $n$ is 8.")
    7
    """
    return _of_blocks(parser().parse(text))


def _of_blocks(tokens: list[Token]) -> int:
    total, in_table = 0, False
    for token in tokens:
        if token.type in ("table_open", "table_close"):
            in_table = token.type == "table_open"
        elif token.type == "inline" and not in_table:
            total += len(WORD.findall(_visible(token.children or [])))
        elif token.type in ("fence", "colon_fence"):
            total += _of_directive(token.info, token.content)
    return total


def _visible(tokens: list[Token]) -> str:
    """The text of a line without formulas; a role counts as what it names, and as nothing where it is a formula."""
    parts = []
    for token in tokens:
        if token.type in ("text", "code_inline"):
            parts.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif token.type == "myst_role" and token.meta["name"] not in ("math", "eq"):
            parts.append(re.sub(r"\s*<[^>]*>$", "", token.content))
        elif token.type == "image":
            parts.append(" ")
    return "".join(parts)


def _of_directive(info: str, body: str) -> int:
    opening = DIRECTIVE.match(info.strip())
    if opening is None:
        return 0
    lines = body.splitlines()
    options = {}
    while lines and (option := OPTION.fullmatch(lines[0].strip())):
        options[option["name"]] = option["value"].split()
        del lines[0]
    title = words(opening["title"])
    if opening["name"] in NO_PROSE or "dropdown" in options.get("class", []):
        return title
    return title + words("\n".join(lines))


def words_in_sight(path: Path) -> int:
    """How many words of a page's source, a notebook or a Markdown file, are in sight."""
    if path.suffix == ".ipynb":
        cells = nbformat.read(path, as_version=4).cells
        return sum(words(cell.source) for cell in cells if cell.cell_type == "markdown")
    return words(path.read_text(encoding="utf-8"))


def minutes(count: int) -> int:
    """How long so many words take to read, in minutes, figures not included."""
    return max(1, round(count / WORDS_A_MINUTE))


def pages(root: Path) -> dict[str, Path]:
    """The pages of the table of contents in its order, by name."""
    named = ((name, root / f"{name}{end}") for name in parse_toc_yaml(root / "_toc.yml") for end in (".ipynb", ".md"))
    return {name: path for name, path in named if path.is_file()}


def reading_path(root: Path) -> dict[str, Path]:
    """The pages that are read from front to back, in order, by name."""
    return {name: path for name, path in pages(root).items() if not name.startswith(LOOKED_UP)}


def main() -> int:
    """Command line: see above."""
    asked = {name: Path(name) for name in sys.argv[1:]} or pages(ROOT)
    counts = {name: words_in_sight(path) for name, path in asked.items()}
    for name, count in counts.items():
        print(f"{count:7,} words {minutes(count):4} min  {name}")
    if not sys.argv[1:]:
        path = sum(counts[name] for name in reading_path(ROOT))
        print(f"{path:7,} words {minutes(path):4} min  the reading path")
    return 0


if __name__ == "__main__":
    sys.exit(main())
