"""Heads that carry the answer of a taught model and read the symbol that is asked for, or its origin.

On the prompts of :mod:`posym_companion.language_models.origins` four heads of SmolLM2, taught to bind, carry the answer
and look at the facts. All are purely symbolic by the papers' scores, but two of them, in a later layer, go with the
origin of the fact that is asked about more than with its symbol. Here these heads, and the one of Gemma, are looked at
on other prompts and in every run of :mod:`posym_companion.solvers.taught_gemma`: by crossed queries, and by an exchange
of parts of keys as in :mod:`posym_companion.language_models.origin_patching`, for every head in its own layer alone, so
that nothing before it has changed. This project's own; that models first look for a fact and then for its ordering is
found, by other means, by Prakash et al. (2026).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from posym_companion.experiments import SECOND, Experiment, PromptSetting, name_prefix
from posym_companion.language_models.origin_patching import EXCHANGES as ALL_EXCHANGES
from posym_companion.language_models.origin_patching import exchange_layer_alone, make_pairs
from posym_companion.language_models.origins import FACTS, ask_other_facts
from posym_companion.solvers.taught_gemma import TaughtGemma, kept_factors, load_taught
from posym_core.metrics import AXES, BlockLayout, compute_block_logits, draw_latin_square
from posym_profile.language_models import PACKAGED, choose_answers, merge_lora
from posym_profile.planes import find_planes
from posym_profile.prompts import Prompts, binding_prompts
from posym_profile.scores import LayerHeads, map_layers, profile

WORDINGS = ("likes", "bought")
TAUGHT = (0, 1, 2)
# Of an exchange in a head alone: eight prompts leave its slopes to the one or two that whole keys move most.
ALONE_PROMPTS, ALONE_SEED = 32, 5000
# What is exchanged in a head's own layer, behind nothing; the last control is left out.
EXCHANGES = ("none", *ALL_EXCHANGES[:-1])
DIMS = {
    "contrasts": "factor prompt layer head",
    "log_ratio": "prompt pair exchange layer head",
    "positional symbolic": "prompt layer head",
    "correct": "prompt",
}


@dataclass(frozen=True, kw_only=True)
class ReaderHeads(PromptSetting):
    """One taught model on one wording.

    Attributes:
        taught: seed of the run of :mod:`posym_companion.solvers.taught_gemma` that it was taught in.
        wording: of the binding prompts.
        prompts: how many; each has Latin squares of its own.
        pairs: other facts that the asked one exchanges parts of its keys with, one after another.
        seed: of the prompts, which no other experiment has.
        alone: exchange parts of keys in each head's own layer alone, and measure nothing else.
    """

    taught: int = 0
    wording: str = "likes"
    facts: int = FACTS
    prompts: int = 8
    pairs: int = 2
    seed: int = 4000
    alone: bool = False

    @property
    def name(self) -> str:
        return f"reader_heads/{name_prefix(self.model)}{self.taught}_{self.wording}{'_alone' if self.alone else ''}"


def full_size() -> list[ReaderHeads]:
    """Return every run of both families in two wordings, in two ways; there is no ``model`` to choose."""
    alone: dict[str, Any] = {"alone": True, "prompts": ALONE_PROMPTS, "seed": ALONE_SEED}
    return [
        ReaderHeads(model=model, taught=taught, wording=wording, **way)
        for way in ({}, alone)
        for model in (SECOND, PACKAGED)
        for taught in TAUGHT
        for wording in WORDINGS
    ]


def measure(
    model: Any, tokenizer: Any, folder: Path, setting: ReaderHeads, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """Return ``contrasts [factor, prompt, layer, head]``, see :func:`measure_contrasts`, the scores ``positional`` and
    ``symbolic``, and which prompts are answered right, ``correct``.

    With ``alone`` it is ``log_ratio [prompt, pair, exchange, layer, head]`` instead, the logarithm of the last token's
    attention to the asked fact over that to the other, by :data:`EXCHANGES`.
    """
    prompts = binding_prompts(
        tokenizer, template=setting.wording, facts=setting.facts, count=setting.prompts, seed=setting.seed
    )
    with merge_lora(model, kept_factors(TaughtGemma(model=setting.model, seed=setting.taught), folder)):
        if setting.alone:
            return {"log_ratio": _exchange_alone(model, prompts, setting)}
        rows = [
            measure_contrasts(model, prompts, number)
            for number in tqdm(range(setting.prompts), desc=setting.name, disable=not progress)
        ]
        scores = profile(model, prompts.input_ids, **prompts.layout, visible_only=False, progress=False)
        correct = choose_answers(model, prompts).correct
    return {
        "contrasts": torch.stack(rows, 1).numpy().astype(np.float16),
        "positional": scores.positional.values.astype(np.float16),
        "symbolic": scores.symbolic.values.astype(np.float16),
        "correct": correct.numpy(),
    }


def _exchange_alone(model: Any, prompts: Prompts, setting: ReaderHeads) -> np.ndarray:
    planes = find_planes(model, prompts.input_ids.shape[1])
    generator = torch.Generator().manual_seed(setting.seed)
    rows = [
        [
            exchange_layer_alone(model, pair, prompts, planes)[: len(EXCHANGES)]
            for pair in make_pairs(model, prompts, number, planes, setting.pairs, generator)
        ]
        for number in range(setting.prompts)
    ]
    return np.array(rows, dtype=np.float16)


def measure_crossed_logits(
    heads: LayerHeads, swaps: BlockLayout
) -> Float[Tensor, "prompt key_head query group content place"]:
    """Measure the cross-logits of every prompt's keys with the query of each prompt of a square."""
    prompts, _, group, _ = heads.query.shape
    # All queries as one large group that shares each prompt's keys; so many products are in the model's own type.
    visible = heads.visible[:1].expand(-1, -1, group, -1).repeat(1, 1, prompts, 1)
    query = heads.query.permute(1, 0, 2, 3).flatten(1, 2)[None]
    crossing = replace(heads, query=query, visible=visible, sinks=None)
    return compute_block_logits(crossing, swaps, products=query.dtype).unflatten(2, (prompts, group))


