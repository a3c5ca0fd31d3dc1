"""Attention and answers when parts of two facts' keys change places: the symbol, the origin, or neither.

Before rotation a fact's key is a hidden state's: what the fact says (its *symbol*), the place where it was computed
(its *origin*), and what only this pair of the two has. In the prompts of a Latin square every fact stands at every
place once, so that means over symbols and over places take the first two apart, see
``cube_parts``. Here a model runs on a prompt, keeps the facts' keys, and before it reads the
question, one part of the keys of the fact that is asked about is exchanged for the same part of another fact's. The
values stay where they are: who follows the part now reads the other fact. This project's own.

Controls are an exchange of the difference of two other origins, and one of random numbers, each made as large as the
difference of the two origins themselves in every layer, key head and token.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from posym_companion.experiments import SECOND, Experiment, PromptSetting, load_experiment_model, slug
from posym_core.metrics import draw_latin_square, permute_blocks, rotate
from posym_profile.capture import AttentionInputs, hook_attention
from posym_profile.language_models import PACKAGED, run_with_cache
from posym_profile.planes import Planes, find_planes
from posym_profile.prompts import Prompts, binding_prompts

WORDINGS = ("likes", "bought")
# Models that are also measured as taught to bind: of the second one fewer prompts.
MEASURED: dict[str, dict[str, Any]] = {PACKAGED: {}, SECOND: {"prompts": 12, "half": True}}
# What is exchanged, in which layers; the first run exchanges nothing.
EXCHANGES = ("whole", "origin", "symbol", "other origins", "random")
MIDDLE = "middle third"
RUNS = (("none", "all"), *((exchange, "all") for exchange in EXCHANGES), ("whole", MIDDLE), ("origin", MIDDLE))
DIMS = {
    "asked": "prompt",
    "log_ratio": "prompt pair run layer head",
    "attention": "prompt pair run layer head fact",
    "log_probability": "prompt pair run fact",
}
# Keys of a layer before rotation; in the "halves" layout.
BlockKeys = Float[Tensor, "*block key_head offset dim"]


@dataclass(frozen=True, kw_only=True)
class OriginPatching(PromptSetting):
    """One model on one kind of prompt.

    Attributes:
        wording: of the binding prompts.
        prompts: how many; each has a Latin square of its own, of as many passes as there are facts.
        pairs: other facts that the asked one is paired with, one after another.
        half: keep logarithms in half precision.
    """

    wording: str = "likes"
    prompts: int = 24
    pairs: int = 2
    half: bool = False

    def __post_init__(self) -> None:
        if self.facts < 4 or not 1 <= self.pairs < self.facts:
            raise ValueError(
                "two facts and two others to compare with are four, and each pair is the asked fact with another; got "
                f"facts={self.facts} and pairs={self.pairs}. Pass facts of 4 or more and pairs from 1 to facts - 1"
            )

    @property
    def name(self) -> str:
        return f"origin_patching/{slug(self.model)}_{self.wording}"


def full_size(model: str = PACKAGED) -> list[OriginPatching]:
    """Return a packaged model as it comes and taught to bind, in two wordings."""
    return [
        OriginPatching(model=name, wording=wording, **MEASURED.get(model, {}))
        for name in ((model, f"{model}-binds") if model in MEASURED else (model,))
        for wording in WORDINGS
    ]


def measure(
    setting: OriginPatching, *, device: str = "auto", work: Path | None = None, progress: bool = True
) -> dict[str, np.ndarray]:
    """Return all arrays of one setting; runs are :data:`RUNS`, facts of a pair are the asked one and the other.

    Of every head at the last token ``log_ratio`` is the logarithm of its attention to the asked fact over that to the
    other (the difference of the logits of the blocks); ``log_probability`` is that of the two facts' attributes among
    all that the prompt names, in nats.
    """
    model, tokenizer = load_experiment_model(setting.model, device=device)
    prompts = binding_prompts(
        tokenizer,
        template=setting.wording,
        facts=setting.facts,
        count=setting.prompts,
        seed=setting.seed,
    )
    planes = find_planes(model, prompts.input_ids.shape[1])
    generator = torch.Generator().manual_seed(setting.seed)
    rows = [
        measure_prompt(model, prompts, number, planes, setting.pairs, generator)
        for number in tqdm(range(setting.prompts), desc=setting.name, disable=not progress)
    ]
    arrays = {name: torch.stack([row[name] for row in rows]).cpu().numpy() for name in rows[0]}
    for name in ("attention", *(["log_ratio", "log_probability"] if setting.half else [])):
        arrays[name] = arrays[name].astype(np.float16)
    return {"asked": prompts.target.numpy(), **arrays}


@torch.no_grad()
def measure_prompt(
    model: Any, prompts: Prompts, number: int, planes: Sequence[Planes], pairs: int, generator: torch.Generator
) -> dict[str, Tensor]:
    """Return one prompt's arrays, see :func:`measure`."""
    rows = []
    for pair in make_pairs(model, prompts, number, planes, pairs, generator):
        effects = run_exchanges(model, pair.question, pair.cache, pair.shifts, prompts, planes, pair.asked, pair.other)
        answers = effects.pop("logits")[:, prompts.answer_ids[number]].log_softmax(-1)
        effects["log_probability"] = answers[:, [pair.asked, pair.other]]
        rows.append(effects)
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


