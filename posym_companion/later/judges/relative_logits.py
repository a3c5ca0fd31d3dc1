"""Judges of what the causal mask does to logits, and of whether that answers index without rotation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.later.judges.later_claims import SHOWN_IN
from posym_companion.later.relative_logits import DRAWS, FAMILIES, RelativeLogits, full_size
from posym_companion.results import MissingResultError, Result
from posym_companion.solvers.head_roles import CARRIES

MODEL = "layers without parameters; gemma-3-270m and smollm2-135m, trained and with random weights"


def beyond_distance(result: Result) -> np.ndarray:
    """Share of the variance of mean logits that the distance does not explain, ``[layer]``."""
    return 1 - result["relative"] / result["whole"]


def unexplained_nats(result: Result) -> np.ndarray:
    """Standard deviation of what the distance does not explain, in nats, ``[layer]``; 0 where it is below chance."""
    return np.sqrt(np.maximum(result["whole"] - result["relative"], 0))


@judge(SHOWN_IN, measured_on=MODEL)
def not_relative(look: Look) -> Iterator[Yielded]:
    """L-8: mean logits in layers without parameters and in both families, with controls."""
    turned, free, still = (
        look.load(RelativeLogits(kind="no parameters", rotated=rotated, masked=masked))
        for rotated, masked in ((True, True), (True, False), (False, True))
    )
    masked, unmasked = unexplained_nats(turned), unexplained_nats(free)
    for layer in range(1, len(still["whole"])):
        yield "near minus far, no parameters, no rotation", f"layer {layer}", float(still["near_minus_far"][layer])
        more = float(masked[layer] - 2 * unmasked[layer])
        yield "nats that are not relative, with a mask less twice those without", f"layer {layer}", more
    every = []
    for model in FAMILIES:
        trained = look.load(RelativeLogits(model=model))
        fresh = [look.load(RelativeLogits(model=model, draw=draw)) for draw in DRAWS]
        share, size = beyond_distance(trained), float(np.median(unexplained_nats(trained)[1:]))
        born = [float(np.median(beyond_distance(each)[1:])) for each in fresh]
        most = max(float(np.median(unexplained_nats(each)[1:])) for each in fresh)
        # Of an even number of layers the lower of the two in the middle: what lies below it, more than half exceed.
        later = float(np.quantile(share[1:], 0.5, method="lower"))
        yield "not relative, first layer", model, float(share[0])
        yield "not relative, median of later layers", model, later
        yield "not relative, random weights, median of later layers", model, float(np.median(born))
        yield "not relative, less the most of random weights", model, later - max(born)
        yield "nats, median of later layers", model, size
        yield "nats, most of random weights", model, most
        yield "nats, less the most of random weights", model, size - most
        for skip, without in ((1, "the mark of beginning"), (0, "no token")):
            with contextlib.suppress(MissingResultError):
                early = float(np.median(beyond_distance(look.load(RelativeLogits(model=model, skip=skip)))[1:]))
                yield f"not relative, median of later layers, without {without}", model, early
                every += [] if skip else [f"{early:.2f} ({model})"]
    look.note = (
        "Read: the abstract, the beginning of the text and the code. Means are over prose and heads, without the first "
        "eight tokens, which take attention whatever they say; covariances of two halves of the texts."
    )
    if every:
        look.note += f" With no token left out the median of the later layers is {' and '.join(every)}."


def same_whatever_is_asked(result: Result, seed: int) -> float:
    """Return of the variance over places at the heads that carry index the share that is so whatever is asked."""
    carries = result["patched"][seed] >= CARRIES
    logits = result["logits"][:, seed].astype(float)[:, carries]
    logits = logits - logits.mean(-1, keepdims=True)
    same = logits.mean(-2)
    return float((same[0] * same[1]).mean(-1).sum() / (logits[0] * logits[1]).mean((-1, -2)).sum())


@judge(
    SHOWN_IN,
    measured_on="decoders of two and four layers without rotation, trained on binding and index",
    note="Variance over the places of the facts of the last token's mean logit, at the heads that carry index.",
)
def index_by_the_mask(look: Look) -> Iterator[Yielded]:
    """L-8b: whether decoders without rotation answer index by a mean pattern of the mask's."""
    for result in look.load_stored([setting for setting in full_size() if setting.kind == "index"], least=1):
        for place, seed in enumerate(result.settings["solver"]["seeds"]):
            where = f"{result.name.partition('/')[2]}, seed {seed}"
            yield "accuracy", where, float(result["accuracy"][place])
            carried = (result["patched"][place] >= CARRIES).any()
            yield "the same whatever is asked", where, same_whatever_is_asked(result, place) if carried else None
