"""Figures of *In fifteen minutes*, and of *Your own facts*."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import torch

from posym_companion.figures import shown
from posym_companion.figures.success_by_frequency import find_stored_runs
from posym_companion.one_head import trainer as draw_trainer
from posym_companion.results import load_result
from posym_companion.several_hops import facts_figure, hop_model, hops_figure, load_facts_model, multihop
from posym_core import exclusion
from posym_core.metrics import dirichlet_kernel
from posym_figures import Bars, Heatmap, Lines, Points, Readout, Slider, slider_figure

ORDERS = np.array(list(permutations(range(4))))  # [order, place], the content that stands there
KINDS = ("positional", "symbolic", "interaction")


def draw_head(title: str, C: Any) -> list[Any]:
    """Return a head's table with the entries that each order reads, and the attention that they give."""
    letters, standing = np.array(list("ABCD")), ORDERS[:, None, :] == np.arange(4)[:, None]
    C = np.array(C, dtype=float)
    weights = np.exp(C[ORDERS, np.arange(4)])
    weights /= weights.sum(-1, keepdims=True)
    table = Heatmap(
        title, np.broadcast_to(C, (len(ORDERS), 4, 4)), outlined=standing, aspect=1.4, limits=(-2, 2), decimals=0,
        x_label="place", y_label="content", row_labels=letters,
    )  # fmt: skip
    bars = Bars(
        "Attention", letters[ORDERS], np.where(standing, weights[:, None], 0), stacked=True, y_limits=(0, 1),
        colours=("purple", "green", "yellow", "sky"), aspect=1.8, x_label="content that stands at place 0 to 3",
    )  # fmt: skip
    return [table, bars]


@shown
def permute_four() -> Any:
    """Two heads while four contents change places."""
    heads = {"Looks at where": [[0, 2, 1, -1]] * 4, "Looks at what": [[1] * 4, [-1] * 4, [2] * 4, [0] * 4]}
    return slider_figure(
        [draw_head(title, C) for title, C in heads.items()],
        [Slider("order", "Contents at places 0 to 3", [" ".join("ABCD"[i] for i in order) for order in ORDERS])],
        caption="While the contents change places, the bars of the left head keep their heights: its table has "
        "constant columns, so it looks at where. On the right each colour carries its height with it: the table has "
        "constant rows, and the head looks at what.",
        alt="Two columns, each with a four by four table C whose read entries are framed, and bars of attention. As "
        "the order changes, the bars of the left head keep their heights and those of the right head move with their "
        "contents.",
    )


@shown
def one_plane() -> Any:
    """Return the table of one plane and its shares, by the angle that the plane turns over all tokens."""
    key = torch.complex(*torch.randn(2, 16, generator=torch.Generator().manual_seed(3), dtype=torch.float64)) / 2**0.5
    turns, axis = np.linspace(0.05, 12, 60), torch.linspace(0.05, 12, 90, dtype=torch.float64)
    kept = dirichlet_kernel(axis / 16, 16) ** 2
    law = torch.stack([(1 + 1 / 16) * (1 - kept), (1 - 1 / 16) * kept, (1 - 1 / 16) * (1 - kept)])

    def plane(turn: float) -> tuple[Any, ...]:
        C = ((1 + key)[:, None] * torch.exp(1j * turn / 16 * torch.arange(16)) / 2**0.5).real
        found = exclusion(C)
        shares = torch.stack([found.positional_share, found.symbolic_share, found.interaction_share])
        return C, {"frames": law / law.sum(0), "marker": turn}, shares * torch.eye(3)

    curves = Lines(
        "Expected shares", axis, series=KINDS, colours=KINDS, x_label="θ n, slow to fast", y_limits=(0, 1), aspect=2
    )
    bars = Bars("Shares of this table", KINDS, stacked=True, colours=KINDS, y_limits=(0, 1), aspect=2)
    table = Heatmap("C of one plane, 16 contents", limits=(-2.5, 2.5), x_label="place", y_label="content")
    return slider_figure(
        [table, [curves, bars]],
        [Slider("turn", "Swept over all tokens, θ n", turns, start=float(turns[4]), format=".2f")],
        caption="While θ n is small, each row of the table has one colour. As it grows, waves run along the places. "
        "Below 2.78 a plane keeps on average more than half of the variance between contents, and above it less. So "
        "the same plane becomes less symbolic as the text gets longer.",
        alt="A sixteen by sixteen table, three curves of expected shares over theta times n with a marker, and bars "
        "of the table's own shares. For small theta n the symbolic share is nearly 1 and falls; the positional share "
        "rises.",
        compute=plane,
    )


