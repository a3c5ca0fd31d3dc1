"""Do heads that are purely symbolic by the papers' scores read symbols, or the origins of keys?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from posym_companion.experiments import SECOND
from posym_companion.judging import Look, Yielded, judge
from posym_companion.language_models.judges.origins import SHOWN_IN
from posym_companion.results import Result
from posym_companion.score_statistics import divide_sums
from posym_companion.solvers.reader_heads import EXCHANGES, full_size
from posym_core.metrics import AXES, Estimate, mean_interval
from posym_profile.language_models import PACKAGED

# Heads that carry the answer and look at the facts, by model and by what they read; named on other prompts.
READERS: Mapping[str, Mapping[str, tuple[tuple[int, int], ...]]] = {
    SECOND: {"symbol": ((18, 6), (18, 7)), "origin": ((23, 2), (23, 7))},
    PACKAGED: {"symbol": ((11, 2),)},
}
OTHER = {"symbol": "origin", "origin": "symbol"}
CONTROL = "other origins"
DRAWS = 2000
UNDEFINED = Estimate(value=np.nan, low=np.nan, high=np.nan)


def measure_asked_contrast(result: Result, factor: str, head: tuple[int, int]) -> Float[np.ndarray, " prompt"]:
    """Return how much the symbol, or the origin, that is asked for stands out in a head's logits."""
    return result["contrasts"][AXES.index(factor)][:, *head].astype(float)


def measure_followed_logits(result: Result, part: str, head: tuple[int, int], than: str | None = None) -> Estimate:
    """Return how far a head's logits do on an exchange of a part of keys what they do on one of whole keys.

    The slope through zero over prompts and pairs, less that of ``than``, with an interval over prompts; NaN where whole
    keys change nothing, or something is undefined.
    """
    logits = result["log_ratio"][..., *head].astype(float)
    moved = {name: logits[..., at] - logits[..., 0] for at, name in enumerate(EXCHANGES)}
    one = moved[part] - moved[than] if than else moved[part]
    return divide_sums((one * moved["whole"]).sum(1), (moved["whole"] ** 2).sum(1), draws=DRAWS)


def read_head(
    result: Result, alone: Result, factor: str, head: tuple[int, int]
) -> Iterator[tuple[str, float | Estimate]]:
    """Yield what one head reads: by crossed queries, and by keys exchanged in its layer."""
    other = OTHER[factor]
    reads, rest = (measure_asked_contrast(result, name, head) for name in (factor, other))
    yield "s_SYM", float(result["symbolic"][:, *head].astype(float).mean())
    yield "s_POS", float(result["positional"][:, *head].astype(float).mean())
    yield f"contrast of the {factor} asked for", float(reads.mean())
    # A prompt without a number would be left out of a mean in silence.
    apart = mean_interval(reads - rest, over="prompts") if np.isfinite(reads - rest).all() else UNDEFINED
    yield f"the same less that of its {other}", apart
    for name in OTHER:
        yield f"logits that follow the {name}", measure_followed_logits(alone, name, head)
    than = {f"{other}s": other} | ({CONTROL: CONTROL} if factor == "origin" else {})
    for less, part in than.items():
        yield f"following {factor}s less {less}", measure_followed_logits(alone, factor, head, than=part)


@judge(
    SHOWN_IN,
    measured_on=" and ".join(f"{model}, taught to bind" for model in READERS),
)
def symbolic_heads_read(look: Look) -> Iterator[Yielded]:
    """C-6: what heads read that carry the answer and are purely symbolic by the papers' scores."""
    correct, exchanged = [], set[int]()
    for setting in full_size():
        if setting.alone:
            continue
        result, alone = look.load(setting), look.load(replace(setting, alone=True))
        correct.append(float(result["correct"].astype(float).mean()))
        exchanged.add(len(alone["log_ratio"]))
        for factor, heads in READERS[setting.model].items():
            for head in heads:
                where = f"{setting.model}, {head[0]}:{head[1]}, run {setting.taught}, {setting.wording}"
                yield from ((quantity, where, value) for quantity, value in read_head(result, alone, factor, head))
    yield "share of prompts answered right, least of all models, runs and wordings", "", min(correct)
    look.note = (
        "Runs of teaching have the same first weights and other lessons. Contrasts and logits are of the log-sum-exp "
        "over a fact's keys; intervals are over prompts. In a head's own layer alone keys are exchanged on "
        f"{' or '.join(map(str, sorted(exchanged)))} prompts."
    )
