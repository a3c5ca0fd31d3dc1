"""Figures of *A real language model*."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor

from posym_companion.figures import Picture, shown
from posym_companion.language_models import head_explorer
from posym_companion.results import load_result
from posym_core.metrics import mean_interval
from posym_figures import ARRAYS, PALETTE, Bars, HeadInput, Readout, Slider, plots, slider_figure
from posym_figures import head_explorer as draw_explorer

SCORES = {"s_POS": "positional", "s_SYM": "symbolic"}
LENGTHS = (16, 32, 64, 128, 256, 500, 512, 1024)
GLOBAL = [5, 11, 17]
LOCAL = [layer for layer in range(18) if layer not in GLOBAL]
NUMBERS = 120_000  # that a figure may carry: of a large model fewer facts are shown
INPUTS = {
    "binding-likes": ("facts", "facts, one asked for"),
    "index": ("list", "a list, its first name asked for"),
    "induction": ("repeat", "random names, the last one again"),
    "text": ("text", "running text"),
}


def fact_attention(C: Tensor, prompts: Any, i: int, j: int) -> np.ndarray:
    """Return each head's attention to facts, ``[layer, head, moment, fact]``: before and after facts i and j swap."""
    place = torch.arange(C.shape[-1])
    order = place.clone()
    inside = slice(prompts.start, prompts.start + prompts.blocks * prompts.block_length)
    facts = order[inside].view(prompts.blocks, -1)
    facts[[i, j]] = facts[[j, i]]
    both = torch.stack([C[..., one, place].softmax(-1) for one in (place, order)], 2)
    return both[..., inside].unflatten(-1, (prompts.blocks, -1)).mean(-1).numpy()


@shown
def two_facts(C: Tensor, prompts: Any) -> Any:
    """Attention to the facts of a prompt, ``C[layer, head, content, place]``, before and after two keys swap."""
    asked, (layers, heads) = int(prompts.target[0]), C.shape[:2]
    most = min(16, int((NUMBERS / (2 * layers * heads)) ** 0.5))
    others = [fact for fact in range(prompts.blocks) if fact != asked][:most]
    drawn = sorted([asked, *others])
    bars = np.stack([fact_attention(C, prompts, asked, other)[..., drawn] for other in others], 2)
    pair = np.stack([bars[:, :, n][..., [drawn.index(x) for x in (asked, other)]] for n, other in enumerate(others)], 2)
    unit = pair / np.linalg.norm(pair, axis=-1, keepdims=True)
    before, after = unit[..., 0, :], unit[..., 1, :]
    said = {
        "fact asked about": np.full(bars.shape[:3], str(asked + 1)),
        "cosine with before (positional)": (before * after).sum(-1),
        "with before, exchanged (symbolic)": (before[..., ::-1] * after).sum(-1),
    }
    attention = Bars(
        "Attention to each fact",
        [str(fact + 1) for fact in drawn],
        bars / bars.max((-1, -2), keepdims=True),
        series=["before the swap", "after it"],
        x_label="fact, counted from 1",
        y_label="mean attention, largest = 1",
        y_limits=(0, 1),
        colours=("grey", "purple"),
        wide=True,
    )
    return slider_figure(
        [attention, Readout(said)],
        [
            Slider("layer", "layer", range(layers), start=min(11, layers - 1)),
            Slider("head", "head", range(heads), start=min(2, heads - 1)),
            Slider("other", "swap the fact asked about with fact", [other + 1 for other in others]),
        ],
        caption="The bars are the attention of the last token to the facts of one prompt, before and after two facts' "
        "keys change places inside the head. In most heads of the first layers of Gemma the bars of the two swapped "
        "facts keep their heights. In head 2 of layer 11 they exchange them.",
        alt="Bars of attention to the facts before and after a swap; in some heads the bars stay, in others the bars "
        "of the two swapped facts exchange their heights.",
    )


@shown
def plane(pos: np.ndarray, sym: np.ndarray) -> Picture:
    """Return every head in the plane of its two scores, ``[layer, head]``."""
    layers = np.repeat(np.arange(pos.shape[0]), pos.shape[1])
    figure = plots.score_plane(pos.ravel(), sym.ravel(), layers=layers, gamma=0.1)
    square = figure.axes[0]
    square.fill_between([0, 1], [1, 0], 0, color="0.5", alpha=0.15, linewidth=0)
    square.text(0.25, 0.3, "empty by\ngeometry", ha="center", va="center", fontsize=9, color="0.5")
    return Picture(
        figure,
        caption="Each point is a head with its mean scores over the prompts, coloured by layer. The shaded half is "
        "empty by the theorem. In Gemma a head that is high on one score tends to be low on the other, and early "
        "layers (dark) crowd at the right.",
        alt="Heads in the unit square, all above the falling diagonal from top left to bottom right.",
    )


