"""Judges of what the causal mask does to logits, and of whether that answers index without rotation."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Number, count_cases
from posym_companion.later.judges.later_claims import SHOWN_IN
from posym_companion.later.relative_logits import DRAWS, FAMILIES, RelativeLogits, full_size
from posym_companion.results import MissingResultError, Result, load_result, load_stored_results
from posym_companion.solvers.judges.solver_roles import CARRIES
from posym_companion.solvers.judges.task_solvers import SOLVED

MODEL = "layers without parameters; gemma-3-270m and smollm2-135m, trained and with random weights"
# Shares of the mean logits' variance.
CLEARLY, NEXT_TO_NOTHING, HALF = 0.1, 0.05, 0.5
COUNTED = {
    "near": "layers without parameters, behind the first, that favour near keys without rotation",
    "unmasked": "layers without parameters that depend on more than the distance only with a mask",
    "first": "families whose first layer depends on the distance alone",
    "later": "families in which most later layers depend on more than the distance",
    "amplified": "families in which training makes what is not relative a larger share",
    "louder": "families in which training makes what is not relative larger",
}
SAME = "models that read index mostly by a pattern that is the same whatever is asked"


def logits_result(folder: Path | None = None, **setting: object) -> Result:
    """The stored result of a setting.

    Raises:
        MissingResultError: if it is not there.
    """
    return load_result(RelativeLogits(**setting).name, folder=folder)  # pyright: ignore[reportArgumentType]


def beyond_distance(result: Result) -> np.ndarray:
    """Share of the variance of mean logits that the distance does not explain, ``[layer]``."""
    return 1 - result["relative"] / result["whole"]


def unexplained_nats(result: Result) -> np.ndarray:
    """Standard deviation of what the distance does not explain, in nats, ``[layer]``; 0 where it is below chance."""
    return np.sqrt(np.maximum(result["whole"] - result["relative"], 0))


def not_relative(folder: Path | None) -> Measured:
    """L-8: mean logits in layers without parameters and in both families, with controls."""
    simple = {
        (rotated, masked): logits_result(folder, kind="no parameters", rotated=rotated, masked=masked)
        for rotated in (True, False)
        for masked in (True, False)
    }
    held: dict[str, list[bool]] = {name: [] for name in COUNTED}
    still, turned, free = simple[False, True], simple[True, True], simple[True, False]
    held["near"] = [bool(x > 0) for x in still["near_minus_far"][1:]]
    held["unmasked"] = [
        bool(a > 2 * b) for a, b in zip(unexplained_nats(turned)[1:], unexplained_nats(free)[1:], strict=True)
    ]
    ours: dict[str, Number] = {}
    for layer in range(len(still["whole"])):
        ours |= {
            f"near minus far, no parameters, no rotation (layer {layer})": float(still["near_minus_far"][layer]),
            f"not relative, no parameters, mask and rotation (layer {layer})": float(beyond_distance(turned)[layer]),
            f"the same in nats (layer {layer})": float(unexplained_nats(turned)[layer]),
            f"the same in nats, without a mask (layer {layer})": float(unexplained_nats(free)[layer]),
        }
    results = list(simple.values())
    for model in FAMILIES:
        own = logits_result(folder, model=model)
        fresh = [logits_result(folder, model=model, draw=draw) for draw in DRAWS]
        results += [own, *fresh]
        share, size = beyond_distance(own), np.median(unexplained_nats(own)[1:])
        drawn = [float(np.median(unexplained_nats(each)[1:])) for each in fresh]
        held["first"].append(bool(share[0] < NEXT_TO_NOTHING))
        held["later"].append(bool(np.mean(share[1:] > CLEARLY) > HALF))
        at_birth = [float(np.median(beyond_distance(each)[1:])) for each in fresh]
        held["amplified"].append(bool(np.median(share[1:]) > max(at_birth)))
        held["louder"].append(bool(size > max(drawn)))
        ours |= {
            f"not relative, first layer ({model})": float(share[0]),
            f"not relative, median of later layers ({model})": float(np.median(share[1:])),
            f"later layers above {CLEARLY} ({model})": count_cases(share[1:] > CLEARLY),
            f"nats, median of later layers ({model})": float(size),
            f"nats, most of random weights ({model})": max(drawn),
            f"not relative, random weights, median of later layers ({model})": float(np.median(at_birth)),
            f"not relative, random weights, most of the medians ({model})": max(at_birth),
        }
        for skip, said in ((1, "the mark of beginning"), (0, "no token")):
            with contextlib.suppress(MissingResultError):
                early = logits_result(folder, model=model, skip=skip)
                results.append(early)
                ours[f"not relative, median of later layers, without {said} ({model})"] = float(
                    np.median(beyond_distance(early)[1:])
                )
        with contextlib.suppress(MissingResultError):
            stopped = logits_result(folder, model=model, rotated=False)
            results.append(stopped)
            ours |= {
                f"not relative, all angles stopped, median of later layers ({model})": float(
                    np.median(beyond_distance(stopped)[1:])
                ),
                f"later layers that favour near keys, all angles stopped ({model})": count_cases(
                    stopped["near_minus_far"][1:] > 0
                ),
            }
    counts: dict[str, Number] = {COUNTED[name]: count_cases(each) for name, each in held.items()}
    every = "not relative, median of later layers, without no token"
    without = [f"{value:.2f} ({name[len(every) + 2 : -1]})" for name, value in ours.items() if name.startswith(every)]
    note = (
        "Read: the abstract, the beginning of the text and the code. Means are over prose and heads, without the first "
        "eight tokens, which take attention whatever they say; covariances of two halves of the texts."
    )
    if without:
        note += f" With no token left out the median of the later layers is {' and '.join(without)}."
    evidence = [*(result.name for result in results), SHOWN_IN]
    return Measured(ours={**counts, **ours}, model=MODEL, evidence=evidence, note=note)


def same_whatever_is_asked(result: Result, seed: int, *, before: bool = False) -> float:
    """Of the variance over places at the heads that carry index, the share that is the same whatever is asked."""
    carries = result["patched"][seed] >= CARRIES
    logits = result["logits_before" if before else "logits"][:, seed].astype(float)[:, carries]
    logits = logits - logits.mean(-1, keepdims=True)
    same = logits.mean(-2)
    return float((same[0] * same[1]).mean(-1).sum() / (logits[0] * logits[1]).mean((-1, -2)).sum())


def index_by_the_mask(folder: Path | None) -> Measured:
    """L-8b: whether decoders without rotation answer index by a mean pattern of the mask's."""
    names = [setting.name for setting in full_size() if setting.kind == "index"]
    results = load_stored_results(names, folder, least=1)
    ours: dict[str, Number] = {}
    held, fails = [], []
    for result in results:
        for place, seed in enumerate(result.settings["solver"]["seeds"]):
            where = f"{result.name.partition('/')[2]}, seed {seed}"
            ours[f"accuracy ({where})"] = float(result["accuracy"][place])
            if not result["accuracy"][place] > SOLVED:
                continue
            share = ours[f"the same whatever is asked ({where})"] = same_whatever_is_asked(result, place)
            ours[f"the same before training ({where})"] = same_whatever_is_asked(result, place, before=True)
            held.append(share > HALF)
            fails += [] if held[-1] else [f"{where}: {share:.2f}"]
    return Measured(
        ours={SAME: count_cases(held), **ours},
        model="decoders of two and four layers without rotation, trained on binding and index",
        evidence=[*(result.name for result in results), SHOWN_IN],
        fails_in=fails,
        note="Variance over the places of the facts of the last token's mean logit, at the heads that carry index.",
    )
