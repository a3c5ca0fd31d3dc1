"""Does a model that was taught to bind bind, or does it read what follows the name?

A packaged model is taught facts in which the name comes first. Here it is asked about facts in both orders, in
wordings, names and attributes that it was never taught: ``Olga plays the harp.`` and ``The harp is played by Olga.``,
with the same question behind both. In the second order the attribute that follows a name is the next fact's. This
project's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from posym_companion.experiments import SECOND, Experiment, load_experiment_model, name_prefix
from posym_companion.results import find_attached_file, load_result
from posym_companion.solvers.taught_gemma import TaughtGemma
from posym_profile.language_models import PACKAGED, merge_lora, read_factors
from posym_profile.prompts import Draft, Prompts, PromptTokens, draft_prompts, draw_balanced, find_single_words, shuffle

ORDERS = ("name first", "attribute first")
FACTS = (8, 16)


@dataclass(frozen=True, kw_only=True)
class BothOrders:
    """A wording of facts in the two orders of :data:`ORDERS`, one question behind both, and the kind of attribute."""

    facts: tuple[str, str]
    query: str
    attributes: str


SAYINGS = {
    "plays": BothOrders(
        facts=(" {name} plays the {attribute}.", " The {attribute} is played by {name}."),
        query=" What does {name} play? {name} plays the",
        attributes="instruments",
    ),
    "owns": BothOrders(
        facts=(" {name} owns the {attribute}.", " The {attribute} is owned by {name}."),
        query=" What does {name} own? {name} owns the",
        attributes="animals",
    ),
    "is": BothOrders(
        facts=(" {name} is the {attribute}.", " The {attribute} is {name}."),
        query=" Who is {name}? {name} is the",
        attributes="professions",
    ),
    "drives": BothOrders(
        facts=(" {name} drives the {attribute}.", " The {attribute} is driven by {name}."),
        query=" What does {name} drive? {name} drives the",
        attributes="vehicles",
    ),
}
# Those that a model is asked. Of these words SmolLM2's tokenizer leaves too few whole, so it gets others,
# and a third of the prompts.
WORDINGS = ("plays", "owns", "is")
WORDS: Mapping[str, Mapping[str, Any]] = {
    SECOND: {"wordings": ("drives", "owns", "is"), "names": "surnames", "prompts": 16}
}
DIMS = {"chosen target": "order wording length prompt", "facts": "length"}


@dataclass(frozen=True, kw_only=True)
class BindingDirection:
    """One model.

    Attributes:
        model: name for :func:`posym_profile.load_model`.
        taught: seed of the run of :mod:`posym_companion.solvers.taught_gemma` that it was taught in; None for the
            model as it comes.
        wordings: of :data:`SAYINGS`.
        names: kind of the names.
        prompts: questions of each order, wording and number of facts.
        seed: of the prompts.
    """

    model: str = PACKAGED
    taught: int | None = None
    wordings: tuple[str, ...] = WORDINGS
    names: str = "other_names"
    prompts: int = 48
    seed: int = 0

    @property
    def name(self) -> str:
        taught = "untaught" if self.taught is None else f"taught_{self.taught}"
        return f"binding_direction/{name_prefix(self.model)}{taught}"


def full_size(model: str = PACKAGED) -> list[BindingDirection]:
    """The model as it comes, and as it was taught in each of three seeds."""
    return [BindingDirection(model=model, taught=taught, **WORDS.get(model, {})) for taught in (None, 0, 1, 2)]


def load_taught(name: str, *, device: str, folder: Path) -> tuple[Any, Any, Path]:
    """A language model, its tokenizer, and where the additions that it was taught are kept."""
    return *load_experiment_model(name, device=device), folder


def measure(
    model: Any, tokenizer: Any, folder: Path, setting: BindingDirection, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """Which fact's attribute the model names.

    Returns:
        ``chosen`` and ``target`` ``[order, wording, length, prompt]``, numbers of facts from 0: the named attribute
        with the highest logit, and the right one; ``facts [length]``, facts of a prompt.
    """
    factors = {}
    if setting.taught is not None:
        factors = kept_factors(TaughtGemma(model=setting.model, seed=setting.taught), folder)
    chosen = np.zeros((len(ORDERS), len(setting.wordings), len(FACTS), setting.prompts), np.int16)
    target = np.zeros_like(chosen)
    with merge_lora(model, factors):
        for place in np.ndindex(chosen.shape[:-1]):
            order, wording, facts = ORDERS[place[0]], setting.wordings[place[1]], FACTS[place[2]]
            count, seed = setting.prompts, setting.seed
            prompts = draw_both_orders(tokenizer, order, wording, facts, count=count, seed=seed, people=setting.names)
            chosen[place], target[place] = named_facts(model, prompts), prompts.target.numpy()
    return {"chosen": chosen, "target": target, "facts": np.array(FACTS)}


def kept_factors(run: TaughtGemma, folder: Path) -> dict[str, torch.Tensor]:
    """The additions that a run left behind."""
    taught = load_result(run.name, folder=folder)
    return read_factors(find_attached_file(taught, f"{taught.name.partition('/')[2]}.safetensors", folder=folder))


def draw_both_orders(
    tokenizer: Any, order: str, wording: str, facts: int, *, count: int, seed: int, people: str = "other_names"
) -> Prompts:
    """Prompts in words that never occurred in training; both orders have the same names, attributes and questions."""
    tokens, both = PromptTokens(tokenizer), SAYINGS[wording]
    fact = both.facts[ORDERS.index(order)]
    names, answers = (find_single_words(tokens, kind, facts) for kind in (people, both.attributes))
    generator = torch.Generator().manual_seed(seed)
    drafts = []
    for target in draw_balanced(facts, count, generator).tolist():
        shuffled, given = shuffle(list(names), facts, generator), shuffle(list(answers), facts, generator)
        blocks = [fact.format(name=n, attribute=a) for n, a in zip(shuffled, given, strict=True)]
        question = both.query.format(name=shuffled[target])
        drafts.append(
            Draft(before="", blocks=blocks, after=question, answers=[answers[a] for a in given], target=target)
        )
    return draft_prompts(tokens, drafts)


@torch.no_grad()
def named_facts(model: Any, prompts: Prompts) -> np.ndarray:
    """``[prompt]``: the fact whose attribute has the highest logit at the last token."""
    place = model.get_input_embeddings().weight.device
    rows = [
        model(ids.to(place), use_cache=False, logits_to_keep=1).logits[:, -1].cpu()
        for ids in prompts.input_ids.split(16)
    ]
    return torch.cat(rows).gather(1, prompts.answer_ids).argmax(1).numpy()


EXPERIMENT = Experiment(settings=full_size, small={"prompts": 3}, measure=measure, dims=DIMS, load=load_taught)
