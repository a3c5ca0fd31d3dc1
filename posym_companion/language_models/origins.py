"""What heads of a language model follow when keys change places: the symbol, its origin or the place; kind by kind.

A key swap moves a symbol together with its origin, the place where its key was computed. Here both are taken apart
(:func:`posym_profile.origin_cube`) on lists of facts and on prose, with facts of the same frame in front, with their
tokens in random order, with as many facts of another frame, with as much prose, with a verb for each fact, and without
the mark of beginning; of the packaged model, the same taught to bind, and three draws of random weights. This project's
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from posym_companion.experiments import SECOND, Experiment, PromptSetting, load_experiment_model, slug
from posym_companion.one_head.head_geometry import with_random_weights
from posym_core.metrics import (
    AXES,
    PARTS,
    BlockLayout,
    draw_latin_square,
    measure_block_attention,
    measure_prompt_variance,
    permute_blocks,
    split_variance,
)
from posym_profile.language_models import PACKAGED, choose_answers
from posym_profile.prompts import Prompts, binding_prompts, read_reference_text, text_prompts
from posym_profile.scores import (
    KeyAnova,
    LayerHeads,
    make_key_anova,
    map_layers,
    measure_crossed_logits,
    measure_cube_logits,
    profile,
)

Front = Literal["facts", "shuffled", "other", "prose"]
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
KEYS: Mapping[str, int | None] = {"block": None, **{f"offset {offset}": offset for offset in range(BLOCK_LENGTH)}}
# What differs between facts, and all of a fact.
FEW = ("block", f"offset {NAME}", f"offset {ATTRIBUTE}")
CROSSED = {name: KEYS[name] for name in FEW}
# The same without the first origins and places.
BEHIND = (1, 4)
READS = (
    *KEYS,
    "attention",
    *(f"{name}, crossed" for name in CROSSED),
    *(f"{name}, behind {first}" for name in CROSSED for first in BEHIND),
)
# The seven parts of the variance, and that of the prompts' means.
VARIANCES = (*PARTS.values(), "prompts")
DIMS = {
    "reads": "read",
    "variances": "variance",
    "parts": "read variance prompt layer head",
    "curves": "curve",
    "by_origin": "curve layer head origin",
    "contrasts": "curve factor prompt layer head",
    "positional symbolic mass": "prompt layer head",
    "correct alternatives": "prompt",
}
# Kinds of prompt: with something in front, with random weights, and all kinds of list.
FRONTS = (*(("facts", lead) for lead in LEADS[1:]), ("shuffled", LEAD), ("other", LEAD), (PROSE, LEAD), (PROSE, LONG))
IN_FRONT: list[dict[str, Any]] = [{"front": front, "lead": lead} for front, lead in FRONTS]
DRAWN: list[dict[str, Any]] = [{"draw": draw, "prompts": 2} for draw in DRAWS]
LISTS = [{"reads": "all", "asked": True}, *IN_FRONT, {"vary_frame": True}, {"beginning": False}]
LISTS += [{"square": 1}, {"facts": FACTS // 2}, {"facts": 2 * FACTS, "prompts": 2}]
# What is measured of any model and of the packaged ones, by the end of the model's name and by wording. Of the second
# packaged model it is what C-1, C-2 and C-4 are judged by.
EVERY: list[tuple[str, Sequence[str], list[dict[str, Any]]]] = [
    ("", (PROSE,), [{"reads": "all"}]),
    ("", WORDINGS, LISTS),
    ("", (WORDINGS[0], PROSE), DRAWN),
]
MEASURED = {
    PACKAGED: [*EVERY, ("-binds", WORDINGS, [{"asked": True}, {"lead": LEAD}]), ("-binds", (PROSE,), [{}])],
    SECOND: [
        ("", (PROSE,), [{}]),
        ("", WORDINGS, [{"asked": True}, *IN_FRONT]),
        ("", WORDINGS[:1], [{"beginning": False}, *DRAWN]),
        ("-binds", WORDINGS, [{"asked": True}]),
    ],
}


@dataclass(frozen=True, kw_only=True)
class Origins(PromptSetting):
    """One model on one kind of prompt.

    Attributes:
        draw: seed of random weights; None for the model's own.
        wording: of the binding prompts, or ``"prose"`` for windows of text, cut into blocks of four tokens.
        front: what stands in front, if anything: facts of the same frame, the tokens of such facts in random order,
            facts of another frame, or prose.
        lead: how much stands in front, in facts.
        vary_frame: draw a verb for each fact.
        beginning: keep the mark of beginning.
        asked: measure, too, what asking for another fact changes.
        square: seed of the Latin square.
        prompts: how many, each with a square of its own.
        reads: of a block everything that is read, or the ``"few"`` that rows are judged by.
    """

    draw: int | None = None
    wording: str = "likes"
    facts: int = FACTS
    front: Front = "facts"
    lead: int = 0
    vary_frame: bool = False
    beginning: bool = True
    asked: bool = False
    square: int = 0
    prompts: int = 3
    reads: Literal["all", "few"] = "all"

    @property
    def name(self) -> str:
        model = slug(self.model) if self.draw is None else f"{slug(self.model)}-random{self.draw}"
        kind = [f"{self.wording}_{self.facts}"]
        kind += [f"{self.front}{self.lead}"] if self.lead else []
        kind += ["varied"] if self.vary_frame else []
        kind += [] if self.beginning else ["unmarked"]
        kind += [f"square{self.square}"] if self.square else []
        return f"origins/{model}_{'_'.join(kind)}"


def full_size(model: str = PACKAGED) -> list[Origins]:
    """Of a packaged model its kinds of prompt in :data:`MEASURED`, of any other model those in :data:`EVERY`."""
    return [
        Origins(**{"model": f"{model}{ending}", "wording": wording, "reads": "few", **kind})
        for ending, wordings, kinds in MEASURED.get(model, EVERY)
        for wording in wordings
        for kind in kinds
    ]


def draw_prompts(tokenizer: Any, setting: Origins) -> Prompts:
    """The prompts of a setting; what stands in front changes nothing behind it.

    Raises:
        ValueError: if a fact is not four tokens, or what the setting asks cannot be had with prose.
    """
    if setting.wording == PROSE:
        if setting.lead or setting.vary_frame or setting.asked:
            raise ValueError("prose has no facts in front, no frame and no question; pass lead=0, vary_frame=False")
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
        elif setting.lead and setting.front == "shuffled":
            prompts = _shuffled(prompts, setting.lead, setting.seed)
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
    """The same behind other tokens, which follow the mark of beginning."""
    ids, home = prompts.input_ids, prompts.start
    return replace(prompts, input_ids=torch.cat([ids[:, :home], front, ids[:, home:]], 1), start=home + front.shape[1])


def _reworded(prompts: Prompts, frame: Prompts, lead: int) -> Prompts:
    """The facts in front with the verbs, attributes and stops of another frame's facts; their names stay."""
    ids = prompts.input_ids.clone()
    first = prompts.start - lead * prompts.block_length
    front = ids[:, first : prompts.start].unflatten(1, (lead, -1))
    other = frame.input_ids[:, frame.start :][:, : lead * frame.block_length].unflatten(1, (lead, -1)).clone()
    other[..., NAME] = front[..., NAME]
    ids[:, first : prompts.start] = other.flatten(1)
    return replace(prompts, input_ids=ids)


