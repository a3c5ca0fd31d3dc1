"""What the heads that carry binding in a taught model read: the symbol asked for, its origin or its place."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.finding import Cases, Measured, Number, Tally, lies_beyond
from posym_companion.language_models.judges.binding_profile import MODEL
from posym_companion.language_models.judges.origins import SHOWN_IN, origins_result
from posym_companion.language_models.origins import WORDINGS
from posym_companion.results import Result
from posym_companion.solvers.judges.gemma_roles import CARRIES
from posym_companion.solvers.judges.gemma_runs import load_runs, restored_share
from posym_core.metrics import AXES, mean_interval

BLOCK = "block"
MOST = 6
# A carrier reads more than heads that carry nothing do if it reads more than this share of them.
RARE = 0.95
ASKED = ("above zero", "above the origin's", "above most heads that carry nothing", "above that before teaching")
RIGHT = "share of prompts answered right, least of both wordings"


def find_carriers(folder: Path | None, model: str = MODEL) -> list[tuple[int, int]]:
    """Layer and head of those that carry the answer in the taught runs of every seed."""
    carry = np.stack([restored_share(result) > CARRIES for result in load_runs(folder, model=model)]).all(0)
    return [(int(layer), int(head)) for layer, head in np.argwhere(carry)]


def measure_contrast(result: Result, factor: str, read: str = BLOCK) -> np.ndarray:
    """How much the symbol, origin or place asked for stands out, ``[prompt, layer, head]``."""
    found = result["contrasts"][result["curves"].tolist().index(read), AXES.index(factor)]
    return found.astype(float)


def carriers_read_symbols(folder: Path | None, model: str = MODEL) -> Measured:
    """C-4: contrasts of the logits of what is asked for, head by head, beside the untaught model's."""
    heads, evidence = find_carriers(folder, model), [result.name for result in load_runs(folder, model=model)]
    tally, correct = Tally(), []
    gains: dict[str, Number] = {}
    for wording in WORDINGS:
        taught, plain = (origins_result(folder, model=name, wording=wording) for name in (f"{model}-binds", model))
        evidence += [result.name for result in (taught, plain)]
        correct.append(float(taught["correct"].astype(float).mean()))
        symbol, origin, place = (measure_contrast(taught, factor) for factor in AXES)
        gain = symbol - measure_contrast(plain, "symbol")
        chosen = tuple(np.array(heads, dtype=int).reshape(-1, 2).T)
        others = np.ones(symbol.shape[1:], dtype=bool)
        others[chosen] = False
        mean = {factor: x.mean(0) for factor, x in zip(AXES, (symbol, origin, place), strict=True)}
        for layer, head in heads:
            where = f"{layer}:{head}, {wording}"
            read, rather = (mean_interval(x[:, layer, head], over="prompts") for x in (symbol, symbol - origin))
            above = {"above zero": lies_beyond(read, 1)}
            tally.add("contrast of the symbol asked for", where, read, above, f"{where}: {read}")
            above = {"above the origin's": lies_beyond(rather, 1)}
            tally.add("the same less that of its origin", where, rather, above, f"{where}, less its origin's: {rather}")
            less = float((mean["symbol"][others] < mean["symbol"][layer, head]).mean())
            tally.numbers[f"share of the heads that carry nothing with less of it ({where})"] = less
            tally.held.setdefault("above most heads that carry nothing", []).append((where, less > RARE))
            taught_it = mean_interval(gain[:, layer, head], over="prompts")
            more = {"above that before teaching": lies_beyond(taught_it, 1)}
            tally.add("the same less that before teaching", where, taught_it, more, f"{where}, taught: {taught_it}")
            for name, x in (("origin", origin), ("place", place)):
                tally.numbers[f"contrast of the {name} asked for ({where})"] = float(x[:, layer, head].mean())
        gains[f"symbol's contrast, taught minus untaught ({wording})"] = (
            mean_interval(gain[:, *chosen].mean(1), over="prompts") if heads else float("nan")
        )
        most = [divmod(at, mean["symbol"].shape[1]) for at in mean["symbol"].ravel().argsort()[::-1][:MOST].tolist()]
        tally.numbers[f"heads of the largest contrasts of the symbol asked for, beside its origin's ({wording})"] = (
            "; ".join(
                f"{layer}:{head} {mean['symbol'][layer, head]:.2f}, {mean['origin'][layer, head]:.2f}"
                for layer, head in most
            )
        )
        for factor, x in mean.items():
            tally.numbers[f"contrast of the {factor} asked for, median of all other heads ({wording})"] = float(
                np.median(x[others])
            )
    none: dict[str, Number] = {
        f"carriers and wordings with the symbol's contrast {part}": Cases(0, 0) for part in ASKED
    }
    return Measured(
        ours={
            RIGHT: min(correct),
            "share of prompts answered right": float(np.mean(correct)),
            **none,
            **tally.counts("carriers and wordings with the symbol's contrast {}"),
            **gains,
            **tally.numbers,
        },
        model=f"{model}, taught to bind",
        evidence=[*evidence, SHOWN_IN],
        fails_in=tally.missed,
        note=f"Heads that carry the answer: {', '.join(f'{layer}:{head}' for layer, head in heads) or 'none'}. "
        f"Contrasts are of the log-sum-exp over a fact's keys, in units of the logit, over {len(symbol)} prompts, so "
        "that an interval is little more than their least and largest.",
    )
