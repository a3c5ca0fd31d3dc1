"""Figures of *Frequencies*."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch

from posym_companion.figures import Picture, shown
from posym_companion.figures.exclusion import PARTS
from posym_core import exclusion
from posym_core.metrics import mean_interval, statistic_interval
from posym_figures import (
    INK,
    PALETTE,
    WIDTH,
    Bars,
    Guess,
    Heatmap,
    Lines,
    Points,
    Readout,
    Slider,
    plots,
    slider_figure,
)


def find_turn(part: float) -> float:
    """Return theta n at which the law keeps this part of the contents' variance as symbol."""
    x = np.linspace(6, 0.01, 100_000)
    return float(np.interp(part, np.sinc(x / (2 * np.pi)) ** 2, x))


HALF, BAND = find_turn(0.5), (find_turn(0.9), find_turn(0.1))
KINDS = {"local": "purple", "global": "yellow"}


def sum_phases(turn: Any, n: int) -> np.ndarray:
    """Return |D|^2 of ``n`` positions, for the angles ``turn`` swept over all of them."""
    angles = np.asarray(turn, dtype=float)[..., None] / n
    return abs(np.exp(1j * angles * np.arange(n)).mean(-1)) ** 2


def average(values: np.ndarray) -> float:
    """Return the mean of what is defined."""
    defined = values[np.isfinite(values)]
    return defined.mean() if defined.size else np.nan


def bracket(values: np.ndarray) -> np.ndarray:
    """Return mean, lower and upper end ``[3, plane]`` of ``[prompt, layer, head, plane]``, without dead planes."""
    each = [statistic_interval(average, values[..., plane], draws=300) for plane in range(values.shape[-1])]
    return np.array([[x.value, x.low, x.high] for x in each]).T


@shown
def move_key_away() -> Any:
    """One plane of a small head, and a key that moves away from the query."""
    distances, query, key = np.arange(61), complex(np.exp(0.35j)), 0.85 * complex(np.exp(1.15j))

    def moved_away(frequency: int, distance: int) -> list[Any]:
        theta = 10_000 ** (-(frequency - 1) / 8)
        arrows = np.array([query, key, key * np.exp(-1j * theta * distance)])
        curve = (np.conj(query) * key * np.exp(-1j * theta * distances)).real
        logit = (np.conj(query) * arrows[-1]).real
        xy, rows = np.stack([np.real(arrows), np.imag(arrows)], -1), [theta, theta * distance / (2 * np.pi), logit]
        return [xy, {"frames": curve, "marker": distance}, rows]

    plane = Points("The plane", labels=("query", "key", "moved"), groups=[0, 1, 2], arrows=True, circle=1.0,
                   colours=("grey", "sky", "purple"), x_limits=(-1.15, 1.15), y_limits=(-1.15, 1.15))  # fmt: skip
    logit = Lines("The plane's logit", distances, x_label="distance in tokens", y_limits=(-1, 1), colours=("purple",))
    return slider_figure(
        [plane, [logit, Readout(["angle per token", "full rotations", "logit"], format={"angle per token": ".4g"})]],
        [Slider("frequency", "Frequency ID", range(1, 9), start=2), Slider("distance", "Distance", distances, start=4)],
        caption="The purple arrow is the key after it was moved away from the query, and the dotted line marks its "
        "distance. The logit changes with the place in a fast plane, and hardly in a slow one.",
        alt="Three arrows from the origin for query, key and moved key on the left; on the right the logit as a "
        "function of distance, a wave in fast planes and nearly flat in slow ones.",
        compute=moved_away,
    )


