"""Does the model that was taught to bind answer where the attribute stands before the name?"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Number, count_cases
from posym_companion.results import Result, load_result
from posym_companion.solvers.binding_direction import FACTS, ORDERS, WORDINGS, BindingDirection
from posym_companion.solvers.judges.gemma_runs import MODEL, SEEDS, SHOWN_IN
from posym_core.metrics import mean_interval

# A model answers a kind of question if the interval of its accuracy is above this; one in 8 or 16 is chance.
ANSWERS = 0.5
RIGHT = {order: f"cases answered, {order}" for order in ORDERS}


def answers(result: Result) -> dict[tuple[str, str, int], tuple[np.ndarray, np.ndarray]]:
    """By order, wording and number of facts: which prompts are answered right, and which with the next fact.

    Of the second, the prompts whose last fact is asked about are left out, since nothing follows it: both are of
    the others where they are compared.
    """
    found = {}
    wordings = result.settings.get("wordings", WORDINGS)
    for place in np.ndindex(result["chosen"].shape[:-1]):
        chosen, target = result["chosen"][place], result["target"][place]
        facts = int(result["facts"][place[2]])
        followed = target < facts - 1
        where = ORDERS[place[0]], wordings[place[1]], facts
        found[where] = chosen == target, (chosen == target + 1)[followed]
    return found


def both_orders(folder: Path | None, model: str = MODEL) -> Measured:
    """T-8G: accuracy in both orders on words never taught, and how often the next fact's attribute is named."""
    taught = [load_result(BindingDirection(model=model, taught=seed).name, folder=folder) for seed in SEEDS]
    untaught = load_result(BindingDirection(model=model).name, folder=folder)
    ours: dict[str, Number] = {}
    held: dict[str, list[bool]] = {name: [] for name in RIGHT.values()}
    fails, pooled = [], {order: ([], []) for order in ORDERS}
    for result in (*taught, untaught):
        seed = result.settings["taught"]
        who = "untaught" if seed is None else f"seed {seed}"
        for (order, wording, facts), (right, following) in answers(result).items():
            where = f"{order}, {wording}, {facts} facts, {who}"
            accuracy = ours[f"accuracy ({where})"] = mean_interval(right, over="prompts")
            ours[f"next fact's attribute ({where})"] = mean_interval(following, over="prompts")
            if seed is None:
                continue
            held[RIGHT[order]].append(accuracy.low > ANSWERS)
            pooled[order][0].append(right)
            pooled[order][1].append(following)
            if not held[RIGHT[order]][-1]:
                fails.append(f"{where}: right {accuracy}")
    means: dict[str, Number] = {}
    for order, (right, following) in pooled.items():
        means[f"accuracy, {order}"] = float(np.concatenate(right).mean())
        means[f"next fact's attribute, {order}"] = float(np.concatenate(following).mean())
    note = (
        f"On {len(WORDINGS)} wordings, names and attributes that no lesson had, with {' and '.join(map(str, FACTS))} "
        "facts; in the second order the attribute that follows a name is the next fact's, and the taught models name "
        f"it in {means[f'next fact{chr(39)}s attribute, {ORDERS[1]}']:.0%} of the answers that have a next fact, the "
        f"right one in {means[f'accuracy, {ORDERS[1]}']:.0%} of all"
    )
    return Measured(
        ours={**{name: count_cases(x) for name, x in held.items()}, **means, **ours},
        model=f"{model}, taught to bind",
        evidence=[*(result.name for result in (*taught, untaught)), SHOWN_IN],
        fails_in=fails,
        note=note,
    )
