"""Does the model that was taught to bind answer where the attribute stands before the name?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.results import Result
from posym_companion.solvers.binding_direction import FACTS, ORDERS, WORDINGS, BindingDirection
from posym_companion.solvers.judges.gemma_runs import MODEL, SEEDS, SHOWN_IN
from posym_core.metrics import mean_interval


def answers(result: Result) -> dict[tuple[str, str, int], tuple[np.ndarray, np.ndarray]]:
    """Return by order, wording and number of facts: which prompts are answered right, and which with the next fact.

    Of the second, the prompts whose last fact is asked about are left out, since nothing follows it: both are of
    the others where they are compared.
    """
    answered = {}
    wordings = result.settings.get("wordings", WORDINGS)
    for place in np.ndindex(result["chosen"].shape[:-1]):
        chosen, target = result["chosen"][place], result["target"][place]
        facts = int(result["facts"][place[2]])
        followed = target < facts - 1
        where = ORDERS[place[0]], wordings[place[1]], facts
        answered[where] = chosen == target, (chosen == target + 1)[followed]
    return answered


@judge(SHOWN_IN, model=MODEL, measured_on="{model}, taught to bind")
def both_orders(look: Look) -> Iterator[Yielded]:
    """T-8G: accuracy in both orders on words never taught, and how often the next fact's attribute is named."""
    taught: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {order: [] for order in ORDERS}
    for seed in SEEDS:
        for (order, wording, facts), each in answers(
            look.load(BindingDirection(model=look.model, taught=seed))
        ).items():
            where = f"{order}, {wording}, {facts} facts, seed {seed}"
            for quantity, values in zip(("accuracy", "next fact's attribute"), each, strict=True):
                yield quantity, where, mean_interval(values, over="prompts")
            taught[order].append(each)
    for (order, wording, facts), (right, _) in answers(look.load(BindingDirection(model=look.model))).items():
        yield "accuracy of the untaught", f"{order}, {wording}, {facts} facts", mean_interval(right, over="prompts")
    means = {
        order: [np.concatenate(x).mean().item() for x in zip(*each, strict=True)] for order, each in taught.items()
    }
    for order, (right, following) in means.items():
        yield f"accuracy, {order}", "", right
        yield f"next fact's attribute, {order}", "", following
    right, following = means[ORDERS[1]]
    look.note = (
        f"On {len(WORDINGS)} wordings, names and attributes that no lesson had, with {' and '.join(map(str, FACTS))} "
        "facts; in the second order the attribute that follows a name is the next fact's, and the taught models name "
        f"it in {following:.0%} of the answers that have a next fact, the right one in {right:.0%} of all"
    )
