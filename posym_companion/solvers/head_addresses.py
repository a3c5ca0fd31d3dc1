"""What heads hand on that find a fact by its name: the fact's content, its address, or both.

A list has 16 facts. The outputs of name-finding heads at the last token are replaced by those that they have in another
list, in which the same name stands elsewhere (*address*), another name stands in the same place (*content*), or another
name in another place (*both*). Two facts and two places are crossed; the other facts stand in one order in the list and
in another in the source, and a source that differs in nothing else (*shuffled*) says what that alone does. An address
is an origin, see :mod:`posym_companion.language_models.origins`: where no key is moved, origin and place are one. This
project's own; Prakash et al. (2026) and Gur-Arieh et al. (2026) take pointers to a fact apart from what the fact says,
by other means.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from posym_companion.experiments import SECOND, Experiment, PromptSetting, name_prefix
from posym_companion.language_models.origin_patching import fill_cache
from posym_companion.solvers.binding_direction import kept_factors, load_taught
from posym_companion.solvers.taught_decoders import STEPS, TASK, Lesson, teach_decoder
from posym_companion.solvers.taught_gemma import TaughtGemma
from posym_profile.capture import AttentionInputs, hook_attention
from posym_profile.interventions import edit_head_outputs
from posym_profile.language_models import PACKAGED, merge_lora
from posym_profile.prompts import Draft, Prompts, PromptTokens, draft_prompts, find_single_words, shuffle


@dataclass(frozen=True, kw_only=True)
class Heads:
    """Heads of one layer that find a fact by its name, heads of that layer that do not, and later heads that look."""

    layer: int
    tested: tuple[int, ...]
    others: tuple[int, ...]
    readers: tuple[tuple[int, int], ...]


# Named on the prompts of C-6: later ones are those that look at the asked fact in every run and wording. Head 18:8 of
# SmolLM2 finds names, too, and 11:3 of Gemma in part; so neither is among the others.
HEADS: Mapping[str, Heads] = {
    SECOND: Heads(layer=18, tested=(6, 7), others=(0, 1, 2, 3, 4, 5), readers=((23, 2), (23, 7))),
    PACKAGED: Heads(layer=11, tested=(2,), others=(0, 1), readers=((13, 3), (17, 2))),
}
# Words and frames that no lesson and no other experiment has.
FRAMES = {
    "speaks": (" {name} speaks {attribute}.", " What language does {name} speak? {name} speaks", "languages"),
    "learned": (" {name} learned {attribute},", " and so {name} learned", "subjects"),
}
NAMES = "family_names"
# Runs of a square are numbered by order of the others (4), arrangement of the two (2) and name that is asked (1); a
# source is the run whose number differs in these bits.
SOURCES = {"shuffled": 4, "address": 4 | 2, "content": 4 | 2 | 1, "both": 4 | 1}
SITES = ("heads", "other heads", "layer", "residual stream")
RUNS = torch.arange(8)
ANSWERS = ("asked", "other")
LESSONS: tuple[Lesson, ...] = get_args(Lesson)
SEEDS = (0, 1, 2)
# Squares on which a decoder's heads are named have seeds so far from those that they are measured on.
APART = 100_000
DIMS = {
    "moved": "square site source reader",
    "moved_later": "square source layer head",
    "odds": "square site source",
    "chosen": "square site source answer",
    "before": "square reader",
    "odds_before correct": "square",
    "named": "which number",
}


@dataclass(frozen=True, kw_only=True)
class HeadAddresses(PromptSetting):
    """One model on one wording.

    Attributes:
        model: name for :func:`posym_profile.load_model`, or a lesson of :mod:`posym_companion.solvers.taught_decoders`.
        taught: seed of the run of :mod:`posym_companion.solvers.taught_gemma` that it was taught in, or of the decoder;
            None for a language model as it comes.
        wording: one of :data:`FRAMES`; of decoders the name of their task.
        prompts: squares of two facts and two places, each with words of its own and eight questions.
        seed: of the prompts.
        steps: of each part of a decoder's teaching, at most.
    """

    taught: int | None = None
    wording: str = "speaks"
    prompts: int = 24
    seed: int = 9000
    steps: int = STEPS

    @property
    def name(self) -> str:
        taught = "untaught" if self.taught is None else f"taught{self.taught}"
        return f"head_addresses/{name_prefix(self.model)}{taught}_{self.wording}"


def full_size() -> list[HeadAddresses]:
    """Both families, untaught and in three runs of teaching, in two wordings, and small decoders after two lessons.

    There is no ``model`` to choose.
    """
    language = [
        HeadAddresses(model=model, taught=taught, wording=wording)
        for taught in (0, 1, 2, None)
        for model in (SECOND, PACKAGED)
        for wording in FRAMES
    ]
    facts = {"wording": "facts", "facts": TASK.facts}
    return language + [HeadAddresses(model=lesson, taught=seed, **facts) for seed in SEEDS for lesson in LESSONS]


def draw_square(
    tokenizer: Any, wording: str, facts: int, generator: torch.Generator
) -> tuple[Prompts, Int[Tensor, "2"]]:
    """The eight lists and questions of a square, in the order of :data:`RUNS`, and the two places.

    Args:
        tokenizer: of the model; None for a decoder of :mod:`posym_companion.solvers.taught_decoders`.
        wording: one of :data:`FRAMES`; of no account for a decoder.
        facts: of a list.
        generator: of all that is drawn.

    Returns:
        Prompts whose ``target`` is the place of the fact that is asked, and ``[place]``.
    """
    places, others = torch.randperm(facts, generator=generator).tensor_split([2])
    first = torch.randperm(facts, generator=generator)
    again = first.clone()
    again[others] = first[others][torch.randperm(len(others), generator=generator)]
    rows = []
    for order in (first, again):
        for two in (first[places], first[places.flip(0)]):
            rows.append(order.clone())
            rows[-1][places] = two
    orders = torch.stack(rows).repeat_interleave(2, 0)
    asked = first[places].repeat(len(rows))
    target = (orders == asked[:, None]).long().argmax(1)
    if tokenizer is None:
        example = TASK.ask("binding", 1, generator).tokens.expand(len(orders), -1)
        names = example[0, 1:-2:2]
        answers = (TASK.first_attribute + torch.randperm(TASK.attributes, generator=generator)[:facts])[orders]
        told = torch.stack([names[orders], answers], -1).flatten(1)
        ids = torch.cat([example[:, :1], told, example[:, -2:-1], names[asked][:, None]], 1)
        drawn = {"start": 1, "block_length": TASK.words, "blocks": facts, "texts": [""] * len(orders)}
        return Prompts(input_ids=ids, answer_ids=answers, target=target, **drawn), places
    fact, question, kind = FRAMES[wording]
    tokens = PromptTokens(tokenizer)
    attributes = find_single_words(tokens, kind, facts)
    people = shuffle(list(find_single_words(tokens, NAMES, facts)), facts, generator)
    words = shuffle(list(attributes), facts, generator)
    drafts = [
        Draft(
            before="",
            blocks=[fact.format(name=people[i], attribute=words[i]) for i in order],
            after=question.format(name=people[order[at]]),
            answers=[attributes[words[i]] for i in order],
            target=at,
        )
        for order, at in zip(orders.tolist(), target.tolist(), strict=True)
    ]
    return draft_prompts(tokens, drafts), places


@dataclass(frozen=True, kw_only=True)
class LastToken:
    """What a pass over the last token gives.

    Attributes:
        outputs: of all heads of the layer.
        residual: what enters the next layer.
        log_ratio: of every later head, the logarithm of its attention to the other fact's place over that to the asked
            one's.
        logits: of the facts' attributes, by place.
    """

    outputs: Float[Tensor, "run head dim"]
    residual: Float[Tensor, "run width"]
    log_ratio: Float[Tensor, "run layer head"]
    logits: Float[Tensor, "run place"]


@torch.no_grad()
def run_last_token(
    model: Any,
    prompts: Prompts,
    cache: Any,
    runs: Int[Tensor, " run"],
    places: Int[Tensor, "2"],
    layer: int,
    *,
    heads: Sequence[int] = (),
    outputs: Tensor | None = None,
    residual: Tensor | None = None,
) -> LastToken:
    """Read the last token of some runs, what comes before it being kept in ``cache``, with something replaced.

    Args:
        model: the model.
        prompts: of :func:`draw_square`.
        cache: what the model keeps of all tokens but the last; left as it is.
        runs: which prompts.
        places: of the two facts.
        layer: of the heads.
        heads: those that hand on ``outputs [run, head, dim]`` in place of their own.
        outputs: see ``heads``.
        residual: what enters the next layer in place of its own.
    """
    again = copy.deepcopy(cache)
    again.batch_select_indices(runs)
    target = prompts.target[runs]
    other = places.sum() - target
    seen: dict[str, Tensor] = {}
    ratios: list[Tensor] = []

    def change(number: int, now: Tensor) -> Tensor | None:
        if number != layer:
            return None
        if outputs is not None:
            now = now.clone()
            now[:, -1, list(heads)] = outputs[:, list(heads)]
        seen["outputs"] = now[:, -1].clone()
        return now

    def enter(_: Any, args: tuple) -> tuple:
        hidden = args[0]
        if residual is not None:
            hidden = hidden.clone()
            hidden[:, -1] = residual
        seen["residual"] = hidden[:, -1].clone()
        return hidden, *args[1:]

    def look(call: AttentionInputs) -> None:
        if call.index > layer:
            logits = call.logits().masked_fill(~call.visible, -torch.inf)[:, :, 0, prompts.start :]
            blocks = logits[..., : prompts.blocks * prompts.block_length].unflatten(-1, (prompts.blocks, -1))
            by_block = blocks.logsumexp(-1)
            first, second = (
                by_block.gather(-1, at.to(by_block.device).view(-1, 1, 1).expand(-1, by_block.shape[1], 1))[..., 0]
                for at in (target, other)
            )
            ratios.append((second - first).cpu())

    handle = model.base_model.layers[layer + 1].register_forward_pre_hook(enter)
    with contextlib.ExitStack() as stack:
        stack.callback(handle.remove)
        stack.enter_context(edit_head_outputs(model, change))
        stack.enter_context(hook_attention(model, look))
        last = prompts.input_ids[runs, -1:].to(model.device)
        hidden = model.base_model(last, past_key_values=again, use_cache=True).last_hidden_state[:, -1]
    # Logits of the attributes alone: those of a whole vocabulary would be most of the work.
    weight = model.get_output_embeddings().weight[prompts.answer_ids[runs]]
    logits = (weight @ hidden[..., None])[..., 0].cpu()
    return LastToken(**seen, log_ratio=torch.stack(ratios, 1), logits=logits)


def fill_square(model: Any, prompts: Prompts) -> Any:
    """Keep what the model makes of all tokens but the last; each list is read once for its two questions."""
    end = prompts.start + prompts.blocks * prompts.block_length
    cache = fill_cache(model, prompts.input_ids[::2, :end])
    cache.batch_repeat_interleave(2)
    if (question := prompts.input_ids[:, end:-1]).shape[1]:
        model.base_model(question.to(model.device), past_key_values=cache, use_cache=True)
    return cache


@torch.no_grad()
def measure_square(
    model: Any, prompts: Prompts, places: Int[Tensor, "2"], heads: Heads, others: Sequence[int]
) -> dict[str, np.ndarray]:
    """One square's arrays, means over its eight questions, see :func:`measure`."""
    cache = fill_square(model, prompts)
    plain = run_last_token(model, prompts, cache, RUNS, places, heads.layer)
    runs, count = RUNS.repeat(len(SOURCES)), len(RUNS)
    source = torch.cat([RUNS ^ bits for bits in SOURCES.values()])
    target = prompts.target[runs, None]

    def compute_odds(logits: Tensor, at: Tensor) -> Tensor:
        return (logits.gather(1, places.sum() - at) - logits.gather(1, at))[:, 0]

    replaced: Mapping[str, Mapping[str, Any]] = {
        "heads": {"heads": heads.tested, "outputs": plain.outputs[source]},
        "other heads": {"heads": others, "outputs": plain.outputs[source]},
        "layer": {"heads": range(plain.outputs.shape[1]), "outputs": plain.outputs[source]},
        "residual stream": {"residual": plain.residual[source]},
    }
    before = compute_odds(plain.logits, prompts.target[:, None])
    rows: dict[str, list[Tensor]] = {name: [] for name in ("moved", "odds", "chosen")}
    later = []
    for site in SITES:
        run = run_last_token(model, prompts, cache, runs, places, heads.layer, **replaced[site])
        moved = (run.log_ratio - plain.log_ratio[runs]).unflatten(0, (-1, count)).mean(1)
        later.append(moved)
        rows["moved"].append(torch.stack([moved[:, layer - heads.layer - 1, head] for layer, head in heads.readers], 1))
        rows["odds"].append((compute_odds(run.logits, target) - before[runs]).unflatten(0, (-1, count)).mean(1))
        named = run.logits.argmax(1, keepdim=True) == torch.cat([target, places.sum() - target], 1)
        rows["chosen"].append(named.float().unflatten(0, (-1, count)).mean(1))
    found = {name: torch.stack(each) for name, each in rows.items()} | {
        "moved_later": later[0],
        "before": torch.stack([plain.log_ratio[:, x - heads.layer - 1, y].mean() for x, y in heads.readers]),
        "odds_before": before.mean(),
        "correct": (plain.logits.argmax(1) == prompts.target).float().mean(),
    }
    return {name: x.numpy().astype(np.float16) for name, x in found.items()}


