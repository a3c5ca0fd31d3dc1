"""Symbol, origin and place in the heads of small decoders that answer binding and index, with and without rotation.

Where nothing turns, a head's logits know no places: who answers index must read where a key was computed, its origin,
see ``cube_parts``. Ensembles of :mod:`posym_companion.solvers.task_solvers` are trained once
more, and the facts of each prompt are put in the orders of a Latin square. The same ensembles before any training are
the control. This project's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from posym_companion.experiments import Experiment
from posym_companion.solvers.head_roles import mark_members_right, patching, with_other_answers
from posym_companion.solvers.solver_settings import TaskSolvers
from posym_companion.solvers.solver_settings import small as small_solver
from posym_companion.solvers.task_solvers import (
    SCORING,
    TESTING,
    capture_heads,
    draw_questions,
    fact_layout,
    train_ensemble,
)
from posym_core.metrics import PARTS, BlockLayout, compute_block_logits, draw_latin_square, permute_blocks
from posym_core.models import DecoderEnsemble
from posym_core.tasks import FactsBatch, Question
from posym_profile.scores import LayerHeads, make_key_anova

# Parts of the variance of a head's logits: the seven of a cube, and that between the prompts' means.
KEPT = (*PARTS.values(), "prompts")
QUERIES = ("own", "crossed")
DIMS = {
    "accuracy": "seed question",
    "patched": "seed question layer head",
    "parts parts_before": "seed question queries square layer head part",
}


@dataclass(frozen=True, kw_only=True)
class OriginSolvers:
    """One ensemble, trained once more.

    Attributes:
        solver: what is trained, as in :mod:`posym_companion.solvers.task_solvers`.
        squares: prompts of each kind of question whose facts are put in the orders of a Latin square.
    """

    solver: TaskSolvers = field(default_factory=TaskSolvers)
    squares: int = 24

    @property
    def name(self) -> str:
        return f"origin_solvers/{self.solver.name.partition('/')[2]}"


def full_size() -> list[OriginSolvers]:
    """Without rotation in two layers and in four, and with the usual angles; there is no ``model`` to choose."""
    solvers = (TaskSolvers(band="none"), TaskSolvers(band="1e4"), TaskSolvers(band="none", layers=4))
    return [OriginSolvers(solver=solver) for solver in solvers]


def measure(
    setting: OriginSolvers, *, device: str = "auto", work: Path | None = None, progress: bool = True
) -> dict[str, np.ndarray]:
    """Train an ensemble, and take the logits of its heads apart.

    Returns:
        ``accuracy [seed, question]`` and ``patched [seed, question, layer, head]``, what a head carries of the answer;
        ``parts`` and, before training, ``parts_before [seed, question, queries, square, layer, head, part]``,
        variances of the heads' logits by :data:`KEPT`, 0 where nothing varies, with each prompt's own query and with
        the mean over the queries of all prompts of a square.
    """
    solver = setting.solver
    model, _ = train_ensemble(solver, device=device, work=work, progress=progress)
    rows: dict[str, list[Tensor]] = {"accuracy": [], "patched": []}
    for question in solver.questions:
        batch = draw_questions(model, question, solver.test_prompts, TESTING)
        rows["accuracy"].append(mark_members_right(model, batch).mean((1, 2, 3)))
        rows["patched"].append(patching(model, batch, with_other_answers(model, batch))[:, 0])
    untrained = DecoderEnsemble(solver.task, solver.angles[None], seeds=solver.seeds, heads=solver.heads)
    for name, one in (("parts", model), ("parts_before", untrained.to(model.embedding.device))):
        rows[name] = [measure_parts(one, question, setting) for question in solver.questions]
    return {name: torch.stack(values, 1).float().cpu().numpy() for name, values in rows.items()}


def measure_parts(
    model: DecoderEnsemble, question: Question, setting: OriginSolvers
) -> Float[Tensor, "seed queries square layer head part"]:
    """Variances of the heads' logits on Latin squares of prompts with one kind of question."""
    blocks, prompts = fact_layout(setting.solver), draw_questions(model, question, setting.squares, SCORING)
    home = {"start": blocks.start, "block_length": blocks.block_length}
    generator = torch.Generator().manual_seed(0)
    squares = []
    for square in range(setting.squares):
        orders = draw_latin_square(setting.solver.facts, generator).to(prompts.tokens.device)
        batch = FactsBatch(permute_blocks(prompts.tokens[:, square], orders, **home), *prompts[1:])
        heads = capture_heads(model, batch)
        seen = torch.ones(len(heads), setting.solver.facts, dtype=torch.bool)
        kinds = []
        for queries in QUERIES:
            logits = torch.stack([measure_logits(layer, blocks, crossed=queries == "crossed") for layer in heads]).cpu()
            cube = make_key_anova(logits, orders.cpu(), seen, rounding=torch.finfo(torch.float32).eps)
            parts = torch.stack([*(cube.parts[name] for name in PARTS.values()), cube.prompts], -1)
            kinds.append(parts.nan_to_num(0).unflatten(0, (len(model.seeds), setting.solver.layers)))
        squares.append(torch.stack(kinds, 1))
    return torch.stack(squares, 2)


def measure_logits(
    heads: LayerHeads, blocks: BlockLayout, *, crossed: bool
) -> Float[Tensor, "prompt head content place"]:
    """Cross-logits of the facts of each prompt, with its own query or the mean over those of all prompts."""
    fitted = blocks.fit(heads.keys.shape[-2])
    if crossed:
        query = heads.query[:, :, 0].transpose(0, 1).expand(len(heads.query), -1, -1, -1)
        heads = replace(heads, query=query)
    return compute_block_logits(heads, fitted).mean(2)


EXPERIMENT = Experiment(settings=full_size, small={"solver": small_solver, "squares": 2}, measure=measure, dims=DIMS)
