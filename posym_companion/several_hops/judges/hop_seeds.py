"""What of the claims about Number and Letter depends on the seed: each part of their rules on one seed at a time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from posym_companion.old_claims import load_claim
from posym_companion.results import MissingResultError
from posym_companion.several_hops.multihop import SEEDS

# Claims of which every seed can be asked by itself.
ASKED = ("U26-1", "U26-2", "U26-3", "U26-5", "U26-8")


def seed_by_seed(folder: Path | None = None) -> Mapping[str, Mapping[str, list[float]]]:
    """Return each part of the rules, judged on one model of either task at a time.

    Returns:
        By claim and part the share of its cases that hold, 1 or 0 where none are counted, ``[seed]``: of the seeds of
        which every result is there, in order.
    """
    shares: dict[str, dict[str, list[float]]] = {name: {} for name in ASKED}
    claims = [load_claim(name) for name in ASKED]
    measures = [claim.measure for claim in claims if claim.measure]
    for seed in SEEDS:
        try:
            numbers = [measure(folder, seeds=(seed,)).ours for measure in measures]
        except MissingResultError:
            continue
        for claim, of_seed in zip(claims, numbers, strict=True):
            for line in claim.rule.lines:
                shares[claim.id].setdefault(line.part, []).append(line.kept(of_seed))
    return shares
