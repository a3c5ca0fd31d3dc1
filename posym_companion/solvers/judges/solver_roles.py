"""Do scores tell what a head does? Roles of heads of decoders that solve their task, against what is measured of them.

A head *carries* a kind of question if patching it alone moves at least a fifth of the model's preference, and is
*needed* for it if its mean ablation costs at least a tenth of the accuracy.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.results import MissingResultError, Result
from posym_companion.solvers.areas import detection
from posym_companion.solvers.head_roles import CARRIES, NEEDED
from posym_companion.solvers.judges.solver_heads import look_at_settings
from posym_companion.solvers.judges.task_solvers import MODEL, SHOWN_IN
from posym_companion.solvers.task_solvers import SCORES, SHARES
from posym_companion.verdicts import count_cases
from posym_core.metrics import Estimate

DRAWS = 500  # of the bootstrap
QUESTIONS = ("binding", "index")
LAST, EARLIER = "in the last layer", "in earlier layers"


def pool_heads(results: dict[str, Result]) -> dict[str, np.ndarray]:
    """Return of the heads of all models measurements and roles on both questions, model and depth, each ``[head]``."""
    parts: dict[str, list[np.ndarray]] = {}

    def add(name: str, values: np.ndarray) -> None:
        parts.setdefault(name, []).append(values.ravel())

    for number, result in enumerate(results.values()):
        for kind, question in enumerate(result.settings["questions"]):
            loss = result["intact"][:, kind, None, None] - result["ablated"][:, kind]
            add(f"{question} carried", result["patched"][:, kind] >= CARRIES)
            add(f"{question} needed", loss >= NEEDED)
            for names, array in ((SCORES, "scores"), (SHARES, "shares")):
                for place, name in enumerate(names):
                    add(f"{question} {name}", result[array][:, kind, ..., place].astype(float))
        seeds = np.arange(len(result["intact"]))[:, None, None]
        add("model", np.broadcast_to(seeds + 1000 * number, loss.shape))
        depth = np.linspace(0, 1, result.settings["layers"])
        add("depth", np.broadcast_to(depth[:, None], loss.shape))
    return {name: np.concatenate(values) for name, values in parts.items()}


@judge(SHOWN_IN, measured_on=MODEL)
def scores_tell_roles(look: Look) -> Iterator[Yielded]:
    """T-5: how well each measurement ranks the heads that carry a question, and tells carriers apart."""
    results = look_at_settings(look, without="last")
    if not results:
        raise MissingResultError("no solved setting asks binding and index alone")
    heads, areas = pool_heads(results), {}

    def detect(values: np.ndarray, chosen: np.ndarray, among: np.ndarray) -> Estimate | str:
        counted = among & np.isfinite(values)
        if not 0 < chosen[counted].sum() < counted.sum():
            return "no heads on both sides"
        return detection(values[counted], chosen[counted], groups=heads["model"][counted], draws=DRAWS)

    everyone = np.ones(len(heads["model"]), dtype=bool)
    for question, role in product(QUESTIONS, ("carried", "needed")):
        chosen = heads[f"{question} {role}"]
        yield f"heads of all by which {question} is {role}", "", count_cases(chosen)
        for name in (*SCORES, *SHARES[:2]):
            area = detect(heads[f"{question} {name}"], chosen, everyone)
            yield f"{name} ranks heads by which {question} is {role}", "", area
    gap = sum(heads[f"{question} symbolic"] - heads[f"{question} positional"] for question in QUESTIONS)
    one = heads["binding carried"] ^ heads["index carried"]
    tells = "s_SYM - s_POS tells carriers of binding from those of index"
    for where, layers in ((LAST, heads["depth"] == 1), (EARLIER, heads["depth"] < 1)):
        asked = {
            f"{name} ranks heads by which {question} is carried": (heads[f"{question} {name}"], question, layers)
            for name, question in (("symbolic", "binding"), ("positional", "index"))
        } | {tells: (np.asarray(gap), "binding", layers & one)}
        for name, (values, question, among) in asked.items():
            chosen, counted = heads[f"{question} carried"], among & np.isfinite(values)
            yield f"{name}, {where}", "", detect(values, chosen, among)
            smaller = int(min((chosen & counted).sum(), (~chosen & counted).sum()))
            yield f"{name}, {where}: heads on the smaller side", "", smaller
        for name in ("symbolic", "positional"):
            areas[name, where] = detect(heads[f"binding {name}"], heads["binding carried"], layers)
    alone = {question: detect(heads["depth"], heads[f"{question} carried"], everyone) for question in QUESTIONS}
    note = (
        f"{look.note} "
        f"Areas under the curve, 0.5 by chance. A head carries a question if patching it moves {CARRIES:.0%} of the "
        f"preference, and is needed if its mean ablation costs {NEEDED:.0%} of accuracy. Depth alone, the later the "
        f"more, ranks carriers of binding with {_write(alone['binding'])} and those of index with "
        f"{_write(alone['index'])}. "
    )
    for name, score in (("symbolic", "s_SYM"), ("positional", "s_POS")):
        each = (f"{_write(areas[name, where])} {where}" for where in (LAST, EARLIER))
        note += f"By {score} carriers of binding rank with {' and '.join(each)}. "
    look.note = note.strip()


def _write(area: Estimate | str) -> str:
    """Return an area without its interval."""
    return f"{area.value:.2f}" if isinstance(area, Estimate) else area
