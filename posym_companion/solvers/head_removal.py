"""Heads removed in orders that were fixed before: which ranking finds the heads that an answer needs.

Heads say their mean, over all tokens of other prompts, in place of what they say: the first one of an order, the first
two, four, eight and so on; or all but these. Accuracy against heads removed is a curve whose area is the smaller the
sooner an order takes what is needed. Orders are those of :mod:`posym_companion.solvers.head_rankings`, made on the
wording that was taught; here the wording is another. This project's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posym_companion.experiments import Experiment, slug
from posym_companion.results import Result, load_result
from posym_companion.solvers import ranked_models
from posym_companion.solvers.head_rankings import BASELINES, COPYING, DRAWS, EARLY, LATE, SCORES, TESTED, HeadRankings
from posym_companion.solvers.head_roles import record_members_outputs as decoder_outputs
from posym_companion.solvers.list_questions import questions_about
from posym_companion.solvers.ranked_models import SOLVERS, ranked_names, weights_digest
from posym_companion.solvers.task_solvers import ANSWERING, TESTING, draw_questions
from posym_core.models import DecoderEnsemble
from posym_core.tasks import FactsBatch
from posym_profile.interventions import patch_heads, record_head_outputs
from posym_profile.prompts import binding_prompts

Kind = Literal["remove", "beside", "random", "keep"]
# Orders that the rule compares; the others are shown beside them.
JUDGED = tuple(name for name in TESTED if name.partition(",")[0] not in ("contrast", "cube size"))
AGAINST = (LATE, EARLY, COPYING)
ORDERS_OF: Mapping[Kind, tuple[str, ...]] = {
    "remove": (*JUDGED, *AGAINST),
    "beside": tuple(name for name in (*TESTED, *BASELINES) if name not in (*JUDGED, *AGAINST)),
    "random": tuple(f"random {draw}" for draw in range(DRAWS)),
    "keep": (*SCORES, LATE, EARLY, COPYING, "asked fact", "random 0", "random 1"),
}
DIMS = {
    "order_names": "order",
    "counts": "count",
    "heads": "",
    "correct": "member question order count prompt",
    "ends": "member question end prompt",
}


@dataclass(frozen=True, kw_only=True)
class HeadRemoval:
    """One model and what is done to its heads.

    Attributes:
        model: as in :class:`posym_companion.solvers.head_rankings.HeadRankings`.
        what: ``"remove"`` the first heads of every order that the rule compares; of the other orders that have a name,
            ``"beside"``; of ``"random"`` ones; or ``"keep"`` the first heads and remove all others.
        wording: of a language model's prompts; one that was not taught.
        facts: of a list.
        lists: how many a language model reads; it is asked about every fact of each.
        prompts: of each kind of question to small decoders.
        seed: of the prompts.
    """

    model: str = "gemma-3-270m-binds"
    what: Kind = "remove"
    wording: str = "bought"
    facts: int = 8
    lists: int = 4
    prompts: int = 256
    seed: int = 900

    @property
    def name(self) -> str:
        return f"head_removal/{slug(self.model)}_{self.what}"


def full_size() -> list[HeadRemoval]:
    """Return all models that may be ranked; there is no ``model`` to choose."""
    return [setting for name in ranked_names() for setting in list_settings(name)]


def list_settings(name: str) -> list[HeadRemoval]:
    """One model's: random orders on one list, since these are many orders."""
    lists = {} if name in SOLVERS else {"random": 1}
    kinds: tuple[Kind, ...] = ("remove", "beside", "random", "keep")
    return [HeadRemoval(model=name, what=what, lists=lists.get(what, HeadRemoval.lists)) for what in kinds]


def small(setting: HeadRemoval | None = None) -> HeadRemoval:
    """Return a size for trying out, of the small rankings."""
    setting = setting or HeadRemoval()
    model = _small_ranking(setting.model).model
    return replace(setting, model=model, facts=4, lists=2, prompts=12)


def _small_ranking(model: str) -> HeadRankings:
    from posym_companion.solvers.head_rankings import small as small_ranking

    return small_ranking(HeadRankings(model=model))


def load_ranked_model(name: str, *, device: str = "auto", folder: Path | str | None = None) -> tuple[Any, Any, Result]:
    """Return the model, its tokenizer, and its stored rankings, which must be of the same weights."""
    rankings = load_result(HeadRankings(model=name).name, folder=folder)
    model, tokenizer = ranked_models.load_ranked(name, device=device, folder=folder)
    require_ranked(model, rankings)
    return model, tokenizer, rankings


def require_ranked(model: Any, rankings: Result) -> None:
    """Raise if weights are not those that were ranked."""
    if (found := weights_digest(model)) != (ranked := str(rankings["digest"])):
        raise ValueError(
            f"heads are removed in orders that were made of the same weights; {rankings.name} is of weights "
            f"{ranked[:12]} and these are {found[:12]}. Run head_rankings again"
        )


