"""Do heads that are purely symbolic by the papers' scores read symbols, or the origins of keys?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float

from posym_companion.finding import Measured, Number, Tally, beyond
from posym_companion.language_models.judges.origins import SHOWN_IN
from posym_companion.language_models.origin_patching import layers_called
from posym_companion.loop import SECOND
from posym_companion.solvers.reader_heads import EXCHANGES, KEPT, ReaderHeads, full_size
from posym_core.metrics.cube_parts import AXES
from posym_core.metrics.stats import Estimate, mean_interval, statistic_interval
from posym_core.models.language import PACKAGED
from posym_core.runs.results import Result, load_result

# Heads that carry the answer and look at the facts, by model and by what they read; named on other prompts.
READERS: Mapping[str, Mapping[str, tuple[tuple[int, int], ...]]] = {
    SECOND: {"symbol": ((18, 6), (18, 7)), "origin": ((23, 2), (23, 7))},
    PACKAGED: {"symbol": ((11, 2),)},
}
OTHER = {"symbol": "origin", "origin": "symbol"}
CONTROL = "other origins"
# Scores beyond which a head is purely symbolic.
SYMBOLIC, POSITIONAL = 0.9, 0.1
DRAWS = 2000
UNDEFINED = Estimate(value=np.nan, low=np.nan, high=np.nan)
PURE = "heads that are purely symbolic by their scores"
ASKED = "readers of {0}s in which the {0} asked for stands out more"
FOLLOWS = "readers of {0}s that follow an exchange of {0}s more"
ABOVE = f"readers of origins that follow them more than {CONTROL}"


def readers() -> Iterator[tuple[ReaderHeads, str, tuple[int, int]]]:
    """Every setting with each head that is looked at in it, and what the head reads."""
    for setting in full_size():
        for factor, heads in READERS[setting.model].items():
            for head in heads:
                yield setting, factor, head


def contrast(result: Result, factor: str, head: tuple[int, int]) -> Float[np.ndarray, " prompt"]:
    """How much the symbol, or the origin, that is asked for stands out in a head's logits."""
    return result["contrasts"][AXES.index(factor)][:, *head].astype(float)


def followed(result: Result, part: str, head: tuple[int, int], than: str | None = None) -> Estimate:
    """How far a head's logits do on an exchange of a part of keys what they do on one of whole keys.

    The slope through zero over prompts and pairs, with an interval over prompts; keys are exchanged in the third of the
    layers in which the head stands.

    Args:
        result: of the experiment ``reader_heads``.
        part: one of its ``EXCHANGES``.
        head: layer and number.
        than: a part whose slope is taken off.

    Returns:
        NaN where whole keys change nothing, or something is undefined.
    """
    logits = result["log_ratio"][..., *head].astype(float)
    layers = result["log_ratio"].shape[-2]
    (third,) = (name for name in ("early", "middle", "late") if head[0] in layers_called(name, layers))
    moved = {name: logits[..., KEPT.index((name, third))] - logits[..., 0] for name in EXCHANGES}
    one = moved[part] - moved[than] if than else moved[part]
    sums = np.stack([(one * moved["whole"]).sum(1), (moved["whole"] ** 2).sum(1)], -1)[:, None]
    if not (np.isfinite(sums).all() and sums[..., 1].sum() > 0):
        return UNDEFINED
    return statistic_interval(
        lambda x: x[..., 0].sum((-1, -2)) / x[..., 1].sum((-1, -2)), sums, draws=DRAWS, vectorized=True
    )


def symbolic_heads_read(folder: Path | None) -> Measured:
    """C-6: what heads read that carry the answer and are purely symbolic by the papers' scores."""
    tally, evidence, correct = Tally(), [], []
    for setting, factor, head in readers():
        result = load_result(setting.name, folder=folder)
        if result.name not in evidence:
            evidence.append(result.name)
            correct.append(result["correct"].astype(float))
        where = f"{setting.model}, {head[0]}:{head[1]}, run {setting.taught}, {setting.wording}"
        high, low = (float(result[name][:, *head].astype(float).mean()) for name in ("symbolic", "positional"))
        tally.held.setdefault(PURE, []).append((where, high > SYMBOLIC and low < POSITIONAL))
        tally.numbers.update({f"s_SYM ({where})": high, f"s_POS ({where})": low})
        own, other = (contrast(result, name, head) for name in (factor, OTHER[factor]))
        # A prompt without a number would be left out of a mean in silence.
        stands_out = mean_interval(own - other, over="prompts") if np.isfinite(own - other).all() else UNDEFINED
        held = {ASKED.format(factor): beyond(stands_out, 1)}
        tally.numbers.update({f"contrast of the {factor} asked for ({where})": float(own.mean())})
        tally.add(f"the same less that of its {OTHER[factor]}", where, stands_out, held, f"{where}: {stands_out}")
        follows = followed(result, factor, head, than=OTHER[factor])
        held = {FOLLOWS.format(factor): beyond(follows, 1)}
        tally.numbers.update(
            {f"logits that follow the {name} ({where})": followed(result, name, head) for name in OTHER}
        )
        tally.add(f"following {factor}s less {OTHER[factor]}s", where, follows, held, f"{where}, exchanged: {follows}")
        if factor == "origin":
            rather = followed(result, factor, head, than=CONTROL)
            tally.add(
                f"following origins less {CONTROL}", where, rather, {ABOVE: beyond(rather, 1)}, f"{where}: {rather}"
            )
    ours: dict[str, Number] = {"share of prompts answered right": float(np.concatenate(correct).mean())}
    return Measured(
        ours={**ours, **tally.counts("{}"), **tally.numbers},
        model=" and ".join(f"{model}, taught to bind" for model in READERS),
        evidence=[*evidence, SHOWN_IN],
        fails_in=tally.missed,
        note="Runs of teaching have the same first weights and other lessons. Contrasts and logits are of the "
        "log-sum-exp over a fact's keys; intervals are over prompts.",
    )
