"""Heads that follow the symbol, its origin or the place when keys of a language model change places; kind by kind.

A key swap moves a symbol together with its origin, the place where its key was computed. Here both are taken apart
(:func:`posym_profile.origin_cube`) on lists of facts and on prose, with facts of the same frame in front, with as many
facts of another frame, with as much prose, with a verb for each fact, and without the mark of beginning; of the
packaged models, and three draws of random weights. This project's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from posym_companion.experiments import SECOND, Experiment, PromptSetting, load_experiment_model, slug
from posym_companion.one_head.head_geometry import with_random_weights
from posym_core.metrics import (
    PARTS,
    BlockLayout,
    draw_latin_square,
    permute_blocks,
)
from posym_profile.language_models import PACKAGED
from posym_profile.prompts import Prompts, binding_prompts, read_reference_text, text_prompts
from posym_profile.scores import measure_square, split_cube

Front = Literal["facts", "other", "prose"]
WORDINGS = ("likes", "bought")
PROSE = "prose"
FACTS = 16
DRAWS = (0, 1, 2)
# Blocks of prose are as long as facts, and so is what stands in front: as much as so many facts.
BLOCK_LENGTH = 4
LEADS = (0, 4, 8, 16)
LEAD = 8
LONG = 50
# Offsets in a fact of what differs between facts; the others are the frame's own.
NAME, ATTRIBUTE = 0, 2
# What is read of a block: the log-sum-exp over its keys, or the key at an offset.
KEYS: Mapping[str, int | None] = {"block": None, **{f"offset {offset}": offset for offset in (NAME, ATTRIBUTE)}}
# Whole blocks once more, without so many first origins and places.
BEHIND = 4
FEW = tuple(KEYS)
READS = (*FEW, f"block, behind {BEHIND}")
# The seven parts of the variance, and that of the prompts' means.
VARIANCES = (*PARTS.values(), "prompts")
DIMS = {"reads": "read", "variances": "variance", "parts": "read variance prompt layer head"}
# Kinds of prompt: with something in front, with random weights, and all kinds of list.
FRONTS = (*(("facts", lead) for lead in LEADS[1:]), ("other", LEAD), (PROSE, LEAD), (PROSE, LONG))
DRAWN: list[dict[str, Any]] = [{"draw": draw, "prompts": 2} for draw in DRAWS]
LISTS: list[dict[str, Any]] = [{"reads": "all"}, *({"front": front, "lead": lead} for front, lead in FRONTS)]
LISTS += [{"vary_frame": True}, {"beginning": False}]
# What is measured of any model, by wording, and of the second packaged one: what C-1 asks.
EVERY: list[tuple[Sequence[str], list[dict[str, Any]]]] = [
    ((PROSE,), [{}]),
    (WORDINGS, LISTS),
    (WORDINGS[:1], DRAWN),
]
MEASURED = {SECOND: [((PROSE,), [{}]), (WORDINGS, [{}]), (WORDINGS[:1], [{"beginning": False}, *DRAWN])]}


@dataclass(frozen=True, kw_only=True)
class Origins(PromptSetting):
    """One model on one kind of prompt.

    Attributes:
        draw: seed of random weights; None for the model's own.
        wording: of the binding prompts, or ``"prose"`` for windows of text, cut into blocks of four tokens.
        front: what stands in front, if anything: facts of the same frame, facts of another frame, or prose.
        lead: how much stands in front, in facts.
        vary_frame: draw a verb for each fact.
        beginning: keep the mark of beginning.
        prompts: how many, each with a square of its own.
        reads: of a block :data:`READS`, or the ``"few"`` that need no long list.
    """

    draw: int | None = None
    wording: str = "likes"
    facts: int = FACTS
    front: Front = "facts"
    lead: int = 0
    vary_frame: bool = False
    beginning: bool = True
    prompts: int = 3
    reads: Literal["all", "few"] = "few"

    @property
    def name(self) -> str:
        model = slug(self.model) if self.draw is None else f"{slug(self.model)}-random{self.draw}"
        kind = [f"{self.wording}_{self.facts}"]
        kind += [f"{self.front}{self.lead}"] if self.lead else []
        kind += ["varied"] if self.vary_frame else []
        kind += [] if self.beginning else ["unmarked"]
        return f"origins/{model}_{'_'.join(kind)}"


def full_size(model: str = PACKAGED) -> list[Origins]:
    """Return the second packaged model's prompts in :data:`MEASURED`, or another's in :data:`EVERY`."""
    return [
        Origins(model=model, wording=wording, **kind)
        for wordings, kinds in MEASURED.get(model, EVERY)
        for wording in wordings
        for kind in kinds
    ]


def draw_prompts(tokenizer: Any, setting: Origins) -> Prompts:
    """Return the prompts of a setting; what stands in front changes nothing behind it."""
    if setting.wording == PROSE:
        if setting.lead or setting.vary_frame:
            raise ValueError("prose has no facts in front and no frame; pass lead=0, vary_frame=False")
        long = text_prompts(tokenizer, facts=BLOCK_LENGTH * setting.facts, count=setting.prompts, seed=setting.seed)
        prompts = replace(long, block_length=BLOCK_LENGTH, blocks=setting.facts)
    else:
        drawn: dict[str, Any] = {"facts": setting.facts, "count": setting.prompts, "seed": setting.seed}
        lead = 0 if setting.front == "prose" else setting.lead
        prompts = binding_prompts(
            tokenizer, **drawn, template=setting.wording, lead=lead, vary_frame=setting.vary_frame
        )
        if setting.lead and setting.front == "prose":
            prompts = _behind(prompts, _prose(tokenizer, setting.prompts, BLOCK_LENGTH * setting.lead))
        elif setting.lead and setting.front == "other":
            (other,) = set(WORDINGS) - {setting.wording}
            frame = binding_prompts(tokenizer, **{**drawn, "facts": setting.lead}, template=other)
            prompts = _reworded(prompts, frame, setting.lead)
    if prompts.block_length != BLOCK_LENGTH:
        raise ValueError(
            f"facts must be {BLOCK_LENGTH} tokens to be compared with prose, and this tokenizer makes "
            f"{prompts.block_length} of {setting.wording!r}; pass another wording or model"
        )
    if not setting.beginning:
        prompts = replace(prompts, input_ids=prompts.input_ids[:, 1:], start=prompts.start - 1)
    return prompts


def _prose(tokenizer: Any, count: int, tokens: int) -> Int[Tensor, "prompt token"]:
    stream = torch.tensor(tokenizer(read_reference_text(), add_special_tokens=False)["input_ids"])
    return stream[: count * tokens].unflatten(0, (count, tokens))


def _behind(prompts: Prompts, front: Int[Tensor, "prompt token"]) -> Prompts:
    """Return the same behind other tokens, which follow the mark of beginning."""
    ids, home = prompts.input_ids, prompts.start
    return replace(prompts, input_ids=torch.cat([ids[:, :home], front, ids[:, home:]], 1), start=home + front.shape[1])


def _reworded(prompts: Prompts, frame: Prompts, lead: int) -> Prompts:
    """Return the facts in front with the verbs, attributes and stops of another frame's facts; their names stay."""
    ids = prompts.input_ids.clone()
    first = prompts.start - lead * prompts.block_length
    front = ids[:, first : prompts.start].unflatten(1, (lead, -1))
    other = frame.input_ids[:, frame.start :][:, : lead * frame.block_length].unflatten(1, (lead, -1)).clone()
    other[..., NAME] = front[..., NAME]
    ids[:, first : prompts.start] = other.flatten(1)
    return replace(prompts, input_ids=ids)


