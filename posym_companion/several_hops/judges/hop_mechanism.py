"""Judge of U26-8: the roles of trained heads, from the stored programs and ablations of the multihop models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Number, cases
from posym_companion.several_hops.hop_mechanism import HopMechanism
from posym_companion.several_hops.judges.multihop import MODEL, SHOWN_IN, kinds
from posym_companion.several_hops.multihop import SEEDS, paper_size
from posym_companion.several_hops.programs import AGREES
from posym_core.runs.results import Result, load_result, stored_results

# Candidates of posym_companion.several_hops.programs: oneself, and so many hops ahead.
REFLEXIVE, ONE_HOP, TWO_HOPS, FOUR_HOPS = 0, 3, 4, 6
# A layer decides for a hop if silencing it costs more than this of that hop's accuracy.
DECIDES = 0.5


def runs_program(result: Result, program: int) -> np.ndarray:
    """Whether a layer's head agrees with a program most of all, and on more than half of the tokens, ``[layer]``."""
    hits = np.nan_to_num(result["hits"][:, 0])
    return (hits.argmax(-1) == program) & (hits[:, program] > AGREES)


def roles(folder: Path | None, seeds: Sequence[int] = SEEDS) -> Measured:
    """U26-8: what heads of each kind do at the end, and what the last layer is needed for."""
    names = [HopMechanism(model=setting.name).name for setting in paper_size() if setting.seed in seeds]
    results = stored_results(names, folder, least=min(4, len(names)))
    held: dict[str, list[bool]] = {"Index": [], "Reflexive": [], "Retrieval": [], "decides": []}
    functions, ahead = {}, []
    for result in results:
        kind = kinds(load_result(str(result.settings["model"]), folder=folder))[-1][:, 0]
        one, own = runs_program(result, ONE_HOP), runs_program(result, REFLEXIVE)
        if "number" in result.name:
            held["Index"] += one[kind == 1].tolist()
            held["Reflexive"] += own[kind == -1].tolist()
        else:
            held["Retrieval"] += one[kind == -1].tolist()
            held["decides"] += (result["accuracy"] - result["silenced"][-1, 0] > DECIDES).tolist()
            best = np.nan_to_num(result["hits"][:, 0]).argmax(-1)
            ahead.append(best[1] == TWO_HOPS and best[3] == FOUR_HOPS)
        functions[result.name] = "".join("H" if o else "R" if r else "." for o, r in zip(one, own, strict=True))
    lost = max(float((result["accuracy"] - result["silenced"][-1, 0]).max()) for result in results)
    ours: dict[str, Number] = {
        "Number's positional heads that make one hop": cases(held["Index"]),
        "Number's symbolic heads that keep": cases(held["Reflexive"]),
        "Letter's symbolic heads that make one hop": cases(held["Retrieval"]),
        "Letter's hops and seeds that the last layer decides": cases(held["decides"]),
        "largest loss of a hop's accuracy without the last layer": lost,
        **{f"one hop H, keeps R, neither ., by layer ({name})": text for name, text in functions.items()},
    }
    fails = []
    if any(ahead):
        fails.append(f"Letter's second layer looks two hops ahead and its fourth four, in {cases(ahead)} seeds")
    if lost <= DECIDES:
        fails.append(f"silencing the last layer costs at most {lost:.2f} of any hop's accuracy")
    return Measured(
        ours=ours,
        model=MODEL,
        evidence=[*(result.name for result in results), SHOWN_IN],
        fails_in=fails,
        note="A head's role is the program that its largest weight agrees with most, on more than half of the tokens. "
        "The paper reads roles off plots of attention. Figure 8, frequency use, is U26-3.",
    )
