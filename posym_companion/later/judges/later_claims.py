"""Judges of two claims that later papers make, each asked of Gemma and of SmolLM2."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posym_companion.experiments import SECOND
from posym_companion.judging import Look, Yielded, judge
from posym_companion.language_models.judges.binding_profile import MODEL
from posym_companion.later.later_claims import FIRST, SECOND_TAUGHT, SHARES, TAUGHT, LaterClaims, Part
from posym_companion.results import Result
from posym_companion.verdicts import count_cases
from posym_core.metrics import Estimate, mean_interval

SHOWN_IN = "book/later/what_came_after.ipynb"
# How the models are called where a row speaks of several.
TITLES = {MODEL: MODEL, TAUGHT: f"{MODEL}, taught to bind"}
TITLES |= {SECOND: SECOND, SECOND_TAUGHT: f"{SECOND}, taught to bind"}
# Two profiles are the same if they differ by less than this part of the height of the U.
SAME = 0.1
QUARTER = SHARES[1]


def _load(look: Look, part: Part) -> Result:
    """What was measured of the model that is asked; what needs a model that binds, of that one as it was taught to."""
    taught = SECOND_TAUGHT if part == "retrieval" and look.model == SECOND else look.model
    result = look.load(LaterClaims(part=part, model=taught or FIRST[part]))
    look.measured_on = TITLES[str(result.settings["model"])]
    return result


@judge(SHOWN_IN)
def slow_planes_of_carriers(look: Look) -> Iterator[Yielded]:
    """Recall with planes of the heads that carry the answer zeroed, the slowest quarter and others."""
    result = _load(look, "retrieval")
    right = dict(zip(map(str, result["conditions"]), result["correct"].astype(float), strict=True))

    def without(start: str) -> list[np.ndarray]:
        return [x for name, x in right.items() if name.startswith(start)]

    def lost(more: np.ndarray, less: np.ndarray) -> Estimate:
        return mean_interval(more - less, over="prompts")

    whole, slow, others = right["none"], right[f"slowest {QUARTER:g}"], without("other heads")
    yield "recall", "", float(whole.mean())
    yield "recall lost with all planes zeroed", "", lost(whole, right["all planes"])
    yield "recall lost with the slowest quarter zeroed", "", lost(whole, slow)
    yield "more than with random planes zeroed", "", lost(np.mean(without("random"), 0), slow)
    more = lost(np.mean(others, 0), slow) if others else "all heads carry the answer"
    yield "more than in other heads", "", more
    # Slow planes and faster ones that together make the logits vary as much.
    slowly, fast = (np.mean(without(f"{speed} planes of equal"), axis=0) for speed in ("slow", "faster"))
    costs = (float((whole - x).mean()) for x in (slowly, fast))
    yield "recall lost without planes of equal energy, the larger", "", max(costs)
    yield "more than without faster planes of equal energy", "", lost(fast, slowly)
    facts = int(result.settings["length"])
    look.note = f"{facts} facts; chance is 1 in {facts}."


@judge(SHOWN_IN)
def u_shape_with_random_weights(look: Look) -> Iterator[Yielded]:
    """Influence by place before training, with and without angles, and after."""
    result = _load(look, "influence")
    rotated, unrotated = (result[name].astype(float) for name in ("rotated", "unrotated"))
    drawn = np.isfinite(rotated).all(-1)
    born, trained = influence_ends(rotated[drawn]), influence_ends(result["trained"].astype(float))
    gap = np.abs(np.log(rotated[drawn]) - np.log(unrotated[drawn])).mean(-1)
    # A draw, and a text, has no name of its own: they are counted here.
    untrained = {
        "beginning above the middle": born.start > 0,
        "the same without angles": gap < SAME * np.abs(born.start),
        "last eighth but the last token above the middle": born.end > 0,
    }
    for name, holds in untrained.items():
        yield f"untrained models, {name}", "", count_cases(holds)
    yield "trained model, beginning above the middle", "", count_cases(trained.start > 0)
    yield "trained model, last eighth but the last token above the middle", "", count_cases(trained.end > 0)
    called = {"qwen2": "draws of a Qwen-2 of eight layers", "own": "draws of the model's own architecture"}
    many = {called[kind]: int(number) for kind, number in zip(result["kinds"].tolist(), drawn.sum(1), strict=True)}
    for kind, number in many.items():
        yield f"untrained models, {kind}", "", number
    draws = " and ".join(f"{number} {kind}" for kind, number in many.items())
    look.note = (
        "Influence: Frobenius norm of the Jacobian of the last token's final state, by random directions. Untrained "
        f"models are {draws}."
    )


class EndInfluence:
    """Log influence at the ends minus that of the central quarter, ``[case]``.

    Attributes:
        start: mean over the first eighth.
        end: mean over the last eighth without the last token.
    """

    def __init__(self, logs: np.ndarray) -> None:
        length = logs.shape[-1]
        eighth = length // 8
        middle = logs[..., length // 2 - eighth : length // 2 + eighth].mean(-1)
        self.start = logs[..., :eighth].mean(-1) - middle
        self.end = logs[..., -eighth:-1].mean(-1) - middle


def influence_ends(influence: np.ndarray) -> EndInfluence:
    """Return ends of profiles ``[case, position]``.

    Raises:
        ValueError: if a profile has fewer than 16 positions.
    """
    if influence.shape[-1] < 16:
        raise ValueError(f"an eighth of a profile needs two positions, so 16 in all; got {influence.shape[-1]}")
    return EndInfluence(np.log(influence))