def measure(model: Any, tokenizer: Any, setting: Origins, *, progress: bool = True) -> dict[str, np.ndarray]:
    """Return ``parts [read, variance, prompt, layer, head]``: what of the variance of the logits of a square of prompts
    goes with each of the seven parts and, last, with the prompts' means, by what is read of a block.
    """
    from tqdm import tqdm

    if setting.draw is not None:
        model = with_random_weights(model, setting.draw)
    prompts = draw_prompts(tokenizer, setting)
    swaps = BlockLayout(**prompts.layout)
    reads = READS if setting.reads == "all" else FEW
    rows = []
    for number, prompt in enumerate(tqdm(prompts.input_ids, unit="square", disable=not progress)):
        # Each prompt has a square of its own, which runs in one pass.
        orders = draw_latin_square(swaps.number, torch.Generator().manual_seed(number))
        cubes, seen = measure_square(model, prompt, orders, swaps, KEYS, batch_size=len(orders))
        parts = {name: split_cube(cube, orders, seen) for name, cube in cubes.items()}
        if READS[-1] in reads:
            behind = cubes["block"][..., BEHIND:, BEHIND:]
            parts[READS[-1]] = split_cube(behind, orders[:, BEHIND:], seen[:, BEHIND:])
        found = torch.stack([torch.stack([parts[name][kind] for kind in VARIANCES]) for name in reads])
        rows.append(found.float().numpy())
    return {"reads": np.array(reads), "variances": np.array(VARIANCES), "parts": np.stack(rows, 2)}


def ask_other_facts(
    prompt: Int[Tensor, " token"], orders: Int[Tensor, "prompt place"], swaps: BlockLayout, target: int, asked: Tensor
) -> Int[Tensor, "prompt token"]:
    """Return the prompts of a square, each with its question, which was about ``target``, about another block."""
    orderings = permute_blocks(prompt, orders, start=swaps.start, block_length=swaps.block_length)
    names = swaps.by_block(prompt)[:, NAME]
    question = orderings[:, swaps.stop :]
    question[question == names[target]] = names[asked].repeat_interleave((question[0] == names[target]).sum())
    return orderings


EXPERIMENT = Experiment(
    settings=full_size,
    small={"facts": BEHIND + 2, "lead": lambda lead: min(lead, 2), "prompts": 2},
    measure=measure,
    dims=DIMS,
    load=load_experiment_model,
)
