"""Figures of *Position times content, position plus content*."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from posym_companion.figures import Picture, shown
from posym_companion.results import load_result
from posym_core.encodings import LABELS
from posym_figures import PALETTE, WIDTH, Heatmap, Lines, Readout, Slider, plots, slider_figure


@shown
def one_cosine(G: np.ndarray) -> Any:
    """Return the eigenvalues of a Gram matrix of eight contents times the kernel of one cosine."""
    apart = np.arange(8)[:, None] - np.arange(8)
    alone = np.linalg.eigvalsh(G)[::-1]

    def product(turn: float) -> tuple[Any, ...]:
        values = np.linalg.eigvalsh(G * np.cos(turn * apart))[::-1]
        return G * np.cos(turn * apart), values, [values[0], values[-1], values.sum(), values[0] / values[-1]]

    angles = np.linspace(np.pi, 0, 33)
    return slider_figure(
        [
            Heatmap("G ∘ T", x_label="token b", y_label="token a", decimals=1),
            [
                Lines("Eigenvalues", np.arange(1, 9), x_label="largest first", y_limits=(0, 1.05 * float(alone[0])),
                      reference=alone[None], reference_labels=("of G",)),
                Readout(["largest", "smallest", "sum", "condition number"], title="Eigenvalues"),
            ],
        ],
        [Slider("turn", "Angle θ, fast to slow", angles, start=float(angles[-3]), format=".2f")],
        caption="The curve has the eigenvalues of a Gram matrix of eight contents times the kernel of one cosine. As "
        "the angle grows from 0, the largest eigenvalue falls, the smallest rises, and the sum of all stays.",
        alt="A matrix whose entries off the diagonal fade and return in stripes, and a falling curve of eigenvalues "
        "whose top sinks as the angle grows, stays low, and is back where it was at half a turn.",
        compute=product,
    )  # fmt: skip


@shown
def spectra(run: Any, mine: Any) -> Picture:
    """Median spectra of queries, keys and logits under the three ways to place them, thin in a reader's run."""
    figure, axes = plt.subplots(3, 1, figsize=(WIDTH, 8.4), layout="constrained")
    ways = {"without positions": (6, "-"), "mean kernel": (5, "--"), "the model's rotation": (3, ":")}
    for ax, kind, title in zip(axes, ("query", "key", "logits"), ("Queries", "Keys", "Logits"), strict=True):
        medians = [np.median(x[kind] / x[kind][:1, ..., :1], axis=(1, 2, 3)) for x in (run, mine)]
        for stored, own, (label, (colour, dash)) in zip(*medians, ways.items(), strict=True):
            look: Any = {"color": PALETTE[colour], "linestyle": dash}
            ax.plot(np.arange(1, len(stored) + 1), stored, linewidth=2, label=label, **look)
            ax.plot(np.arange(1, len(own) + 1), own, linewidth=0.8, **look)
        ax.set(yscale="log", xlabel="rank", ylabel="value / largest", title=title)
    axes[0].legend()
    return Picture(
        figure,
        caption="Spectra of Gemma's queries, keys and logits, as medians over heads, layers and windows, each divided "
        "by its largest value without positions, with thin lines for your run. For queries and keys the model's "
        "rotation flattens the spectrum, though less than a mean kernel does. For logits the dotted line lies above "
        "the full line at all ranks but the first, so that sums of the largest values grow.",
        alt="Three panels of curves that fall on logarithmic axes over the rank. For queries and keys the curve "
        "without positions is steepest, the curve under the mean kernel is flattest, and the model's rotation lies "
        "between. For logits the three lie close together.",
    )


@shown
def sharpness(names: tuple[str, ...]) -> Picture:
    """Sharpness of the loss during training, by encoding."""
    runs = [load_result(f"encoding_optimisation/{name}") for name in names]
    middle, low, high = (
        np.stack([end(run["eigenvalue"], axis=0) for run in runs]) for end in (np.mean, np.min, np.max)
    )
    labels = [LABELS[name] for name in names]
    drawing = plots.curve(
        runs[0]["bends"], middle, lower=low, upper=high, series=labels, y_log=True, dots=True,
        x_label="training step", y_label="sharpness",
    )  # fmt: skip
    return Picture(
        drawing,
        caption="Sharpness against the training step, as a mean of three seeds with their range. The rotary line "
        "peaks while the task is learned and falls again, whereas the lines of sinusoids, ALiBi and T5 rise to the "
        "end. The learned table stays low and learns little.",
        alt="Sharpness against training step for six encodings on a logarithmic axis. Rotary heads rise to a peak "
        "near step 200 and fall again. Sinusoids, ALiBi and T5 rise to the end. Learned positions stay low.",
    )
