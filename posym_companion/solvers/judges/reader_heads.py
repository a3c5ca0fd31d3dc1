"""Do heads that are purely symbolic by the papers' scores read symbols, or the origins of keys?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from posym_companion.finding import Measured, Number, Tally, lies_beyond
from posym_companion.language_models.judges.origins import SHOWN_IN
from posym_companion.language_models.origin_patching import select_named_layers
from posym_companion.loop import SECOND
from posym_companion.solvers.reader_heads import EXCHANGES, KEPT, KEPT_ALONE, ReaderHeads, full_size
from posym_core.metrics import AXES, Estimate, mean_interval, statistic_interval
from posym_core.store import Result, load_result
from posym_profile.language_models import PACKAGED

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
# Keys exchanged as the first rule asked.
THIRD = "in a third of the layers"
RIGHT = "share of prompts answered right, least of all models, runs and wordings"
ABOVE = f"readers of origins that follow them more than {CONTROL}"


def list_readers() -> Iterator[tuple[ReaderHeads, str, tuple[int, int]]]:
    """Every setting with each head that is looked at in it, and what the head reads."""
    for setting in full_size():
        if setting.alone:
            continue
        for factor, heads in READERS[setting.model].items():
            for head in heads:
                yield setting, factor, head


def measure_asked_contrast(result: Result, factor: str, head: tuple[int, int]) -> Float[np.ndarray, " prompt"]:
    """How much the symbol, or the origin, that is asked for stands out in a head's logits."""
    return result["contrasts"][AXES.index(factor)][:, *head].astype(float)


def measure_followed_logits(
    result: Result, part: str, head: tuple[int, int], than: str | None = None, *, alone: bool = False
) -> Estimate:
    """How far a head's logits do on an exchange of a part of keys what they do on one of whole keys.

    The slope through zero over prompts and pairs, with an interval over prompts.

    Args:
        result: of the experiment ``reader_heads``.
        part: one of its ``EXCHANGES``.
        head: layer and number.
        than: a part whose slope is taken off.
        alone: whether the result has keys exchanged in every head's own layer alone; otherwise they were exchanged in
            the third of the layers in which the head stands.

    Returns:
        NaN where whole keys change nothing, or something is undefined.
    """
    logits = result["log_ratio"][..., *head].astype(float)
    if alone:
        place = {name: KEPT_ALONE.index(name) for name in EXCHANGES}
    else:
        layers = result["log_ratio"].shape[-2]
        (third,) = (name for name in ("early", "middle", "late") if head[0] in select_named_layers(name, layers))
        place = {name: KEPT.index((name, third)) for name in EXCHANGES}
    moved = {name: logits[..., at] - logits[..., 0] for name, at in place.items()}
    one = moved[part] - moved[than] if than else moved[part]
    sums = np.stack([(one * moved["whole"]).sum(1), (moved["whole"] ** 2).sum(1)], -1)[:, None]
    if not (np.isfinite(sums).all() and sums[..., 1].sum() > 0):
        return UNDEFINED
    return statistic_interval(
        lambda x: x[..., 0].sum((-1, -2)) / x[..., 1].sum((-1, -2)), sums, draws=DRAWS, vectorized=True
    )


def symbolic_heads_read(folder: Path | None) -> Measured:
    """C-6: what heads read that carry the answer and are purely symbolic by the papers' scores."""
    tally, evidence, correct, exchanged = Tally(), [], {}, set[int]()
    for setting, factor, head in list_readers():
        result, alone = (load_result(replace(setting, alone=way).name, folder=folder) for way in (False, True))
        evidence += [each.name for each in (result, alone) if each.name not in evidence]
        correct[result.name] = float(result["correct"].astype(float).mean())
        where = f"{setting.model}, {head[0]}:{head[1]}, run {setting.taught}, {setting.wording}"
        high, low = (float(result[name][:, *head].astype(float).mean()) for name in ("symbolic", "positional"))
        tally.held.setdefault(PURE, []).append((where, high > SYMBOLIC and low < POSITIONAL))
        tally.numbers.update({f"s_SYM ({where})": high, f"s_POS ({where})": low})
        own, other = (measure_asked_contrast(result, name, head) for name in (factor, OTHER[factor]))
        # A prompt without a number would be left out of a mean in silence.
        stands_out = mean_interval(own - other, over="prompts") if np.isfinite(own - other).all() else UNDEFINED
        held = {ASKED.format(factor): lies_beyond(stands_out, 1)}
        tally.numbers.update({f"contrast of the {factor} asked for ({where})": float(own.mean())})
        tally.add(f"the same less that of its {OTHER[factor]}", where, stands_out, held, f"{where}: {stands_out}")
        exchanged.add(len(alone["log_ratio"]))
        _add_exchanges(tally, where, alone, factor, head)
        _add_exchanges(tally, where, result, factor, head, third=True)
    ours: dict[str, Number] = {
        RIGHT: min(correct.values()),
        "share of prompts answered right": float(np.mean(list(correct.values()))),
    }
    return Measured(
        ours={**ours, **tally.counts("{}"), **tally.numbers},
        model=" and ".join(f"{model}, taught to bind" for model in READERS),
        evidence=[*evidence, SHOWN_IN],
        fails_in=tally.missed,
        note="Runs of teaching have the same first weights and other lessons. Contrasts and logits are of the "
        "log-sum-exp over a fact's keys; intervals are over prompts. In a head's own layer alone keys are exchanged on "
        f"{' or '.join(map(str, sorted(exchanged)))} prompts.",
    )


def _add_exchanges(
    tally: Tally, where: str, result: Result, factor: str, head: tuple[int, int], *, third: bool = False
) -> None:
    """What a head does on exchanged parts of keys, in its own layer alone or in a third of all layers.

    The latter was the first rule's; what it misses is no failure of the rule.
    """
    after, alone = f", {THIRD}" if third else "", not third
    fails = list(tally.missed)
    for name in OTHER:
        slope = measure_followed_logits(result, name, head, alone=alone)
        tally.numbers[f"logits that follow the {name}{after} ({where})"] = slope
    rather = {f"{OTHER[factor]}s": (FOLLOWS.format(factor), OTHER[factor])}
    rather |= {CONTROL: (ABOVE, CONTROL)} if factor == "origin" else {}
    for less, (part, than) in rather.items():
        found = measure_followed_logits(result, factor, head, than=than, alone=alone)
        held = {f"{part}{after}": lies_beyond(found, 1)}
        tally.add(f"following {factor}s less {less}{after}", where, found, held, f"{where}, exchanged: {found}")
    if third:
        tally.missed[:] = fails
