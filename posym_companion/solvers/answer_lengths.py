"""How long a list may be: what the angles of the heads that look at the asked fact predict, and what is answered.

A plane keeps most of what distinguishes contents while it turns by less than 2.78 over a list
(:func:`posym_core.metrics.frequencies.dirichlet_kernel`). So a head reaches as far as the planes that hold half of its
energy. Of every head that is a length in tokens, taken on short lists; the longest list that the model answers is
measured beside it, on lists in a wording that was not taught. This project's own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from posym_companion.language_models.head_predictors import CROSSING
from posym_companion.language_models.origins import asked_differently
from posym_companion.loop import Experiment, plain
from posym_companion.solvers.ranked_models import SOLVERS, load, ranked_names
from posym_companion.solvers.task_solvers import SCORING, TESTING, asked, captured, swaps
from posym_core.inspection.capturing import input_device
from posym_core.inspection.heads import LayerHeads
from posym_core.inspection.layer_measurement import profile_with
from posym_core.metrics.blocks import Swaps
from posym_core.models.decoders import DecoderEnsemble
from posym_core.tasks import Prompts, binding_prompts

FACTS = (8, 16, 32, 64, 128, 256)
# Small decoders know so many names.
KNOWN = (8, 16, 32)
# Questions that are read at once: each needs the list's keys and values.
TOGETHER = 4
DIMS = {"lengths": "length", "words": "", "attention reach": "member layer head", "correct": "member length prompt"}


@dataclass(frozen=True, kw_only=True)
class AnswerLengths:
    """One model, or one ensemble of small decoders.

    Attributes:
        model: name for ``ranked_models.load``.
        taught: wording on which a language model's heads are looked at.
        wording: of the lists that it is asked about; one that was not taught.
        facts: of the lists, the shortest first; heads are looked at on lists as long as that.
        scored: prompts on which they are.
        lists: of each length.
        questions: about facts all over each list, some twice where it has fewer; small decoders are asked ``lists *
            questions`` prompts.
        seed: of everything that is drawn.
    """

    model: str = "gemma-3-270m-binds"
    taught: str = "likes"
    wording: str = "bought"
    facts: tuple[int, ...] = FACTS
    scored: int = 16
    lists: int = 2
    questions: int = 12
    seed: int = 700

    @property
    def name(self) -> str:
        """What the result is called."""
        return f"answer_lengths/{plain(self.model)}"


def full_size() -> list[AnswerLengths]:
    """All models whose heads are ranked; there is no ``model`` to choose."""
    many = {"facts": KNOWN, "lists": 16, "questions": 16}
    return [AnswerLengths(model=name, **(many if name in SOLVERS else {})) for name in ranked_names()]


def small(setting: AnswerLengths | None = None) -> AnswerLengths:
    """A size for trying out; of an ensemble its small one."""
    setting = setting or AnswerLengths()
    if setting.model in SOLVERS:
        names = list(SOLVERS)
        setting = replace(setting, model=names[names.index(setting.model) % (len(names) // 2) + len(names) // 2])
    return replace(setting, facts=(4, 8), scored=2, lists=1, questions=4)


def measure(model: Any, tokenizer: Any, setting: AnswerLengths, *, progress: bool = True) -> dict[str, np.ndarray]:
    """What heads promise, and what is answered.

    Returns:
        ``attention [member, layer, head]``, to the fact that is asked about, and ``reach [member, layer, head]`` in
        tokens, see :func:`reach_of`, both on the shortest lists; ``words``, tokens of a fact; ``correct [member,
        length, prompt]`` by ``lengths``.
    """
    if setting.model in SOLVERS:
        looked, correct, words = of_decoders(model, setting)
    else:
        looked, correct, words = of_language(model, tokenizer, setting)
    return {
        "lengths": np.array(setting.facts),
        "words": np.array(words),
        **{name: x.double().cpu().numpy() for name, x in looked.items()},
        "correct": correct.cpu().numpy(),
    }


def reach_of(energy: Float[Tensor, "*batch plane"], angles: Float[Tensor, " plane"]) -> Float[Tensor, "*batch"]:
    """Tokens over which the planes that hold half of the energy or more turn by less than 2.78; see the module.

    >>> round(reach_of(torch.tensor([0.4, 0.3, 0.3]), torch.tensor([1.0, 0.1, 0.01])).item(), 1)
    27.8
    """
    slowest = angles.argsort()
    sums = (energy / energy.sum(-1, keepdim=True))[..., slowest].cumsum(-1)
    half = (sums < 0.5).sum(-1).clamp_max(len(angles) - 1)
    return CROSSING / angles[slowest][half]


def looked_at(heads: LayerHeads, places: Swaps, asked_fact: Tensor) -> dict[str, Tensor]:
    """Attention to the asked fact and reach of one layer's heads, ``[prompt, key_head, group]``."""
    attention = heads.swap_scores(places).attention * places.block_length
    index = asked_fact.to(attention.device)[:, None, None, None].expand(*attention.shape[:-1], 1)
    energy = heads.frequency_shares(slice(places.start, places.stop)).energy
    angles = heads.angles.to(energy)
    return {"attention": attention.gather(-1, index)[..., 0], "reach": reach_of(energy, angles)}


