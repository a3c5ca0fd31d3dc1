"""What of the claims about Number and Letter depends on the seed: each part of their rules on one seed at a time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from posym_companion.claims import load_rule
from posym_companion.results import MissingResultError
from posym_companion.several_hops.judges import hop_length, hop_mechanism, multihop
from posym_companion.several_hops.multihop import SEEDS

# Claims of which every seed can be asked by itself, and what measures them.
ASKED = (
    ("U26-1", multihop.learned_hop_by_hop),
    ("U26-2", multihop.pure_at_best),
    ("U26-3", multihop.frequency_by_layer),
    ("U26-5", hop_length.symbols_travel_further),
    ("U26-8", hop_mechanism.roles),
)


def seed_by_seed(folder: Path | None = None) -> Mapping[str, Mapping[str, list[float]]]:
    """Each part of the rules, judged on one model of either task at a time.

    Returns:
        By claim and part the share of its cases that hold, 1 or 0 where none are counted, ``[seed]``: of the seeds of
        which every result is there, in order.

    Raises:
        ResultError: if a result is altered.
    """
    found: dict[str, dict[str, list[float]]] = {
        claim: {line.part: [] for line in load_rule(claim).lines} for claim, _ in ASKED
    }
    for seed in SEEDS:
        try:
            numbers = {claim: measure(folder, (seed,)).ours for claim, measure in ASKED}
        except MissingResultError:
            continue
        for claim, _ in ASKED:
            for line in load_rule(claim).lines:
                found[claim][line.part].append(line.kept(numbers[claim]))
    return found
