"""Judges of U26-8 and U26-10: the roles of trained heads, and whether pure ones are critical, in the multihop models.

Both read the stored programs and ablations.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Number, count_cases
from posym_companion.results import Result, load_result, load_stored_results
from posym_companion.several_hops.hop_mechanism import HopMechanism
from posym_companion.several_hops.judges.multihop import MODEL, SHOWN_IN, classify_heads
from posym_companion.several_hops.multihop import SEEDS, paper_size
from posym_companion.several_hops.programs import AGREES
from posym_core.metrics import mean_interval

# Candidates of posym_companion.several_hops.programs: oneself, and so many hops ahead.
REFLEXIVE, ONE_HOP, TWO_HOPS, FOUR_HOPS = 0, 3, 4, 6
# A layer decides for a hop if silencing it costs more than this of that hop's accuracy.
DECIDES = 0.5
# A head is critical if its removal costs more than this of the accuracy.
CRITICAL = 0.1


def runs_program(result: Result, program: int) -> np.ndarray:
    """Whether a layer's head agrees with a program most of all, and on more than half of the tokens, ``[layer]``."""
    hits = np.nan_to_num(result["hits"][:, 0])
    return (hits.argmax(-1) == program) & (hits[:, program] > AGREES)


def list_with_models(results: Sequence[Result]) -> list[str]:
    """Return the names of some results and of the trainings that they looked into."""
    return [name for result in results for name in (result.name, str(result.settings["model"]))]


def pure_heads_are_critical(folder: Path | None) -> Measured:
    """U26-10: what the removal of a pure head costs, and that of another head of the same model."""
    names = [HopMechanism(model=setting.name).name for setting in paper_size()]
    results = load_stored_results(names, folder, least=min(4, len(names)))
    ours: dict[str, Number] = {}
    for task in ("number", "letter"):
        costs, pure = [], []
        for result in (one for one in results if task in one.name):
            costs.append((result["accuracy"] - result["silenced"][:, 0]).mean(-1))
            pure.append(classify_heads(load_result(str(result.settings["model"]), folder=folder))[-1][:, 0] != 0)
        mixed = [(cost, mark) for cost, mark in zip(costs, pure, strict=True) if not mark.all()]
        both = [(cost[mark].mean(), cost[~mark].mean()) for cost, mark in mixed]
        critical = [cost.max() > CRITICAL for cost, _ in mixed]
        ours |= {
            f"{task}: pure heads that are critical": count_cases(
                np.concatenate(costs)[np.concatenate(pure)] > CRITICAL
            ),
            f"{task}: other heads that are critical": count_cases(
                np.concatenate(costs)[~np.concatenate(pure)] > CRITICAL
            ),
            f"{task}: models in which pure heads cost more than others": count_cases(
                own > other for own, other in both
            ),
            f"{task}: models with a critical head in which pure heads cost more than others": count_cases(
                own > other for (own, other), some in zip(both, critical, strict=True) if some
            ),
        }
        for name, values in (("a pure head", [x for x, _ in both]), ("another head", [x for _, x in both])):
            if values:
                ours[f"{task}: accuracy that {name} costs, models that have both"] = mean_interval(np.array(values))
    evidence = [*list_with_models(results), SHOWN_IN]
    note = "A removed head says its mean over sequences. Accuracy is the mean over one to four hops."
    return Measured(ours=ours, model=MODEL, evidence=evidence, note=note)


def roles(folder: Path | None, seeds: Sequence[int] = SEEDS) -> Measured:
    """U26-8: what heads of each kind do at the end, and what the last layer is needed for."""
    names = [HopMechanism(model=setting.name).name for setting in paper_size() if setting.seed in seeds]
    results = load_stored_results(names, folder, least=min(4, len(names)))
    held: dict[str, list[bool]] = {"Index": [], "Reflexive": [], "Retrieval": [], "decides": []}
    functions, ahead = {}, []
    for result in results:
        kind = classify_heads(load_result(str(result.settings["model"]), folder=folder))[-1][:, 0]
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
        "Number's positional heads that make one hop": count_cases(held["Index"]),
        "Number's symbolic heads that keep": count_cases(held["Reflexive"]),
        "Letter's symbolic heads that make one hop": count_cases(held["Retrieval"]),
        "Letter's hops and seeds that the last layer decides": count_cases(held["decides"]),
        "largest loss of a hop's accuracy without the last layer": lost,
        **{f"one hop H, keeps R, neither ., by layer ({name})": text for name, text in functions.items()},
    }
    fails = []
    if any(ahead):
        fails.append(f"Letter's second layer looks two hops ahead and its fourth four, in {count_cases(ahead)} seeds")
    if lost <= DECIDES:
        fails.append(f"silencing the last layer costs at most {lost:.2f} of any hop's accuracy")
    return Measured(
        ours=ours,
        model=MODEL,
        evidence=[*list_with_models(results), SHOWN_IN],
        fails_in=fails,
        note="A head's role is the program that its largest weight agrees with most, on more than half of the tokens. "
        "The paper reads roles off plots of attention. Figure 8, frequency use, is U26-3.",
    )
