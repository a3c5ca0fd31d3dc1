"""What the heads that carry binding in a taught model read: the symbol asked for, its origin or its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.language_models.judges.binding_profile import MODEL
from posym_companion.language_models.judges.origins import SHOWN_IN, origins_result
from posym_companion.language_models.origins import WORDINGS
from posym_companion.results import Result
from posym_companion.solvers.judges.gemma_roles import CARRIES
from posym_companion.solvers.judges.gemma_runs import load_runs, restored_share
from posym_core.metrics import AXES, mean_interval

BLOCK = "block"
SYMBOL, RATHER = "contrast of the symbol asked for", "the same less that of its origin"
LESS, TAUGHT = "share of the heads that carry nothing with less of it", "the same less that before teaching"


def find_carriers(folder: Path | None, model: str = MODEL) -> list[tuple[int, int]]:
    """Return layer and head of those that carry the answer in the taught runs of every seed."""
    carry = np.stack([restored_share(result) > CARRIES for result in load_runs(folder, model=model)]).all(0)
    return [(int(layer), int(head)) for layer, head in np.argwhere(carry)]


def measure_contrast(result: Result, factor: str, read: str = BLOCK) -> np.ndarray:
    """Return how much the symbol, origin or place asked for stands out, ``[prompt, layer, head]``."""
    return result["contrasts"][result["curves"].tolist().index(read), AXES.index(factor)].astype(float)


@judge(SHOWN_IN, model=MODEL, measured_on="{model}, taught to bind")
def carriers_read_symbols(look: Look) -> Iterator[Yielded]:
    """C-4: contrasts of the logits of what is asked for, head by head, beside the untaught model's."""
    look.record(*load_runs(look.folder, model=look.model))
    heads, correct = find_carriers(look.folder, look.model), []
    for quantity in (SYMBOL, RATHER, LESS, TAUGHT):
        yield quantity, "no head", None
    for wording in WORDINGS:
        taught, plain = (
            origins_result(look.folder, model=name, wording=wording) for name in (f"{look.model}-binds", look.model)
        )
        look.record(taught, plain)
        correct.append(float(taught["correct"].astype(float).mean()))
        symbol, origin = (measure_contrast(taught, factor) for factor in ("symbol", "origin"))
        gain, mean = symbol - measure_contrast(plain, "symbol"), symbol.mean(0)
        chosen = tuple(np.array(heads, dtype=int).reshape(-1, 2).T)
        others = np.ones(mean.shape, dtype=bool)
        others[chosen] = False
        for layer, head in heads:
            where = f"{layer}:{head}, {wording}"
            for quantity, values in ((SYMBOL, symbol), (RATHER, symbol - origin), (TAUGHT, gain)):
                yield quantity, where, mean_interval(values[:, layer, head], over="prompts")
            yield LESS, where, float((mean[others] < mean[layer, head]).mean())
            yield "contrast of the origin asked for", where, float(origin[:, layer, head].mean())
        gained = mean_interval(gain[:, *chosen].mean(1), over="prompts") if heads else float("nan")
        yield "symbol's contrast, taught minus untaught", wording, gained
    yield "share of prompts answered right, least of both wordings", "", min(correct)
    yield "share of prompts answered right", "", float(np.mean(correct))
    look.note = (
        f"Heads that carry the answer: {', '.join(f'{layer}:{head}' for layer, head in heads) or 'none'}. "
        f"Contrasts are of the log-sum-exp over a fact's keys, in units of the logit, over {len(symbol)} prompts, so "
        "that an interval is little more than their least and largest."
    )
