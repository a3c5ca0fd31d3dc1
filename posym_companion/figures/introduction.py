"""Figure of the front page."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from posym_companion.figures import shown
from posym_companion.figures.where_and_what import attend_to_facts
from posym_figures import Bars, Points, Slider, slider_figure
from posym_profile import binding_prompts, load_model, profile
from posym_profile.scores import map_layers


def swap_most_and_least(C: Tensor, start: int, length: int, facts: int) -> np.ndarray:
    """Return attention before and after exchanging the facts attended to most and least, ``[2, series, place]``."""
    logits, home = C.double().numpy(), np.arange(facts)
    before = attend_to_facts(logits, home, start, length)
    most, least = before.argmax(), before.argmin()
    swapped = home.copy()
    swapped[[most, least]] = least, most
    both = [(before, home), (attend_to_facts(logits, swapped, start, length), swapped)]
    groups = [(home != most) & (home != least), home == most, home == least]
    return np.stack([np.stack([d * group[who] for group in groups]) for d, who in both])


@shown
def two_facts_change_places() -> Any:
    """Return every head of Gemma 3 270M by its scores, and its attention before and after two facts change places."""
    model, tokenizer = load_model()
    prompts = binding_prompts(tokenizer, facts=16, count=16)
    facts, layout = prompts.blocks, (prompts.start, prompts.block_length, prompts.blocks)
    scores = profile(model, prompts.input_ids, **prompts.layout)
    positional, symbolic = (torch.tensor(x.mean("prompt").values) for x in (scores.positional, scores.symbolic))
    ranked = (positional - symbolic).flatten().argsort(descending=True)
    names = np.array([f"{head // positional.shape[1]}:{head % positional.shape[1]}" for head in range(len(ranked))])
    matrices = map_layers(model, prompts.input_ids[:1], lambda h: {"C": h.cross_logits()}, progress=False)["C"][0]
    bars = np.stack([swap_most_and_least(C, *layout) for C in matrices.flatten(0, 1)[ranked]])
    bars = bars / bars.sum((2, 3), keepdims=True)  # of what goes to the facts, before and after
    plane = torch.stack([positional.flatten(), symbolic.flatten()], -1).expand(len(ranked), -1, -1)
    labels = {"series": ("other facts", "most attended", "least attended"), "colours": ("grey", "green", "purple")}
    style = {
        "stacked": True,
        "y_limits": (0, 1),
        "x_label": "place of the fact, counted from 1",
        "aspect": 2.1,
        **labels,
    }
    where = [str(b) for b in range(1, facts + 1)]
    axes = {"x_label": "positional score", "y_label": "symbolic score", "x_limits": (0, 1.03), "y_limits": (0, 1.03)}
    ring = {"labels": names, "write_labels": False, "highlight": ranked.double()}
    shade = {"shades": np.arange(len(ranked)) // positional.shape[1], "shade_label": "layer"}
    heads = Points("The heads of Gemma 3 270M", plane, **axes, **ring, **shade)
    attention = [Bars("Attention among the facts", where, bars[:, 0], **style)]
    attention.append(Bars("After two facts have changed places", where, bars[:, 1], **style))
    return slider_figure(
        [heads, attention],
        [Slider("head", "From positional to symbolic, layer:head", names[ranked])],
        caption="Two facts change places. At one end of the slider the tallest bar keeps its place and only its colour "
        "changes, so that head looks at where. At the other end the green fact carries its height with it, so that "
        "head looks at what.",
        alt="A plane of positional and symbolic scores with one point for each head, shaded by layer; the points run "
        "from the corner of high positional and low symbolic scores to the opposite corner. Beside it, bars of the "
        "attention to the facts before and after two of them are exchanged: for a positional head the heights stay, "
        "for a symbolic head the largest bar moves with its fact.",
    )
