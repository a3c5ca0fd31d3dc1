"""Figures of *How one head can index or retrieve*."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch

from posym_companion import theory
from posym_companion.figures import Picture, shown
from posym_core.metrics import rope_angles
from posym_core.tasks import LetterTask, NumberTask, apply_index, apply_retrieval
from posym_figures import Bars, Points, Readout, Slider, plots, slider_figure

STRENGTHS = np.array([1, 3, 10, 30, 100, 1000])
FAST, SLOW = (float(angle) for angle in rope_angles(128)[[1, 41]])


def draw_plane(over: tuple[str, str], labels: list[str], groups: tuple[str, str], colour: str) -> Points:
    """Return the panel of keys and of the query as arrows; the query is the last."""
    return Points(
        "The rotation plane",
        over=over,
        labels=[*labels, "query"],
        arrows=True,
        circle=1.0,
        groups=[0] * len(labels) + [1],
        group_labels=groups,
        colours=(colour, "purple"),
        x_limits=(-1.4, 1.4),
        y_limits=(-1.4, 1.4),
        aspect=1.0,
    )


def draw_bars(over: tuple[str, str], labels: list[str], colour: str, x_label: str) -> list[Bars]:
    """Return the panels of cosines and of attention."""
    cosines = Bars("Cosine with the query", labels, over=over, y_limits=(-1, 1), colours=("grey",), aspect=1.9)
    attention = Bars("Attention", labels, y_limits=(0, 1), colours=(colour,), x_label=x_label, aspect=1.9)
    return [cosines, attention]


@shown
def rotate_index() -> Any:
    """Index at the last of nine positions: keys, query, attention, by angle, integer and β."""
    last, task = 8, NumberTask(letters=9, window=4, steps=4)
    angles = [0.05, 0.1, 0.2, 0.35, 0.5, 2 * math.pi / 9, math.pi / 4, 0.866, 1.0, 1.2, 1.6, 2.1, 2.6, 3.0]
    smallest = functools.cache(functools.partial(theory.find_index_beta, last + 1))

    def index_head(theta: float, s: int, beta: float) -> Any:
        inputs = torch.tensor([[*range(last), task.letters - 1 + s]])  # letters all different, then the integer
        unit, head = (theory.IndexHead(task, angle=theta, beta=float(strength)) for strength in (1, beta))
        keys, query = unit.keys(inputs)[0], unit.queries(inputs)[0, -1]
        score = float(head(inputs)[0, -1, last - s])
        right = bool(theory.is_hop_right(head, inputs, apply_index(inputs, task))[0, -1])
        assert right == (score > 1) or abs(score - 1) <= 1e-9
        becomes = "becomes the letter" if score > 1 + 1e-9 else "stays an integer"
        needed = "none: a tie" if math.isinf(smallest(theta)) else f"{smallest(theta):.1f}"
        bars = ({"frames": x[None], "highlight": last - s} for x in (keys @ query, head.attention(inputs)[0, -1]))
        return torch.cat([keys, 1.25 * query[None]]), [score, becomes], *bars, [needed]

    places, over = [*map(str, range(last + 1))], ("theta", "s")
    about = Readout(["score of the letter", "the integer"], format=".2f", title="This target; the integer scores 1")
    plane = draw_plane(over, places, ("keys, by position", "query"), "positional")
    needed = Readout(["smallest β, every input"], over=("theta",), title="All targets, computed")
    return slider_figure(
        [[plane, about], [*draw_bars(over, places, "positional", "position"), needed]],
        [Slider("theta", "Angle θ", angles, start=0.5, format=".3f"),
         Slider("s", "Integer s", np.arange(1, last + 1), start=5, format=".0f"),
         Slider("beta", "Inverse temperature β", STRENGTHS, start=10, format="g")],
        caption="The longer arrow is the query, and the others are the nine keys after rotation. Attention depends on "
        "the angles between them only. The framed bar is the target, and the query always points at its key.",
        alt="A circle with nine arrows for keys and a longer one for the query, which lies on the key that is meant; "
        "bars of cosines and of attention beside it.", digits=3, compute=index_head,
    )  # fmt: skip


@shown
def rotate_retrieval() -> Any:
    """Retrieval at the last of eight pairs: keys, query, attention, by angle, letter and β."""
    task, lefts, limit = LetterTask(), "dcgafbh", theory.find_retrieval_limit(8, 8)
    angles = [f * limit for f in (0.02, 0.1, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99, 1.01, 1.1, 1.3, 1.6, 2.0, 2.7, 3.5)]
    token = {name: place for place, name in enumerate(task.token_names)}

    def retrieval_head(theta: float, letter: str, beta: float) -> Any:
        inputs = torch.tensor([[*(token[f"({x},1)"] for x in lefts), token[f"(e,{letter})"]]])
        unit, head = (theory.RetrievalHead(task, angle=theta, beta=float(strength)) for strength in (1, beta))
        keys, query = unit.keys(inputs)[0], unit.queries(inputs)[0, -1]
        right = theory.is_hop_right(head, inputs, apply_retrieval(inputs, task))[0, -1]
        seen = (keys @ query, head.attention(inputs)[0, -1])
        bars = ({"frames": each[None], "highlight": lefts.index(letter)} for each in seen)
        return torch.cat([keys, 1.25 * query[None]]), ["yes" if right else "no"], *bars, [theta / limit]

    # The first token, asked for at distance 7, against its neighbour in the alphabet at distance 6: the closest call.
    for theta, beta in itertools.product(angles, STRENGTHS):
        assert retrieval_head(theta, lefts[0], beta)[1] == (["yes"] if theta < limit else ["no"])
    over, labels = ("theta", "letter"), [*lefts, "e"]
    about = Readout(["becomes the right pair"], title="This letter")
    plane = draw_plane(over, labels, ("keys, by left letter", "query"), "symbolic")
    share = Readout(["θ over the limit"], over=("theta",), format=".2f", title="Eight tokens")
    return slider_figure(
        [[plane, about], [*draw_bars(over, labels, "symbolic", "left letters, in order"), share]],
        [Slider("theta", "Angle θ", angles, start=0.02 * limit, format=".4f"),
         Slider("letter", "Letter to find", list(lefts), start="d"),
         Slider("beta", "Inverse temperature β", STRENGTHS, start=10, format="g")],
        caption="At a small angle the query points at the key of the letter to find (framed bar), and beyond the limit "
        "at a neighbouring letter. The head is at the last of eight pairs with left letters d c g a f b h e.",
        alt="A circle with eight arrows an eighth of a turn apart for keys, and the query on one of them; as the angle "
        "grows the arrows drift and the query comes to lie on a neighbour.", digits=3, compute=retrieval_head,
    )  # fmt: skip


@shown
def smallest_betas() -> Picture:
    """Return the smallest β that is right on every input, by length."""
    lengths = np.unique(np.geomspace(3, 300, 60).round().astype(int)).tolist()
    curves = {
        "Index, θ = 0.866": [theory.find_index_beta(N, FAST) for N in lengths],
        "Index, any θ": [theory.compute_index_price(N) for N in lengths],
        "Retrieval, θ = 0.0027": [theory.find_retrieval_beta(N, 8, SLOW) for N in lengths],
    }
    needed = np.array(list(curves.values()))
    drawing = plots.curve(
        lengths,
        np.where(np.isfinite(needed), needed, np.nan),
        series=list(curves),
        colours=("positional", "grey", "symbolic"),
        x_log=True,
        y_log=True,
        x_label="tokens",
        y_label="smallest β",
    )
    return Picture(
        drawing,
        caption="The blue curve, Index at the paper’s angle, climbs in steps above the grey line, the least that any "
        "angle needs. Retrieval climbs slowly until its angle becomes too fast for the length.",
        alt="Curves over length on logarithmic axes. Index at angle 0.866 climbs in steps above a straight grey line, "
        "to thousands at a hundred tokens. Retrieval rises slowly to about thirty and turns up beyond a hundred.",
    )


@shown
def discrepancies() -> Picture:
    """Return the largest and the least discrepancy over inputs beside the paper's bounds, by the query's position."""
    drawing, axes = plt.subplots(1, 2, figsize=(10.4, 3.4), layout="constrained")
    positions = range(1, 101)
    index = [theory.compute_index_discrepancy(n, FAST) for n in positions]
    retrieval = [theory.compute_retrieval_discrepancy(n, SLOW, 8) for n in positions]
    for ax, title, found, colours in (
        (axes[0], "Index, θ = 0.866", index, ("sky", "grey", "positional")),
        (axes[1], "Retrieval, θ = 0.0027", retrieval, ("yellow", "grey", "symbolic")),
    ):
        plots.curve(
            positions,
            np.array([[each.greatest, min(each.bounds), each.least] for each in found]).T,
            series=("best input", "bound", "worst input"),
            colours=colours,
            y_log=found is index,
            title=title,
            x_label="position n of the query",
            y_label="discrepancy",
            ax=ax,
        )
    return Picture(
        drawing,
        caption="For Index the best input lies above the grey bound at many positions, and for Retrieval with eight "
        "letters at all. The worst input lies below it.",
        alt="Left: three falling curves; the best input is above the bound in two stretches. Right: the best input "
        "stays near 2, far above the bound, and the worst input just below the bound.",
    )
