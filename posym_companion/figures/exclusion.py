"""Figures of *The exclusion principle*."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from posym_companion.figures import Picture, shown
from posym_core import exclusion
from posym_figures import Bars, Heatmap, Points, Readout, Slider, plots, slider_figure

PARTS: dict[str, Any] = {
    "series": ("position", "symbol", "interaction"),
    "colours": ("positional", "symbolic", "interaction"),
}


@shown
def one_attention() -> Any:
    """Very different heads with one attention."""
    lam, steps = np.array([0.3, -0.9, 2.1, -0.4, 0.8, -1.9]), np.array([0, 1, -1, 0, 1, -1])
    place, moved = np.arange(6), [0, 1, 5, 3, 4, 2]  # contents 2 and 5 are exchanged
    h = steps[(place - place[:, None]) % 6]

    def one_head(t: float, kappa: float, beta: float) -> list[Any]:
        C = beta * ((1 - t) * lam[:, None] + t * lam + kappa * h)
        parts = exclusion(torch.tensor(C))
        attention = np.exp(np.stack([C[place, place], C[moved, place]]))
        attention /= attention.sum(1, keepdims=True)
        variance, bound, slack = float(parts.variance), float(parts.bound), float(parts.slack)
        from_place = ((C - np.diag(C)) ** 2).mean()
        twice = [[variance, 0], [slack, 0], [0, from_place], [0, bound - from_place]]
        shares = [[float(parts.positional_share)], [float(parts.symbolic_share)], [float(parts.interaction_share)]]
        return [C, attention, twice, shares, [variance, bound, slack, variance / bound if bound > 0 else np.nan]]

    names = list("012345")
    C = Heatmap("Cross-logits C", x_label="position b", y_label="content a", decimals=1, outlined="diagonal",
                row_labels=names, column_labels=names)  # fmt: skip
    attention = Bars("Attention", names, series=("now", "2 and 5 exchanged"), colours=("grey", "purple"),
                     x_label="position", y_limits=(0, 1))  # fmt: skip
    twice = Bars("The bound, added up twice", ["identity", "theorem"], stacked=True, aspect=1.25,
                 series=("variance", "slack", "δpos", "δsym"),
                 colours=("yellow", "grey", "positional", "symbolic"))  # fmt: skip
    shares = Bars("Shares of variance", [""], stacked=True, y_limits=(0, 1), aspect=2.6, **PARTS)
    return slider_figure(
        [C, attention, twice, [shares, Readout(["variance", "bound", "slack", "variance / bound"])]],
        [Slider("t", "Symbolic (0) to positional (1), t", np.linspace(0, 1, 11), format=".1f", start=1.0),
         Slider("kappa", "Interaction κ", np.linspace(0, 1, 5), format=".2f"),
         Slider("beta", "Inverse temperature β", np.linspace(0, 1.25, 6), format=".2f", start=1)],
        caption="When $t$ and $\\kappa$ change, the attention (grey) and the variance stay, so very different heads "
        "have the same attention. The slack, the shares (defined below) and the attention after an exchange of "
        "contents 2 and 5 (purple) change. Only a small inverse temperature $\\beta$ makes both deviations small, and "
        "then the attention is flat.",
        alt="A six by six cross-logit matrix, its attention before and after an exchange, the bound split into "
        "variance and slack and into positional and symbolic deviations, and the three variance shares.",
        compute=one_head,
    )  # fmt: skip


@shown
def ratio_by_head(ratio: np.ndarray) -> Picture:
    """Variance over bound ``[prompt, layer, head]``, heads in increasing order."""
    heads = ratio.reshape(len(ratio), -1)
    ranked = heads[:, heads.mean(0).argsort()]
    drawing = plots.curve(
        np.arange(1, ranked.shape[1] + 1),
        ranked.mean(0),
        lower=ranked.min(0),
        upper=ranked.max(0),
        reference=0.5,
        reference_label="pure heads",
        x_label="head, in order of its ratio",
        y_label="variance / bound",
        y_limits=(0, 1),
    )
    return Picture(
        drawing,
        caption="No head comes near 1, which would be equality. The line is the ratio of variance to bound, with heads "
        "in increasing order (mean over prompts; the band spans the prompts). The dashed line is one half, where pure "
        "heads lie.",
        alt=f"Curve of the ratio of variance to bound for {ranked.shape[1]} heads in increasing order, with a band "
        "over prompts. It rises from below 0.4 to above 0.5 and crosses the reference line at one half among the last "
        "heads; nothing comes near 1.",
    )


@shown
def shares_by_head(part: np.ndarray) -> Any:
    """Return the shares ``[part, prompt, layer, head]`` of every head in a triangle, and as bars by layer."""
    _, count, layers, heads = part.shape
    shares = part.reshape(3, count, -1).swapaxes(0, 1)
    shares = np.concatenate([shares.mean(0, keepdims=True), shares])  # [setting, part, head]
    layer = np.arange(layers).repeat(heads)
    rows: dict[str, Any] = {f"mean {name} share": shares[:, k].mean(-1) for k, name in enumerate(PARTS["series"])}
    rows["heads with position share above 0.8"] = [f"{n}" for n in (shares[:, 0] > 0.8).sum(-1)]
    rows["heads with symbol share above 0.8"] = [f"{n}" for n in (shares[:, 1] > 0.8).sum(-1)]
    ticks = [str(k // heads) if k % (2 * heads) == 0 else "" for k in range(layers * heads)]
    triangle = Points("Symbol and position share", shares[:, [1, 0]].swapaxes(1, 2), write_labels=False, shades=layer,
                      labels=[f"layer {k // heads}, head {k % heads}" for k in range(layers * heads)],
                      shade_label="layer", x_label="symbol share", y_label="position share",
                      x_limits=(0, 1), y_limits=(0, 1))  # fmt: skip
    bars = Bars("Shares of all heads, by layer", ticks, shares, stacked=True, wide=True, aspect=3,
                x_label="layer (four heads each)", y_limits=(0, 1), **PARTS)  # fmt: skip
    return slider_figure(
        [triangle, Readout(rows, title="Over all heads", format=".2f"), bars],
        [Slider("prompt", "Prompts", ["mean", *(f"prompt {k + 1}" for k in range(count))])],
        caption="The panels show the variance shares of the heads of Gemma 3 270M on the binding task, as a mean over "
        "prompts or prompt by prompt. Each point, and each bar below, is a head. The interaction of whole heads is "
        "small, and neighbouring heads mix position and symbol very differently.",
        alt="Points near the hypotenuse of a triangle, from pure symbol to about four fifths position, and stacked "
        "bars for 72 heads: position and symbol shares differ greatly between neighbouring heads, interaction is "
        "small.",
    )
