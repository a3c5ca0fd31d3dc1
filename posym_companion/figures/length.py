"""Figures of *How many distractors a path tolerates*."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from posym_companion import theory
from posym_companion.figures import shown
from posym_companion.results import Result
from posym_core.metrics import rope_angles
from posym_figures import Guess, Lines, Readout, Slider, slider_figure

GPTJ = rope_angles(128).numpy()
TURNS = {
    **{f"θ{plane} of GPT-J, {GPTJ[plane - 1]:.3f}": float(GPTJ[plane - 1]) for plane in (1, 2, 4, 7, 10, 14, 18, 22)},
    "golden section, 2.400": 2 * math.pi / (1 + (1 + math.sqrt(5)) / 2),
    "a third of 2π, 2.094": 2 * math.pi / 3,
    "1% off it, 2.115": 2.115,
    "an eighth of 2π, 0.785": math.pi / 4,
    "1/100 of 2π, 0.063": math.pi / 50,
}


@shown
def accuracy_by_length(lengths: np.ndarray, accuracy: Mapping[str, np.ndarray], mine: Result) -> Any:
    """Accuracy over all hops by length, which readers guess first."""
    mean, least, most = (
        np.stack([reduce(seeds.mean(-1), 0) for seeds in accuracy.values()]) for reduce in (np.mean, np.min, np.max)
    )
    yours = np.interp(np.log(lengths), np.log(mine["lengths"]), mine["accuracy"].mean(-1), right=np.nan)
    at_256 = mean[:, list(lengths).index(256)].tolist()
    question = (
        "Both kinds of model are right on nearly all sequences of 17 tokens. Now there are 256, and the path is as "
    )
    return slider_figure(
        [Lines("Accuracy by length", lengths, mean, lower=least, upper=most, series=("Number", "Letter"), x_log=True,
               colours=("positional", "symbolic"), y_limits=(0, 1.03), x_label="tokens", y_label="accuracy", wide=True,
               aspect=2.2, reference=yours[None], reference_labels=["yours"])],
        [],
        caption="The curves are the accuracy over all numbers of hops, as a mean over seeds, shaded from worst to "
        "best, and the thin line is your run. All models were trained on 17 tokens. Number leaves 1 within the first "
        "hundred tokens, and Letter much later.",
        alt="Two curves over length on a logarithmic axis. Both start at one. Number falls steeply within the first "
        "hundred tokens, Letter stays high much longer.",
        guess=Guess(question + "before. Drag the bars to their accuracies.", at_256, bars=("Number", "Letter"),
                    start=[1, 1]),
    )  # fmt: skip


@shown
def hardest_distance() -> Any:
    """Return the distance that an Index head of one plane confuses most, by angle and length."""
    tokens = np.unique(np.geomspace(2, 850, 90).round().astype(int))

    def hardest(theta: str, length: float) -> Any:
        turn, count = TURNS[theta], round(length)
        records = theory.list_closest_returns(851, turn)
        distance, size = records.distance.numpy(), records.gap.abs().numpy()
        last, least = np.searchsorted(distance, count) - 1, theory.find_index_beta(count, turn)
        closest = size[np.searchsorted(distance, tokens) - 1]
        needed = "none: a return" if math.isinf(least) else f"{least:,.1f}"
        rows = [str(distance[last]), f"{np.degrees(size[last]):.2f}", needed, theory.compute_index_price(count)]
        wave, gaps = np.cos(turn * np.arange(101)).round(2), np.where(closest < 1e-9, np.nan, closest)
        return {"frames": wave, "marker": distance[last]}, {"frames": gaps, "marker": count}, rows

    return slider_figure(
        [
            Lines("Logit of a key, by distance from the target", np.arange(101), series=("cosine",), wide=True,
                  colours=("positional",), x_label="distance d", y_limits=(-1.1, 1.1), dots=True,
                  marker_label="hardest", aspect=3.2),
            Lines("Closest return so far", tokens, series=("gap",), colours=("positional",), x_label="tokens N",
                  y_label="radians", x_log=True, y_log=True, y_limits=(1e-4, 4), reference=(2 * np.pi / tokens)[None],
                  reference_labels=("2π / N",), marker_label="N"),
            Readout(["most confusing distance", "its gap, degrees", "smallest β of this angle", "least β at any angle"],
                    format=".1f", title="Sequences of this length"),
        ],
        [Slider("theta", "Angle θ", list(TURNS), start="θ2 of GPT-J, 0.866"),
         Slider("length", "Tokens N", [8, 12, 17, 24, 32, 48, 64, 80, 101], start=32, format=".0f")],
        caption="An Index head of one plane can hardly distinguish the marked distance from 0, because its logit is "
        "nearly the target's. The lower curve is the gap of the closest return so far, and it ends where a return is "
        "exact.",
        alt="A sampled cosine with a line at the distance whose value is nearest to one; below it a falling staircase "
        "under the straight line of two pi over N.", digits=3, compute=hardest,
    )  # fmt: skip


def attend(use: np.ndarray, lengths: np.ndarray) -> list[float]:
    """Return an ideal clock's attention to a target in the window, queried from the end, at every length."""
    loss = (use * (1 - np.cos(np.arange(1, lengths[-1])[:, None] * GPTJ))).sum(1)
    side = np.concatenate([[0], np.exp(-loss).cumsum()])
    return [float(np.mean([1 / (1 + side[x - 1 - back] + side[back]) for back in range(9, 17)])) for x in lengths]


