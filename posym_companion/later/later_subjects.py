"""What the claims of later papers are asked of: models, prompts of text or of facts, and what is seen of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from posym_companion.experiments import SECOND, load_experiment_model, slug
from posym_companion.one_head.head_geometry import with_random_weights
from posym_companion.solvers import family_solvers
from posym_companion.solvers.families import FAMILIES
from posym_companion.solvers.family_solvers import FamilySolver
from posym_core.store import choose_device
from posym_core.tasks import FactsTask
from posym_profile.language_models import PACKAGED, summarize_loaded
from posym_profile.prompts import Prompts, binding_prompts, text_prompts

Part = Literal["order", "sums", "retrieval", "influence", "binding"]
TAUGHT, SECOND_TAUGHT = f"{PACKAGED}-binds", f"{SECOND}-binds"
# Models of text and three small ones, of a seed that solves its tasks in every family.
MODELS = (PACKAGED, TAUGHT, SECOND, SECOND_TAUGHT, *FAMILIES)
SOLVER_SEED = 2
# What each claim is first asked of: its own name is that of the part.
FIRST = {"retrieval": TAUGHT, "binding": TAUGHT}


@dataclass(frozen=True, kw_only=True)
class LaterClaims:
    """One part.

    Attributes:
        part: ``"order"``, ``"sums"``, ``"retrieval"``, ``"influence"`` or ``"binding"``.
        model: name for :func:`posym_profile.load_model`, or a family of :mod:`posym_companion.solvers.families`.
        trained: whether its weights are those of the model, or random ones.
        length: tokens of text, or facts; the small decoders know 8 facts.
        prompts: how many.
        draws: random sets of planes and of heads; directions of the last token's state.
        fresh: models of the same class with random weights.
        seed: of everything that is drawn.
    """

    part: Part
    model: str = PACKAGED
    trained: bool = True
    length: int = 64
    prompts: int = 16
    draws: int = 4
    fresh: int = 2
    seed: int = 0

    @property
    def name(self) -> str:
        model = "" if self.model == FIRST.get(self.part, PACKAGED) else f"_{slug(self.model)}"
        return f"later_claims/{self.part}{model}" + ("" if self.trained else "_untrained")


def load_subject(name: str = PACKAGED, *, device: str = "auto", folder: Any = None) -> tuple[Any, Any]:
    """A language model and its tokenizer; or a small decoder, trained here, and what it was trained as."""
    if name not in FAMILIES:
        return load_experiment_model(name, device=device)
    solver = FamilySolver(family=name, seed=SOLVER_SEED)
    return family_solvers.load_solver(solver, choose_device(device)), solver


def make_untrained(model: Any, source: Any, seed: int) -> Any:
    """The same architecture with random weights, drawn as before the model's own training; in evaluation mode."""
    if isinstance(source, FamilySolver):
        return family_solvers.make_untrained(replace(source, seed=seed)).eval().to(model.device)
    return with_random_weights(model, seed)


def context_prompts(source: Any, setting: LaterClaims) -> Prompts:
    """Windows of text, or prompts of facts for what knows no text."""
    if isinstance(source, FamilySolver):
        return facts_prompts(source.task, setting.prompts, setting.seed)
    return text_prompts(source, facts=setting.length, count=setting.prompts, seed=setting.seed)


def question_prompts(source: Any, setting: LaterClaims, seed: int) -> Prompts:
    """Prompts that ask for the fact with a name."""
    if isinstance(source, FamilySolver):
        return facts_prompts(source.task, setting.prompts, seed)
    return binding_prompts(source, facts=setting.length, count=setting.prompts, seed=seed)


def facts_prompts(task: FactsTask, count: int, seed: int) -> Prompts:
    """Binding prompts of a small decoder whose facts have different attributes; these are the alternatives."""
    generator = torch.Generator().manual_seed(seed)
    batch = task.ask("binding", count, generator)
    attributes = torch.rand(count, task.attributes, generator=generator).argsort(1)[:, : task.facts]
    named = task.first_attribute + attributes
    input_ids = batch.tokens.clone()
    place = {2: 1}.get(task.words, 2)
    input_ids[:, 1 : 1 + task.facts * task.words].unflatten(1, (task.facts, task.words))[..., place] = named
    return Prompts(
        input_ids=input_ids,
        start=1,
        block_length=task.words,
        blocks=task.facts,
        answer_ids=named,
        target=batch.fact[:, 0],
        texts=[],
    )


def visible_tokens(model: Any) -> np.ndarray:
    """Tokens that each layer can see, ``[layer]``: its window, or the context that the model was made for."""
    context = model.config.max_position_embeddings
    return np.array([window or context for window in summarize_loaded(model).windows])


def plane_squares(x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch plane"]:
    """Squared length of vectors in the ``"halves"`` layout in each of their planes."""
    first, second = x.double().square().chunk(2, dim=-1)
    return first + second
