"""Figures of the chapter *The geometry of trained heads*."""

from __future__ import annotations

import math

import numpy as np

from posym_companion.figures import Picture, shown
from posym_companion.results import Result, load_result
from posym_companion.theory import compute_positional_peak, compute_symbolic_peak
from posym_figures import Lines, Points, Readout, Slider, plots, slider_figure

ANGLE = "angle θ in radians per position, fast to slow"


@shown
def two_heads_learn():
    """Queries and keys of one Index toy and one Retrieval toy at steps of their training."""
    run, panels, live = load_result("frequency_control/full"), [], {}
    steps = run["index_single_32/snapshot_steps"]
    shown_at = np.unique([0, *np.searchsorted(steps, np.geomspace(max(steps[1], 1), steps[-1], 22))])
    theta = [run["angles"][identity - 1] for identity in run.settings["snapshot_frequencies"]]
    rows = (("index", "Index (absolute)", theta[0], "target"), ("retrieval", "Retrieval", theta[1], "symbol"))
    for task, name, angle, shade in rows:
        q, k = (run[f"{task}_single_32/snapshot_{x}"].astype(float)[shown_at] @ [1, 1j] for x in ("query", "key"))
        k = k[:, :32] + (k[:, 32:40].mean(1, keepdims=True) if task == "retrieval" else 0)
        match = np.angle(q * (k.mean(1, keepdims=True) if task == "index" else k).conj())
        apart = np.exp(1j * (match - angle * (np.arange(32) - 32) * (task == "index"))).mean(1)
        live[f"{name}, concentration of keys"] = np.abs(k.sum(1)) / np.abs(k).sum(1)
        live[f"{name}, alignment of queries"] = apart.real if task == "index" else np.abs(apart)
        live[f"{name}, norm of query times key"] = np.abs(q).mean(1) * np.abs(k).mean(1) / math.sqrt(2)
        for kind, x in (("queries", q), ("keys", k)):
            places = np.stack([np.real(x), np.imag(x)], -1) / np.abs(x).max(1)[:, None, None]
            panels.append(Points(
                f"{name}, θ = {angle:.3g}: {kind}", places, shades=np.arange(32), write_labels=False, circle=1.0,
                shade_label=shade if kind == "queries" else "symbol", labels=[f"{kind[:-1]} {s}" for s in range(32)],
                x_limits=(-1.1, 1.1), y_limits=(-1.1, 1.1), alt=f"{name}: {kind} as dots shaded by {shade}",
            ))  # fmt: skip
    return slider_figure(
        [panels[::2], panels[1::2], Readout(live, format=".2f")],
        [Slider("step", "Training step", steps[shown_at].tolist(), start=int(steps[-1]), format=",.0f")],
        caption="Shades mark the position that an Index query asks for and otherwise the symbol. The Index keys gather "
        "in one direction and the queries fan out by target, whereas each Retrieval query turns to its own symbol's "
        "key. Alignment is the mean cosine between a query's phase and the phase it should have. Both have seed 0.",
        alt="Four panels of dots. Index: queries form an ordered fan and keys sit on one spot. Retrieval: queries and "
        "keys spread around the circle with the same shades in the same places.",
    )  # fmt: skip


@shown
def geometry_by_angle(curves: dict[str, np.ndarray]):
    """Accuracy, alignment and concentration of Index toys, each ``[seed, angle]``."""
    values = np.stack(list(curves.values()))
    figure = plots.curve(
        load_result("frequency_control/full")["angles"], values.mean(1), lower=values.min(1), upper=values.max(1),
        x_log=True, series=tuple(curves), colours=("grey", "positional", "sky"), x_label=ANGLE,
        y_label="Index (absolute)", y_limits=(-0.4, 1.05))  # fmt: skip
    figure.axes[0].invert_xaxis()
    return Picture(
        figure,
        caption="At some angles accuracy has fallen while alignment and concentration are still near one. The curves "
        "show means over seeds of toys trained on Index, with bands from the lowest to the highest seed.",
        alt="Three curves over the angle. Accuracy falls below about 0.1 rad per position, alignment and concentration "
        "stay near one down to about 0.02 and then fall together.",
    )