@shown
def draw_contents() -> Any:
    """Sixteen random contents in one plane: its matrix and its shares, drawn and expected."""
    n, generator = 16, torch.Generator().manual_seed(3)
    spread = torch.complex(*torch.randn(2, n, generator=generator, dtype=torch.float64)).numpy() / np.sqrt(2)
    turns = np.r_[0.05, np.arange(1, 17) * np.pi / 4]

    def one_draw(turn: float, sharing: float) -> list[Any]:
        u = (sharing + spread) / (sharing**2 + 1) ** 0.5
        C = (u[:, None] * np.exp(1j * turn / n * np.arange(n))).real
        part, kept = exclusion(torch.tensor(C)), sum_phases([*turns[::-1], turn], n)
        drawn = [float(part.positional_share), float(part.symbolic_share), float(part.interaction_share)]
        law = np.stack([(sharing**2 + 1 / n) * (1 - kept), (1 - 1 / n) * kept, (1 - 1 / n) * (1 - kept)])
        law /= law.sum(0)
        rows = [turn / np.pi, kept[-1] ** 0.5, kept[-1], drawn[1] / (drawn[1] + drawn[2])]
        here = int(abs(turns[::-1] - turn).argmin())
        return [C, {"frames": law[:, :-1], "highlight": here}, [drawn, law[:, -1]], rows]

    labels = [str(k) for k in range(n)]
    C = Heatmap("C of one draw", limits=(-2.5, 2.5), x_label="position b", y_label="content a", row_labels=labels,
                column_labels=labels)  # fmt: skip
    ticks = [f"{x / np.pi:.0f}" if k % 4 == 0 else "" for k, x in enumerate(turns[::-1])]
    law = Bars("Shares by the law", ticks, stacked=True, x_label="θ · n / π, fast to slow", y_limits=(0, 1), **PARTS)
    both = Bars("Shares of this matrix", PARTS["series"], series=("this draw", "law"), colours=("sky", "grey"),
                aspect=1.9, y_limits=(0, 1))  # fmt: skip
    return slider_figure(
        [C, law, both, Readout(["θ · n / π", "|D|", "|D|²", "S / (S + I) of this draw"])],
        [Slider("turn", "Swept over the context, θ · n", turns, start=np.pi / 2, format=lambda x: f"{x / np.pi:.2f} π"),
         Slider("sharing", "Shared direction, r", [0, 0.5, 1, 2], start=1, format=".1f")],
        caption="As the angle grows, the rows of the matrix dissolve. The framed bar is the chosen angle, and below it "
        "this matrix is compared with the expected shares. Slow planes keep rows, and fast planes have columns only if "
        "contents share a direction.",
        alt="A sixteen by sixteen matrix, stacked bars of the three shares over theta times n with one framed, "
        "bars of the shares of the drawn matrix beside the law's, and the value of the kernel.",
        digits=3,
        guess=Guess("At θ n = 2.78 a plane keeps half of the variance between contents. How much "
                    "does it keep at twice this?",
                    f"{sum_phases(2 * HALF, n):.0%}", choices=["25%", "13%", "2%"],
                    because="The kernel is nearly 0 there: it reaches 0 when the plane has rotated once."),
        compute=one_draw,
    )  # fmt: skip


@shown
def shares_by_id(
    found: Mapping[str, np.ndarray], layers: Mapping[str, np.ndarray], swept: Mapping[str, Any]
) -> Picture:
    """Return the shares of single planes of a model by frequency ID, for both kinds of layers."""
    ids = np.arange(1, found["symbol"].shape[-1] + 1)
    chosen = np.r_[0 : len(ids) : 4, len(ids) - 1]

    figure, axes = plt.subplots(2, 1, figsize=(WIDTH, 6.4))
    for ax, kind in zip(axes, layers, strict=True):
        each = [bracket(found[name][:, layers[kind]][..., chosen]) for name in PARTS["series"]]
        value, low, high = np.stack(each, axis=1)
        plots.curve(ids[chosen], value, lower=low, upper=high, ax=ax, x_label="frequency ID (fast to slow)",
                    y_label="share of variance", y_limits=(-0.03, 1.03), title=f"{kind} layers",
                    **PARTS)  # fmt: skip
        ends = np.interp(-np.log(BAND[::-1]), -np.log(swept[kind]), ids)
        ax.axvspan(*ends, color=PALETTE[6], alpha=0.2, linewidth=0)
    return Picture(
        figure,
        caption="The curves are variance shares of single planes of Gemma 3 270M (means with 95% intervals). In both "
        "kinds of layers the symbol's share (orange) rises in or next to the law's transition band (grey), which lies "
        "at different IDs.",
        alt="Two panels with three curves each over the frequency ID. In local layers the position share starts high "
        "and the interaction share takes most of the rest until about ID 35; the symbol share is near 0 there, rises "
        "steeply in the grey band and is near 1 from about ID 60. In global layers the symbol share rises earlier, "
        "around ID 30, and is near 1 for more than two thirds of all IDs.",
    )


def along_a_line(turn: np.ndarray, n: int) -> np.ndarray:
    """Return the mean of S / (S + I) over directions of the query, for contents that spread along a line."""
    phase = np.exp(1j * turn[:, None] / n * np.arange(n))
    D, direction = phase.mean(1, keepdims=True), np.exp(1j * np.linspace(0, np.pi, 181)[:-1, None, None])
    S, moved = ((direction * D).real ** 2)[..., 0], ((direction * (phase - D)).real ** 2).mean(-1)
    return (S / (S + moved)).mean(0)