@shown
def contrasts(trends: Mapping[str, Any]) -> Picture:
    """Early less late medians of both scores with intervals, by wording and number of facts."""
    rows = [[trend[place].difference for trend in trends.values()] for place in (0, 1)]
    value, low, high = (
        np.array([[getattr(x, name) for x in row] for row in rows]) for name in ("value", "low", "high")
    )
    ends: dict[str, Any] = {"lower": np.minimum(low, value), "upper": np.maximum(high, value)}
    figure = plots.dots([*trends], value, **ends, series=[*SCORES], x_label="early less late", reference=0.0)
    return Picture(
        figure,
        caption="A dot is the median score of the early half of the layers less that of the late half, with its 95% "
        "interval over layers and prompts. With <em>likes</em> and <em>lives</em>, and with every wording at 128 "
        "facts, early layers are more positional and less symbolic. With <em>bought</em> at 16 and 64 facts the "
        "halves cannot be distinguished. The last row is your run.",
        alt="For nine settings and the reader's run, the difference of early and late medians of both scores with "
        "intervals; its size depends on the wording.",
    )


@shown
def families() -> Picture:
    """Median scores by layer in two families of models, on a list and behind eight facts."""
    models = {"Gemma 3 270M": "gemma-3-270m", "SmolLM2 135M": "smollm2-135m"}
    fronts = {"on a list": "", "after eight facts": "_lead8"}
    figure, axes = plt.subplots(2, 2, figsize=(7.4, 4.4), sharex="row", sharey=True)
    for row, (name, model) in zip(axes, models.items(), strict=True):
        for ax, (where, front) in zip(row, fronts.items(), strict=True):
            run = load_result(f"binding_profile/{model}_likes_16{front}_facts")
            for paint, (label, score) in zip(PALETTE, SCORES.items(), strict=False):
                ax.plot(np.median(run[score].mean(0), -1), color=paint, label=label)
            ax.set(title=f"{name}, {where}", ylim=(-0.02, 1.02), xlabel="layer")
            ax.set_xticks(range(0, len(run["plane_angle"]), 5))
        row[0].set_ylabel("median over heads")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=2, frameon=False)
    return Picture(
        figure,
        caption="The curves are median scores of the heads of each layer on 12 prompts of 16 facts (<em>likes</em>). "
        "In layers 3 to 10 on a list (left) Gemma is mostly positional and SmolLM2 purely symbolic. Behind eight facts "
        "of the same form (right) s_POS lies above s_SYM in most layers of both models.",
        alt="Four panels of two lines over layers. On a list the positional line of Gemma is high in early layers, "
        "and that of SmolLM2 falls to zero from layer 3 to layer 10; behind eight facts the positional line is near "
        "one in both models.",
    )


