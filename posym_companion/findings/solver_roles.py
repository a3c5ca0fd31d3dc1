"""Do scores tell what a head does? Roles of heads of decoders that solve their task, against what is measured of them.

A head *carries* a kind of question if patching it alone moves at least a fifth of the model's preference, and is
*needed* for it if its mean ablation costs at least a tenth of the accuracy.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from posym_companion.experiments.task_solvers import SCORES, SHARES
from posym_companion.findings.finding import Claim, Line, Measured, Number, Rule, cases
from posym_companion.findings.solver_heads import heads_measured, solvers
from posym_companion.findings.task_solvers import COMMAND, SOLVED
from posym_core.metrics.areas import detection
from posym_core.runs.results import MissingResultError, Result

CARRIES, NEEDED = 0.2, 0.1
DRAWS = 500  # of the bootstrap
# A measurement tells heads apart if it puts this part of the pairs in order.
TELLS = 0.8


def pooled(results: dict[str, Result]) -> dict[str, np.ndarray]:
    """The heads of all models: measurements and roles on binding and on index, and their model, each ``[head]``."""
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
    return {name: np.concatenate(values) for name, values in parts.items()}


def scores_tell_roles(folder: Path | None) -> Measured:
    """T-5: how well each measurement ranks the heads that carry a question, and tells carriers apart."""
    results = {name: result for name, result in solvers(folder).items() if "last" not in result.settings["questions"]}
    if not results:
        raise MissingResultError("no solved setting asks binding and index alone")
    heads = pooled(results)
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
            ours[f"heads of all by which {question} is {role}"] = cases(chosen)
            for name in (*SCORES, *SHARES):
                found = detected(heads[f"{question} {name}"], chosen, everyone)
                ours[f"{name} ranks heads by which {question} is {role}"] = found
    gap = sum(heads[f"{question} symbolic"] - heads[f"{question} positional"] for question in ("binding", "index"))
    one = heads["binding carried"] ^ heads["index carried"]
    ours["s_SYM - s_POS tells carriers of binding from those of index"] = detected(
        np.asarray(gap), heads["binding carried"], one
    )
    note = (
        f"Areas under the curve, 0.5 by chance. A head carries a question if patching it moves {CARRIES:.0%} of the "
        f"preference, and is needed if its mean ablation costs {NEEDED:.0%} of accuracy."
    )
    rule = ROLES.rule
    missed = [f"{line.of}: {ours[line.of]}" for line in rule.lines if not line.kept(ours)]
    return heads_measured(results, ours, missed, note)


TELLING = (
    "symbolic ranks heads by which binding is carried",
    "positional ranks heads by which index is carried",
    "s_SYM - s_POS tells carriers of binding from those of index",
)
ROLES = Claim(
    id="T-5",
    short="Scores tell what a head does",
    claim="Symbolic heads are those that answer by content and positional heads those that answer by place, so that "
    "the scores tell what a head does",
    paper="the use that both papers make of the scores; not tested against roles",
    rule=Rule(
        says="Over the heads of all solved models, s_SYM ranks those that carry binding above the others, s_POS those "
        "that carry index, and s_SYM - s_POS tells the first from the second: each area under the curve above "
        f"{TELLS:g}, with its interval over models.",
        lines=tuple(Line(part=name, of=name, above=TELLS) for name in TELLING),
        whole="reproduced in kind",
    ),
    measure=scores_tell_roles,
    rule_fixed="not auditable",
    changes=f"Another definition of a head's role; models that do not reach {SOLVED:.0%}.",
    command=COMMAND,
)