def measure_contrasts(model: Any, prompts: Prompts, number: int) -> Float[Tensor, "factor layer head"]:
    """Return how much the logit of the symbol asked for, of its origin in the query's own prompt and of its place there
    lies above the others', with crossed queries that each ask for another place of their own prompt of a square.
    """
    prompt, swaps = prompts.input_ids[number], BlockLayout(**prompts.layout)
    generator = torch.Generator().manual_seed(number)
    orders = draw_latin_square(swaps.number, generator)
    places = torch.randperm(swaps.number, generator=generator)
    symbols = orders[torch.arange(len(orders)), places]
    asked = {"symbol": symbols, "origin": places, "place": places}

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        seen = heads.find_seen_blocks(swaps)[0]
        logits = measure_crossed_logits(heads, swaps).masked_fill(~seen, torch.nan)
        by_content = logits.nanmean(-1)
        at = orders.argsort(1).to(logits.device)[:, None, None, None].expand_as(by_content)
        levels = {
            "symbol": by_content.gather(-1, at).mean(0),
            "origin": by_content.mean(0),
            "place": logits.mean((0, -2)),
        }
        return {factor: x.transpose(0, 1) for factor, x in levels.items()}

    orderings = ask_other_facts(prompt, orders, swaps, int(prompts.target[number]), symbols)
    measured = map_layers(model, orderings, one_layer, progress=False, batch_size=len(orderings))
    return torch.stack([measure_asked_contrast(measured[factor], asked[factor]) for factor in AXES]).float()


def measure_asked_contrast(
    logits: Float[Tensor, "query *head level"], asked: Int[Tensor, " query"]
) -> Float[Tensor, "*head"]:
    """Return how much the level asked for has more than the others, whatever every query or level has anyway.

    The coefficient of the level asked for in least squares, beside a constant for each query and each level: what a
    head prefers whoever asks is in none of it.
    """
    chosen = torch.nn.functional.one_hot(asked, logits.shape[-1]).double()
    chosen = chosen - chosen.mean(0) - chosen.mean(1, keepdim=True) + chosen.mean()
    return torch.einsum("q...l,ql->...", logits.double(), chosen) / chosen.square().sum()


EXPERIMENT = Experiment(
    settings=full_size, small={"facts": 6, "prompts": 2, "pairs": 1}, measure=measure, dims=DIMS, load=load_taught
)
