"""What a binding head is told: a place, a name or an answer (Gur-Arieh et al., 2026)."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from posym_companion.later.later_subjects import LaterClaims, question_prompts
from posym_profile.capture import find_input_device

# What an answer may be after a patch: the fact first asked about, the one in the place, with the name, with the answer
# that the patch comes from, each other fact on average, and the answer that no fact has.
OUTCOMES = ("asked", "place", "name", "answer", "other fact", "absent")
DIMS = {"said": "control layer pair outcome", "place": "pair"}


def measure(model: Any, source: Any, setting: LaterClaims) -> dict[str, np.ndarray]:
    """What a model says when its last token's state, behind one layer, comes from a prompt with its facts rearranged.

    Returns:
        ``said [control, layer, pair, outcome]``, whether the answer was this (:data:`OUTCOMES`; of the facts with none
        of these roles the mean), where the answer that the state comes from stands in the prompt (0) and where it does
        not (1); ``place [pair]``, of the fact that the state's prompt asked about.
    """
    outcomes, places = [], []
    for clean, others, answers, place in rearrange_prompts(source, setting):
        states = [last_states(model, other) for other in others]
        logits = torch.stack([with_last_state(model, clean, state)[:, answers] for state in states])
        outcomes.append(count_outcomes(logits))
        places.append(place)
    return {"said": np.stack(outcomes, 2).astype(np.float32), "place": np.array(places)}


def rearrange_prompts(source: Any, setting: LaterClaims) -> Iterator[tuple[Tensor, tuple[Tensor, Tensor], Tensor, int]]:
    """Prompts, each with two others of the same words, the answers in question and the place asked about there.

    In the first other prompt another name is asked about, in another place and with another's attribute: these three
    are different facts of the prompt and none is the one that it asks about. The second has an attribute in that place
    that the prompt does not name. Answers are those of the fact asked about, of the facts in the place, with the name
    and with the attribute, of all further facts, and the attribute not named.
    """
    prompts = question_prompts(source, setting, setting.seed)
    generator = torch.Generator().manual_seed(setting.seed)
    everything = prompts.answer_ids.unique()
    facts = torch.arange(prompts.blocks)
    for row, clean in enumerate(prompts.input_ids):
        answers, asked = prompts.answer_ids[row], int(prompts.target[row])
        blocks = clean[prompts.start :][: prompts.blocks * prompts.block_length].view(prompts.blocks, -1)
        at = int((blocks[0] == answers[0]).nonzero())
        unused = everything[~torch.isin(everything, answers)]
        if len(unused) == 0 or prompts.blocks < 4 or len(set(answers.tolist())) < prompts.blocks:
            raise ValueError(
                "a place, a name and an answer can be told apart with four different facts or more and an attribute "
                f"that the prompt does not name; got {prompts.blocks} facts and {len(unused)} attributes. Pass more "
                "prompts"
            )
        drawn = facts[facts != asked][torch.randperm(prompts.blocks - 1, generator=generator)]
        place, name, answer = drawn[:3].tolist()
        names = _moved(facts, name, place, generator)
        attributes = _moved(facts, answer, place, generator)
        new = unused[int(torch.randint(len(unused), (), generator=generator))]
        others = []
        for last in (answers[answer], new):
            other = clean.clone()
            inside = other[prompts.start :][: prompts.blocks * prompts.block_length].view(prompts.blocks, -1)
            inside[:, 0], inside[:, at] = blocks[names, 0], answers[attributes]
            inside[place, at] = last
            tail = other[prompts.start + blocks.numel() :]
            tail[tail == blocks[asked, 0]] = blocks[name, 0]
            others.append(other)
        order = [asked, place, name, answer, *(int(x) for x in drawn[3:])]
        yield clean, (others[0], others[1]), torch.cat([answers[order], new[None]]), place


def _moved(facts: Tensor, which: int, where: int, generator: torch.Generator) -> Tensor:
    """All facts in a random order in which ``which`` stands ``where``."""
    rest = facts[facts != which][torch.randperm(len(facts) - 1, generator=generator)]
    return torch.cat([rest[:where], torch.tensor([which]), rest[where:]])


def last_states(model: Any, input_ids: Int[Tensor, " token"]) -> Float[Tensor, "layer width"]:
    """The last token's state behind every layer."""
    seen: list[Tensor] = []

    def look(module: Any, args: Any, output: Any) -> None:
        seen.append((output[0] if isinstance(output, tuple) else output)[0, -1])

    with contextlib.ExitStack() as stack, torch.no_grad():
        for layer in model.base_model.layers:
            stack.callback(layer.register_forward_hook(look).remove)
        model.base_model(input_ids[None].to(find_input_device(model)), use_cache=False)
    return torch.stack(seen)


def with_last_state(
    model: Any, input_ids: Int[Tensor, " token"], states: Float[Tensor, "layer width"]
) -> Float[Tensor, "layer vocabulary"]:
    """Logits behind a prompt when the last token's state behind one layer, each in turn, is another."""
    layers, input_ids = list(model.base_model.layers), input_ids.to(find_input_device(model))

    def change(number: int, module: Any, args: Any, output: Any) -> Any:
        hidden = (output[0] if isinstance(output, tuple) else output).clone()
        hidden[number, -1] = states[number]
        return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

    with contextlib.ExitStack() as stack, torch.no_grad():
        past = model.base_model(input_ids[None, :-1], use_cache=True).past_key_values
        cache = copy.deepcopy(past)
        cache.batch_repeat_interleave(len(layers))
        for number, layer in enumerate(layers):
            stack.callback(layer.register_forward_hook(partial(change, number)).remove)
        ids = input_ids[None, -1:].expand(len(layers), 1)
        return model(ids, past_key_values=cache, use_cache=True).logits[:, -1].float()


def count_outcomes(logits: Float[Tensor, "control layer answer"]) -> np.ndarray:
    """Which answer has the highest logit, ``[control, layer, outcome]``, see :data:`OUTCOMES`."""
    chosen = torch.nn.functional.one_hot(logits.argmax(-1).cpu(), logits.shape[-1]).float()
    return torch.cat([chosen[..., :4], chosen[..., 4:-1].mean(-1, keepdim=True), chosen[..., -1:]], -1).numpy()