@torch.no_grad()
def name_heads(model: Any, setting: HeadAddresses) -> Heads:
    """Name a decoder's heads on squares of their own, by the last token's attention to the fact that is asked.

    Of the layers before the last the head with most of it is under test, the other one of its layer is the control, and
    the two later heads with most of it are the readers.
    """
    rows: list[Tensor] = []
    for number in range(setting.prompts):
        generator = torch.Generator().manual_seed(setting.seed + APART + number)
        prompts, _ = draw_square(None, setting.wording, setting.facts, generator)
        seen: list[Tensor] = []

        def look(call: AttentionInputs, prompts: Prompts = prompts, seen: list[Tensor] = seen) -> None:
            told = call.weights()[:, :, 0, prompts.start :][..., : prompts.blocks * prompts.block_length]
            seen.append(told.unflatten(-1, (prompts.blocks, -1)).sum(-1)[RUNS, :, prompts.target].mean(0))

        with hook_attention(model, look):
            model(prompts.input_ids, use_cache=False)
        rows.append(torch.stack(seen))
    attention = torch.stack(rows).mean(0)
    layer, head = divmod(int(attention[:-1].argmax()), attention.shape[1])
    later = attention[layer + 1 :].flatten().topk(2).indices.tolist()
    return Heads(
        layer=layer,
        tested=(head,),
        others=tuple(x for x in range(attention.shape[1]) if x != head),
        readers=tuple((layer + 1 + place // attention.shape[1], place % attention.shape[1]) for place in later),
    )


def measure(
    model: Any, tokenizer: Any, folder: Path, setting: HeadAddresses, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """All arrays of one setting; numbers are means over a square's eight questions.

    Returns:
        By what is replaced (:data:`SITES`) and by what the source differs in (:data:`SOURCES`): ``moved [square, site,
        source, reader]``, how much the logarithm of a reader's attention to the other fact's place over that to the
        asked fact's grows, ``odds [square, site, source]``, how much the log-odds of the other fact's attribute against
        the asked one's grow, and ``chosen [square, site, source, answer]``, how often the asked fact's and the other's
        attribute is the first of all facts'. ``moved_later [square, source, layer, head]``: the same as ``moved`` of
        every later head, for the heads under test. With nothing replaced ``before [square, reader]``, ``odds_before
        [square]`` and ``correct [square]``. ``named [which, (layer, head)]``: the heads under test, then the readers.
    """
    with contextlib.ExitStack() as stack:
        if tokenizer is None:
            lesson = LESSONS[LESSONS.index(setting.model)]
            model = stack.enter_context(teach_decoder(lesson, setting.taught or 0, steps=setting.steps))
            heads = name_heads(model, setting)
        else:
            run = TaughtGemma(model=setting.model, seed=setting.taught or 0)
            stack.enter_context(merge_lora(model, {} if setting.taught is None else kept_factors(run, folder)))
            heads = HEADS[setting.model]
        rows = []
        for number in tqdm(range(setting.prompts), desc=setting.name, disable=not progress):
            generator = torch.Generator().manual_seed(setting.seed + number)
            prompts, places = draw_square(tokenizer, setting.wording, setting.facts, generator)
            chosen = torch.randperm(len(heads.others), generator=generator)[: len(heads.tested)]
            others = [heads.others[i] for i in chosen.tolist()]
            rows.append(measure_square(model, prompts, places, heads, others))
    named = np.array([(heads.layer, head) for head in heads.tested] + list(heads.readers))
    return {**{name: np.stack([row[name] for row in rows]) for name in rows[0]}, "named": named}


def load(name: str, *, device: str, folder: Path) -> tuple[Any, Any, Path]:
    """A language model and its tokenizer, or nothing of a decoder, which is taught when it is measured; the results."""
    return (None, None, folder) if name in LESSONS else load_taught(name, device=device, folder=folder)


EXPERIMENT = Experiment(
    settings=full_size, small={"facts": TASK.facts, "prompts": 2, "steps": 4}, measure=measure, dims=DIMS, load=load
)