@shown
def profiles(reached: Mapping[str, Sequence[Result]], uses: np.ndarray, clocks: np.ndarray) -> Any:
    """Logit by distance, and attention by length, of every layer beside an ideal clock."""
    number, lengths = reached["number"], reached["number"][0]["lengths"]
    profile = np.mean([run["profile"][:, 0] for run in number], axis=0)
    ideal = np.mean([[attend(use, lengths) for use in run] for run in uses], axis=0)
    kept = {
        (task, name): np.mean([run[name][..., 0] for run in runs], axis=0).T
        for task, runs in reached.items()
        for name in ("onward", "foretold", "added")
    }
    seen, told = (np.stack([kept[task, name] for task in reached]) for name in ("onward", "foretold"))
    added = {f"{task.capitalize()}, first and last": [f"{row[0]:.0%} to {row[-1]:.0%}" for row in kept[task, "added"]]
             for task in reached}  # fmt: skip
    axes: Any = {"x_label": "tokens", "x_log": True, "y_limits": (0, 1)}
    return slider_figure(
        [
            Lines("Number: logit of a letter by its distance before the target", np.arange(profile.shape[-1]),
                  np.stack([profile, clocks.mean(0)], axis=1), series=("profile", "ideal clock"), x_label="distance d",
                  colours=("positional", "grey"), reference=np.zeros((1, profile.shape[-1])), wide=True, aspect=3.2,
                  reference_labels=("the target",)),
            Lines("Number: attention to the next station", lengths, np.stack([seen[0], told[0], ideal], axis=1),
                  series=("measured", "predicted", "ideal clock"), colours=("positional", "sky", "grey"), **axes),
            Lines("Letter: the same", lengths, np.stack([seen[1], told[1]], axis=1), series=("measured", "predicted"),
                  colours=("symbolic", "yellow"), **axes),
            Readout(added, title="Attention that goes to what was added"),
        ],
        [Slider("layer", "Layer", range(12), start=1, format=".0f")],
        caption="Number’s profile close to the target is an ideal clock’s in layers 1 to 3, which are positional in "
        "all seeds but one. Further out it rises nearly to 0 while the clock’s stays far below. There attention falls "
        "about as predicted. Letter’s second layer does the opposite of its prediction. Mean over stations and seeds.",
        alt="Above, two waves over distance that agree near zero and part further out. Below, curves over length; in "
        "the early layers of Number the measured curve follows the predicted one while the ideal clock stays high, and "
        "in Letter's second layer the measured curve rises while the predicted one falls.",
    )  # fmt: skip
