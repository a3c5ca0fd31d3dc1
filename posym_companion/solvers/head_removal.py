"""Heads removed in orders that were fixed before: which ranking finds the heads that an answer needs.

Heads say their mean, over all tokens of other prompts, in place of what they say: the first one of an order, the first
two, four, eight and so on; or all but these. Accuracy against heads removed is a curve whose area is the smaller the
sooner an order takes what is needed. Orders are those of :mod:`posym_companion.solvers.head_rankings`, made on the
wording that was taught; here the wording is another. For intervals over heads as well, whole layers and lists of
facts are drawn with replacement, and heads of layers that were not drawn stay in. This project's own.
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

Kind = Literal["remove", "layers", "beside", "random", "keep"]
# Orders that the rule compares; the others are shown beside them.
JUDGED = tuple(name for name in TESTED if name.partition(",")[0] not in ("contrast", "cube size"))
AGAINST = (LATE, EARLY, COPYING)
ORDERS_OF: Mapping[Kind, tuple[str, ...]] = {
    "remove": (*JUDGED, *AGAINST),
    "layers": (*JUDGED, *AGAINST),
    "beside": tuple(name for name in (*TESTED, *BASELINES) if name not in (*JUDGED, *AGAINST)),
    "random": tuple(f"random {draw}" for draw in range(DRAWS)),
    "keep": (*SCORES, LATE, EARLY, COPYING, "asked fact", "random 0", "random 1"),
}
# Draws of layers and lists, of a language model; decoders are many, and each has heads of its own.
RESAMPLES = 6
DIMS = {
    "order_names": "order",
    "counts": "count",
    "lists": "list",
    "available": "head",
    "correct": "member question order count prompt",
    "ends": "member question end prompt",
}


@dataclass(frozen=True, kw_only=True)
class HeadRemoval:
    """One model and what is done to its heads.

    Attributes:
        model: as in :class:`posym_companion.solvers.head_rankings.HeadRankings`.
        what: ``"remove"`` the first heads of every order that the rule compares; the same of ``"layers"`` and lists
            drawn with replacement; of the other orders that have a name, ``"beside"``; of ``"random"`` ones; or
            ``"keep"`` the first heads and remove all others.
        draw: which draw of layers and lists.
        wording: of a language model's prompts; one that was not taught.
        facts: of a list.
        lists: how many a language model reads; it is asked about every fact of each.
        prompts: of each kind of question to small decoders.
        seed: of the prompts.
    """

    model: str = "gemma-3-270m-binds"
    what: Kind = "remove"
    draw: int = 0
    wording: str = "bought"
    facts: int = 8
    lists: int = 4
    prompts: int = 256
    seed: int = 900

    @property
    def name(self) -> str:
        return f"head_removal/{slug(self.model)}_{self.what}{self.draw if self.what == 'layers' else ''}"


def full_size() -> list[HeadRemoval]:
    """All models that may be ranked; there is no ``model`` to choose."""
    return [setting for name in ranked_names() for setting in list_settings(name)]


def list_settings(name: str) -> list[HeadRemoval]:
    """One model's: random orders on one list, since these are many orders; of an ensemble no draws of layers."""
    if name in SOLVERS:
        kinds: tuple[Kind, ...] = ("remove", "beside", "random", "keep")
        return [HeadRemoval(model=name, what=what) for what in kinds]
    draws = [HeadRemoval(model=name, what="layers", draw=draw) for draw in range(RESAMPLES)]
    one = HeadRemoval(model=name)
    return [one, *draws, replace(one, what="beside"), replace(one, what="random", lists=1), replace(one, what="keep")]


def small(setting: HeadRemoval | None = None) -> HeadRemoval:
    """A size for trying out, of the small rankings."""
    setting = setting or HeadRemoval()
    model = _small_ranking(setting.model).model
    return replace(setting, model=model, facts=4, lists=2, prompts=12)


def _small_ranking(model: str) -> HeadRankings:
    from posym_companion.solvers.head_rankings import small as small_ranking

    return small_ranking(HeadRankings(model=model))


def load_ranked_model(name: str, *, device: str = "auto", folder: Path | str | None = None) -> tuple[Any, Any, Result]:
    """The model, its tokenizer, and its stored rankings.

    Raises:
        MissingResultError: if its heads were not ranked.
        ValueError: if the heads that were ranked are those of other weights.
    """
    rankings = load_result(HeadRankings(model=name).name, folder=folder)
    model, tokenizer = ranked_models.load_ranked(name, device=device, folder=folder)
    require_ranked(model, rankings)
    return model, tokenizer, rankings


def require_ranked(model: Any, rankings: Result) -> None:
    """Refuse weights that are not those that were ranked."""
    if (found := weights_digest(model)) != (ranked := str(rankings["digest"])):
        raise ValueError(
            f"heads are removed in orders that were made of the same weights; {rankings.name} is of weights "
            f"{ranked[:12]} and these are {found[:12]}. Run head_rankings again"
        )