def _shuffled(prompts: Prompts, lead: int, seed: int) -> Prompts:
    """The tokens of the facts in front in random order, another in each prompt: the same words, and no sentence."""
    generator = torch.Generator().manual_seed(seed)
    ids = prompts.input_ids.clone()
    front = slice(prompts.start - lead * prompts.block_length, prompts.start)
    tokens = ids[:, front]
    ids[:, front] = tokens.gather(1, torch.rand(tokens.shape, generator=generator).argsort(1))
    return replace(prompts, input_ids=ids)


def measure(model: Any, tokenizer: Any, setting: Origins, *, progress: bool = True) -> dict[str, np.ndarray]:
    """All arrays of one setting.

    Returns:
        ``parts [read, variance, prompt, layer, head]``: variance of the logits of a square of prompts that goes with
        each of the seven parts and, last, with the prompts' means, by what is read of a block (``reads``): all keys,
        one, what a block would draw of the attention, any of them with crossed queries, and without the first origins
        and places. ``by_origin [curve, layer, head, origin]``: mean logit at each, less that of all, over symbols,
        places and prompts. ``mass``: attention to all blocks. ``contrasts [curve, factor, prompt, layer, head]``, if
        asked: how much the logit of the symbol asked for, of its origin in the query's own prompt and of its place
        there lies above the others', see :func:`measure_asked_contrast`. ``positional`` and ``symbolic``: the scores of
        the prompt as it is. ``correct`` and ``alternatives [prompt]``: its answer.
    """
    from tqdm import tqdm

    if setting.draw is not None:
        model = with_random_weights(model, setting.draw)
    prompts = draw_prompts(tokenizer, setting)
    swaps = BlockLayout(**prompts.layout)
    reads = READS if setting.reads == "all" else FEW
    rows = []
    for number, prompt in enumerate(tqdm(prompts.input_ids, unit="square", disable=not progress)):
        # Each prompt has a square of its own.
        generator = torch.Generator().manual_seed(setting.prompts * setting.square + number)
        orders = draw_latin_square(swaps.number, generator)
        told = permute_blocks(prompt, orders, start=swaps.start, block_length=swaps.block_length)
        row = square_arrays(model, told, orders, swaps, reads=reads)
        if setting.asked:
            row["contrasts"] = _contrasts(model, prompt, orders, swaps, int(prompts.target[number]), generator)
        rows.append(row)
    scores = profile(model, prompts.input_ids, **prompts.layout, visible_only=False, progress=False)
    choices = choose_answers(model, prompts)
    stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return {
        "reads": np.array(reads),
        "variances": np.array(VARIANCES),
        "curves": np.array(list(CROSSED)),
        "parts": np.moveaxis(stacked["parts"], 0, 2),
        "by_origin": stacked["by_origin"].mean(0),
        **({"contrasts": np.moveaxis(stacked["contrasts"], 0, 2)} if setting.asked else {}),
        "mass": stacked["mass"],
        "positional": scores.positional.float().numpy(),
        "symbolic": scores.symbolic.float().numpy(),
        "correct": choices.correct.numpy(),
        "alternatives": choices.alternatives.numpy(),
    }


