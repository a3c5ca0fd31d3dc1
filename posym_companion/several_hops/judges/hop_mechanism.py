"""Judges of U26-8 and U26-10: the roles of trained heads, and whether pure ones are critical, in the multihop models.

Both read the stored programs and ablations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.results import Result
from posym_companion.several_hops.hop_mechanism import HopMechanism
from posym_companion.several_hops.judges.multihop import MODEL, SHOWN_IN, classify_heads
from posym_companion.several_hops.multihop import SEEDS, paper_size

# What pure heads do in the paper: a candidate of posym_companion.several_hops.programs, by task and kind.
REFLEXIVE, ONE_HOP = 0, 3
ROLES = {("number", 1): ONE_HOP, ("number", -1): REFLEXIVE, ("letter", -1): ONE_HOP}
KINDS = {1: "positional", -1: "symbolic"}


def load_with_kinds(look: Look, seeds: Sequence[int]) -> Iterator[tuple[str, str, Result, np.ndarray]]:
    """Yield the task and the seed of each stored model, what is in it, and the kind of each layer's head at the end."""
    names = [HopMechanism(model=setting.name) for setting in paper_size() if setting.seed in seeds]
    for result in look.load_stored(names, least=min(4, len(names))):
        run = look.load(str(result.settings["model"]))
        task, seed = run.name.removeprefix("multihop/").split("_")
        yield task, f"seed {seed}", result, classify_heads(run)[-1][:, 0]


@judge(
    SHOWN_IN,
    measured_on=MODEL,
    note="A removed head says its mean over sequences. Accuracy is the mean over one to four hops.",
)
def pure_heads_are_critical(look: Look) -> Iterator[Yielded]:
    """U26-10: what the removal of a pure head costs, and that of another head of the same model."""
    for task, seed, result, kinds in load_with_kinds(look, SEEDS):
        costs, pure = (result["accuracy"] - result["silenced"][:, 0]).mean(-1), kinds != 0
        for layer in np.flatnonzero(pure):
            yield "accuracy that a pure head costs", f"{task}, {seed}, layer {layer}", float(costs[layer])
        if not pure.all():
            yield "largest cost of a head", f"{task}, {seed}", float(costs.max())
            yield "cost of pure heads less others'", f"{task}, {seed}", float(costs[pure].mean() - costs[~pure].mean())


@judge(
    SHOWN_IN,
    measured_on=MODEL,
    note="A head's role is the program that its largest weight agrees with most, on more than half of the tokens. "
    "The paper reads roles off plots of attention. Figure 8, frequency use, is U26-3.",
)
def roles(look: Look) -> Iterator[Yielded]:
    """U26-8: what heads of each kind do at the end, and what the last layer is needed for."""
    for task, seed, result, kinds in load_with_kinds(look, look.seeds or SEEDS):
        agrees = np.nan_to_num(result["hits"][:, 0])
        for layer, kind in enumerate(kinds):
            if (program := ROLES.get((task, int(kind)))) is not None:
                where = f"{task}, {KINDS[int(kind)]}, {seed}, layer {layer}"
                yield "its role agrees most", where, bool(agrees[layer].argmax() == program)
                yield "tokens on which it agrees", where, float(agrees[layer, program])
        if task == "letter":
            for hop, cost in enumerate(result["accuracy"] - result["silenced"][-1, 0], 1):
                yield "accuracy lost without the last layer", f"{seed}, {hop} hops", float(cost)
