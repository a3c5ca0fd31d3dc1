"""Rankings of heads by what might tell what they are needed for, fixed before any of them is removed.

Reviewers of all papers ask what positional and symbolic scores are good for. Here every head of a model that solves a
task is ranked: by the papers' score, by shares of the cube (:func:`posym_profile.origin_cube`), by the energy of slow
planes, and by what was there before: depth, entropy, attention to the fact that is asked about, copying, retrieval,
previous token, induction, and chance. :mod:`posym_companion.solvers.head_removal` then takes heads out in these orders,
on other prompts. This project's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from posym_companion.experiments import Experiment, PromptSetting, slug
from posym_companion.language_models.head_predictors import PREDICTORS, language_predictors
from posym_companion.solvers.ranked_models import SOLVERS, load_ranked, ranked_names, weights_digest
from posym_companion.solvers.solver_predictors import solver_predictors
from posym_core.tasks import Question
from posym_profile.prompts import binding_prompts

# What is put to the test, and what it has to beat or is shown beside; the most needed head of an order comes first.
SCORES = ("score", "contrast", "cube share", "cube size", "planes")
WITHIN = ("score", "cube share", "planes")
LATE, EARLY, COPYING = "late first", "early first", "copying"
BASELINES = (LATE, EARLY, "low entropy", "asked fact", COPYING, "retrieval", "previous token", "induction")
DRAWS = 20
TESTED = (*SCORES, *(f"{name}, within thirds" for name in WITHIN))
ORDERS = (*TESTED, *BASELINES, *(f"random {draw}" for draw in range(DRAWS)))
THIRDS = 3
DIMS = {
    "questions": "question",
    "predictor_names": "predictor",
    "order_names": "order",
    "predictors": "member question predictor layer head",
    "orders": "member question order rank",
    "digest": "",
}


@dataclass(frozen=True, kw_only=True)
class HeadRankings(PromptSetting):
    """One model, or one ensemble of small decoders.

    Attributes:
        model: name for ``ranked_models.load``.
        wording: of a language model's prompts: the one that it was taught on.
        facts: of a language model's prompts; small decoders have the number that they were trained on.
        prompts: on which heads are scored.
        squares: of these, how many are put in the orders of a Latin square.
    """

    model: str = "gemma-3-270m-binds"
    wording: str = "likes"
    facts: int = 8
    prompts: int = 24
    squares: int = 4
    seed: int = 300

    @property
    def name(self) -> str:
        return f"head_rankings/{slug(self.model)}"

    @property
    def questions(self) -> tuple[Question, ...]:
        """Return what the model is asked: language models were taught to bind alone."""
        return SOLVERS[self.model].questions if self.model in SOLVERS else ("binding",)


def full_size() -> list[HeadRankings]:
    """Return all models; there is no ``model`` to choose."""
    return [replace(HeadRankings(model=name), squares=12 if name in SOLVERS else 4) for name in ranked_names()]


def small(setting: HeadRankings | None = None) -> HeadRankings:
    """Return a size for trying out; of an ensemble its small one."""
    setting = setting or HeadRankings()
    if setting.model in SOLVERS:
        names = list(SOLVERS)
        setting = replace(setting, model=names[names.index(setting.model) % (len(names) // 2) + len(names) // 2])
    return replace(setting, facts=4, prompts=4, squares=2)


def measure(model: Any, tokenizer: Any, setting: HeadRankings, *, progress: bool = True) -> dict[str, np.ndarray]:
    """Return every head's predictors and all orders, heads counted layer by layer, the most needed first; an ensemble
    has several members, a language model is the only one. ``digest`` is the SHA-256 of the weights.
    """
    rows = []
    for question in setting.questions:
        if setting.model in SOLVERS:
            sizes = {"prompts": setting.prompts, "squares": setting.squares}
            by_question = solver_predictors(model, SOLVERS[setting.model], question, **sizes)
            rows.append(np.stack([by_question[name].numpy() for name in PREDICTORS], 1))
        else:
            prompts = binding_prompts(
                tokenizer, template=setting.wording, facts=setting.facts, count=setting.prompts, seed=setting.seed
            )
            by_question = language_predictors(model, prompts, squares=setting.squares, seed=setting.seed)
            rows.append(np.stack([by_question[name].numpy() for name in PREDICTORS])[None])
    predictors = np.stack(rows, 1)
    orders = np.empty((*predictors.shape[:2], len(ORDERS), predictors[0, 0, 0].size), dtype=np.int16)
    for member, asked in np.ndindex(predictors.shape[:2]):
        by_name: dict[str, Any] = dict(zip(PREDICTORS, predictors[member, asked], strict=True))
        by_question = list_orders(by_name, setting.questions[asked], seed=setting.seed + member)
        orders[member, asked] = [by_question[name] for name in ORDERS]
    return {
        "questions": np.array(setting.questions),
        "predictor_names": np.array(PREDICTORS),
        "order_names": np.array(ORDERS),
        "predictors": predictors,
        "orders": orders,
        "digest": np.array(weights_digest(model)),
    }


def score_need(
    predictors: Mapping[str, Float[np.ndarray, "layer head"]], question: Question
) -> dict[str, Float[np.ndarray, "layer head"]]:
    """Return what each order but those of chance goes by, the higher the more needed.

    Who is to answer *binding* needs heads that are symbolic, read the symbol and use slow planes, says the theory; who
    is to answer *index* needs positional ones, that read where a key stands or was computed, and fast planes.
    """
    binding = question == "binding"
    sign, kind = (1, "symbol") if binding else (-1, "where")
    layer = np.broadcast_to(np.arange(len(predictors["entropy"]))[:, None], predictors["entropy"].shape).astype(float)
    return {
        "score": predictors["symbolic" if binding else "positional"],
        "contrast": sign * (predictors["symbolic"] - predictors["positional"]),
        "cube share": predictors[f"{kind} share"],
        "cube size": predictors[f"{kind} size"],
        "planes": sign * predictors["slow planes"],
        LATE: layer,
        EARLY: -layer,
        "low entropy": -predictors["entropy"],
        **{name: predictors[name] for name in BASELINES if name in predictors},
    }


def list_orders(
    predictors: Mapping[str, Float[np.ndarray, "layer head"]], question: Question, *, seed: int
) -> dict[str, Int[np.ndarray, " rank"]]:
    """Return all orders of one model's heads for one question, by :data:`ORDERS`.

    Heads that tie stand in one random order, the same for all orders; those without a number stand last. *Within
    thirds* of the layers takes the first of each third, deepest first, then the second of each, and so on, so that such
    an order knows nothing of depth.
    """
    generator = np.random.default_rng(seed)
    heads = predictors["entropy"].size
    ties = generator.permutation(heads)
    by = {name: x.ravel() for name, x in score_need(predictors, question).items()}
    orders = {name: rank_heads(x, ties) for name, x in by.items()}
    third = np.empty(predictors["entropy"].shape, dtype=int)
    for number, layers in enumerate(np.array_split(np.arange(len(third)), min(THIRDS, len(third)))):
        third[layers] = number
    for name in WITHIN:
        orders[f"{name}, within thirds"] = interleave(orders[name], third.ravel())
    return orders | {f"random {draw}": generator.permutation(heads) for draw in range(DRAWS)}


def rank_heads(x: Float[np.ndarray, " head"], ties: Int[np.ndarray, " head"]) -> Int[np.ndarray, " rank"]:
    """Return heads with the highest first; equal ones as in ``ties``, undefined ones last."""
    place = np.empty(len(x), dtype=int)
    place[ties] = np.arange(len(x))
    return np.lexsort((place, -np.nan_to_num(x, nan=-np.inf)))


def interleave(order: Int[np.ndarray, " rank"], group: Int[np.ndarray, " head"]) -> Int[np.ndarray, " rank"]:
    """Return the first of each group, the last group's before; then the second of each, until all are taken."""
    turn = np.empty(len(order), dtype=int)
    for number in np.unique(group):
        members = order[group[order] == number]
        turn[members] = np.arange(len(members))
    return np.lexsort((-group, turn))


EXPERIMENT = Experiment(settings=full_size, small=small, measure=measure, dims=DIMS, load=load_ranked)
