"""Do heads that find a fact by its name hand on its address, and what goes by it?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from posym_companion.judging import Look, Yielded, judge
from posym_companion.language_models.judges.origins import SHOWN_IN
from posym_companion.results import Result
from posym_companion.score_statistics import divide_sums
from posym_companion.solvers.head_addresses import ANSWERS, HEADS, LESSONS, SITES, SOURCES, HeadAddresses, full_size
from posym_core.metrics import mean_interval

DRAWS = 2000


def get_moves(result: Result, source: str, reader: int, site: str = "heads") -> Float[np.ndarray, " square"]:
    """Return how far a reader's log attention to the other place over that to the asked one grows, by square."""
    return result["moved"][:, SITES.index(site), list(SOURCES).index(source), reader].astype(float)


def get_odds(result: Result, source: str, site: str = "heads") -> Float[np.ndarray, " square"]:
    """Return how far the log-odds of the other fact's attribute against the asked one's grow, by square."""
    return result["odds"][:, SITES.index(site), list(SOURCES).index(source)].astype(float)


def name_setting(setting: HeadAddresses) -> str:
    """Return the words that the cases of a setting have in common."""
    model = f"decoders, {setting.model}" if setting.model in LESSONS else setting.model
    run = "untaught" if setting.taught is None else f"run {setting.taught}"
    return ", ".join([model, run, *([] if setting.model in LESSONS else [setting.wording])])


@judge(SHOWN_IN, measured_on=f"{' and '.join(HEADS)}, taught to bind and as they come, and small decoders")
def heads_hand_on_addresses(look: Look) -> Iterator[Yielded]:
    """A-1: what later heads and the answer follow of what name-finding heads hand on."""
    right: list[float] = []
    by_order: list[float] = []
    means: dict[str, list[float]] = {}
    for setting in full_size():
        result, where = look.load(setting), name_setting(setting)
        language, taught = setting.model not in LESSONS, setting.taught is not None
        plain = look.load(replace(setting, taught=None)) if language and taught else None
        odds = {source: get_odds(result, source) for source in SOURCES}
        for source in SOURCES:
            yield f"log-odds moved by {source}", where, mean_interval(odds[source], over="squares")
        by_order.append(odds["shuffled"].mean())
        if plain is not None:
            share = divide_sums(odds["address"], odds["both"], draws=DRAWS)
            means.setdefault(f"address share of the answer, {setting.model}", []).append(share.value)
            yield "address share of the answer", where, share
            place, source = SITES.index("heads"), list(SOURCES).index("address")
            answers = result["chosen"][:, place, source].astype(float).mean(0)
            yield from (
                (f"answers with the {name} fact by address", where, x)
                for name, x in zip(ANSWERS, answers.tolist(), strict=True)
            )
            later = result["moved_later"][:, source].astype(float).mean(0)
            yield "most that address moves any later head", where, float(later.max())
        for number, (layer, head) in enumerate(result["named"][-result["moved"].shape[-1] :].tolist()):
            reader = f"{where}, {layer}:{head}"
            moves = {source: get_moves(result, source, number) for source in SOURCES}
            for source in SOURCES:
                moved = mean_interval(moves[source], over="squares")
                yield f"moved by {source}", reader, moved
                if source == "shuffled":
                    yield "most that a shuffled source moves", reader, max(abs(moved.low), abs(moved.high))
            kind = f"{'taught' if taught else 'untaught'} {setting.model}"
            for site in SITES:
                moved_there = get_moves(result, "address", number, site).mean()
                means.setdefault(f"moved by address, {site}, {kind}", []).append(moved_there)
            ahead = -result["before"][:, number].astype(float).mean()
            means.setdefault(f"asked place ahead before, {kind}", []).append(ahead)
            if taught:
                share = divide_sums(moves["address"], moves["both"], draws=DRAWS)
                less = moves["address"] - get_moves(result, "address", number, "other heads")
                yield "address share", reader, share
                yield "moved by address less by other heads'", reader, mean_interval(less, over="squares")
            if plain is not None:
                means.setdefault(f"address share, {setting.model}", []).append(share.value)
                less = moves["address"] - get_moves(plain, "address", number)
                yield "moved by address less in the untaught model", reader, mean_interval(less, over="squares")
        if taught:
            right.append(float(result["correct"].astype(float).mean()))
    yield from ((f"mean {name}", "", float(np.mean(each))) for name, each in means.items())
    yield "share of questions answered right, least of all taught models, runs and wordings", "", min(right)
    look.note = (
        "Moves are of the logarithm of attention, in nats, and means over a square's eight questions; intervals are "
        "over squares. Runs of teaching have the same first weights and other lessons, and are asked about the same "
        "squares. The share does not grow with teaching: of the little that moves later heads in the untaught SmolLM2 "
        "most is the address. The control is of attention; other facts' order moves the answer's log-odds by "
        f"{max(map(abs, by_order)):.2f} at most."
    )
