"""Write down what the ledger says and what chapters print, and compare what was written down with the present.

``posym_companion/claims/ledger.lock.json`` holds each row's grades, parts, numbers and evidence, by model.
``book/expected/<chapter>.md`` holds the text of the cells tagged ``nbval-check-output``. ``make accept`` writes both,
``make test`` compares, and what was accepted shows as a difference in a commit.

Both comparisons leave room for the rounding of another processor and for nothing else. Of two texts the words are the
same, and so are whole numbers; a number with decimals, or a percentage, may differ by one unit of the last digit shown.
One below :data:`ROUNDING` is an error of rounding, of which only the size counts: up to ten times as much or as little.
Two numbers of the lock differ by at most :data:`RELATIVE` of the larger, or by :data:`NOUGHT`. What lies within these
bounds is left as it was accepted when the rest is accepted anew.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Any

from build_book import chapters, execute_chapters
from execute import ROOT, executed, read

from posym_companion.claims.rows import judge_all, make_row, write_rows

TAG = "nbval-check-output"
LOCK, EXPECTED = "posym_companion/claims/ledger.lock.json", "book/expected"
RELATIVE, NOUGHT = 1e-4, 1e-9
ROUNDING, EXACT = 1e-6, 1e-12
# A number, and whether it is a percentage; parts of words, of versions and of checksums are none.
NUMBER = re.compile(r"(?<![\w.])[-−+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?!\w|\.\d)(?=(\s?%)?)")
# Of what a cell shows the first of these is its text; with any of those it shows a picture.
KINDS, PICTURES = ("text/markdown", "text/latex", "text/plain"), {"image/png", "text/html"}
# What stands above the text of a cell.
CELL = re.compile(r"^<!-- cell (\S+) -->\n", re.MULTILINE)


def printed(cell: Mapping[str, Any]) -> str:
    """Return the text that a code cell shows; pictures and figures are none."""
    texts, stream = [], False
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if "text" in output:  # a stream comes in one piece or in several, as it happens
            texts = [*texts[:-1], texts[-1] + "".join(output["text"])] if stream else [*texts, "".join(output["text"])]
        else:
            texts += ["".join(data[kind]) for kind in KINDS if kind in data and not PICTURES & set(data)][:1]
        stream = "text" in output
    return "\n\n".join(filter(None, map(str.strip, texts)))


def tagged(notebook: Mapping[str, Any]) -> dict[str, str]:
    """Return what each cell that is held shows, by its id."""
    return {cell["id"]: printed(cell) for cell in notebook["cells"] if TAG in cell["metadata"].get("tags", [])}


def expected_file(root: Path, chapter: Path) -> Path:
    """Return where it stands what a chapter printed when that was accepted."""
    return root / EXPECTED / f"{chapter.stem}.md"


def write_expected(path: Path, texts: Mapping[str, str]) -> None:
    """Write what cells printed, one after the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(f"<!-- cell {name} -->\n{text}\n" for name, text in texts.items()), encoding="utf-8")


