"""How the scores of a language model's heads depend on everything that is chosen when they are made.

Four parts, each a result of its own: ``choices`` (temperature, floor, blocks, permutations beyond swaps, shares of the
logits), ``tasks`` (the same heads on other inputs), ``intervention`` (keys swapped inside the head against a run of the
really swapped prompt) and ``answers`` (prompts answered right against wrong). What reviewers of Urrutia et al. (2026a)
asked for; the answers are in the chapter *How far can the scores be trusted?*
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from posym_companion.loop import SECOND, Experiment, load_experiment_model, slug
from posym_core.metrics import (
    BlockLayout,
    Estimate,
    draw_orders,
    exclusion,
    head_correlation,
    list_swap_orders,
    permutation_scores,
    permute_blocks,
)
from posym_profile.language_models import choose_answers
from posym_profile.prompts import Prompts, make_prompts
from posym_profile.scores import LayerHeads, map_layers, profile

Part = Literal["choices", "tasks", "intervention", "answers"]
PARTS: tuple[Part, ...] = ("choices", "tasks", "intervention", "answers")
WORDINGS = ("binding-likes", "binding-bought", "binding-lives")
TASKS = (*WORDINGS, "index", "keyvalue", "induction", "text")
TAUS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
FLOORS = (0.0, 1e-12, 1e-8, 1e-4)
CUTS = (
    "at the facts",
    "single tokens",
    "two tokens a block",
    "two facts a block",
    "one token early",
    "one token late",
    "two tokens late",
    "three tokens late",
    "one fact late",
)
SHARE_TABLES = ("fact tokens", "facts")
DEFAULT_TAU, DEFAULT_EPS = 1e-4, 1e-8
# Draws of the bootstrap whose intervals are kept.
DRAWS = 500
DIMS: dict[Part, dict[str, str]] = {
    "choices": {
        "grid": "wording tau eps score layer head",
        "grid_r": "wording tau eps bound",
        "grid_below": "wording tau eps",
        "cut": "wording cut score layer head",
        "cut_r": "wording cut bound",
        "orders": "wording source kind layer head",
        "orders_below": "wording source weighting",
        "orders_rho": "wording weighting score bound",
        "shares": "wording table score layer head",
        "shares_rho": "wording table score bound",
    },
    "tasks": {"positional symbolic entropy": "task prompt layer head", "correct alternatives": "task prompt"},
    "intervention": {
        "scores": "task way score prompt layer head",
        "share_error": "task prompt layer head",
        "share_r": "task layer",
    },
    "answers": {"positional symbolic": "prompt layer head", "correct alternatives target": "prompt"},
}


@dataclass(frozen=True, kw_only=True)
class ScoreRobustness:
    """One part of the experiment.

    Attributes:
        part: ``"choices"``, ``"tasks"``, ``"intervention"`` or ``"answers"``.
        model: name for :func:`posym_profile.load_model`.
        prompts: prompts of each wording or task.
        facts: blocks per prompt.
        seed: of the prompts and permutations.
        permutations: random permutations of the blocks (part ``choices``).
    """

    part: Part = "choices"
    model: str = "gemma-3-270m"
    prompts: int = 32
    facts: int = 16
    seed: int = 0
    permutations: int = 200

    @property
    def name(self) -> str:
        return f"score_robustness/{slug(self.model)}_{self.part}"


def full_size(model: str = "gemma-3-270m") -> list[ScoreRobustness]:
    """All parts. Swapped prompts are run for every swap, so there are fewer of them, with fewer facts.

    Of the second packaged model the choices alone, with few prompts and permutations.
    """
    if model == SECOND:
        return [ScoreRobustness(model=model, prompts=8, permutations=20)]
    return [
        ScoreRobustness(part="choices", model=model),
        ScoreRobustness(part="tasks", model=model),
        ScoreRobustness(part="intervention", model=model, prompts=8, facts=8),
        ScoreRobustness(part="answers", model=model, prompts=240, facts=8),
    ]


def small(setting: ScoreRobustness | None = None) -> ScoreRobustness:
    """A size that runs in a test: few prompts of few facts."""
    return replace(setting or ScoreRobustness(), prompts=4, facts=4, permutations=20)


def measure(
    model: torch.nn.Module, tokenizer: Any, setting: ScoreRobustness, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """All arrays of one part; see :func:`choices`, :func:`tasks`, :func:`intervention` and :func:`answers`."""
    if setting.part not in PARTS:
        raise ValueError(f"part must be one of {', '.join(map(repr, PARTS))}; got {setting.part!r}")
    part = {"choices": choices, "tasks": tasks, "intervention": intervention, "answers": answers}[setting.part]
    return part(model, tokenizer, setting, progress=progress)


def choices(
    model: torch.nn.Module, tokenizer: Any, setting: ScoreRobustness, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """Scores under other temperatures, floors, blocks and permutations, and shares of the logits' variance.

    Returns:
        Means over prompts, each wording first: ``grid [wording, tau, eps, score, layer, head]`` with scores positional
        and symbolic, ``cut [wording, cut, score, layer, head]``, ``orders [wording, source, kind, layer, head]`` (swaps
        and random permutations; the four fields of :class:`PermutationScores`) and ``shares [wording, table, score,
        layer, head]``; correlations over heads with their intervals ``[..., 3]``: ``grid_r`` and ``cut_r`` of the two
        scores, ``orders_rho [wording, weighting, score]`` of random permutations with swaps and ``shares_rho [wording,
        table, score]`` of shares with scores, both Spearman's; and the fraction of heads and prompts whose scores add
        up to less than 1, ``grid_below [wording, tau, eps]`` and ``orders_below [wording, source, weighting]``.
    """
    arrays: dict[str, list[np.ndarray]] = {}
    for wording in WORDINGS:
        prompts = make_prompts(tokenizer, wording, facts=setting.facts, count=setting.prompts, seed=setting.seed)
        generator = torch.Generator().manual_seed(setting.seed)
        orders = draw_orders(prompts.blocks, setting.permutations, generator)
        found = measure_choices(model, prompts, orders, progress=progress)
        for name, array in _summaries(found).items():
            arrays.setdefault(name, []).append(array)
    return {name: np.stack(parts).astype(np.float32) for name, parts in arrays.items()}


def measure_choices(
    model: torch.nn.Module, prompts: Prompts, orders: Tensor, *, progress: bool = True
) -> dict[str, Tensor]:
    """Everything that one capture of queries and keys says about the choices, ``[prompt, layer, head, ...]``.

    Returns:
        ``grid [..., tau, eps, score]``, ``cut [..., cut, score]``, ``orders [..., source, kind]`` and ``shares [...,
        table, score]``; dimensions as in :func:`choices`.
    """
    swaps = list_swap_orders(prompts.blocks)
    inside = slice(prompts.start, prompts.start + prompts.blocks * prompts.block_length)
    cuts = list_cuts(prompts)

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        home = prompts.layout

        def both(cut: dict[str, int], tau: float = DEFAULT_TAU, eps: float = DEFAULT_EPS) -> Tensor:
            scores = heads.swap_scores(BlockLayout(**cut, tau=tau, eps=eps))
            return torch.stack([scores.positional, scores.symbolic], -1)

        table = heads.block_table(BlockLayout(**home))
        before = table.attention()
        kinds = []
        for source in (swaps, orders):
            scores = permutation_scores(before, table.attention(source), source, tau=DEFAULT_TAU, eps=DEFAULT_EPS)
            kinds.append(torch.stack(list(vars(scores).values()), -1))
        parts = [exclusion(heads.cross_logits()[..., inside, inside].double()), exclusion(table.sums.log())]
        return {
            "grid": torch.stack([torch.stack([both(home, tau, eps) for eps in FLOORS], -2) for tau in TAUS], -3),
            "cut": torch.stack([both(cut) for cut in cuts.values()], -2),
            "orders": torch.stack(kinds, -2),
            "shares": torch.stack([torch.stack([x.positional_share, x.symbolic_share], -1) for x in parts], -2),
        }

    return map_layers(model, prompts.input_ids, one_layer, progress=progress)


def tasks(
    model: torch.nn.Module, tokenizer: Any, setting: ScoreRobustness, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """Default scores on every task of :data:`TASKS`.

    Returns:
        ``positional``, ``symbolic``, ``entropy`` ``[task, prompt, layer, head]``; ``correct`` and ``alternatives``
        ``[task, prompt]``.
    """
    arrays: dict[str, list[np.ndarray]] = {}
    for task in TASKS:
        prompts = make_prompts(tokenizer, task, facts=setting.facts, count=setting.prompts, seed=setting.seed)
        found = {name: x.float().numpy() for name, x in _default_scores(model, prompts, progress).items()}
        found |= _answered(model, prompts)
        for name, array in found.items():
            arrays.setdefault(name, []).append(array)
    return {name: np.stack(parts) for name, parts in arrays.items()}


def intervention(
    model: torch.nn.Module, tokenizer: Any, setting: ScoreRobustness, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """Keys swapped inside each head, against a new forward pass over the prompt with the two blocks swapped.

    Returns:
        ``scores [task, way, score, prompt, layer, head]`` with ways inside and re-run, over all swaps of two blocks;
        ``share_error [task, prompt, layer, head]``, the mean over swaps of how far the share of the pair's
        attention that its first place gets lies apart; and ``share_r [task, layer]``, Pearson's correlation of
        that share over prompts, swaps and heads of a layer.
    """
    arrays: dict[str, list[np.ndarray]] = {}
    for task in TASKS:
        prompts = make_prompts(tokenizer, task, facts=setting.facts, count=setting.prompts, seed=setting.seed)
        for name, array in measure_intervention(model, prompts, progress=progress).items():
            arrays.setdefault(name, []).append(array)
    return {name: np.stack(parts).astype(np.float32) for name, parts in arrays.items()}


def measure_intervention(model: torch.nn.Module, prompts: Prompts, *, progress: bool = True) -> dict[str, np.ndarray]:
    """Both ways of swapping blocks on some prompts; see :func:`intervention`, without the task."""
    orders = list_swap_orders(prompts.blocks)
    layout = {"start": prompts.start, "block_length": prompts.block_length}

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        table = heads.block_table(BlockLayout(**layout, blocks=prompts.blocks))
        return {"before": table.attention(), "inside": table.attention(orders)}

    found = map_layers(model, prompts.input_ids, one_layer, progress=progress)
    permuted = permute_blocks(prompts.input_ids, orders, **layout).flatten(0, 1)
    again = map_layers(model, permuted, lambda heads: {"before": one_layer(heads)["before"]}, progress=progress)[
        "before"
    ]
    after = {
        "inside": found["inside"],
        "rerun": again.unflatten(0, (len(prompts.input_ids), len(orders))).movedim(1, 3),
    }
    ways = [permutation_scores(found["before"], x, orders, tau=DEFAULT_TAU, eps=DEFAULT_EPS) for x in after.values()]
    first, second = torch.triu_indices(prompts.blocks, prompts.blocks, 1)
    pair = torch.arange(len(orders))
    shares = [x[..., pair, first] / (x[..., pair, first] + x[..., pair, second]) for x in after.values()]
    by_layer = [x.movedim(1, 0).flatten(1).numpy() for x in shares]
    return {
        "scores": np.stack([np.stack([way.positional.numpy(), way.symbolic.numpy()]) for way in ways]),
        "share_error": (shares[0] - shares[1]).abs().mean(-1).numpy(),
        "share_r": np.array([np.corrcoef(*rows)[0, 1] for rows in zip(*by_layer, strict=True)]),
    }


def answers(
    model: torch.nn.Module, tokenizer: Any, setting: ScoreRobustness, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """Default scores and answers on the wording that the model answers best.

    Returns:
        ``positional``, ``symbolic`` ``[prompt, layer, head]``; ``correct``, ``alternatives``, ``target`` ``[prompt]``.
    """
    prompts = make_prompts(tokenizer, WORDINGS[-1], facts=setting.facts, count=setting.prompts, seed=setting.seed)
    found = _default_scores(model, prompts, progress)
    arrays = {name: found[name].float().numpy() for name in ("positional", "symbolic")}
    return arrays | _answered(model, prompts) | {"target": prompts.target.numpy()}


def list_cuts(prompts: Prompts) -> dict[str, dict[str, int]]:
    """The blocks of every cut of :data:`CUTS`, as many as fit within the facts.

    Only the cut that begins a token early takes in what stands before the facts, and it has as many blocks as facts.
    """
    fact = prompts.block_length
    stop = prompts.start + prompts.blocks * fact
    shifts = (0, 0, 0, 0, -1, 1, 2, 3, fact)
    lengths = (fact, 1, 2, 2 * fact, fact, fact, fact, fact, fact)
    return {
        name: {
            "start": prompts.start + shift,
            "block_length": length,
            "blocks": (stop - prompts.start - max(shift, 0)) // length,
        }
        for name, shift, length in zip(CUTS, shifts, lengths, strict=True)
    }


def _default_scores(model: torch.nn.Module, prompts: Prompts, progress: bool) -> dict[str, Tensor]:
    scores = profile(model, prompts.input_ids, **prompts.layout, tau=DEFAULT_TAU, eps=DEFAULT_EPS, progress=progress)
    return {"positional": scores.positional, "symbolic": scores.symbolic, "entropy": scores.entropy}


def _answered(model: Any, prompts: Prompts) -> dict[str, np.ndarray]:
    found = choose_answers(model, prompts)
    return {"correct": found.correct.numpy(), "alternatives": found.alternatives.numpy()}


def _summaries(found: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """Means over prompts with heads last, correlations with intervals, and how often scores add up to less than 1."""
    grid, cut, orders, shares = (found[name].double() for name in ("grid", "cut", "orders", "shares"))
    right = found["cut"][..., 0, :].double()

    def rows(x: Tensor, statistic: Any) -> np.ndarray:
        """A statistic of every ``[prompt, layer, head]`` along the dimensions before the last."""
        flat = x.flatten(3, -2) if x.ndim > 4 else x[..., None, :]
        estimates = [statistic(flat[..., place, 0], flat[..., place, 1]) for place in range(flat.shape[3])]
        return np.array(estimates).reshape(*x.shape[3:-1], 3)

    def spearman(x: Tensor, y: Tensor) -> list[float]:
        return _three(head_correlation(x, y, draws=DRAWS).spearman)

    def below(x: Tensor) -> np.ndarray:
        return (x.sum(-1) < 1 - 1e-6).double().mean((0, 1, 2)).numpy()

    kinds = orders.unflatten(-1, (2, 2))
    return {
        "grid": grid.mean(0).movedim((0, 1), (-2, -1)).numpy(),
        "grid_r": rows(grid, lambda x, y: _three(head_correlation(x, y, draws=DRAWS).pearson)),
        "grid_below": below(grid),
        "cut": cut.mean(0).movedim((0, 1), (-2, -1)).numpy(),
        "cut_r": rows(cut, lambda x, y: _three(head_correlation(x, y, draws=DRAWS).pearson)),
        "orders": orders.mean(0).movedim((0, 1), (-2, -1)).numpy(),
        "orders_below": below(kinds),
        "orders_rho": np.array(
            [[spearman(kinds[..., 0, way, s], kinds[..., 1, way, s]) for s in range(2)] for way in range(2)]
        ),
        "shares": shares.mean(0).movedim((0, 1), (-2, -1)).numpy(),
        "shares_rho": np.array([[spearman(right[..., s], shares[..., k, s]) for s in range(2)] for k in range(2)]),
    }


def _three(estimate: Estimate) -> list[float]:
    return [estimate.value, estimate.low, estimate.high]


EXPERIMENT = Experiment(
    settings=full_size,
    small=small,
    measure=measure,
    dims=lambda setting: DIMS[setting.part],
    load=load_experiment_model,
)