@dataclass(frozen=True, kw_only=True)
class FactPair:
    """Two facts of a prompt and what each of :data:`EXCHANGES` makes of their keys.

    Attributes:
        question: what comes behind the facts.
        cache: what the model keeps of all before it.
        asked: place of the fact that is asked about.
        other: place of the other.
        shifts: of every layer, see :func:`exchange_differences`.
    """

    question: Int[Tensor, " token"]
    cache: Any
    asked: int
    other: int
    shifts: list[Float[Tensor, "exchange key_head offset dim"]]


def make_pairs(
    model: Any, prompts: Prompts, number: int, planes: Sequence[Planes], pairs: int, generator: torch.Generator
) -> Iterator[FactPair]:
    """Return the pairs of one prompt: the asked fact with others, one after another."""
    asked, end = int(prompts.target[number]), prompts.start + prompts.blocks * prompts.block_length
    ids = prompts.input_ids[number]
    orders = draw_latin_square(prompts.blocks, generator)
    square = permute_blocks(ids, orders, start=prompts.start, block_length=prompts.block_length)[:, :end]
    effects = [main_effects(keys, orders) for keys in block_keys(fill_cache(model, square), prompts, planes)]
    cache = fill_cache(model, ids[None, :end])
    original = [keys[0] for keys in block_keys(cache, prompts, planes)]
    # The asked fact's place, those of the pairs' other facts, and all places that are left.
    others = torch.randperm(prompts.blocks - 1, generator=generator)
    others += others >= asked
    for place in range(pairs):
        other, third, fourth = others.roll(-place)[:3].tolist()
        shifts = [
            exchange_differences(keys, *both, asked, other, third, fourth, generator)
            for keys, both in zip(original, effects, strict=True)
        ]
        yield FactPair(question=ids[end:], cache=cache, asked=asked, other=other, shifts=shifts)


def fill_cache(model: Any, input_ids: Int[Tensor, "prompt token"]) -> Any:
    """Return keys and values that the model keeps of prompts, or refuse a layer that keeps fewer than all of them."""
    _, cache = run_with_cache(model.base_model, input_ids.to(model.device))
    length = min(layer.keys.shape[2] for layer in cache.layers)
    if length < input_ids.shape[1]:
        raise ValueError(
            f"keys are exchanged where a layer keeps all of them; a window of this model keeps {length} of "
            f"{input_ids.shape[1]} tokens. Pass fewer facts"
        )
    return cache


def block_keys(cache: Any, prompts: Prompts, planes: Sequence[Planes]) -> list[BlockKeys]:
    """Return keys of every layer's blocks before rotation, ``[prompt, block, key_head, offset, dim]``."""
    at = torch.arange(prompts.start, prompts.start + prompts.blocks * prompts.block_length)
    return [
        rotate(here.arrange_keys(layer.keys[:, :, at]), -at.to(layer.keys.device), here.angles)
        .unflatten(2, (prompts.blocks, prompts.block_length))
        .transpose(1, 2)
        for layer, here in zip(cache.layers, planes, strict=True)
    ]


def main_effects(keys: BlockKeys, orders: Int[Tensor, "prompt place"]) -> tuple[BlockKeys, BlockKeys]:
    """Return a Latin square's mean keys at each origin, over symbols, and of each symbol, over origins."""
    by_symbol = orders.argsort(0)  # the prompt in which each symbol stands at each place
    every = keys[by_symbol, torch.arange(orders.shape[1])]
    return every.mean(0), every.mean(1)


def exchange_differences(
    keys: BlockKeys,
    origins: BlockKeys,
    symbols: BlockKeys,
    asked: int,
    other: int,
    third: int,
    fourth: int,
    generator: torch.Generator,
) -> Float[Tensor, "exchange key_head offset dim"]:
    """Return what each of :data:`EXCHANGES` adds to the keys of the asked fact, and takes from those of the other.

    ``origins`` are means at places, ``symbols`` of what stands there; ``third`` and ``fourth`` are two more places,
    whose origins are exchanged as a control.
    """
    origin = origins[other] - origins[asked]
    length = origin.norm(dim=-1, keepdim=True)
    drawn = torch.randn(origin.shape, generator=generator).to(origin)
    controls = (torch.nn.functional.normalize(x, dim=-1) * length for x in (origins[fourth] - origins[third], drawn))
    return torch.stack([keys[other] - keys[asked], origin, symbols[other] - symbols[asked], *controls])


