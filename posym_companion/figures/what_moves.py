"""Figures of *What a key swap moves*."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor

from posym_companion.figures import Picture, shown
from posym_figures import PALETTE, Bars, Choice, Slider, plots, slider_figure
from posym_profile import binding_prompts
from posym_profile.scores import map_layers

FACTS, FIRST, FIFTH = 8, 0, 4
# Whether sentences change places before the model reads them, and whether keys do inside the head.
MOVES = {"nothing": (False, False), "keys": (False, True), "text": (True, False), "both": (True, True)}
HOME = torch.arange(FACTS)
EXCHANGED = torch.tensor([FIFTH, 1, 2, 3, FIRST, 5, 6, 7])


def tokens_at(prompts: Any, order: Tensor) -> Tensor:
    """Return the token at each place of a prompt whose facts are put in another order."""
    tokens = torch.arange(prompts.input_ids.shape[1])
    inside = slice(prompts.start, prompts.start + FACTS * prompts.block_length)
    tokens[inside] = tokens[inside].view(FACTS, -1)[order].flatten()
    return tokens


@shown
def four_heads(model: Any, tokenizer: Any, layer: int = 9, head: int = 3) -> Any:
    """Readers of symbols, origins and places and a head of a model, as keys, text or both change places."""

    @functools.cache
    def read(lead: int, text: bool) -> tuple[Tensor, Any]:
        prompts = binding_prompts(tokenizer, facts=FACTS, count=1, lead=lead)
        ids = prompts.input_ids[:, tokens_at(prompts, EXCHANGED if text else HOME)]
        found = map_layers(model, ids, lambda heads: {"C": heads.cross_logits()}, progress=False)
        return found["C"][0, layer, head].double(), prompts

    def attend(lead: float, moved: str) -> list[dict[str, Any]]:
        text, keys = MOVES[moved]
        origin = EXCHANGED if keys else HOME
        symbol = (EXCHANGED if text else HOME)[origin]
        made = (3 / (1 + torch.stack([symbol, lead + origin, HOME]).double())).softmax(-1)
        C, prompts = read(round(lead), text)
        weights = C[tokens_at(prompts, origin), torch.arange(len(C))].softmax(-1)
        facts = weights[prompts.start :][: FACTS * prompts.block_length].view(FACTS, -1).sum(-1)
        colour = torch.stack([(origin != FIRST) & (origin != FIFTH), origin == FIRST, origin == FIFTH])
        labels = [*np.array(list("ABCDEFGH"))[symbol]]
        return [{"frames": (x * colour).numpy(), "labels": labels} for x in (*made, facts / facts.sum())]

    look = {"colours": ("grey", "purple", "yellow"), "stacked": True, "y_limits": (0, 0.7), "aspect": 2.2,
            "series": ("other origins", "first origin", "fifth origin"),
            "x_label": "symbol of the fact at places 1 to 8"}  # fmt: skip
    titles = ("Reads symbols", "Reads origins", "Reads places", f"Gemma, layer {layer}, head {head}")
    bars = [Bars(title, None, **look) for title in titles]
    return slider_figure(
        [bars[:2], bars[2:]],
        [
            Slider("lead", "Facts of the same form in front", [0, 1, 2, 4, 8]),
            Choice("moved", "What is exchanged, first and fifth fact", list(MOVES), start="keys"),
        ],
        caption=CAPTION,
        alt=ALT,
        compute=attend,
    )


CAPTION = (
    "Each bar shows the attention to one fact, as a share of the attention to all eight. Letters name symbols and "
    "colours name the origins of keys. The tallest bar shows which of the three a head follows."
)
ALT = (
    "Bars of attention to eight facts for a reader of symbols, of origins and of places and for a head of Gemma. When "
    "keys are exchanged, the tall bar of the first two and of Gemma's head moves to the fifth place; when the text is, "
    "only that of the reader of symbols does; when both are, those of the reader of origins and of Gemma's."
)


@shown
def triangles(cubes: Mapping[int, Any]) -> Picture:
    """Return every head between symbol, origin and place, with nothing and with eight facts in front."""
    figure, axes = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained")
    for ax, (lead, cube) in zip(axes, cubes.items(), strict=True):
        three = [cube[f"{name}_share"].values[0] for name in ("symbol", "origin", "place")]
        layers = np.repeat(np.arange(len(three[0])), three[0].shape[1])
        title = f"{lead or 'No'} facts in front"
        plots.share_triangle(*(share.flatten() for share in three), layers=layers, title=title, ax=ax)
    return Picture(
        figure,
        caption="The left triangle shows one prompt of eight facts, and the right one the same prompt behind eight "
        "more facts of the same form. The three shares of a head are divided by their sum. With nothing in front most "
        "heads lie between place and origin. Behind eight facts origin is no longer the largest part.",
        alt="Two triangles with corners symbol, origin and place and a point for each of 72 heads. On the left points "
        "spread along the edge between place and origin; on the right they have drawn close to the corner of place, "
        "and some lie towards symbol.",
    )


@shown
def origin_shares(whole: Mapping[str, float], token: Mapping[str, float]) -> Picture:
    """Origin's share of the symbolic part by kind of prompt, of whole facts and at the token that differs."""
    names = list(whole)[::-1]
    figure, ax = plt.subplots(figsize=(6.8, 4.2), layout="constrained")
    at = np.arange(len(names))
    for step, (label, shares) in enumerate({"at the attribute's token": token, "whole facts": whole}.items()):
        y = at + 0.36 * (step - 0.5)
        paint = PALETTE[(6, 3)[step]]
        ax.barh(y, [shares.get(name, 0) for name in names], 0.34, label=label, color=paint)
    ax.set(yticks=at, yticklabels=names, xlim=(0, 1), xlabel="origin's share of the symbolic part, median head")
    figure.legend(loc="outside upper right", ncols=2, frameon=False)
    return Picture(
        figure,
        caption="Each pair of bars is one kind of prompt (<em>likes</em>, 16 facts). Origin is most of the symbolic "
        "part of whole facts on plain lists. Facts of the same form in front, another verb for each fact, or no mark "
        "of beginning lower it, and in prose it is small.",
        alt="Horizontal bars for ten kinds of prompt. Whole facts: near nine tenths on a list and behind prose or "
        "other facts, below four tenths behind eight facts of the form and without the mark of beginning, least in "
        "prose. The token alone lies lower on all lists but the one without a mark of beginning.",
    )
