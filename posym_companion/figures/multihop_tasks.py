"""Figures of *Two tasks, one structure*."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from posym_companion.figures import shown
from posym_companion.several_hops import hop_model, hops_figure
from posym_core.tasks import (
    LetterTask,
    NumberTask,
    apply_index,
    apply_retrieval,
    find_index_targets,
    find_retrieval_targets,
)
from posym_figures import Heatmap, Readout, Slider, slider_figure


def pass_layers(task: Any, hop: Any, find_targets: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return attention, framed stations ``[hops, layer, row, column]``, words and what the path holds."""
    batch = task.sample(64, generator=torch.Generator().manual_seed(0))
    attention, frames = np.zeros((2, 4, 5, 9, 17))
    words, held = np.empty((4, 5, 17), dtype=object), np.empty((4, 5), dtype=object)
    for hops in range(1, 5):
        chosen = int((batch.hops == hops).nonzero()[1])
        tokens, path = batch.tokens[chosen : chosen + 1], batch.path[chosen, : hops + 1].tolist()
        for layer in range(5):
            after = hop(tokens, task)
            goes = torch.where(after != tokens, find_targets(tokens, task), torch.arange(17))[0, 8:]
            attention[hops - 1, layer, np.arange(9), goes] = 1
            for station in path[:-1]:
                frames[hops - 1, layer, station - 8, goes[station - 8]] = 1
            names = [task.token_names[token] for token in tokens[0]]
            words[hops - 1, layer] = [name.strip("()").replace(",", "") for name in names]
            held[hops - 1, layer] = " ← ".join(names[station] for station in path)
            tokens = after
    return attention, frames, words, held


@shown
def walk() -> Any:
    """Both programs on a sequence of the paper's size, layer by layer."""
    tasks = {
        "Number": (NumberTask(), apply_index, find_index_targets),
        "Letter": (LetterTask(), apply_retrieval, find_retrieval_targets),
    }
    panels: list[Any] = []
    said = {}
    for name, (task, hop, find_targets) in tasks.items():
        attention, frames, words, said[name] = pass_layers(task, hop, find_targets)
        panels.append(
            Heatmap(
                f"{name}: attention of the next layer",
                attention,
                row_labels=np.array(words[..., 8:].tolist()),
                column_labels=np.array(words.tolist()),
                colours="sequential",
                limits=(0, 1),
                outlined=frames,
                colour_bar=False,
                wide=True,
                aspect=2.1,
                x_label="token attended to",
                y_label="token that asks",
            )
        )
    return slider_figure(
        [*panels, Readout(said, title="The path now: query ← stations")],
        [Slider("hops", "Hops of the path", [1, 2, 3, 4], start=3), Slider("layer", "Layers passed", range(5))],
        caption="The stations are framed, the query last. In Number they become letters from the top down, and in "
        "Letter all change at once. Both end with the answer at the query. A panel is the attention of the next layer, "
        "from a token on the left to the token that it takes over, or to itself. A pair like (b,6) is written b6.",
        alt="Two tables of attention, one bright cell a row. With every layer passed, more rows of Number keep "
        "themselves, and in Letter the query's bright cell moves until it rests on itself.",
    )


@shown
def ask_the_models(models: Mapping[str, tuple[Any, Any]]) -> Any:
    """Trained models in the browser: a sequence in, arcs of attention and the answer out."""
    return hops_figure(
        [hop_model(model, settings) for model, settings in models.values()],
        address="../../_static/hops",
        caption="Each row is a layer, and an arc leads from a token to the token that it looks at most, coloured where "
        "the token is on the path. Dashed arcs are from before the last change. After a swap of two tokens the arcs of "
        "Number stay with the places, whereas the arcs of Letter follow the symbols. Two trained models with one head "
        "a layer.",
        alt="A sequence of seventeen tokens, a row of arcs for each of twelve layers, and the model's answer.",
    )
