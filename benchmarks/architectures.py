"""Every causal decoder of transformers, tiny: how exact it is on contents truly moved, or why it is refused.

Fails where that is not what the table of supported models says (``python tools/supported_models.py`` writes it anew).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path


def rows() -> Iterator[str]:
    """A row a kind: largest differences to its own weights, plain and moved, or the reason; fails for others."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
    from every_decoder import KINDS, NOT_BUILT, outcome  # pyright: ignore[reportMissingImports]

    from posym_profile.scores import read_supported_decoders

    known = {row["kind"]: row for row in read_supported_decoders()["decoders"]}
    failed = []
    for kind in KINDS:
        if kind in NOT_BUILT:
            yield f"| {kind} | not built: {NOT_BUILT[kind]} |"
            continue
        try:
            found = outcome(kind)
            found.check()
            said = {**found.row(), "since": known.get(kind, {}).get("since")}
            assert said == known.get(kind), f"the table of supported models says {known.get(kind)}, found is {said}"
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
