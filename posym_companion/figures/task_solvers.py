"""Figures of *Where the task is solved*."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from posym_companion.figures import Picture, shown
from posym_companion.results import Result, load_result
from posym_core.metrics import mean_interval
from posym_figures import PALETTE, STYLE, Bars, Choice, Lines, Points, Readout, Slider, plots, slider_figure

# A head carries the answer if patching it alone moves so much of the preference.
CARRIES = 0.2
BANDS = ("1e4", "none", "none-1e4", "1e4-none", "fast-1e4", "1e4-fast", "fast", "slow", "1e2", "1e6", "middle", "p25")
BANDS += ("p75", "pair")
HEADS = [f"{layer}:{head}" for layer in range(18) for head in range(4)]
KINDS = ("binding", "index")


@shown
def learning(carries: np.ndarray) -> Any:
    """Gemma's heads and answers after each stored step of teaching; ``carries`` marks heads, ``[layer, head]``."""
    run = load_result("taught_gemma/all_0")
    step = run["steps"]
    mean = {name: np.nanmean(run[name].astype(float), -3) for name in ("positional", "symbolic", "asked_attention")}
    kind = carries.astype(int)
    kind[11, 2] = 2
    points = Points(
        "Every head",
        np.stack([mean["positional"], mean["symbolic"]], -1).reshape(len(step), -1, 2),
        labels=HEADS,
        write_labels=False,
        groups=kind.ravel(),
        group_labels=("other heads", "carry the answer, too", "head 11:2"),
        colours=("grey", "purple", "symbolic"),
        x_label="positional score",
        y_label="symbolic score",
        x_limits=(-0.05, 1.05),
        y_limits=(-0.05, 1.05),
        highlight=np.full(len(step), HEADS.index("11:2")),
    )
    right = np.nanmean(run["correct"][:, :, 1].astype(float), -1)
    answers = Bars("Right answers by wording", ("likes", "bought", "lives"), right, y_limits=(0, 1), decimals=2)
    way = {
        "loss of the next step (nats)": np.append(run["losses"], run["losses"][-1])[step],
        "head 11:2: attention on the fact asked about": mean["asked_attention"][:, 11, 2],
        "median positional score, late layers": np.median(mean["positional"][:, 9:], axis=(1, 2)),
    }
    return slider_figure(
        [points, [answers, Readout(way, title="On the way")]],
        [Slider("step", "steps of training", step.tolist(), start=int(step[-1]))],
        caption="Each point shows one head on prompts with 16 facts, at the step that the slider sets. As the model "
        "learns, the marked head stays at the upper left, while many grey heads move to the lower right.",
        alt="A scatter of heads over positional and symbolic score, bars of right answers for three wordings and "
        "numbers of one head, for the number of steps that the slider sets.",
    )


@shown
def restored(share: np.ndarray, heads: Sequence[tuple[int, int]]) -> Picture:
    """Draw the share that each of some heads brings back, ``[run, layer, head]``."""
    some = np.stack([share[:, layer, head] for layer, head in heads], -1)
    ends = {"lower": some.min(0)[None], "upper": some.max(0)[None]}
    names = [f"{layer}:{head}" for layer, head in heads]
    figure = plots.dots(names, some.mean(0)[None], **ends, colours=("symbolic",), x_label="share brought back")
    plt.close(figure)
    return Picture(
        figure,
        caption="Each dot shows how much of the difference one head brings back when it alone is patched, as a mean "
        "over three runs of teaching with their range. One head brings back nearly everything.",
        alt="Dots for eight heads: 11:2 near one, 15:2 near three tenths, the others near zero or a little below.",
    )


def learned(run: Result, kind: int) -> str:
    """Say after which step the median seed answers 95% of the questions for good, and how many seeds do."""
    found = []
    for seed in run["look_accuracy"][:, :, kind].T:
        short = np.flatnonzero(seed < 0.95)
        first = int(short[-1]) + 1 if len(short) else 0
        found += [run["look_step"][first]] if first < len(seed) else []
    return f"{np.median(found):.0f} ({len(found)} of 5 seeds)" if found else "never"


def accuracy(run: Result, kind: int) -> str:
    """Say the accuracy with its interval over seeds."""
    return str(mean_interval(run["hits"][:, kind].sum(-1) / run["asked"][:, kind].sum(-1), over="seeds"))


