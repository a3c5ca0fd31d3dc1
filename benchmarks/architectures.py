"""Every causal decoder of transformers, tiny: how exact it is on contents truly moved, or why it is refused.

Fails where that is not what the table of supported models says. ``python -m benchmarks.architectures`` writes the table
again, in some minutes: for each kind it keeps the version of transformers that it was first found in.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import transformers

from posym_profile.scores import read_supported_decoders

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
from every_decoder import KINDS, LENGTHS, NOT_BUILT, outcome, untried  # pyright: ignore[reportMissingImports]


def rows() -> Iterator[str]:
    """Yield a row a kind: largest differences to its own weights, plain and moved, or the reason; fail for others."""
    known = {row["kind"]: row for row in read_supported_decoders()["decoders"]}
    failed = []
    for kind in KINDS:
        if kind in NOT_BUILT:
            yield f"| {kind} | not built: {NOT_BUILT[kind]} |"
            continue
        try:
            for length in LENGTHS:
                found = outcome(kind, length)
                found.check()
                said = {**found.row(), "since": known.get(kind, {}).get("since")}
                told = f"the table of supported models says {known.get(kind)}, found with {length} tokens is {said}"
                assert said == known.get(kind), told
        except Exception as error:
            failed.append(kind)
            yield f"| {kind} | FAILED: {type(error).__name__}: {error} |"
            continue
        if found.reason:
            yield f"| {kind} ({found.model}) | refused: {found.reason} |"
        else:
            yield f"| {kind} ({found.model}; {found.layouts}) | {found.still:.0e}, {found.difference:.0e} |"
    if failed:
        raise SystemExit(f"neither exact nor refused for the known reason: {', '.join(failed)}")


def try_kind(kind: str) -> dict[str, Any]:
    """Return the row of a kind, as it is found now."""
    if kind in NOT_BUILT:
        return untried(kind)
    tried = outcome(kind)
    tried.check()
    return tried.row()


def write_table() -> None:
    """Write the table again, a row a line."""
    from posym_profile.language_models._refusals import TABLE

    since = {row["kind"]: row["since"] for row in read_supported_decoders()["decoders"]}
    version = transformers.__version__
    decoders = [{**try_kind(kind), "since": since.get(kind, version)} for kind in sorted(KINDS)]
    lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in decoders)
    TABLE.write_text(f'{{\n "transformers": "{version}",\n "decoders": [\n{lines}\n ]\n}}\n', "utf-8")


if __name__ == "__main__":
    write_table()
