"""Judge of U26-9: are positional and symbolic heads necessary? From small models trained with planes that forbid them.

The rule was written before any of these models was trained.
"""

from __future__ import annotations

from collections.abc import Iterator

from posym_companion.judging import Look, Yielded, judge
from posym_companion.several_hops.hop_variants import HopVariant
from posym_core.metrics import mean_interval

# What is trained, by task and change, and what it cannot have: planes that do not turn hold no position, planes that
# all turn by half a radian or more a step hold no content over 17 tokens.
CASES = {
    ("number", "plain"): "Number with all planes",
    ("letter", "plain"): "Letter with all planes",
    ("number", "nope"): "Number without rotation",
    ("number", "slow"): "Number with slow planes only",
    ("letter", "nope"): "Letter without rotation",
    ("letter", "fast"): "Letter with fast planes only",
}


@judge("book/several_hops/length.ipynb", measured_on="GPT-J of 4 layers with one head each, paths of one and two hops")
def necessity(look: Look) -> Iterator[Yielded]:
    """U26-9: accuracy, mean over hops, of models that cannot have one kind of head."""
    seeds = set()
    for (task, change), name in CASES.items():
        accuracy = look.load(HopVariant(task=task, change=change))["test_accuracy"]
        yield name, "", mean_interval(accuracy.mean(1))
        seeds.add(len(accuracy))
    steps = HopVariant(task="number", change="plain").settings(seed=0).steps
    look.note = (
        f"Small models, trained for {steps:,} steps; intervals over {' to '.join(map(str, sorted(seeds)))} seeds. A "
        "task that is not solved in so many steps may be in more."
    )
