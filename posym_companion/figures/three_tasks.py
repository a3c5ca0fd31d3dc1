"""Figures of the chapter *Three tasks and what can solve them*."""

from __future__ import annotations

import functools
import math

import numpy as np

from posym_companion.figures import shown
from posym_companion.one_head.index_retrieval_collisions import make_induction_collisions
from posym_companion.theory import (
    PartialInductionHead,
    PositionalIndexHead,
    find_positional_beta,
    find_smallest_match,
    find_smallest_recency,
    is_right,
    list_worst_inputs,
)
from posym_core.tasks import IndexTask, PartialInductionTask
from posym_figures import Bars, Lines, Readout, Slider, slider_figure

# Of the angle in the first figure: whole turns after 8, 5 and 3 positions are among them.
THETAS = [0.05, 0.08, 0.12, 0.18, 0.26, 0.36, 0.48, 0.6, math.pi / 4, 0.85, 1.0, 1.15, 2 * math.pi / 5, 1.6, 1.8,
          2 * math.pi / 3, 2.3, 2.6, 2.9, math.pi]  # fmt: skip


@shown
def one_target():
    """Return the Index head's attention on its hardest input, and the norm that all its targets need."""
    task, axis = IndexTask(length=12, symbols=2), np.r_[np.linspace(3.14, 0.5, 70), np.geomspace(0.48, 0.05, 15)]
    hard, needed = list_worst_inputs(task), functools.partial(find_positional_beta, 12)

    @functools.cache
    def measure(theta, beta):
        head = PositionalIndexHead(task, angle=theta, beta=float(beta))
        weights = head.logits(hard.tokens)[:, :-1].softmax(-1).numpy()
        return weights.round(3), weights.diagonal(), weights.diagonal() > 0.5 + 1e-12, needed(theta)

    def show(theta, target, beta):
        bells, votes, right, least = measure(theta, beta)
        return [{"frames": bells[target], "highlight": target}, [votes[target], "right" if right[target] else "wrong"],
                {"frames": np.full(len(axis), beta), "marker": 1 / theta},
                [f"{right.sum()} of {len(right)}", "none: a tie" if math.isinf(least) else f"{least:.1f}"]]  # fmt: skip

    curve = np.array([[least if (least := needed(theta)) <= 1e4 else np.nan for theta in axis]])
    return slider_figure(
        [[Bars("Attention in the context", [str(k) for k in range(12)], y_limits=(0, 1), colours=("positional",),
               x_label="position"),
          Readout(["attention to the target", "answer"], title="This target, measured")],
         [Lines("Norm that every input needs", 1 / axis, over=("theta", "beta"), series=("yours",), colours=("sky",),
                x_label="1 / θ, fast to slow", y_label="norm β", x_log=True, y_log=True, y_limits=(0.2, 1e4),
                reference=curve, reference_labels=("needed",), marker_label="θ"),
          Readout(["right, measured", "norm needed, computed"], title="All targets", over=("theta", "beta"))]],
        [Slider("theta", "Angle θ", THETAS, start=0.6, format=".3f"),
         Slider("target", "Target j", range(12), start=5, format=".0f"),
         Slider("beta", "Norm β", np.array([0.3, 1, 3, 10, 30, 100, 300, 1000, 3000]), start=10, format="g")],
        caption="The head is right where the framed target has more than half of the attention, since all other tokens "
        "carry the same wrong symbol. All targets are right if the line of your norm is above the curve at θ. The "
        "curve has a spike wherever two positions come to look the same: 8 apart at 0.785, 5 apart at 1.257.",
        alt="Bars of attention around the target, and a curve of the norm needed against the angle, which shoots up "
        "wherever a multiple of the angle comes near a whole turn and rises towards slow angles.",
        digits=3, compute=show,
    )  # fmt: skip


