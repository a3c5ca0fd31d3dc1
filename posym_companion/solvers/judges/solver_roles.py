"""Do scores tell what a head does? Roles of heads of decoders that solve their task, against what is measured of them.

A head *carries* a kind of question if patching it alone moves at least a fifth of the model's preference, and is
*needed* for it if its mean ablation costs at least a tenth of the accuracy.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.finding import Measured, Number, count_cases
from posym_companion.results import MissingResultError, Result
from posym_companion.solvers.areas import detection
from posym_companion.solvers.judges.solver_heads import heads_measured, load_settings
from posym_companion.solvers.task_solvers import SCORES, SHARES
from posym_core.metrics import Estimate

CARRIES, NEEDED = 0.2, 0.1
DRAWS = 500  # of the bootstrap
LAST, EARLIER = "in the last layer", "in earlier layers"


def pool_heads(results: dict[str, Result]) -> dict[str, np.ndarray]:
    """The heads of all models: measurements and roles on binding and on index, model and depth, each ``[head]``."""
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


def scores_tell_roles(folder: Path | None) -> Measured:
    """T-5: how well each measurement ranks the heads that carry a question, and tells carriers apart."""
    results = {
        name: result for name, result in load_settings(folder).items() if "last" not in result.settings["questions"]
    }
    if not results:
        raise MissingResultError("no solved setting asks binding and index alone")
    heads = pool_heads(results)
    ours: dict[str, Number] = {}

    def detected(values: np.ndarray, chosen: np.ndarray, among: np.ndarray) -> Number:
        counted = among & np.isfinite(values)
        if not 0 < chosen[counted].sum() < counted.sum():
            return "no heads on both sides"
        return detection(values[counted], chosen[counted], groups=heads["model"][counted], draws=DRAWS)

    everyone = np.ones(len(heads["model"]), dtype=bool)
    for question in ("binding", "index"):
        for role in ("carried", "needed"):
            chosen = heads[f"{question} {role}"]
            ours[f"heads of all by which {question} is {role}"] = count_cases(chosen)
            for name in (*SCORES, *SHARES):
                found = detected(heads[f"{question} {name}"], chosen, everyone)
                ours[f"{name} ranks heads by which {question} is {role}"] = found
        ours[f"depth alone ranks heads by which {question} is carried"] = detected(
            heads["depth"], heads[f"{question} carried"], everyone
        )
    gap = np.asarray(
        sum(heads[f"{question} symbolic"] - heads[f"{question} positional"] for question in ("binding", "index"))
    )
    one = heads["binding carried"] ^ heads["index carried"]
    ours["s_SYM - s_POS tells carriers of binding from those of index"] = detected(gap, heads["binding carried"], one)
    for where, there in ((LAST, heads["depth"] == 1), (EARLIER, heads["depth"] < 1)):
        asked = {
            f"{name} ranks heads by which {question} is carried": (heads[f"{question} {name}"], question, there)
            for question in ("binding", "index")
            for name in (*SCORES, *SHARES)
        } | {"s_SYM - s_POS tells carriers of binding from those of index": (gap, "binding", there & one)}
        for name, (values, question, among) in asked.items():
            chosen = heads[f"{question} carried"]
            ours[f"{name}, {where}"] = detected(values, chosen, among)
            counted = among & np.isfinite(values)
            ours[f"{name}, {where}: heads on the smaller side"] = int(
                min((chosen & counted).sum(), (~chosen & counted).sum())
            )
    note = (
        f"Areas under the curve, 0.5 by chance. A head carries a question if patching it moves {CARRIES:.0%} of the "
        f"preference, and is needed if its mean ablation costs {NEEDED:.0%} of accuracy. Depth alone, the later the "
        f"more, ranks carriers of binding with {_area(ours['depth alone ranks heads by which binding is carried'])} "
        f"and those of index with {_area(ours['depth alone ranks heads by which index is carried'])}. "
    )
    for name, score in (("symbolic", "s_SYM"), ("positional", "s_POS")):
        by = f"{name} ranks heads by which binding is carried"
        areas = (f"{_area(ours[f'{by}, {where}'])} {where}" for where in (LAST, EARLIER))
        note += f"By {score} carriers of binding rank with {' and '.join(areas)}. "
    return heads_measured(results, ours, note=note.strip())


def _area(found: Number) -> str:
    """An area without its interval."""
    return f"{found.value:.2f}" if isinstance(found, Estimate) else str(found)