def run_exchanges(
    model: Any,
    question: Int[Tensor, " token"],
    cache: Any,
    shifts: Sequence[Float[Tensor, "exchange key_head offset dim"]],
    prompts: Prompts,
    planes: Sequence[Planes],
    asked: int,
    other: int,
) -> dict[str, Tensor]:
    """Return ``log_ratio [run, layer, head]``, ``attention [run, layer, head, fact]`` and ``logits [run, vocabulary]``
    of all :data:`RUNS`, which read a prompt's question as one batch; the cache is left as it is.
    """
    tokens = find_fact_tokens(prompts, asked, other)
    again = copy.deepcopy(cache)
    again.batch_repeat_interleave(len(RUNS))
    for number, (layer, here, shift) in enumerate(zip(again.layers, planes, shifts, strict=True)):
        chosen = torch.zeros(len(RUNS), *shift.shape[1:], dtype=shift.dtype, device=shift.device)
        for run, (exchange, layers) in enumerate(RUNS):
            if exchange in EXCHANGES and number in select_named_layers(layers, len(shifts)):
                chosen[run] = shift[EXCHANGES.index(exchange)]
        for at, sign in zip(tokens, (1, -1), strict=True):
            layer.keys[:, :, at] += sign * convert_to_cache_layout(
                rotate(chosen, at.to(chosen.device), here.angles), here
            )
    rows: dict[str, list[Tensor]] = {"log_ratio": [], "attention": []}

    def look(call: AttentionInputs) -> None:
        logits = call.logits().masked_fill(~call.visible, -torch.inf)[:, :, 0]
        both = [logits[..., at.to(logits.device)].logsumexp(-1) for at in tokens]
        rows["log_ratio"].append(both[0] - both[1])
        weights = call.weights()[:, :, 0]
        rows["attention"].append(torch.stack([weights[..., at.to(weights.device)].sum(-1) for at in tokens], -1))

    with hook_attention(model, look):
        ids = question.to(model.device).expand(len(RUNS), -1)
        logits = run_with_cache(model, ids, again, logits_to_keep=1)[0].logits[:, -1]
    return {**{name: torch.stack(values, 1).cpu() for name, values in rows.items()}, "logits": logits.float().cpu()}


@torch.no_grad()
def exchange_layer_alone(
    model: Any, pair: FactPair, prompts: Prompts, planes: Sequence[Planes]
) -> Float[Tensor, "exchange layer head"]:
    """Return what every head would make of an exchange in its own layer alone, all that comes before being as it is.

    It is the logarithm of the last token's attention to the asked fact over that to the other, as the prompt has it
    and with each of :data:`EXCHANGES`.
    """
    tokens = find_fact_tokens(prompts, pair.asked, pair.other)
    rows: list[Tensor] = []

    def look(call: AttentionInputs) -> None:
        here, shift = planes[call.index], pair.shifts[call.index]
        shift = torch.cat([torch.zeros_like(shift[:1]), shift])
        keys = call.keys.repeat(len(shift), 1, 1, 1)
        for at, sign in zip(tokens, (1, -1), strict=True):
            keys[:, :, at] += (
                sign * convert_to_cache_layout(rotate(shift, at.to(shift.device), here.angles), here)
            ).to(keys)
        alone = replace(call, query=call.query.expand(len(shift), -1, -1, -1), keys=keys)
        logits = alone.logits().masked_fill(~call.visible, -torch.inf)[:, :, 0]
        both = [logits[..., at.to(logits.device)].logsumexp(-1) for at in tokens]
        rows.append((both[0] - both[1]).cpu())

    with hook_attention(model, look):
        ids = pair.question.to(model.device)[None]
        run_with_cache(model, ids, copy.deepcopy(pair.cache), logits_to_keep=1)
    return torch.stack(rows, 1)


def find_fact_tokens(prompts: Prompts, asked: int, other: int) -> list[Int[Tensor, " offset"]]:
    """Return places of the tokens of two facts."""
    length = prompts.block_length
    return [torch.arange(length) + prompts.start + fact * length for fact in (asked, other)]


def select_named_layers(name: str, layers: int) -> range:
    """Return numbers of the layers that are called so: all, or a third of them."""
    return range(layers) if name == "all" else range(round(layers / 3), round(2 * layers / 3))


def convert_to_cache_layout(keys: Float[Tensor, "*batch dim"], planes: Planes) -> Float[Tensor, "*batch dim"]:
    """Return keys in the layout that the model keeps them in: the inverse of ``planes.arrange_keys``."""
    converted = torch.empty_like(keys)
    converted[..., planes.order.to(keys.device)] = keys / planes.gain.to(keys)
    return converted


EXPERIMENT = Experiment(settings=full_size, small={"facts": 4, "prompts": 2, "pairs": 1}, measure=measure, dims=DIMS)