def measure(
    model: Any, tokenizer: Any, rankings: Mapping[str, np.ndarray], setting: HeadRemoval, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """Return right answers along every order.

    ``correct [member, question, order, count, prompt]`` is by ``order_names`` and ``counts``, how many heads are
    removed or, of ``"keep"``, kept; ``ends [member, question, 2, prompt]`` with all ``heads``, and without any.
    """
    from tqdm import tqdm

    orders, names = rankings["orders"].astype(int), rankings["order_names"].tolist()
    heads = rankings["predictors"].shape[-2:]
    if setting.model in SOLVERS:
        answers = decoder_answers(model, setting, rankings["questions"].tolist(), heads)
    else:
        answers = language_answers(model, tokenizer, setting, heads)
    counts = list_counts(int(np.prod(heads)), coarse=setting.model not in SOLVERS and setting.what == "keep")
    orders_of = ORDERS_OF[setting.what]
    steps = [(order, count) for order in orders_of for count in counts]
    rows = []
    for order, count in tqdm(steps, desc=setting.name, disable=not progress):
        sequence = orders[:, :, names.index(order)]
        taken = select_first(sequence, count)
        rows.append(answers(~taken if setting.what == "keep" else taken))
    correct = np.stack(rows, 2).reshape(*orders.shape[:2], len(orders_of), len(counts), -1)
    whole = np.ones((*orders.shape[:2], orders.shape[-1]), dtype=bool)
    ends = np.stack([answers(~whole), answers(whole)], 2)
    named = {"order_names": np.array(orders_of), "counts": np.array(counts), "heads": np.prod(heads)}
    return {**named, "correct": correct, "ends": ends}


def list_counts(heads: int, *, coarse: bool = False) -> list[int]:
    """Return powers of two, or twice those of four, up to half of the heads.

    >>> list_counts(72), list_counts(72, coarse=True)
    ([1, 2, 4, 8, 16, 32], [2, 8, 32])
    """
    powers = [2**power for power in range(16)]
    return [count for count in (powers[1::2] if coarse else powers) if 2 * count <= heads]


def select_first(orders: Int[np.ndarray, "*order rank"], count: int) -> Bool[np.ndarray, "*order head"]:
    """Return which heads are the first so many of an order."""
    first_ones = np.zeros(orders.shape, dtype=bool)
    np.put_along_axis(first_ones, orders[..., :count], True, axis=-1)
    return first_ones


Answers = Callable[[Bool[np.ndarray, "member question head"]], Bool[np.ndarray, "member question prompt"]]


def language_answers(model: Any, tokenizer: Any, setting: HeadRemoval, heads: Sequence[int]) -> Answers:
    """Return a language model's answers when heads are replaced by their mean output on other prompts of the same
    wording.

    Every fact of a list is asked about, and the model reads the list once for all its questions.
    """
    drawn: dict[str, Any] = {"template": setting.wording, "facts": setting.facts}
    lists = binding_prompts(tokenizer, **drawn, count=setting.lists, seed=setting.seed)
    others = binding_prompts(tokenizer, **drawn, count=2 * setting.lists, seed=setting.seed + 1)
    outputs = record_head_outputs(model, others.input_ids).outputs
    mean = outputs.double().mean((0, 2)).to(outputs)
    questions = questions_about(lists, range(setting.lists), range(setting.facts))
    # Orders often begin with the same heads.
    answered: dict[bytes, np.ndarray] = {}

    def answers(removed: Bool[np.ndarray, "member question head"]) -> Bool[np.ndarray, "member question prompt"]:
        if (known := answered.get(removed.tobytes())) is not None:
            return known
        gone = [divmod(int(place), heads[1]) for place in np.flatnonzero(removed)]
        with patch_heads(model, gone, mean):
            best = questions.logits(model).argmax(-1).cpu()
        answered[removed.tobytes()] = (best == questions.asked).numpy()[None, None]
        return answered[removed.tobytes()]

    return answers


def decoder_answers(
    model: DecoderEnsemble, setting: HeadRemoval, questions: Sequence[Any], heads: Sequence[int]
) -> Answers:
    """Return the same of an ensemble, whose members lose each their own heads."""
    batches = [draw_questions(model, question, setting.prompts, TESTING) for question in questions]
    others = [draw_questions(model, question, setting.prompts, ANSWERING) for question in questions]
    means = [[read.mean((2, 4), keepdim=True) for read in decoder_outputs(model, batch)] for batch in others]

    def answers(removed: Bool[np.ndarray, "member question head"]) -> Bool[np.ndarray, "member question prompt"]:
        gone = torch.tensor(removed).unflatten(-1, tuple(heads))
        answered = [
            answers_without_heads(model, batch, mean, gone[:, place])
            for place, (batch, mean) in enumerate(zip(batches, means, strict=True))
        ]
        return torch.stack(answered, 1).cpu().numpy()

    return answers


def answers_without_heads(
    model: DecoderEnsemble, batch: FactsBatch, means: Sequence[Tensor], gone: Bool[Tensor, "seed layer head"]
) -> Bool[Tensor, "seed prompt"]:
    """Return whether members without some heads are right; they say ``means``, ``[seed, 1, 1, head, 1, dim]``."""

    def edit(layer: int, read: Float[Tensor, "seed variant prompt head token dim"]) -> Tensor:
        chosen = gone[:, layer].to(read.device)[:, None, None, :, None, None]
        return torch.where(chosen, means[layer], read)

    with torch.no_grad():
        answer = model(batch.tokens, edit=edit).argmax(-1)
    return (answer == batch.answer[:, None])[:, 0, :, 0]


EXPERIMENT = Experiment(settings=full_size, small=small, measure=measure, dims=DIMS, load=load_ranked_model)
