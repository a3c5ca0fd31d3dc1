"""Predictors of what a head of a small decoder is needed for; the same as of a language model's.

See :mod:`posym_companion.language_models.head_predictors`. The decoders name no alternatives, so that the answer's
logit is raised above the mean of all attributes.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from posym_companion.language_models.head_predictors import (
    KINDS,
    PREDICTORS,
    induction,
    previous_token,
    sum_parts,
    swap_predictors,
)
from posym_companion.solvers.head_roles import record_members_outputs
from posym_companion.solvers.solver_settings import TaskSolvers
from posym_companion.solvers.task_solvers import SCORING, capture_heads, draw_questions, fact_layout
from posym_core.metrics import (
    PARTS,
    arrange_cube,
    compute_block_logits,
    draw_latin_square,
    permute_blocks,
    split_variance,
)
from posym_core.models import DecoderEnsemble, make_generators
from posym_core.tasks import MARKS, START, FactsBatch, Question

# A purpose of data streams beside those of task_solvers: texts that are said twice.
REPEATING = 5


@torch.no_grad()
def solver_predictors(
    model: DecoderEnsemble, solver: TaskSolvers, question: Question, *, prompts: int, squares: int
) -> dict[str, Float[Tensor, "seed layer head"]]:
    """Return every predictor of every head on one kind of question, means over prompts; NaN where undefined."""
    batch = draw_questions(model, question, prompts, SCORING)
    predictors = _from_swaps(model, solver, batch) | _from_parts(model, solver, question, squares)
    predictors |= _copying(model, solver, batch)
    ensemble = (len(model.seeds), model.layers, model.heads)
    before = [previous_token(x[:, 0].transpose(0, 1)) for x in model.attention(batch.tokens)]
    half = solver.task.context // 2
    again = [induction(x[:, 0].transpose(0, 1), half) for x in model.attention(_repeated(model, half, prompts))]
    predictors |= {"previous token": torch.stack(before, 1), "induction": torch.stack(again, 1)}
    return {name: predictors[name].double().cpu().reshape(ensemble) for name in PREDICTORS}


def _from_swaps(model: DecoderEnsemble, solver: TaskSolvers, batch: FactsBatch) -> dict[str, Tensor]:
    rows: dict[str, list[Tensor]] = {}
    for number, layer in enumerate(capture_heads(model, batch)):
        measured = swap_predictors(layer, fact_layout(solver), batch.fact[number // model.layers, :, 0])
        for name, x in measured.items():
            rows.setdefault(name, []).append(x[:, :, 0].nanmean(0))
    return {name: torch.stack(values) for name, values in rows.items()}


def _from_parts(model: DecoderEnsemble, solver: TaskSolvers, question: Question, squares: int) -> dict[str, Tensor]:
    """Return parts of squares with each prompt's own query, ``[seed, square, layer, head]``; 0 where nothing varies."""
    every = measure_parts(model, solver, question, squares).double()
    parts = dict(zip(PARTS.values(), every.unbind(-1), strict=True))
    whole = every.sum(-1)
    predictors = {}
    for kind, names in KINDS.items():
        some = sum_parts(parts, names)
        predictors[f"{kind} share"] = (some / whole).nanmean(1)
        predictors[f"{kind} size"] = some.mean(1).sqrt()
    return predictors


def measure_parts(
    model: DecoderEnsemble, solver: TaskSolvers, question: Question, squares: int
) -> Float[Tensor, "seed square layer head part"]:
    """Return the seven parts of the variance of the heads' logits on Latin squares of prompts."""
    blocks, prompts = fact_layout(solver), draw_questions(model, question, squares, SCORING)
    generator = torch.Generator().manual_seed(0)
    measured = []
    for square in range(squares):
        orders = draw_latin_square(solver.facts, generator).to(prompts.tokens.device)
        told = permute_blocks(prompts.tokens[:, square], orders, start=blocks.start, block_length=blocks.block_length)
        heads = capture_heads(model, FactsBatch(told, *prompts[1:]))
        fitted = blocks.fit(heads[0].keys.shape[-2])
        logits = torch.stack([compute_block_logits(layer, fitted).mean(2) for layer in heads], 1).cpu()
        parts = split_variance(arrange_cube(logits, orders.cpu()), rounding=torch.finfo(torch.float32).eps)
        of_heads = torch.stack([*parts.values()], -1).nan_to_num(0)
        measured.append(of_heads.unflatten(0, (len(model.seeds), solver.layers)))
    return torch.stack(measured, 1)


def _copying(model: DecoderEnsemble, solver: TaskSolvers, batch: FactsBatch) -> dict[str, Tensor]:
    """Return ``copying`` and ``retrieval``, ``[seed, layer, head]``."""
    fact, answer = batch.fact[..., 0], batch.answer[..., 0]
    attribute = 1 if solver.task.words == 2 else 2
    place = 1 + fact * solver.task.words + attribute
    reads = record_members_outputs(model, batch)
    rows: dict[str, list[Tensor]] = {"copying": [], "retrieval": []}
    for layer, attention in enumerate(model.attention(batch.tokens)):
        last = attention[:, 0, :, :, -1]
        at = place[:, :, None, None].expand(*last.shape[:3], 1)
        maps = model.output[:, 0, layer].unflatten(1, (model.heads, model.dim))
        added = (
            torch.einsum("sphd,shdw->sphw", reads[layer][:, 0, :, :, -1], maps) * model.norms[:, 0, -1][:, None, None]
        )
        logits = torch.einsum("sphw,swa->spha", added, model.read[:, 0])
        right = answer[:, :, None, None].expand(*logits.shape[:3], 1)
        raised = logits.gather(-1, right)[..., 0] - logits.mean(-1)
        rows["copying"].append((last.gather(-1, at)[..., 0] * raised).mean(1))
        rows["retrieval"].append((last.argmax(-1) == place[:, :, None]).double().mean(1))
    return {name: torch.stack(values, 1) for name, values in rows.items()}


def _repeated(model: DecoderEnsemble, half: int, texts: int) -> Int64[Tensor, "seed text token"]:
    """Return names drawn at random, as many as fit into half of a prompt, said twice behind the mark of beginning."""
    device = model.embedding.device
    rows = []
    for generator in make_generators(model.seeds, device, purpose=REPEATING):
        names = torch.rand(texts, model.task.names, generator=generator, device=device).argsort(1)[:, :half] + MARKS
        start = torch.full((texts, 1), START, device=device)
        rows.append(torch.cat([start, names, names], 1))
    return torch.stack(rows)