def square_arrays(
    model: Any,
    input_ids: Int[Tensor, "prompt token"],
    orders: Int[Tensor, "prompt place"],
    swaps: BlockLayout,
    *,
    reads: Sequence[str] = READS,
) -> dict[str, np.ndarray]:
    """What one square of prompts gives, in one pass each: ``parts [read, variance, layer, head]`` and the others."""
    keys = {name: read for name, read in KEYS.items() if name in reads}
    crossed = {name: read for name, read in CROSSED.items() if f"{name}, crossed" in reads}

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        groups = heads.group_queries(torch.float64)
        before = measure_block_attention(groups, swaps)
        measured = {name: measure_cube_logits(heads, swaps, read=read) for name, read in keys.items()}
        logits = {name: x["logits"] for name, x in measured.items()}
        logits["attention"] = (logits["block"] - heads.ungroup(before.log_z)[..., None, None]).exp()
        for name, read in crossed.items():
            logits[f"{name}, crossed"] = measure_crossed_logits(heads, swaps, read=read).mean(2)
        return {**logits, "seen": measured["block"]["seen"], "mass": heads.ungroup(before.mass.sum(-1))}

    # Queries are crossed within a layer and a square, so all of its prompts run together.
    measured = map_layers(model, input_ids, one_layer, progress=False, batch_size=len(input_ids))
    seen = measured.pop("seen")[0, :, 0].bool()
    mass = measured.pop("mass").mean(0)
    cubes = {
        name: make_key_anova(x.transpose(0, 1), orders, seen, rounding=torch.finfo(torch.float32).eps)
        for name, x in measured.items()
    }
    parts = {name: {**cube.parts, "prompts": cube.prompts} for name, cube in cubes.items()}
    for name in crossed:
        parts |= {f"{name}, behind {first}": without_first(cubes[name], first) for first in BEHIND}
    return {
        "parts": _array([torch.stack([parts[name][kind] for kind in VARIANCES]) for name in reads]),
        "by_origin": _array([_average_by_origin(cubes[name]) for name in CROSSED]),
        "mass": mass.float().numpy(),
    }


