"""Figures of *Where and what*."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import torch

from posym_companion.figures import shown
from posym_core import exclusion
from posym_figures import Bars, Guess, Heatmap, Slider, slider_figure

KINDS = ("positional", "symbolic", "interaction")


def turn_keys(keys: Any, theta: float) -> np.ndarray:
    """Return C of one plane, keys as complex numbers, for the query 1 right behind them."""
    n = len(keys)
    return np.real(np.asarray(keys)[:, None] * np.exp(1j * theta * (np.arange(n) - n)))


def weigh(logits: np.ndarray) -> np.ndarray:
    """Return the softmax of the last axis."""
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@shown
def permute_three() -> Any:
    """Return all orders of three keys in a mixed, a symbolic and a positional head."""
    keys, letters = [2, 1j, 1 + 1j], np.array(["A", "B", "C"])
    heads = {
        "Mixed head": turn_keys(keys, np.pi / 2),
        "Symbolic head": turn_keys(keys, 0),
        "Positional head": turn_keys([keys[2]] * 3, np.pi / 2),
    }
    orders = np.array(list(permutations(range(3))))  # [order, position], the content that stands there
    standing = orders[:, None, :] == np.arange(3)[:, None]  # [order, content, position]
    scale = {"limits": (-2, 2), "decimals": 0, "x_label": "position", "column_labels": list("012")}
    bars = {"colours": ("purple", "yellow", "grey"), "y_limits": (0, 1), "aspect": 1.7}
    panels = []
    for name, C in heads.items():
        logits, every = C[orders, np.arange(3)], np.broadcast_to(C, (len(orders), 3, 3))
        framed = {"y_label": "content", "row_labels": letters, "outlined": standing, "aspect": 1.2}
        attention = np.where(standing, weigh(logits)[:, None], 0)
        panels.append([
            Heatmap(f"{name}, C", every, **framed, **scale),
            Heatmap("Logits", logits[:, None], row_labels=["λ"], aspect=2.9, **scale),
            Bars("Attention", letters[orders], attention, stacked=True, **bars),
        ])  # fmt: skip
    return slider_figure(
        panels,
        [Slider("order", "Contents at positions 0, 1, 2", [" ".join(letters[order]) for order in orders])],
        caption="The permutation reads the framed entries of C. Whatever the order of the three keys, the bars of a "
        "positional head keep their heights, and in a symbolic head each colour takes its height along.",
        columns=3,
        alt="Three columns for a mixed, a symbolic and a positional head, each with its three-by-three matrix C, the "
        "row of logits read along the permuted diagonal, and bars of attention. As the order changes, the bars of the "
        "positional head keep their heights, those of the symbolic head move with their contents, and those of the "
        "mixed head change.",
    )


@shown
def angle_and_keys() -> Any:
    """One plane from symbolic to positional: its angle, and how much its keys differ."""
    generator = torch.Generator().manual_seed(6)
    scatter = torch.view_as_complex(torch.randn(8, 2, generator=generator, dtype=torch.float64)).numpy()
    scatter = scatter - scatter.mean()

    def one_head(angle: float, spread: float) -> list[Any]:
        C = turn_keys(1 + 1j + spread * scatter, angle)
        part = exclusion(torch.tensor(C))
        shares = [float(part.positional_share), float(part.symbolic_share), float(part.interaction_share)]
        return [C, weigh(np.diag(C)), shares * np.eye(3)]  # each share a series of its own, for its colour

    places = [str(b) for b in range(8)]
    C = Heatmap("Cross-logit matrix C", x_label="position", y_label="content", outlined="diagonal",
                row_labels=places, column_labels=places)  # fmt: skip
    attention = Bars("Attention", places, x_label="position", y_limits=(0, 1), aspect=2.2)
    shares = Bars("Shares of the variance of C", KINDS, stacked=True, colours=KINDS, aspect=2.2)
    return slider_figure(
        [C, [attention, shares]],
        [
            Slider("angle", "Angle θ (radians per position)", np.linspace(0, 1.2, 25), format=".2f"),
            Slider("spread", "Difference between the keys", np.linspace(0, 1, 6), start=1.0, format=".1f"),
        ],
        caption="With one plane, a head is symbolic without rotation, positional with equal keys, and a mixture with a "
        "large interaction in between. Hatched bars are undefined, because C is constant there.",
        alt="A heatmap of C with its diagonal framed, bars of attention over eight positions, and bars of the "
        "positional, symbolic and interaction share. At angle 0 the heatmap has constant rows and the symbolic share "
        "is 1; with equal keys it has constant columns and the positional share is 1.",
        compute=one_head,
    )


def attend_to_facts(C: np.ndarray, facts: np.ndarray, start: int, length: int) -> np.ndarray:
    """Return the mean attention to the tokens of each place when fact ``facts[b]`` stands in place ``b``."""
    order = np.arange(len(C))
    span = slice(start, start + len(facts) * length)
    order[span] = order[span].reshape(-1, length)[facts].ravel()
    return weigh(C[order, np.arange(len(C))])[span].reshape(-1, length).mean(-1)


def draw_head(
    title: str, colour: str, head: tuple[Any, Any], swaps: np.ndarray, names: list[str], asked: int
) -> list[Any]:
    """Return the panels of one head: its C by fact, and its attention after every swap with the fact asked about."""
    facts, attention = head
    m, moved = len(names), swaps[:, None, :] == np.arange(len(names))[:, None]
    coloured = np.where(moved, attention[:, None], 0)  # [swap, content, position]
    series = np.stack([coloured[:, asked], coloured.sum(1) - coloured[:, asked]], 1)
    where = "place of the fact, counted from 1"
    labels = {"row_labels": names, "column_labels": [str(b) for b in range(1, m + 1)], "outlined": moved}
    matrix = np.broadcast_to(facts - facts.mean(), (m, m, m))
    return [
        Heatmap(title, matrix, x_label=where, y_label="fact", **labels),
        Bars("Attention", labels["column_labels"], series, series=(names[asked], "others"), stacked=True,
             colours=(colour, "grey"), x_label=where, aspect=1.6),
    ]  # fmt: skip


@shown
def swap_facts(heads: dict[str, tuple[int, int]], C: np.ndarray, facts: np.ndarray, prompts: Any) -> Any:
    """Two heads of a language model ``C [layer, head, ...]``, whole and by fact, under swaps of facts."""
    m, asked = prompts.blocks, int(prompts.target[0])
    names = [sentence.split()[0] for sentence in prompts.texts[0].split(".")[:m]]
    swaps = np.tile(np.arange(m), (m, 1))  # [swap, position], the fact that stands there
    swaps[np.arange(m), np.arange(m)], swaps[:, asked] = asked, np.arange(m)
    after = {
        kind: np.stack([attend_to_facts(C[place], swap, prompts.start, prompts.block_length) for swap in swaps])
        for kind, place in heads.items()
    }
    panels = [
        draw_head(f"{kind.title()}: layer {layer}, head {head}", kind, (facts[layer, head], after[kind]), swaps, names,
                  asked)
        for kind, (layer, head) in heads.items()
    ]  # fmt: skip
    before = after["symbolic"][asked]
    partner = int(before.argmin())
    then = after["symbolic"][partner]
    guess = Guess(
        f"The most symbolic head attends to the facts as the bars show. Then the facts about {names[asked]} (place "
        f"{asked + 1}) and {names[partner]} (place {partner + 1}) change places. Drag the bars to where you expect "
        "them.",
        then,
        bars=[str(place) for place in range(1, m + 1)],
        start=before,
        limits=(0, 1.2 * float(max(before.max(), then.max()))),
        because=f"The tallest bar was at place {before.argmax() + 1} and is now at place {then.argmax() + 1}.",
    )
    partners = ["nobody" if name == names[asked] else name for name in names]
    return slider_figure(
        panels,
        [Slider("swap", f"Swap the fact about {names[asked]} with", partners, start="nobody")],
        guess=guess,
        caption="The matrices are C of two heads of Gemma 3 270M, averaged over the tokens of a fact, minus its mean. "
        "The left matrix has columns and the right one rows. Frames mark the logits after the swap, and bars the mean "
        "attention to a token in each place. Under a swap the attention of the left head stays with the place, and "
        "that of the right head goes with the fact.",
        alt="Two heatmaps of eight facts by eight places. The left one, of the most positional head, has nearly "
        "constant columns; the right one, of the most symbolic head, nearly constant rows. Under a swap the attention "
        "of the left head stays with the places and that of the right head moves with the facts.",
    )
