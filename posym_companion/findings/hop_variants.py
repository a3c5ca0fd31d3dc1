"""Judge of U26-9: are positional and symbolic heads necessary? From small models trained with planes that forbid them.

The rule was written before any of these models was trained.
"""

from __future__ import annotations

from pathlib import Path

from posym_companion.experiments.hop_variants import HopVariant
from posym_companion.findings.finding import Claim, Line, Measured, Number, Rule
from posym_core.metrics.stats import mean_interval
from posym_core.runs.results import load_result

SHOWN_IN = "book/several_hops/length.ipynb"
SOLVED = 0.9
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


def necessity(folder: Path | None) -> Measured:
    """U26-9: accuracy, mean over hops, of models that cannot have one kind of head."""
    results = {
        name: load_result(HopVariant(task=task, change=change).name, folder=folder)
        for (task, change), name in CASES.items()
    }
    ours: dict[str, Number] = {name: mean_interval(result["test_accuracy"].mean(1)) for name, result in results.items()}
    return Measured(
        ours=ours,
        model="GPT-J of 4 layers with one head each, paths of one and two hops",
        evidence=[*(result.name for result in results.values()), SHOWN_IN],
        fails_in=["a causal mask tells later layers of places even without rotation"],
        note="Small models, trained for 1,500 steps; intervals over two seeds. A task that is not solved in so many "
        "steps may be in more.",
    )


NECESSITY = Claim(
    id="U26-9",
    short="Number needs positional heads, Letter needs only symbolic ones",
    claim="The Number task requires both positional and symbolic heads, whereas the Letter task requires only symbolic "
    "heads",
    paper="abstract, sections 3.4 and 3.6",
    rule=Rule(
        says="Models that cannot turn position into attention (no rotation; only planes that turn by less than a "
        f"fifth of a radian over the sequence) stay below {SOLVED} on Number, and without rotation are above it on "
        f"Letter; models with fast planes only stay below {SOLVED} on Letter. With intervals over seeds. Models "
        "with all planes must solve both.",
        lines=(
            Line(part="Number fails without rotation", of=CASES["number", "nope"], below=SOLVED),
            Line(part="Number fails with slow planes only", of=CASES["number", "slow"], below=SOLVED),
            Line(part="Letter is solved without rotation", of=CASES["letter", "nope"], above=SOLVED),
            Line(part="Letter fails with fast planes only", of=CASES["letter", "fast"], below=SOLVED),
        ),
        whole="reproduced in kind",
        able=(
            Line(part="all planes solve Number", of=CASES["number", "plain"], above=SOLVED),
            Line(part="all planes solve Letter", of=CASES["letter", "plain"], above=SOLVED),
        ),
    ),
    measure=necessity,
    changes="Runs at full size, and longer ones of what is not solved.",
    command="python -m posym_core run hop_variants",
)
