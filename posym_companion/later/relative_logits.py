"""Mean attention logits by query and key: what in them depends on more than the distance, and who reads it.

Kim et al., *Behind RoPE* (2025), take the mean of attention logits over many texts and the heads of a layer, and then
over each diagonal: with rotation alone nothing but the distance could count, and what is left over the causal mask has
made. Here this is done to two families of language models, with their rotation and with all angles stopped, trained and
with random weights, and to layers without any parameter, with a mask and without. In small decoders that answer index
without rotation the mean logit at each place is compared with what changes with the question. The paper was read by its
abstract, the beginning of its text and its published code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from posym_companion.experiments import Experiment, load_experiment_model, slug
from posym_companion.one_head.head_geometry import with_random_weights
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
from posym_core.metrics import compute_block_logits
from posym_core.models import DecoderEnsemble
from posym_profile.capture import AttentionInputs, forward_with_hook
from posym_profile.interventions import edit_rope, freeze_rotation
from posym_profile.language_models import PACKAGED
from posym_profile.planes import find_planes
from posym_profile.prompts import text_prompts

Kind = Literal["text", "no parameters", "index"]
FAMILIES = (PACKAGED, "smollm2-135m")
DRAWS = (0, 1, 2)
# Of the layers without parameters.
LAYERS, WIDTH, TOKENS, BATCH = 4, 64, 50, 500
# Texts in one pass.
TOGETHER = 8
# The first tokens take attention from all others, whatever they say.
SKIP = 8
DIMS = {
    "whole relative near_minus_far": "layer",
    "by_half": "half layer query key",
    "accuracy": "seed",
    "patched": "seed layer head",
    "logits logits_before": "half seed layer head asked place",
}


@dataclass(frozen=True, kw_only=True)
class RelativeLogits:
    """One model.

    Attributes:
        kind: a language model on text, layers without parameters on random vectors, or a decoder that answers index.
        model: of text, name for :func:`posym_profile.load_model`.
        draw: seed of random weights; None for the model's own.
        rotated: whether the angles are the model's own; otherwise all are stopped.
        masked: whether layers without parameters have a causal mask.
        solver: the decoder, trained once more.
        length: of the texts, in tokens.
        texts: how many; or sequences of random vectors, or prompts of the decoder.
        skip: tokens at the beginning of a text that do not count; of layers without parameters and decoders all do.
        seed: of the texts and vectors.
    """

    kind: Kind = "text"
    model: str = PACKAGED
    draw: int | None = None
    rotated: bool = True
    masked: bool = True
    solver: TaskSolvers | None = None
    length: int = 64
    texts: int = 64
    skip: int = SKIP
    seed: int = 0

    @property
    def name(self) -> str:
        if self.solver is not None:
            return f"relative_logits/index_{self.solver.name.partition('/')[2]}"
        if self.kind == "no parameters":
            kind = "no-parameters"
        else:
            kind = slug(self.model) + ("" if self.draw is None else f"-random{self.draw}")
        kind += "" if self.skip == SKIP else f"_from{self.skip}"
        return f"relative_logits/{kind}{'' if self.rotated else '_stopped'}{'' if self.masked else '_unmasked'}"


def full_size() -> list[RelativeLogits]:
    """Both families, trained with and without their angles and three times with random weights, and what is smaller."""
    simple = [
        RelativeLogits(kind="no parameters", rotated=rotated, masked=masked, length=TOKENS, texts=20_000)
        for rotated in (True, False)
        for masked in (True, False)
    ]
    models = [RelativeLogits(model=model, texts=192) for model in FAMILIES]
    models += [RelativeLogits(model=model, rotated=False) for model in FAMILIES]
    models += [RelativeLogits(model=model, skip=skip) for model in FAMILIES for skip in (0, 1)]
    models += [RelativeLogits(model=model, draw=draw) for model in FAMILIES for draw in DRAWS]
    solvers = [
        RelativeLogits(kind="index", rotated=False, solver=TaskSolvers(band="none", layers=layers), texts=4096)
        for layers in (2, 4)
    ]
    return [*simple, *models, *solvers]


def small(setting: RelativeLogits | None = None) -> RelativeLogits:
    """A size for trying out."""
    setting = setting or RelativeLogits()
    solver = None if setting.solver is None else small_solver(setting.solver)
    return replace(setting, solver=solver, length=32, texts=64 if solver else 4)


def measure(
    setting: RelativeLogits, *, device: str = "auto", work: Path | None = None, progress: bool = True
) -> dict[str, np.ndarray]:
    """Mean logits of one setting.

    Returns:
        Of texts and of layers without parameters, ``[layer]``: ``whole``, variance over pairs of a query and a key of
        the mean logit, ``relative``, the part of it that the mean over pairs of the same distance has, both as
        covariances of two halves of the texts, so that what varies from text to text has no part in them; and
        ``near_minus_far``, mean logit over the nearest third of the distances less that over the farthest. Of
        decoders: ``accuracy [seed]``, ``patched [seed, layer, head]``, what a head carries of the answer, and
        ``logits`` and, before training, ``logits_before [half, seed, layer, head, asked, place]``, the last token's
        mean logit at each fact by which one is asked for.
    """
    if setting.solver is not None:
        return measure_solver_logits(setting, setting.solver, device, work, progress)
    halves = measure_text_logits(setting, device) if setting.kind == "text" else measure_parameterless_logits(setting)
    skip = setting.skip if setting.kind == "text" else 0
    return summarize_halves(halves[..., skip:, skip:])


def summarize_halves(halves: Float[Tensor, "half layer query key"]) -> dict[str, np.ndarray]:
    """The arrays of two halves of texts, see :func:`measure`; over pairs of which the key stands before the query."""
    tokens = halves.shape[-1]
    place = torch.arange(tokens)
    distance = place[:, None] - place
    pairs = distance > 0
    logits = halves.double()[..., pairs]
    steps = distance[pairs]
    sums = torch.zeros(*logits.shape[:-1], tokens, dtype=torch.float64).index_add_(-1, steps, logits)
    means = sums / torch.bincount(steps, minlength=tokens).clamp_min(1)
    relative = means[..., steps]
    near, far = steps <= tokens // 3, steps >= tokens - tokens // 3
    mean = logits.mean(0)
    return {
        "whole": _covariance(logits).numpy(),
        "relative": _covariance(relative).numpy(),
        "near_minus_far": (mean[..., near].mean(-1) - mean[..., far].mean(-1)).numpy(),
    }


def _covariance(halves: Float[Tensor, "half layer pair"]) -> Float[Tensor, " layer"]:
    centred = halves - halves.mean(-1, keepdim=True)
    return (centred[0] * centred[1]).mean(-1)


def measure_text_logits(setting: RelativeLogits, device: str) -> Float[Tensor, "half layer query key"]:
    """Mean logit over texts and heads, of two halves of the texts."""
    model, tokenizer = load_experiment_model(setting.model, device=device)
    if setting.draw is not None:
        model = with_random_weights(model, setting.draw)
    texts = text_prompts(tokenizer, facts=setting.length - 1, count=setting.texts, seed=setting.seed)
    input_ids = texts.input_ids[:, : setting.length]
    planes = find_planes(model, setting.length)
    interventions = () if setting.rotated else (freeze_rotation(),)
    halves = torch.zeros(2, len(planes), setting.length, setting.length, dtype=torch.float64)
    route = None
    with edit_rope(model, *interventions, planes=planes):
        for half, ids in enumerate(input_ids.chunk(2)):
            for few in ids.split(TOGETHER):
                route = forward_with_hook(model, few, _adding(halves[half]), rows=None, route=route)
            halves[half] /= len(ids)
    return halves


def _adding(sums: Float[Tensor, "layer query key"]) -> Callable[[AttentionInputs], None]:
    def receive(call: AttentionInputs) -> None:
        sums[call.index] += call.logits().double().mean(1).sum(0).cpu()

    return receive


def measure_parameterless_logits(setting: RelativeLogits) -> Float[Tensor, "half layer query key"]:
    """Mean logit in layers without parameters: every vector attends by its own direction, and what it reads is added.

    As in the authors' simulation: independent random vectors of length one, logits are products of the normalised
    states, turned by angles of base 1e4 if ``rotated``.
    """
    generator = torch.Generator().manual_seed(setting.seed)
    tokens = setting.length
    turn = torch.arange(tokens)[:, None] * 1e4 ** (-torch.arange(WIDTH // 2) / (WIDTH // 2))
    turns = torch.polar(torch.ones_like(turn), turn)
    hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    halves = torch.zeros(2, LAYERS, tokens, tokens, dtype=torch.float64)
    for half in halves:
        for some in torch.ones(setting.texts // 2).split(BATCH):
            state = functional.normalize(torch.randn(len(some), tokens, WIDTH, generator=generator), dim=-1)
            for layer in range(LAYERS):
                states = functional.normalize(state, dim=-1)
                seen = states
                if setting.rotated:
                    turned = torch.view_as_complex(states.unflatten(-1, (-1, 2))) * turns
                    seen = torch.view_as_real(turned).flatten(-2)
                logits = seen @ seen.mT
                half[layer] += logits.double().sum(0)
                weights = (logits.masked_fill(hidden, -torch.inf) if setting.masked else logits).softmax(-1)
                state = state + weights @ states
        half /= setting.texts // 2
    return halves


def measure_solver_logits(
    setting: RelativeLogits, solver: TaskSolvers, device: str, work: Path | None, progress: bool
) -> dict[str, np.ndarray]:
    """Train a decoder once more, and take its logits at the facts by the place that is asked for."""
    model, _ = train_ensemble(solver, device=device, work=work, progress=progress)
    batch = draw_questions(model, "index", solver.test_prompts, TESTING)
    untrained = DecoderEnsemble(solver.task, solver.angles[None], seeds=solver.seeds, heads=solver.heads)
    return {
        "accuracy": mark_members_right(model, batch).mean((1, 2, 3)).float().cpu().numpy(),
        "patched": patching(model, batch, with_other_answers(model, batch))[:, 0].float().cpu().numpy(),
        "logits": average_by_asked_place(model, setting, solver),
        "logits_before": average_by_asked_place(untrained.to(model.embedding.device), setting, solver),
    }


def average_by_asked_place(
    model: DecoderEnsemble, setting: RelativeLogits, solver: TaskSolvers
) -> Float[np.ndarray, "half seed layer head asked place"]:
    """Mean logit of the last token at each fact's place, by the place asked for, of two halves of the prompts."""
    batch = draw_questions(model, "index", setting.texts, SCORING)
    places = fact_layout(solver).fit(batch.tokens.shape[-1])
    rows = []
    for number, heads in enumerate(capture_heads(model, batch)):
        seed = number // solver.layers
        # Without rotation a logit is the same wherever the key is put, so the diagonal has what occurs.
        logits = compute_block_logits(heads, places)[:, :, 0].diagonal(dim1=-2, dim2=-1).double().cpu()
        where = batch.fact[seed, :, 0].cpu()
        halves = torch.zeros(2, logits.shape[1], solver.facts, solver.facts, dtype=torch.float64)
        for half in range(2):
            for place in range(solver.facts):
                chosen = where == place
                chosen[half::2] = False
                halves[half, :, place] = logits[chosen].mean(0)
        rows.append(halves)
    averages = torch.stack(rows, 1).unflatten(1, (len(model.seeds), solver.layers))
    return averages.float().numpy()


EXPERIMENT = Experiment(settings=full_size, small=small, measure=measure, dims=DIMS)
