"""Two claims of later papers that qualify what is said of frequencies and of the middle of a prompt."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posym_companion.claims import Look, Outcome, above, claim, part, untold
from posym_companion.experiments import SECOND
from posym_companion.later.later_claims import SECOND_TAUGHT, SHARES, TAUGHT, LaterClaims
from posym_core.metrics import Estimate, mean_interval
from posym_profile.language_models import PACKAGED

CHAPTER = "later/what_came_after"


def average_beginning(right: dict[str, np.ndarray], start: str) -> np.ndarray:
    """Return the mean of right answers over the conditions whose name begins so, ``[prompt]``."""
    return np.mean([x for name, x in right.items() if name.startswith(start)], 0)


@claim(
    "L-3",
    "Retrieval heads need their slowest planes",
    paper="Bayram (2026)",
    at="32 of 128 dimensions, five models of 7 to 14 billion parameters",
    quote="as summarised in our reading: heads that retrieve are needed; zeroing the slowest quarter of their rotary "
    "dimensions takes recall from 1.00 to .18, as many random dimensions to .98, and the effect is these heads' own",
    models=(TAUGHT, SECOND_TAUGHT),
    chapter=CHAPTER,
    fixed="after a look",
    history="The first rule (before the run) was without planes of equal energy and gave *reproduced in kind*; it "
    "changed because the random planes beside the slowest were two draws with far less of the logits' variance.",
)
def slow_planes_of_carriers(look: Look):
    """Does recall fall without the slowest quarter of the retrieving heads' planes, more than without other planes?"""
    result = look.load(LaterClaims(part="retrieval", model=look.model))
    right = dict(zip(map(str, result["conditions"]), result["correct"].astype(float), strict=True))
    whole, slow = right["none"], right[f"slowest {SHARES[1]:g}"]
    look.require("the model binds", above(float(whole.mean()), 0.9))
    lost = compare(whole, slow)
    random = average_beginning(right, "random")
    look.headline(
        "recall lost without the slowest quarter", str(lost), paper=".82", control=f"{compare(whole, random)} random"
    )
    yield part("the heads are needed"), above(compare(whole, right["all planes"]), 0.1)
    yield part("the slowest planes are needed"), above(lost, 0.1)
    yield part("more than random planes"), above(compare(random, slow), 0)
    others = [name for name in right if name.startswith("other heads")]
    more = above(compare(average_beginning(right, "other heads"), slow), 0) if others else untold("all heads carry it")
    yield part("more than those of other heads"), more
    yield part("more than faster planes of equal energy", asks="control"), ask_equal_energy(right)


def compare(more: np.ndarray, less: np.ndarray) -> Estimate:
    """Return by how much one recall is above another, with its interval over prompts."""
    return mean_interval(more - less, over="prompts")


def ask_equal_energy(right: dict[str, np.ndarray]) -> Outcome:
    """Return whether slow planes cost more than faster ones of equal energy, if either costs a tenth."""
    slow, fast = (average_beginning(right, f"{speed} planes of equal") for speed in ("slow", "faster"))
    largest = float(max((right["none"] - each).mean() for each in (slow, fast)))
    return above(compare(fast, slow), 0) if largest > 0.1 else untold(f"either costs {largest:.2f} at most")


def measure_ends(influence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log influence of the first eighth and of the last without the last token, less the middle's ``[case]``.

    Args:
        influence: ``[case, position]``, of 16 positions or more.
    """
    logs, length = np.log(influence), influence.shape[-1]
    eighth = length // 8
    middle = logs[..., length // 2 - eighth : length // 2 + eighth].mean(-1)
    return logs[..., :eighth].mean(-1) - middle, logs[..., -eighth:-1].mean(-1) - middle


def name_each(what: str, held: np.ndarray) -> Iterator[tuple[str, bool]]:
    """Yield each case with a number for a name, since draws and texts have none of their own."""
    return ((f"{what} {number}", bool(one)) for number, one in enumerate(held, 1))


@claim(
    "L-4",
    "The middle is lost before any training",
    paper="Chowdhury (2026)",
    at="its main theorem; Herasimchyk et al. (2026) derive the same from mask and residual stream",
    quote="as summarised in our reading: tokens at the beginning and the last token influence the last token's state "
    "more than those in the middle, at initialisation, with rotation or without, and still after training",
    models=(PACKAGED, SECOND),
    chapter=CHAPTER,
    fixed="after a look",
    history="The first rule (before the run) asked for the last token in place of the last eighth without it and gave "
    "*partly*; the last token's influence on its own final state is the residual path's, and cannot fail.",
)
def u_shape_with_random_weights(look: Look):
    """Do the beginning and the end influence the last state more than the middle, before training and after?"""
    result = look.load(LaterClaims(part="influence", model=look.model))
    rotated, unrotated = (result[name].astype(float) for name in ("rotated", "unrotated"))
    drawn = np.isfinite(rotated).all(-1)
    start, end = measure_ends(rotated[drawn])
    gap = np.abs(np.log(rotated[drawn]) - np.log(unrotated[drawn])).mean(-1)
    trained_start, trained_end = measure_ends(result["trained"].astype(float))
    words = f"beginning {(start > 0).sum()}, end {(end > 0).sum()} of {len(start)}"
    own = np.broadcast_to((np.arange(len(rotated)) == 1)[:, None], drawn.shape)[drawn]
    look.headline("untrained models in which it is above the middle", words, paper="both in all")
    asked = {
        "the beginning is above the middle, untrained": ("draw", start > 0),
        "the end is above the middle, untrained": ("draw", end > 0),
        "stopping a small Qwen-2's angles changes less than a tenth": ("draw", (gap < 0.1 * np.abs(start))[~own]),
        "stopping its own angles changes less than a tenth": ("draw", (gap < 0.1 * np.abs(start))[own]),
        "the beginning is above the middle, trained": ("text", trained_start > 0),
        "the end is above the middle, trained": ("text", trained_end > 0),
    }
    for name, (what, held) in asked.items():
        yield from ((part(name, case), one) for case, one in name_each(what, held))
