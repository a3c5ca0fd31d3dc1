"""Write down what the ledger says and what chapters print, and compare what was written down with the present.

``posym_companion/claims/ledger.lock.json`` holds each row's grades, parts, numbers and evidence, by model.
``book/expected/<chapter>.md`` holds the text of the cells tagged ``nbval-check-output``. ``make accept`` writes both,
``make test`` compares, and what was accepted shows as a difference in a commit.

Both comparisons leave room for the rounding of another processor and for nothing else. Of two texts the words are the
same, and so are whole numbers; a number with decimals, or a percentage, may differ by one unit of the last digit shown,
and below :data:`ROUNDING` it is an error of rounding, whatever its size. Two numbers of the lock differ by at most
:data:`RELATIVE` of the larger, or by :data:`NOUGHT`.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any

from build_book import chapters, execute_chapters
from execute import ROOT, executed, read

from posym_companion.claims.rows import judge_all, make_row, write_rows

TAG = "nbval-check-output"
LOCK, EXPECTED = "posym_companion/claims/ledger.lock.json", "book/expected"
RELATIVE, NOUGHT, ROUNDING = 1e-4, 1e-9, 1e-6
# A number, and whether it is a percentage; parts of words, of versions and of checksums are none.
NUMBER = re.compile(r"(?<![\w.])[-−+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?!\w|\.\d)(?=(\s?%)?)")
# Of what a cell shows the first of these is its text; with any of those it shows a picture.
KINDS, PICTURES = ("text/markdown", "text/latex", "text/plain"), {"image/png", "text/html"}
# What stands above the text of a cell.
CELL = re.compile(r"^<!-- cell (\S+) -->\n", re.MULTILINE)


def printed(cell: Mapping[str, Any]) -> str:
    """Return the text that a code cell shows; pictures and figures are none."""
    texts = []
    for output in cell.get("outputs", []):
        data = {"text/plain": output["text"]} if "text" in output else output.get("data", {})
        texts += ["".join(data[kind]) for kind in KINDS if kind in data and not PICTURES & set(data)][:1]
    return "\n\n".join(filter(None, map(str.strip, texts)))


def read_tagged(notebook: Mapping[str, Any]) -> dict[str, str]:
    """Return what each cell that is held shows, by its id."""
    return {cell["id"]: printed(cell) for cell in notebook["cells"] if TAG in cell["metadata"].get("tags", [])}


def read_expected(root: Path, chapter: Path) -> dict[str, str]:
    """Return what the cells of a chapter printed when that was accepted; nothing where nothing was."""
    path = root / EXPECTED / f"{chapter.stem}.md"
    parts = CELL.split(path.read_text(encoding="utf-8")) if path.is_file() else [""]
    return {name: text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def alike(accepted: str, found: str) -> bool:
    """Return whether two texts are the same but for rounding."""
    if NUMBER.sub("0", accepted) != NUMBER.sub("0", found):
        return False
    pairs = zip(NUMBER.finditer(accepted), NUMBER.finditer(found), strict=True)
    numbers = ((_number(one), _number(other)) for one, other in pairs)
    return all(
        abs(one - other) <= max(step, its) or max(abs(one), abs(other)) < ROUNDING
        for (one, step), (other, its) in numbers
    )


def _number(found: re.Match[str]) -> tuple[Decimal, Decimal]:
    """Return a number, and one unit of its last digit, which is 0 of a whole number that is no percentage."""
    number = Decimal(found[0].replace(",", "").replace("−", "-"))
    rounded = {".", "e"} & set(found[0]) or found[1]
    return number, Decimal(1).scaleb(int(number.as_tuple().exponent)) if rounded else Decimal(0)


def differences(accepted: Any, found: Any, place: str = "") -> Iterator[str]:
    """Yield in what two trees of texts and numbers differ beyond rounding, each time with the place."""
    if isinstance(accepted, list) and isinstance(found, list):
        accepted, found = (
            {x["name"] if isinstance(x, dict) else at: x for at, x in enumerate(tree)} for tree in (accepted, found)
        )
    if isinstance(accepted, dict) and isinstance(found, dict):
        for name in accepted | found:
            yield from differences(accepted.get(name), found.get(name), f"{place} | {name}".removeprefix(" | "))
    elif isinstance(accepted, str) and isinstance(found, str):
        for one, other in zip_longest(accepted.splitlines(), found.splitlines(), fillvalue=""):
            if not alike(one, other):
                yield f"{place}: {one!r} was accepted, {other!r} is found"
    elif isinstance(accepted, float) and isinstance(found, float):
        if not math.isclose(accepted, found, rel_tol=RELATIVE, abs_tol=NOUGHT):
            yield f"{place}: {accepted} was accepted, {found} is found"
    elif type(accepted) is not type(found) or accepted != found:
        yield f"{place}: {json.dumps(accepted)} was accepted, {json.dumps(found)} is found"


def keep_accepted(accepted: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is found; what differs from what was accepted by rounding alone, as it was accepted."""
    return {name: x if [*differences(accepted.get(name), x)] else accepted[name] for name, x in found.items()}


def judge_rows() -> dict[str, Any]:
    """Return what all claims give now, by row, as the lock holds them."""
    return {row.id: asdict(row) for row in judge_all()}


def accept(root: Path) -> list[str]:
    """Write both down; return what is other than what was accepted before."""
    before = {chapter.stem: read_expected(root, chapter) for chapter in chapters(root)}
    found = {chapter.stem: read_tagged(read(executed(root, chapter))) for chapter in chapters(root)}
    rows, judged = read(root / LOCK), judge_rows()
    for stale in (root / EXPECTED).glob("*.md"):
        stale.unlink()
    (root / EXPECTED).mkdir(parents=True, exist_ok=True)
    for chapter, cells in found.items():
        texts = [f"<!-- cell {name} -->\n{text}\n" for name, text in keep_accepted(before[chapter], cells).items()]
        if texts:
            (root / EXPECTED / f"{chapter}.md").write_text("\n".join(texts), encoding="utf-8")
    write_rows([make_row(row) for row in keep_accepted(rows, judged).values()], root / LOCK)
    return [*differences(before | rows, found | judged)]


if __name__ == "__main__":
    if not execute_chapters(ROOT):
        sys.exit(1)
    print("\n".join(accept(ROOT)) or "nothing has changed")
