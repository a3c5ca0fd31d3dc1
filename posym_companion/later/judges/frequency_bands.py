"""Judge of the frequency band: may what lies below it go without rotation, and is it used at all?"""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Number, cases
from posym_companion.later.frequency_bands import DRAWS, PLAIN, FrequencyBands
from posym_companion.later.judges.later_claims import SHOWN_IN
from posym_core.metrics.stats import Estimate, mean_interval
from posym_core.runs.results import MissingResultError, Result, load_result

MODEL = "gemma-3-270m and smollm2-135m; plain, taught to bind, and with random weights"
# Nats a token, and share of the prompts, that count as little.
LITTLE, FEW = 0.05, 0.1
# An eighth of a turn.
VISIBLY = np.pi / 4
TURNED = "radians that the fastest plane below the band turns over what a layer sees, least of both families"
BINDS = "share of prompts that the taught models answer right, least"
COUNTED = {
    "band": "families whose keys have a higher band than with random weights",
    "loss": "families in which stopping what lies below costs little",
    "random": "families in which it costs less than as many planes at random",
    "above": "families in which it costs less than as many planes directly above",
    "binding": "families that bind as well with it stopped",
    "unused": "families in which zeroing what lies below costs little",
    "learned": "families in which it moves less, beside planes at random, than with random weights",
}


def bands_result(model: str, draw: int | None = None, folder: Path | None = None) -> Result:
    """The stored result of a model, or of its random weights.

    Raises:
        MissingResultError: if it is not there.
    """
    return load_result(FrequencyBands(model=model, draw=draw).name, folder=folder)


def height(result: Result) -> float:
    """Size of a layer's keys in their largest plane over the mean of all planes, median over layers."""
    sizes = result["sizes"].astype(float)
    return float(np.median(sizes.max(-1) / sizes.mean(-1)))


def moved(result: Result, array: str = "moved") -> dict[str, np.ndarray]:
    """By condition, at the longest length, over stretches; random sets of planes are taken together."""
    names = [str(name) for name in result["conditions"]]
    found = dict(zip(names, result[array][:, -1].astype(float), strict=True))
    return found | {"random stopped": np.mean([found[name] for name in names if name.startswith("random")], axis=0)}


def against_random(result: Result) -> float:
    """Log of how far stopping what lies below moves the next word's distribution, over as many planes at random."""
    found = moved(result)
    return float(np.log(found["below stopped"].mean() / found["random stopped"].mean()))


def turns(result: Result) -> np.ndarray:
    """Radians that the fastest plane below the band turns over what each layer sees, ``[layer]``."""
    # A band of the slowest plane has nothing below it, and nothing turns.
    angles = np.pad(result["angles"], ((0, 0), (0, 1)))
    return angles[np.arange(len(angles)), result["cut"]] * result["sees"]