@shown
def attention_to_the_target():
    """Attention of a positional and of a symbolic head to its target, by the target's position."""

    def show(turn, n, beta):
        angle, curves = turn * math.pi / n, np.full((2, 64), np.nan)
        curves[:, :n] = compute_positional_peak(n, angle, beta), compute_symbolic_peak(n, angle, beta)
        steps = np.diff(curves[:, :n])[:, : n // 2 - 1]
        said = f"{'U' if (steps[0] < 1e-12).all() else 'not a U'}, "
        return curves, {"θ": angle, "shapes": said + ("inverse U" if (steps[1] > -1e-12).all() else "not an inverse U")}

    return slider_figure(
        [Lines("Attention to the target", np.arange(64), series=("positional", "symbolic"), wide=True, aspect=2.6,
               colours=("positional", "symbolic"), x_label="position of the target", y_label="attention",
               y_limits=(0, 1)),
         Readout(format=".4f")],
        [Slider("turn", "nθ as a multiple of π", [0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0],
                start=0.6, format=".2f"),
         Slider("n", "Length n", (8, 16, 32, 64), start=32),
         Slider("beta", "Norm β", (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0), start=10.0, format="g")],
        caption="In the middle of the context the positional head's attention to its target (blue) is lowest and the "
        "symbolic head's attention to its match (orange) is highest. This holds as long as nθ is at most π. Beyond it "
        "the U may be reversed, and beyond 2π the inverse U.",
        alt="A blue curve that is lowest in the middle and an orange one that is highest there; the U breaks up "
        "when n times theta exceeds pi.", compute=show,
    )  # fmt: skip


@shown
def ends_minus_middle(angles: np.ndarray, bends: dict[str, np.ndarray]):
    """Return the bend of trained toys and of built heads with their norms, each ``[seed, angle]``."""
    values = np.stack(list(bends.values()))
    figure = plots.curve(
        angles, values.mean(1), lower=values.min(1), upper=values.max(1), x_log=True, series=tuple(bends),
        y_label="ends minus middle", colours=("positional", "sky", "symbolic", "yellow"), x_label=ANGLE,
        reference=0.0)  # fmt: skip
    figure.axes[0].invert_xaxis()
    return Picture(
        figure,
        caption="Trained Index is mostly above 0 and trained Retrieval below, as the theorem says. But near the "
        "fastest of these angles Index is below 0, and the curves peak at other angles than those of the built heads. "
        "The curves show the accuracy of trained toys (mean over seeds, band from lowest to highest) and the attention "
        "of built heads with the same norms, at angles with nθ up to π.",
        alt="Index: the trained curve is much higher than the built one, at slower angles. Retrieval: the trained "
        "curve dips below zero at slower angles than the built one.",
    )


@shown
def waves(mine: Result):
    """Keys, query and wave of the ten most positional heads of Gemma on running text, and their logits in a run."""
    run = load_result("head_geometry/gemma-3-270m_text_64")
    heads, distance = np.argsort(run["head_positional_share"][0].astype(float).ravel())[::-1][:10], run["distance"]
    arrows, curves, rows = [], [], {"coherence": [], "R² on unseen prompts": [], "energy share": [], "amplitude": []}
    for layer, head in (divmod(int(place), 4) for place in heads):
        plane, (size, at) = int(run["dominant"][1, layer, head]), run["wave"][1, layer, head]
        key, query = (run[f"drawn_{name}"][1, 0, layer, head].astype(float) for name in ("keys", "query"))
        arrows.append(np.concatenate([key / np.abs(key).max(), query[None] / np.hypot(*query)]))
        wave = np.cos(run["angles"][layer, plane] * (distance - at))
        unseen = [x["curve"][1, 1, layer, head].astype(float) / x["wave"][1, layer, head][0] for x in (run, mine)]
        curves.append([unseen[0], wave, unseen[1]])
        fields = [float(run[name][layer, head, plane]) for name in ("coherence", "r2_test", "energy_share")]
        for row, value in zip(rows.values(), [*fields, float(size)], strict=True):
            row.append(value)
    return slider_figure(
        [Points("Keys and query, unrotated", np.array(arrows), write_labels=False, x_limits=(-1.1, 1.1),
                arrows=[False] * len(distance) + [True], groups=[0] * len(distance) + [1], y_limits=(-1.1, 1.1),
                group_labels=("keys", "query"), colours=("positional", "grey")),
         Lines("Mean logit of the plane over the amplitude", distance[::-1], np.array(curves)[..., ::-1],
               colours=("grey", "positional", "purple"), series=("unseen", "wave", "your run"),
               x_label="distance from the query", y_limits=(-1.8, 1.8)),
         Readout(rows, format=".2f")],
        [Slider("head", "Head (layer:head)", [f"{place // 4}:{place % 4}" for place in heads])],
        caption="The cloud of keys has one direction. The grey curve, mean logits on prompts that the wave was not "
        "fitted on, follows the wave, and the purple one is your run, at the plane that is the most positional there. "
        "The slider sets one of the ten most positional heads on running text, at its most positional plane of at "
        "least half a rotation. Keys are scaled to the longest, the query to its length.",
        alt="Left: a cloud of key dots on one side of the origin and one arrow. Right: a wavy grey curve over the "
        "distance with a smooth wave lying on it.",
    )  # fmt: skip
