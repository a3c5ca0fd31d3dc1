"""Write down what the ledger says and what chapters print, and compare what was written down with the present.

``tests/ledger.lock.json`` holds each row's verdicts, parts and numbers, by family of models and kind of prompt.
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
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any

from build_book import chapters, execute_chapters
from execute import executed, read
from reads import ROOT

TAG = "nbval-check-output"
LOCK, EXPECTED = "tests/ledger.lock.json", "book/expected"
DIGITS, RELATIVE, NOUGHT = 6, 1e-4, 1e-9
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


def locked(measured: Callable[..., Any], *names: str) -> dict[str, Any]:
    """Return what the lock holds of claims, all by default: ``claim | family | prompts | what`` -> value.

    Args:
        measured: what was measured of a claim, see ``posym_companion.ledger.rows``.
        names: of claims.
    """
    from posym_companion.old_claims import load_claim, read_entries
    from posym_companion.ledger import rows

    lock: dict[str, Any] = {}
    for judged in map(load_claim, names or read_entries()):
        row = rows._row(judged, measured)
        lock |= {f"{row.id} | note": row.note}
        lock |= {f"{row.id} | fails in": list(row.fails_in)}
        if row.columns:
            lock |= {f"{row.id} | verdict on these models": row.verdict_of_column}
        families = row.families or ()
        if families:
            lock |= {f"{row.id} | {row.model} | verdict": row.verdict_of_model}
        for case in (row, *families):
            place, model = (row.id, {}) if case is row else (f"{row.id} | {case.model}", {"model": case.model})
            lock |= _list_case(place, case, measured(judged.measure, **model))
            for remedied in case.remedied:
                numbers = measured(judged.measure, remedied.remedy, **model)
                lock |= _list_case(f"{place} | {remedied.remedy}", remedied, numbers)
    return dict(sorted(lock.items()))


def _list_case(place: str, case: Any, measured: Any) -> dict[str, Any]:
    """Return the verdict, the parts and the numbers of a claim on one kind of prompt in one family."""
    numbers = {} if isinstance(measured, str) else measured.ours
    parts = {f"part: {part}": answer for part, answer in case.parts.items()}
    values = {"verdict": case.verdict, **parts, **case.ours, **{name: _plain(x) for name, x in numbers.items()}}
    return {f"{place} | {name}": value for name, value in values.items()}


def _plain(value: Any) -> Any:
    """Return a number to so many digits; an estimate as itself and the ends of its interval; a count as a text."""
    from posym_core.metrics._stats import Estimate

    if isinstance(value, Estimate):
        return [_plain(value.value), _plain(value.low), _plain(value.high)]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") + 0.0 if math.isfinite(value) else str(float(value))
    return value if isinstance(value, int) else str(value)


def write_lock(root: Path, lock: Mapping[str, Any]) -> None:
    """Write the lock, a line for each value."""
    write = partial(json.dumps, ensure_ascii=False, allow_nan=False)
    lines = (f" {write(name)}: {write(value)}" for name, value in lock.items())
    (root / LOCK).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def orphans(root: Path) -> Iterator[Path]:
    """What was accepted of chapters that are no more, or that hold nothing any more."""
    wanted = {expected_file(root, chapter) for chapter in chapters(root) if tagged(read(chapter))}
    yield from sorted(set((root / EXPECTED).glob("*")) - wanted)


def accept(root: Path, measured: Callable[..., Any]) -> dict[str, str]:
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
    before, found = read(root / LOCK), locked(measured)
    write_lock(root, keep_accepted(before, found, value_differs))
    return changed | differences(before, found, value_differs)


def stored(folder: Path | None = None) -> Callable[..., Any]:
    """Return what measures claims on stored results, each once."""
    from posym_companion.ledger import rows

    return cache(partial(rows._measured, folder))


if __name__ == "__main__":
    if not execute_chapters(ROOT):
        sys.exit(1)
    print("\n".join(f"{name}: {said}" for name, said in accept(ROOT, stored()).items()) or "nothing has changed")