def below_the_band(folder: Path | None) -> Measured:
    """L-7: what stopping, zeroing and speeding up the planes below the band costs each family, beside controls."""
    ours: dict[str, Number] = {}
    held: dict[str, list[bool]] = {name: [] for name in COUNTED}
    turning: dict[str, list[bool]] = {name: [] for name in ("loss", "random", "above")}
    results, fails, most = [], [], []
    for model in PLAIN:
        own = bands_result(model, folder=folder)
        results.append(own)
        for cut in sorted(set(own["cut"].tolist())):
            layer = int((own["cut"] == cut).argmax())
            angle = own["angles"][layer, cut - 1] * own["sees"][layer]
            ours[f"planes above the cut, of {own['angles'].shape[1]} ({model}, base of layer {layer})"] = cut
            ours[f"theta n of the band ({model}, base of layer {layer})"] = float(angle)
        most.append(float(turns(own).max()))
        ours[f"radians that the fastest plane below turns ({model})"] = most[-1]
        ours[f"size of the largest plane over the mean ({model})"] = height(own)
        kept = _on_text(own, model, ours)
        # A taught model and random weights may be missing; then their lines are asked of the other family.
        with contextlib.suppress(MissingResultError):
            taught = bands_result(f"{model}-binds", folder=folder)
            results.append(taught)
            kept |= _on_facts(taught, model, ours)
        with contextlib.suppress(MissingResultError):
            fresh = [bands_result(model, draw, folder) for draw in DRAWS]
            results += fresh
            ratios = [against_random(each) for each in fresh]
            ours |= {
                f"the same, most of random weights ({model})": max(map(height, fresh)),
                f"log of what it moves beside planes at random ({model})": against_random(own),
                f"log of the same, least of random weights ({model})": min(ratios),
                f"log of the same, most of random weights ({model})": max(ratios),
            }
            kept |= {"band": height(own) > max(map(height, fresh)), "learned": against_random(own) < min(ratios)}
        for name, holds in kept.items():
            held[name].append(holds)
            if name in turning and most[-1] > VISIBLY:
                turning[name].append(holds)
        fails += [f"{model}: not {COUNTED[name]}" for name, holds in kept.items() if not holds]
    right = [value for name, value in ours.items() if name.startswith("right of") and "facts (" in name]
    counts: dict[str, Number] = {BINDS: min((x for x in right if isinstance(x, float)), default=math.nan)}
    counts |= {COUNTED[name]: cases(each) for name, each in held.items()}
    counts |= {f"{COUNTED[name]}, of those whose planes turn": cases(each) for name, each in turning.items()}
    note = (
        "Read: the abstract; the index of the band comes from notes that others took of the text. A band stands for "
        "all layers that turn alike. Stopped is not zeroed: a plane that stops goes on comparing contents. Binding was "
        f"asked of {len(held['binding'])} and random weights of {len(held['learned'])} of the two families."
    )
    return Measured(
        ours={**counts, TURNED: min(most), **ours},
        model=MODEL,
        evidence=[*(result.name for result in results), SHOWN_IN],
        fails_in=fails,
        note=note,
    )


def _on_text(result: Result, model: str, ours: dict[str, Number]) -> dict[str, bool]:
    names, losses = [str(name) for name in result["conditions"]], result["loss"].astype(float)
    none, below = (losses[names.index(name)] for name in ("none", "below stopped"))
    rises = []
    for place, length in enumerate(result["lengths"]):
        rises.append(mean_interval(below[place] - none[place], over="stretches"))
        ours[f"nats a token that stopping costs at {length} ({model})"] = rises[-1]
    by = moved(result, "loss")
    ours[f"loss on text ({model})"] = float(by["none"].mean())
    costs: dict[str, Estimate] = {}
    for name in ("random stopped", "above stopped", "below zeroed", "below as fast as the band"):
        costs[name] = mean_interval(by[name] - by["none"], over="stretches")
        ours[f"nats a token, {name} ({model})"] = costs[name]
    own = mean_interval(by["below each head's own stopped"] - by["none"], over="stretches")
    ours[f"nats a token, below each head's own stopped ({model})"] = own
    beside = {
        name: mean_interval(by[f"{name} stopped"] - by["below stopped"], over="stretches")
        for name in ("random", "above")
    }
    ours |= {f"nats a token, {name} minus below ({model})": found for name, found in beside.items()}
    return {
        "loss": all(rise.high < LITTLE for rise in rises),
        **{name: found.low > 0 for name, found in beside.items()},
        "unused": costs["below zeroed"].high < LITTLE,
    }


def _on_facts(result: Result, model: str, ours: dict[str, Number]) -> dict[str, bool]:
    names, correct = [str(name) for name in result["conditions"]], result["correct"].astype(float)
    falls = []
    for place, facts in enumerate(result["facts"]):
        by = dict(zip(names, correct[:, place], strict=True))
        ours[f"right of {facts} facts ({model})"] = float(by["none"].mean())
        falls.append(mean_interval(by["none"] - by["below stopped"], over="prompts"))
        ours[f"fewer right of {facts} facts, below stopped ({model})"] = falls[-1]
        for name in ("below zeroed", "below as fast as the band", "above stopped", "below each head's own stopped"):
            ours[f"right of {facts} facts, {name} ({model})"] = float(by[name].mean())
        drawn = [by[name].mean() for name in names if name.startswith("random")]
        ours[f"right of {facts} facts, random stopped ({model})"] = float(np.mean(drawn))
    return {"binding": all(fall.high < FEW for fall in falls)}