def of_language(
    model: Any, tokenizer: Any, setting: AnswerLengths
) -> tuple[Mapping[str, Tensor], Bool[Tensor, "1 length prompt"], int]:
    """The arrays of a language model."""
    short = binding_prompts(
        tokenizer, template=setting.taught, facts=setting.facts[0], count=setting.scored, seed=setting.seed
    )

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        return looked_at(heads, Swaps(**short.layout), short.target[heads.prompts])

    found = profile_with(model, short.input_ids, one_layer, progress=False)
    looked = {"attention": found["attention"].mean(0)[None], "reach": found["reach"].median(0).values[None]}
    correct = []
    for facts in setting.facts:
        lists = binding_prompts(
            tokenizer, template=setting.wording, facts=facts, count=setting.lists, seed=setting.seed + 1
        )
        correct.append(torch.cat([*answered(model, lists, setting)]))
    return looked, torch.stack(correct)[None], short.block_length


@torch.no_grad()
def answered(model: Any, lists: Prompts, setting: AnswerLengths) -> Iterator[Bool[Tensor, " question"]]:
    """Whether questions about facts all over a list are answered right; the model reads a list once."""
    places, device = Swaps(**lists.layout), input_device(model)
    number = setting.questions
    chosen = torch.linspace(0, places.number - 1, number).round().long()
    same = torch.arange(places.number).expand(number, -1)
    for row, ids in enumerate(lists.input_ids):
        told = asked_differently(ids, same, places, int(lists.target[row]), chosen).to(device)
        kept = model.base_model(told[:1, : places.stop], use_cache=True).past_key_values
        alternatives = lists.answer_ids[row].unique()
        for some in torch.arange(number).split(TOGETHER):
            again = copy.deepcopy(kept)
            again.batch_repeat_interleave(len(some))
            logits = model(told[some, places.stop :], past_key_values=again, use_cache=True, logits_to_keep=1).logits
            best = logits[:, -1, alternatives.to(device)].argmax(-1).cpu()
            yield alternatives[best] == lists.answer_ids[row][chosen[some]]


@torch.no_grad()
def of_decoders(
    model: DecoderEnsemble, setting: AnswerLengths
) -> tuple[Mapping[str, Tensor], Bool[Tensor, "member length prompt"], int]:
    """The arrays of an ensemble, which was trained on lists of the first length."""
    solver = replace(SOLVERS[setting.model], facts=setting.facts[0])
    batch = asked(asked_behind(model, setting.facts[0]), "binding", setting.scored, SCORING)
    rows: dict[str, list[Tensor]] = {"attention": [], "reach": []}
    for number, heads in enumerate(captured(model, batch)):
        found = looked_at(heads, swaps(solver), batch.fact[number // model.layers, :, 0])
        rows["attention"].append(found["attention"].mean(0)[:, 0])
        rows["reach"].append(found["reach"].median(0).values[:, 0])
    ensemble = (len(model.seeds), model.layers, -1)
    looked = {name: torch.stack(x).reshape(ensemble) for name, x in rows.items()}
    correct = []
    for facts in setting.facts:
        longer = asked_behind(model, facts)
        batch = asked(longer, "binding", setting.lists * setting.questions, TESTING)
        correct.append((longer(batch.tokens).argmax(-1) == batch.answer[:, None])[:, 0, :, 0])
    return looked, torch.stack(correct, 1), model.task.words


def asked_behind(model: DecoderEnsemble, facts: int) -> DecoderEnsemble:
    """The same weights, asked behind so many facts; the ordinals that come with them are no part of binding."""
    other = copy.deepcopy(model)
    other.task = replace(model.task, facts=facts)
    rows = other.task.vocabulary - model.task.vocabulary
    other.embedding = nn.Parameter(nn.functional.pad(model.embedding.detach(), (0, 0, 0, rows)))
    return other


EXPERIMENT = Experiment(settings=full_size, small=small, measure=measure, dims=DIMS, load=load)