def without_first(cube: KeyAnova, first: int) -> dict[str, Float[Tensor, "layer head"]]:
    """The parts, and the variance of the prompts' means, over all origins and places but the first ones."""
    logits, seen = cube.logits[..., first:, first:], cube.seen[:, None, first:]
    parts = split_variance(logits, seen, rounding=torch.finfo(torch.float32).eps)
    return {**parts, "prompts": measure_prompt_variance(logits, cube.orders[:, first:], seen)}


def _average_by_origin(cube: KeyAnova) -> Float[Tensor, "layer head origin"]:
    """Return the mean logit at each origin over the places that are seen, less the mean of all."""
    mean = cube.logits.masked_fill(~cube.seen[:, None, None, None], torch.nan).nanmean((-3, -1))
    return mean - mean.nanmean(-1, keepdim=True)


def _array(rows: list[Tensor]) -> np.ndarray:
    return torch.stack(rows).float().numpy()


def ask_other_facts(
    prompt: Int[Tensor, " token"], orders: Int[Tensor, "prompt place"], swaps: BlockLayout, target: int, asked: Tensor
) -> Int[Tensor, "prompt token"]:
    """The prompts of a square, each with its question about another fact.

    Args:
        prompt: the prompt whose blocks are put in order, with a question about the block ``target``.
        orders: of the square.
        swaps: where its blocks are.
        target: the block asked about.
        asked: which block each prompt is to ask about, ``[prompt]``.
    """
    orderings = permute_blocks(prompt, orders, start=swaps.start, block_length=swaps.block_length)
    names = swaps.by_block(prompt)[:, NAME]
    question = orderings[:, swaps.stop :]
    question[question == names[target]] = names[asked].repeat_interleave((question[0] == names[target]).sum())
    return orderings


def measure_asked_contrast(
    logits: Float[Tensor, "query *head level"], asked: Int[Tensor, " query"]
) -> Float[Tensor, "*head"]:
    """How much the level asked for has more than the others, whatever every query or level has anyway.

    The coefficient of the level asked for in least squares, beside a constant for each query and each level: what a
    head prefers whoever asks is in none of it.
    """
    chosen = torch.nn.functional.one_hot(asked, logits.shape[-1]).double()
    chosen = chosen - chosen.mean(0) - chosen.mean(1, keepdim=True) + chosen.mean()
    return torch.einsum("q...l,ql->...", logits.double(), chosen) / chosen.square().sum()


def _contrasts(
    model: Any, prompt: Tensor, orders: Tensor, swaps: BlockLayout, target: int, generator: torch.Generator
) -> np.ndarray:
    """Contrasts ``[curve, factor, layer, head]`` with queries that each ask for another place of their own prompt."""
    places = torch.randperm(swaps.number, generator=generator)
    symbols = orders[torch.arange(len(orders)), places]
    asked = {"symbol": symbols, "origin": places, "place": places}

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        seen = heads.find_seen_blocks(swaps)[0]
        measured = {}
        for name, read in CROSSED.items():
            logits = measure_crossed_logits(heads, swaps, read=read).masked_fill(~seen, torch.nan)
            by_content = logits.nanmean(-1)
            at = orders.argsort(1).to(logits.device)[:, None, None, None].expand_as(by_content)
            levels = {
                "symbol": by_content.gather(-1, at).mean(0),
                "origin": by_content.mean(0),
                "place": logits.mean((0, -2)),
            }
            measured |= {f"{name} {factor}": x.transpose(0, 1) for factor, x in levels.items()}
        return measured

    orderings = ask_other_facts(prompt, orders, swaps, target, symbols)
    measured = map_layers(model, orderings, one_layer, progress=False, batch_size=len(orderings))
    rows = [
        [measure_asked_contrast(measured[f"{name} {factor}"], asked[factor]) for factor in AXES] for name in CROSSED
    ]
    return _array([torch.stack(row) for row in rows])


EXPERIMENT = Experiment(
    settings=full_size,
    small={"facts": BEHIND[-1] + 2, "lead": lambda lead: min(lead, 2), "prompts": 2},
    measure=measure,
    dims=DIMS,
    load=load_experiment_model,
)
