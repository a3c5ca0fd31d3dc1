"""Figures of *Scores*."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from posym_companion.figures import shown
from posym_figures import Bars, Guess, Heatmap, Lines, Points, Readout, Slider, slider_figure


def scale_to_one(v: np.ndarray) -> np.ndarray:
    """Return vectors with their lengths set to 1."""
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def exchange_all(S: np.ndarray, outside: float) -> tuple[np.ndarray, np.ndarray]:
    """Return attention to both places of every pair before and after their swap, from weights [content, place]."""
    s, pairs = np.diag(S), np.array(list(combinations(range(len(S)), 2)))
    before = s[pairs] / (s.sum() + outside)
    i, j = pairs.T
    after = np.stack([S[j, i], S[i, j]], -1)
    rest = np.array([np.delete(s, pair).sum() for pair in pairs]) + outside
    return before, after / (rest + after.sum(-1))[:, None]


@shown
def swap_pair() -> Any:
    """Return the three swaps of the example by hand."""
    weights = np.array([[4, 2, 1 / 2], [1, 1, 1], [16, 4, 1 / 4]])  # exp C, content by place
    before, after = map(scale_to_one, exchange_all(weights, 1))
    pairs, framed = list(combinations(range(3), 2)), np.zeros((3, 3, 3))
    for k, (i, j) in enumerate(pairs):
        framed[k, [i, j], [j, i]] = 1
    numbered = {"row_labels": list("012"), "column_labels": list("012"), "limits": (-16, 16), "decimals": 2}
    table = Heatmap("Weight exp C", np.tile(weights, (3, 1, 1)), x_label="place", y_label="content", outlined=framed,
                    **numbered)  # fmt: skip
    bars = Bars("Direction of the attention", [[f"place {place}" for place in pair] for pair in pairs],
                np.stack([before, after], 1), series=["before", "after the swap"], colours=["grey", "purple"],
                y_limits=(0, 1), decimals=2)  # fmt: skip
    alpha = np.array([2**4, 2**5, 2]) / (2**4 + 2**5 + 2)
    cosines = [(after * v).sum(-1) for v in (before, before[:, ::-1])]
    rows = {"cosine with v": cosines[0], "cosine with v̄": cosines[1], "weight α of the pair": alpha}
    return slider_figure(
        [table, [bars, Readout(rows)]],
        [Slider("pair", "Swapped pair", [f"{i} and {j}" for i, j in pairs])],
        caption="If the purple bars keep the heights of the grey ones, the pair is positional. If they trade them, it "
        "is symbolic. One head can be positional on one pair and symbolic on another.",
        alt="A table of three contents by three places with the two cells that a swap reads framed, and bars of the "
        "attention to the two places before and after.",
    )


@shown
def possible_pairs() -> Any:
    """Return the scores that one pair can have, by how unequal its attention was."""
    after_gap, turn = np.linspace(-8, 8, 81), np.linspace(0, np.pi / 2, 46)
    arc = np.stack([np.cos(turn), np.sin(turn)], -1)

    def pairs_of(gap: float) -> list[Any]:
        swaps = np.concatenate([after_gap, [gap, -gap, 0]])  # the last three stay, follow, do half of each
        before, after = np.arctan2(np.exp(-gap), 1), np.arctan2(np.exp(-swaps), 1)
        points = np.stack([np.cos(after - before), np.cos(after + before - np.pi / 2)], -1)
        return [np.concatenate([arc, points]), [np.exp(gap), 1 / np.cosh(gap)]]

    kinds = {"unit circle": "grey", "any swap": "purple", "positional": "blue", "symbolic": "orange",
             "half and half": "yellow"}  # fmt: skip
    points = Points("Where a pair can lie", colours=list(kinds.values()), group_labels=list(kinds),
                    groups=[0] * len(turn) + [1] * len(after_gap) + [2, 3, 4], x_label="s_POS", y_label="s_SYM",
                    x_limits=(0, 1.05), y_limits=(0, 1.05))  # fmt: skip
    guess = Guess(
        "A head gave one of two places twice the attention of the other. After the swap its attention has stayed "
        "exactly where it was, so its positional score is 1. What is its symbolic score?",
        f"{1 / np.cosh(np.log(2)):.1f}",
        choices=["0.0", "0.2", "0.5", "0.8"],
        because="It is 1/cosh Λ with Λ = ln 2. Only a pair that was far more unequal tells a pure head from others.",
    )
    return slider_figure(
        [points, Readout(["attention ratio before", "other score of a pure head, 1/cosh Λ"], format=".3g")],
        [Slider("gap", "Log ratio Λ before the swap", np.linspace(0, 6, 25), start=1.0, format=".2f")],
        guess=guess,
        caption="The purple curve has all scores that a pair with this attention before the swap can have. If the "
        "attention was even, only points on the diagonal are possible. The more unequal it was, the nearer the curve "
        "comes to the unit circle, and a head is seen as pure only near the curve's ends.",
        alt="The unit square with a circle of radius one; a purple curve of possible scores that grows from the upper "
        "right corner to the circle as attention before the swap becomes unequal.",
        compute=pairs_of,
    )


@shown
def temperatures() -> Any:
    """One head at every temperature: it follows content 0 and otherwise looks at places."""
    taus, profile = np.logspace(-5, 1, 25), np.array([1.0, 0.75, 0.55, 0.35, 0.15, 0.0])
    follows = np.tile(profile, (6, 1))  # by place ...
    follows[0], follows[:, 0] = profile[0], profile  # ... but content 0, and whatever replaces it, by content

    def scored_at(sharpness: float, tau: float) -> list[Any]:
        weights = np.exp(follows * sharpness)
        before, after = exchange_all(weights, 1)
        v, w = scale_to_one(before), scale_to_one(after)
        cosines = np.stack([(w * v).sum(-1), (w * v[:, ::-1]).sum(-1)])
        gaps = abs(before[:, 0] - before[:, 1]) / np.append(taus, tau)[:, None]
        alpha = np.exp(gaps - gaps.max(1, keepdims=True))
        alpha /= alpha.sum(1, keepdims=True)
        scores = cosines @ alpha.T
        return [scores[:, :-1], np.diag(weights) / (1 + np.diag(weights).sum()), alpha[-1], scores[:, -1]]

    curves = Lines("Scores against τ", taus, over=("sharpness",), x_log=True, x_label="τ", series=["s_POS", "s_SYM"],
                   colours=["positional", "symbolic"], y_limits=(0, 1.02))  # fmt: skip
    attention = Bars("Attention before any swap", list("012345"), over=("sharpness",), colours=["grey"],
                     x_label="block", y_limits=(0, 1))  # fmt: skip
    alpha = Bars("Weights α of the pairs", [f"{i}–{j}" for i, j in combinations(range(6), 2)], colours=["purple"],
                 y_limits=(0, 1), wide=True, aspect=3.2)  # fmt: skip
    return slider_figure(
        [curves, attention, alpha, Readout(["s_POS", "s_SYM"])],
        [
            Slider("sharpness", "Sharpness of the head", np.linspace(0.25, 8, 12), start=5.0, format=".2f"),
            Slider("tau", "Temperature τ", taus, start=1e-4, format=".1e"),
        ],
        caption="As τ rises, weight moves from one pair to all, and a head that follows content 0 and otherwise looks "
        "at places changes from symbolic to mixed. In a flatter head both scores drift to 1, because no pair is "
        "unequal enough. So scores can be compared only at one temperature.",
        alt="Two score curves over a logarithmic temperature, bars of attention, and bars of the weights of fifteen "
        "pairs that spread as the temperature rises.",
        compute=scored_at,
    )