@shown
def solvers(mine: Result) -> Any:
    """Small decoders by their frequencies: how they learn, also in a reader's run, and the scores of their heads."""
    runs = [load_result(f"task_solvers/{band}_2x2_8") for band in BANDS]
    steps = np.arange(0, 1601, 50)
    curves = np.full((len(runs), 2, len(steps)), np.nan)
    for curve, run in zip(curves, runs, strict=True):
        seen = run["look_accuracy"].mean(1).T
        curve[:] = np.pad(seen, ((0, 0), (0, len(steps) - seen.shape[1])), mode="edge")
    own = mine["look_accuracy"].mean(1).T
    own = np.pad(own, ((0, 0), (0, len(steps) - own.shape[1])), constant_values=np.nan)
    heads = np.stack([run["scores"][..., :2].swapaxes(0, 1).reshape(2, 20, 2) for run in runs])
    layer = np.arange(2)[:, None]
    groups = [np.where(run["patched"].swapaxes(0, 1) >= CARRIES, 2, layer).reshape(2, 20) for run in runs]
    rows = {f"accuracy on {name}": [accuracy(run, kind) for run in runs] for kind, name in enumerate(KINDS)}
    rows |= {f"steps to learn {name}": [learned(run, kind) for run in runs] for kind, name in enumerate(KINDS)}
    look: dict[str, Any] = {"y_limits": (-0.02, 1.02)}
    lines = Lines("Accuracy while learning", steps, curves, over=("band",), series=KINDS, **look,
                  colours=("symbolic", "positional"), x_label="training step", y_label="accuracy",
                  reference=own, reference_labels=("yours", ""))  # fmt: skip
    points = Points("Every head, last token", heads, groups=np.stack(groups), x_limits=(-0.02, 1.02), **look,
                    group_labels=("layer 0", "layer 1", "carries the answer"), write_labels=False,
                    colours=("grey", "yellow", "purple"), x_label="s_POS", y_label="s_SYM")  # fmt: skip
    return slider_figure(
        [[lines, Readout(rows, over=("band",), title="Five seeds")], points],
        [
            Slider("band", "Frequencies", [band.replace("-", "+") for band in BANDS], start="1e4"),
            Choice("kind", "Heads on", KINDS),
        ],
        caption="The panels show accuracy during training, with thin lines for your run, and the scores of all heads "
        "at the last token. On binding the heads that carry the answer are mostly symbolic. On index the frequencies "
        "decide whether they are positional or symbolic.",
        alt="Curves of accuracy on binding and index against training steps, and a scatter of positional and symbolic "
        "scores of the heads of five models.",
    )


@shown
def removed(curves: Mapping[str, tuple[Any, Mapping[str, np.ndarray]]]) -> Picture:
    """Right answers as heads are removed: of each model the counts, and a curve for each order."""
    looks = {"score": (1, "-"), "cube share": (1, "--"), "planes": (1, ":"), "copying": (3, "-")}
    looks |= {"late first": (6, "-"), "early first": (6, "--")}
    names = ("symbolic score", "symbol's share of the cube", "energy of slow planes", "copying", "last layers first",
             "first layers first")  # fmt: skip
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, len(curves), figsize=(7.6, 3.8), layout="constrained", sharey=True)
        for ax, (model, (counts, right)) in zip(axes, curves.items(), strict=True):
            x = np.log2(1 + np.array(counts))
            for order, (paint, line) in looks.items():
                ax.plot(x, right[order][0], line, color=PALETTE[paint], marker="o", ms=3)
            ax.set_xticks(x, counts)
            ax.set(xlabel=f"heads removed, of {counts[-1]}", title=model)
        axes[0].set_ylabel("right answers")
        figure.legend(axes[0].lines, names, loc="outside lower center", ncols=3, handlelength=4)
    plt.close(figure)
    return Picture(
        figure,
        caption="The curves show the share of right answers of both models, taught to bind, as heads are removed. In "
        "Gemma the orders by the symbolic score and by copying both begin with the head on which most of the answer "
        "depends. In SmolLM2 the curves of all three scores and of copying fall together, long before those by depth.",
        alt="Two panels of six curves of right answers against the number of heads removed. In Gemma the symbolic "
        "score and copying fall to near 0 at the first head, the cube's share and slow planes between four and eight, "
        "the orders by depth after 16. In SmolLM2 scores and copying fall between two and eight heads, depth after 32.",
    )