@shown
def law_in_a_model(kept: np.ndarray, layers: Mapping[str, np.ndarray], swept: Mapping[str, Any], n: int) -> Picture:
    """S / (S + I) of a model's planes against the law."""
    figure, ax = plt.subplots(figsize=(WIDTH, 3.8))
    for kind, colour in KINDS.items():
        window = np.flatnonzero((swept[kind] > 0.05) & (swept[kind] < 70))[::2]
        value, low, high = bracket(kept[:, layers[kind]][..., window])
        plots.curve(swept[kind][window], value, lower=low, upper=high, colours=(colour,), x_log=True, dots=True,
                    ax=ax, x_label="θ · n, radians swept (fast to slow)", y_label="S / (S + I)",
                    y_limits=(-0.03, 1.03))  # fmt: skip
    for line, kind in zip(list(ax.lines), KINDS, strict=True):
        line.set_label(kind)
    axis = np.geomspace(0.05, 70, 400)
    ax.plot(axis, sum_phases(axis, n), color=INK, linewidth=1.3, linestyle=(0, (4, 2)), label="law, |D|²")
    ax.plot(axis, along_a_line(axis, n), color=INK, linewidth=1.3, linestyle=":", label="contents along a line")
    ax.invert_xaxis()
    ax.legend(loc="upper left")
    ax.axvspan(*BAND, color=PALETTE[6], alpha=0.2, linewidth=0)
    return Picture(
        figure,
        caption="Both kinds of layers rise where the dashed law |D|² rises. The coloured curves are the fraction of "
        "the contents' variance that stays symbolic (means over heads with 95% intervals). The dotted line is the "
        "expected mean for contents along a line.",
        alt="Two curves for local and global layers over theta times n on a logarithmic axis, with two curves of the "
        "theory. All rise together from 0 near 6 through one half between 3 and 2 to near 1. Right of the turn the "
        "model's curves run between the two theoretical ones, with single planes that deviate.",
    )


@shown
def threshold_by_length(crossings: Mapping[str, np.ndarray], keys: Mapping[str, np.ndarray], mine: Any) -> Picture:
    """Return the angle at the threshold, times the number of keys ``[length, layer]``, against that number."""
    figure, ax = plt.subplots(figsize=(WIDTH, 3.4))
    for kind, colour in KINDS.items():
        each = [mean_interval(values[np.isfinite(values)]) for values in crossings[kind]]
        value, low, high = np.array([[x.value, x.low, x.high] for x in each]).T
        plots.curve(keys[kind] * (1.03 if kind == "global" else 1), value, lower=low, upper=high, x_log=True,
                    dots=True, colours=(colour,), ax=ax, x_label="keys n", y_limits=(0, 5),
                    y_label="angle at the threshold, times n")  # fmt: skip
    for line, kind in zip(list(ax.lines), KINDS, strict=True):
        line.set_label(f"{kind} layers")
        ax.plot(*mine[kind], "x", color=line.get_color())
    ax.axhline(HALF, color=INK, linestyle=(0, (4, 2)), linewidth=1, label="the law")
    ax.legend(loc="lower center", ncols=3)
    return Picture(
        figure,
        caption="The curves are the threshold <em>θ*n</em> against the number <em>n</em> of keys that the last token "
        "sees (mean over layers with 95% intervals). Local layers see at most 511 keys before the query. The dashed "
        "line is the law's 2.78, and the crosses are your run. While the number of keys grows about thirty-fold in "
        "local layers and sixty-fold in global ones, the product stays between about 2 and 3.5.",
        alt="The angle at the threshold times the number of keys against that number on a logarithmic axis, for local "
        "and global layers: both stay between about two and three and a half while that number grows thirty-fold or "
        "sixty-fold, near the line of the law.",
    )


@shown
def add_planes(counts: list[int], by_distance: np.ndarray, attention: np.ndarray, head: str) -> Any:
    """Logits ``[count, distance]`` and attention of one head's fastest planes, added up."""
    reach = np.arange(1, by_distance.shape[1] + 1)
    logit = Lines("Logit by distance, mean over contents", reach, by_distance, x_label="distance from the query",
                  colours=("positional",), dots=True)  # fmt: skip
    bars = Bars("Attention with these planes alone", [str(x) for x in range(1, 17)], attention[:, :16],
                x_label="distance from the query", y_limits=(0, 1), colours=("grey",))  # fmt: skip
    return slider_figure(
        [logit, bars],
        [Slider("count", "Planes added up, fastest first", counts, start=1)],
        caption=f"{head}, means over prompts. Left, the position's contribution to the logit, and right, the attention "
        "to the nearest tokens if the head had only these planes. As planes are added, many weak ones make one sharp "
        "previous-token head.",
        alt="With one plane the logit is a wave over distance and the attention is spread; with more planes the waves "
        "cancel at most distances and a peak at distance one remains, which takes most of the attention.",
    )