@shown
def between_two_heads():
    """Return a head between the symbolic and the positional one, on the two pairs of inputs."""
    task = PartialInductionTask(length=6, symbols=3, attributes=3)

    def show(t):
        head = PartialInductionHead(task, angle=0.3, match=30 * (1 - t), recency=30 * t)
        pairs, leads = make_induction_collisions(head, task), []
        for pair in pairs:
            own = pair.scores.gather(1, pair.answer[:, None])
            leads.append(own[:, 0] - pair.scores.scatter(1, pair.answer[:, None], -1).amax(1))
        return *leads, [f"{pair.right} of 2" for pair in pairs]

    look = {"y_limits": (-1.3, 1.3), "decimals": 2, "y_label": "lead of the answer", "aspect": 1.3}
    return slider_figure(
        [Bars("Two occurrences exchanged", ["before", "after"], colours=("symbolic",), **look),
         Bars("Two symbols exchanged", ["before", "after"], colours=("positional",), **look),
         Readout(["first pair, right", "second pair, right"], title="Collisions")],
        [Slider("t", "Positional part t", np.linspace(0, 1, 21), start=0.0, format=".2f")],
        caption="A bar is the votes for the right answer minus the votes for the strongest wrong answer. A symbolic "
        "head has opposite bars on the first pair and a positional head on the second. Mixed heads solve both.",
        alt="Two panels with two bars each. At the left end of the slider the bars of the first panel are opposite, at "
        "the right end those of the second; in between all four are above zero.",
        compute=show,
    )  # fmt: skip


@shown
def hardest_input():
    """Return the head with two angles on its hardest input, and the match that it needs at each recency."""
    task, axis, places = PartialInductionTask(length=8, symbols=2, attributes=2), np.geomspace(1, 250, 25), np.arange(8)
    inputs = list_worst_inputs(task)

    @functools.cache
    def needed(theta):
        curve, least = [find_smallest_match(8, theta, x) for x in axis], find_smallest_recency(8, theta)
        return np.where(np.less(curve, 45), curve, np.nan), "none works" if math.isinf(least) else f"{least:.2f}"

    def show(theta, recency, match):
        head = PartialInductionHead(task, angle=theta, match=match, recency=recency)
        weights, (curve, floor) = head.logits(inputs.tokens)[:, :-1].softmax(-1).numpy(), needed(theta)
        answer = int(weights.diagonal().argmin())
        shares = np.where([places <= answer, places > answer], weights[answer], 0)
        latest, others = shares[0, answer], shares[1].sum()
        said = "right" if is_right(head, inputs)[answer] else "wrong"
        lines = {"frames": [curve, np.full(len(curve), match)], "marker": recency}
        votes = [latest, max(0, 1 - latest - others), others, said]
        return {"frames": shares.round(3), "highlight": answer}, votes, lines, [floor]

    return slider_figure(
        [[Bars("Attention in the context", [str(k) for k in places], stacked=True, y_limits=(0, 1),
               series=("symbol asked for", "others"), colours=("symbolic", "grey"), x_label="position"),
          Readout(["latest occurrence", "earlier ones", "other symbols", "answer"], title="Hardest input, measured")],
         [Lines("Match that every input needs", axis, series=("needed", "yours"), y_limits=(0, 45), x_log=True,
                colours=("grey", "sky"), x_label="recency ρ", y_label="match μ", marker_label="ρ"),
          Readout(["smallest recency, computed"], over=("theta",))]],
        [Slider("theta", "Angle θ₂", [0.05, 0.1, 0.15, 0.2, 0.26, 0.32, 0.38, 0.41, 0.43, 0.5], start=0.26,
                format=".2f"),
         Slider("recency", "Recency ρ", [1.0, 2, 3, 4, 6, 8, 12, 24, 60, 200], start=6, format=".0f"),
         Slider("match", "Match μ", [4.0, 6, 8, 10, 12, 16, 24, 40], start=12, format=".0f")],
        caption="The answer, one of 8 positions, is framed. All tokens before it have the symbol that is asked for and "
        "all tokens after it have not, and all of them vote for a wrong value. The head is right if the line yours "
        "runs above the curve needed at ρ.",
        alt="Bars of attention on the occurrences of a symbol and on other tokens, and a curve of the match needed, "
        "which begins at a smallest recency and rises from there.", digits=3, compute=show,
    )  # fmt: skip