def read_expected(path: Path) -> dict[str, str]:
    """Return what was written by :func:`write_expected`; nothing where nothing was."""
    parts = CELL.split(path.read_text(encoding="utf-8")) if path.is_file() else [""]
    return {name: text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def alike(accepted: re.Match[str], found: re.Match[str]) -> bool:
    """Return whether two numbers of texts are the same but for rounding."""
    (one, step), (other, its_step) = map(_number, (accepted, found))
    least, largest = sorted((abs(one), abs(other)))
    only_rounding = largest < ROUNDING and (largest <= 10 * least or largest < EXACT)
    return only_rounding or abs(one - other) <= max(step, its_step)


def _number(found: re.Match[str]) -> tuple[Decimal, Decimal]:
    """Return a number, and one unit of its last digit, which is 0 of a whole number that is no percentage."""
    number = Decimal(found[0].replace(",", "").replace("−", "-"))
    rounded = {".", "e"} & set(found[0]) or found[1]
    return number, Decimal(1).scaleb(number.as_tuple().exponent) if rounded else Decimal(0)


def text_differs(accepted: str, found: str) -> str:
    """Return the first place where two texts are not alike; empty where there is none."""
    if NUMBER.sub("0", accepted) != NUMBER.sub("0", found):
        lines = zip(accepted.splitlines(), found.splitlines(), strict=False)
        changed = ((one, other) for one, other in lines if NUMBER.sub("0", one) != NUMBER.sub("0", other))
        one, other = next(changed, (f"{len(accepted.splitlines())} lines", f"{len(found.splitlines())} lines"))
        return f"{one!r} was accepted, {other!r} is found"
    for one, other in zip(NUMBER.finditer(accepted), NUMBER.finditer(found), strict=True):
        if one[0] != other[0] and not alike(one, other):
            around = accepted[max(0, one.start() - 60) : one.end() + 20]
            return f"{one[0]} was accepted, {other[0]} is found, in {around!r}"
    return ""


def value_differs(accepted: Any, found: Any) -> str:
    """Return in what two values of the lock differ beyond rounding; empty if they do not."""
    if isinstance(accepted, list) and isinstance(found, list) and len(accepted) == len(found):
        same = not any(map(value_differs, accepted, found))
    elif isinstance(accepted, str) and isinstance(found, str):
        same = not text_differs(accepted, found)
    elif isinstance(accepted, float) and isinstance(found, float):
        same = math.isclose(accepted, found, rel_tol=RELATIVE, abs_tol=NOUGHT)
    else:
        same = type(accepted) is type(found) and accepted == found
    return "" if same else f"{json.dumps(accepted)} was accepted, {json.dumps(found)} is found"


def differences(accepted: Mapping[str, Any], found: Mapping[str, Any], differs: Callable[..., str]) -> dict[str, str]:
    """Return in what the values of names differ, or that only one of two sides has a name: name -> in what."""
    wrong = {name: differs(accepted[name], found[name]) for name in accepted if name in found}
    wrong |= dict.fromkeys(accepted.keys() - found.keys(), "was accepted and is gone")
    wrong |= dict.fromkeys(found.keys() - accepted.keys(), "is new and was not accepted")
    return {name: wrong[name] for name in {**accepted, **found} if wrong[name]}


def keep_accepted(accepted: Mapping[str, Any], found: Mapping[str, Any], differs: Callable[..., str]) -> dict[str, Any]:
    """Return what is found; what differs from what was accepted by rounding alone, as it was accepted."""
    wrong = differences(accepted, found, differs)
    return {name: value if name in wrong else accepted[name] for name, value in found.items()}


def judged(*ids: str) -> dict[str, Any]:
    """Return what claims, all by default, give now, by row, as the lock holds them."""
    return {row.id: asdict(row) for row in judge_all(*ids)}


def flat(value: Any, place: str = "") -> dict[str, Any]:
    """Return what a tree holds, each by its place: ``claim | answers | model | parts | part | what``."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        value = {one["name"]: one for one in value}
    if not isinstance(value, dict) or not value:
        return {place: value}
    return {
        name: x for key, each in value.items() for name, x in flat(each, f"{place} | {key}".removeprefix(" | ")).items()
    }


def keep_tree(accepted: Any, found: Any) -> Any:
    """Return a tree as it is found; what differs from what was accepted by rounding alone, as it was accepted."""
    if isinstance(accepted, dict) and isinstance(found, dict):
        return {name: keep_tree(accepted[name], x) if name in accepted else x for name, x in found.items()}
    if isinstance(accepted, list) and isinstance(found, list) and len(accepted) == len(found):
        return list(map(keep_tree, accepted, found))
    return found if value_differs(accepted, found) else accepted


def orphans(root: Path) -> Iterator[Path]:
    """What was accepted of chapters that are no more, or that hold nothing any more."""
    wanted = {expected_file(root, chapter) for chapter in chapters(root) if tagged(read(chapter))}
    yield from sorted(set((root / EXPECTED).glob("*")) - wanted)


def accept(root: Path) -> dict[str, str]:
    """Write both down; return what is other than what was accepted before, by where it stands."""
    changed = {}
    for path in orphans(root):
        changed[path.relative_to(root).as_posix()] = "goes with its chapter"
        path.unlink()
    for chapter in chapters(root):
        path, found = expected_file(root, chapter), tagged(read(executed(root, chapter)))
        before = read_expected(path)
        if found:
            write_expected(path, keep_accepted(before, found, text_differs))
        wrong = differences(before, found, text_differs)
        changed |= {f"{chapter.stem}, cell {name}": said for name, said in wrong.items()}
    before, found = read(root / LOCK), judged()
    write_rows([make_row(one) for one in keep_tree(before, found).values()], root / LOCK)
    return changed | differences(flat(before), flat(found), value_differs)


if __name__ == "__main__":
    if not execute_chapters(ROOT):
        sys.exit(1)
    print("\n".join(f"{name}: {said}" for name, said in accept(ROOT).items()) or "nothing has changed")