def measure(
    model: Any, tokenizer: Any, rankings: Mapping[str, np.ndarray], setting: HeadRemoval, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """Right answers along every order.

    Returns:
        ``correct [member, question, order, count, prompt]`` by ``order_names`` and ``counts``, how many heads are
        removed or, of ``"keep"``, kept; ``ends [member, question, 2, prompt]``: with all heads, and with all that are
        ``available [head]`` removed; ``lists [list]``: which of a language model's lists they are about.
    """
    from tqdm import tqdm

    orders, names = rankings["orders"].astype(int), rankings["order_names"].tolist()
    heads = rankings["predictors"].shape[-2:]
    generator = np.random.default_rng((setting.seed, setting.draw))
    drawn, available = np.arange(setting.lists), np.ones(heads, dtype=bool)
    if setting.what == "layers":
        drawn = generator.integers(setting.lists, size=setting.lists)
        available[:] = False
        available[generator.integers(heads[0], size=heads[0])] = True
    available = available.ravel()
    # A list that is drawn twice is read once.
    which, again = np.unique(drawn, return_inverse=True)
    if setting.model in SOLVERS:
        answers, asked_of = decoder_answers(model, setting, rankings["questions"].tolist(), heads), slice(None)
    else:
        answers = language_answers(model, tokenizer, setting, which, heads)
        asked_of = (again[:, None] * setting.facts + np.arange(setting.facts)).ravel()
    few = setting.model not in SOLVERS and setting.what in ("layers", "keep")
    counts = list_counts(int(available.sum()), coarse=few)
    orders_of = ORDERS_OF[setting.what]
    steps = [(order, count) for order in orders_of for count in counts]
    rows = []
    for order, count in tqdm(steps, desc=setting.name, disable=not progress):
        sequence = orders[:, :, names.index(order)]
        taken = select_first(sequence, available, count)
        rows.append(answers(~taken & available if setting.what == "keep" else taken))
    correct = np.stack(rows, 2).reshape(*orders.shape[:2], len(orders_of), len(counts), -1)
    whole = np.broadcast_to(available, (*orders.shape[:2], len(available)))
    ends = np.stack([answers(np.zeros_like(whole)), answers(whole)], 2)
    return {
        "order_names": np.array(orders_of),
        "counts": np.array(counts),
        "lists": drawn,
        "available": available,
        "correct": correct[..., asked_of],
        "ends": ends[..., asked_of],
    }


def list_counts(heads: int, *, coarse: bool = False) -> list[int]:
    """Powers of two, or twice those of four, up to half of the heads.

    >>> list_counts(72), list_counts(72, coarse=True)
    ([1, 2, 4, 8, 16, 32], [2, 8, 32])
    """
    powers = [2**power for power in range(16)]
    return [count for count in (powers[1::2] if coarse else powers) if 2 * count <= heads]


def select_first(
    orders: Int[np.ndarray, "member question rank"], available: Bool[np.ndarray, " head"], count: int
) -> Bool[np.ndarray, "member question head"]:
    """Which heads are the first so many of an order among those that are available."""
    present = available[orders]
    chosen = present & (present.cumsum(-1) <= count)
    first_ones = np.zeros(orders.shape, dtype=bool)
    np.put_along_axis(first_ones, orders, chosen, axis=-1)
    return first_ones


Answers = Callable[[Bool[np.ndarray, "member question head"]], Bool[np.ndarray, "member question prompt"]]


def language_answers(
    model: Any, tokenizer: Any, setting: HeadRemoval, which: Int[np.ndarray, " list"], heads: Sequence[int]
) -> Answers:
    """What a language model answers when some heads are replaced by their mean output on other prompts of the same
    wording.

    Every fact of a list is asked about, and the model reads the list once for all its questions.
    """
    drawn: dict[str, Any] = {"template": setting.wording, "facts": setting.facts}
    lists = binding_prompts(tokenizer, **drawn, count=setting.lists, seed=setting.seed)
    others = binding_prompts(tokenizer, **drawn, count=2 * setting.lists, seed=setting.seed + 1)
    outputs = record_head_outputs(model, others.input_ids).outputs
    mean = outputs.double().mean((0, 2)).to(outputs)
    questions = questions_about(lists, which.tolist(), range(setting.facts))
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
    """The same of an ensemble, whose members lose each their own heads."""
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
    """Whether members without some heads are right; they say ``means``, ``[seed, 1, 1, head, 1, dim]`` a layer."""

    def edit(layer: int, read: Float[Tensor, "seed variant prompt head token dim"]) -> Tensor:
        chosen = gone[:, layer].to(read.device)[:, None, None, :, None, None]
        return torch.where(chosen, means[layer], read)

    with torch.no_grad():
        answer = model(batch.tokens, edit=edit).argmax(-1)
    return (answer == batch.answer[:, None])[:, 0, :, 0]


EXPERIMENT = Experiment(settings=full_size, small=small, measure=measure, dims=DIMS, load=load_ranked_model)