@shown
def trainer() -> Any:
    """One plane, trained in the browser beside the stored runs."""
    return draw_trainer(
        **find_stored_runs([("index", "single"), ("retrieval", "single"), ("induction", "single")]),
        caption="The dot of your run falls on or near the line of stored runs. Index needs a fast plane. At 32 "
        "positions Retrieval needs a slower plane than Index, and longer texts need a still slower one. Just below "
        "the angles that learn Index, the first and the last position survive longest. At still slower angles no "
        "position does.",
        alt="Controls for task, angles, positions and seed; accuracy by angle with stored runs, the loss, accuracy by "
        "position of the answer, attention for three targets, and keys and queries in the plane.",
    )


@shown
def your_own_facts() -> Any:
    """Return a model of two layers that answers about the reader's facts in the browser."""
    names, colours = ["Ann", "Ben", "Cleo", "Dan", "Eve", "Fay"], ["red", "blue", "green", "pink", "gold", "teal"]
    return facts_figure(
        load_facts_model(),
        facts=list(zip(names, colours, strict=True)),
        ask="Cleo",
        caption="Each row of bars is a head (layer:head), with its positional (blue) and symbolic (orange) score "
        "at the end. The fact asked about is green. When two facts exchange their keys, head 1:2 follows the key.",
        alt="A field for facts and one for a question, the model's answer, and for each of eight heads a bar of "
        "attention for every fact beside the head's positional and symbolic score.",
    )


def kinds_of_heads(run: Any) -> np.ndarray:
    """Return 0 for early, 1 for late heads, 2 for those that carry the answer and 3 for the one that reads it."""
    other, clean = run["other_whole"][-1], run["clean_whole"][-1]
    restored = (run["answer_patched"][-1] - other[:, None, None]).sum(0) / (clean - other).sum()
    kind = np.where(restored > 0.1, 2, (np.arange(len(restored)) >= len(restored) // 2)[:, None]).ravel()
    kind[restored.argmax()] = 3
    return kind


@shown
def taught_gemma() -> Any:
    """Return every head of Gemma while it is taught to bind, and how often it answers right."""
    run = load_result("taught_gemma/all_0")
    steps, kind = run["steps"].tolist(), kinds_of_heads(run)
    s_pos, s_sym = (np.nanmean(run[name].astype(float), axis=1) for name in ("positional", "symbolic"))
    medians = np.stack([np.median(half, axis=(1, 2)) for half in np.split(s_pos, 2, axis=1)])
    right = np.nansum(run["correct"][:, 0, 1].astype(float), -1)  # taught wording, 16 facts
    names = [f"{layer}:{head}" for layer in range(18) for head in range(4)]
    order = np.argsort(kind, kind="stable")  # the head that reads the answer is drawn last
    points = np.stack([s_pos, s_sym], -1).reshape(len(steps), -1, 2)[:, order]
    heads = Points(
        "Every head, layer:head", points, labels=[names[head] for head in order], write_labels=False,
        groups=kind[order],
        group_labels=("early half", "late half", "carry the answer", f"reads it, {names[int(kind.argmax())]}"),
        colours=("grey", "sky", "purple", "symbolic"), x_label="positional score", y_label="symbolic score",
        x_limits=(-0.05, 1.05), y_limits=(-0.05, 1.05),
    )  # fmt: skip
    curves = Lines(
        "Median positional score", steps, np.broadcast_to(medians, (len(steps), 2, len(steps))),
        series=("early half", "late half"), colours=("grey", "sky"), marker=np.array(steps, dtype=float),
        x_label="steps of teaching, 0 to 16", y_limits=(0, 1.05), aspect=1.6,
    )  # fmt: skip
    return slider_figure(
        [heads, [curves, Readout({"right answers on 12 prompts": right}, title="On the way", format=".0f")]],
        [Slider("step", "Steps of teaching", steps, start=int(steps[0]))],
        caption="Before teaching, the late half of the heads is less positional than the early half. When the model "
        "has learned the task, late heads that the answer does not need have become positional on these lists, and "
        "one purely symbolic head reads the answer. A head carries the answer if its output, patched into another "
        "prompt, restores more than a tenth of the difference.",
        alt="A plane of positional and symbolic scores with a point for each head, and the median positional score of "
        "the early and the late half of the layers against the steps of teaching. As the steps go by, late symbolic "
        "heads move to the positional side while the head that reads the answer stays symbolic.",
    )


@shown
def several_hops() -> Any:
    """Return a model of Number and one of Letter, which the reader asks."""
    models = [multihop.load_weights(f"multihop/{task}_0") for task in ("number", "letter")]
    return hops_figure(
        [hop_model(model, settings) for model, settings in models],
        address="../_static/hops",
        caption="Coloured arcs start at the tokens on the path, and dashed ones show the attention before the swap. "
        "The arcs of Number stay with the places, and those of Letter follow the symbols. With tokens added in front, "
        "Letter keeps its path longer.",
        alt="A sequence of seventeen tokens, a row of arcs for each of twelve layers, and the model's answer.",
    )