@shown
def longer() -> Picture:
    """Scores of all heads, and shares of their planes weighted with energy, by the length of running text."""
    runs = [load_result(f"plane_profile/gemma-3-270m_text_{length}") for length in LENGTHS]
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.3), layout="constrained")
    for paint, name in zip(PALETTE, SCORES.values(), strict=False):
        layers = [mean_interval(run[name].astype(float).mean((0, 2))) for run in runs]
        left.plot(LENGTHS, [each.value for each in layers], "o-", color=paint, label=name)
        ends = [[getattr(each, end) for each in layers] for end in ("low", "high")]
        left.fill_between(LENGTHS, *ends, color=paint, alpha=0.2, linewidth=0)
        for kind, some, style in (("local", LOCAL, "-"), ("global", GLOBAL, "--")):
            weighted = [run[f"{name}_share"].astype(float) * run["energy_share"].astype(float) for run in runs]
            y = [np.nansum(x, -1)[some].mean() for x in weighted]
            right.plot(LENGTHS, y, style, color=paint, label=f"{name}, {kind}")
    left.set(xscale="log", ylim=(0, 1), xlabel="tokens", ylabel="score of the head")
    right.set(xscale="log", ylim=(0, 1), xlabel="tokens", ylabel="share of variance")
    left.legend(frameon=False)
    right.legend(frameon=False, fontsize=7.5, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    return Picture(
        figure,
        caption="The curves are mean scores over all 72 heads with 95% intervals over layers (left), and shares of "
        "variance weighted with each plane's energy (right, local layers solid and global layers dashed). Longer "
        "prompts make the local layers positional, whereas the global layers stay symbolic.",
        alt="Two panels against the number of tokens. On the left, the positional score rises and the symbolic score "
        "falls, and they cross between 32 and 64 tokens. On the right, the shares of local layers move from symbol to "
        "position, and those of global layers stay symbolic.",
    )


def explored(model: str, task: str, group: str) -> HeadInput:
    """Return one input of the explorer from its stored run."""
    run = load_result(f"head_explorer/{model}_{task}")
    name, told = INPUTS[task]
    return HeadInput(
        name if model == "gemma-3-270m" else f"taught-{name}",
        told,
        note=f"The model answers {float(run['accuracy']):.0%} of {run.settings['prompts']} prompts right "
        f"(chance {float(run['chance']):.0%}).",
        tokens=[list(run["tokens"])],
        start=int(run["start"]),
        span=head_explorer.SPAN,
        lengths=head_explorer.LENGTHS,
        arrays={name: run["example"][None] if name == "examples" else run[name] for name in ARRAYS},
        group=group,
    )


@shown
def explorer() -> Any:
    """Return all heads of Gemma, plain and taught to bind, at block lengths and temperatures that the reader sets."""
    angles = load_result("head_explorer/gemma-3-270m_text")["angles"]
    half = -np.log(2.7831 / head_explorer.SPAN)
    turn = [np.interp(half, -np.log(row), np.arange(1, row.size + 1)) for row in angles]
    taught = "gemma-3-270m-binds", "the same, taught to bind"
    plain = [explored("gemma-3-270m", task, "Gemma 3 270M") for task in INPUTS]
    return draw_explorer(
        [*plain, *(explored(taught[0], task, taught[1]) for task in ("binding-likes", "text"))],
        taus=head_explorer.TAUS,
        angles=angles,
        length=4,
        tau=1e-4,
        head=(11, 2),
        marked=GLOBAL,
        marked_label="global layers",
        turn=turn,
        turn_label="half expressed: θ·64 = 2.78",
        plane_note="4 tokens a block, τ = 10⁻⁴",
        caption="The points are the heads of Gemma 3 270M, plain or taught to bind. Choose a head in the square, on "
        "the map (arrow keys move there) or in the list, and watch it while you change the input or the block length. "
        "The address of the page leads back to your view. Crosses are 95% intervals over prompts, and the dotted trail "
        "shows how the head moves with the temperature.",
        alt="Seventy-two heads in the unit square, positional score to the right, symbolic score upwards, nearly all "
        "above the falling diagonal; beside them one head with its scores, shares, attention, planes and ranks.",
    )


@shown
def zeroed() -> Any:
    """Return what zeroing a share of every layer's frequencies costs three tasks, the fastest or the slowest."""
    run = load_result("frequency_surgery/gemma-3-270m")
    names, right = run["conditions"].tolist(), run["log_probability"].astype(float)
    shares = [0.0, *sorted(run.settings["shares"]), 1.0]
    cost = []
    for share in shares:
        states = [f"still {which} {share:g}" for which in ("fastest", "slowest")]
        states = {0.0: ["none", "none"], 1.0: ["still all", "still all"]}.get(share, states)
        lost = np.stack([right[names.index("none")] - right[names.index(state)] for state in states], 1)
        cost.append([[mean_interval(x[np.isfinite(x)]) for x in task] for task in lost])
    value, low, high = (
        np.array([[[getattr(x, end) for x in row] for row in rows] for rows in cost]).swapaxes(1, 2)
        for end in ("value", "low", "high")
    )
    bars = Bars("Loss by task", ["list", "keyvalue", "induction"], value, lower=low, upper=high, decimals=2,
                y_label="nats", series=("fastest zeroed", "slowest zeroed"), colours=("purple", "yellow"),
                y_limits=(min(0, low.min()), high.max()))  # fmt: skip
    return slider_figure(
        [bars],
        [Slider("share", "share of every layer's frequencies that is zeroed", shares, start=0.25, format=".2f")],
        caption="Each pair of bars is the log-probability that the right answer loses when a share of every layer's "
        "frequencies is zeroed, the fastest (left) or the slowest (right). The tasks keyvalue and induction lose "
        "almost only where the fastest are zeroed. At 1 all frequencies are zeroed.",
        alt="Pairs of bars for three tasks: the loss when the fastest frequencies are zeroed and when the slowest are, "
        "for the share that the slider sets.",
    )
