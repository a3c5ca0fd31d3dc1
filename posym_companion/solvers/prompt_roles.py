"""Roles of the heads of a language model that answers a binding prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from posym_companion.solvers.single_heads import patch_each_head
from posym_profile.interventions import record_head_outputs
from posym_profile.prompts import Prompts


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Prompts and their likes that differ in one token, the answer.

    Attributes:
        clean: prompts as they are.
        other: the fact asked about has an attribute that no fact of the prompt had.
        answers: the right answer of the clean prompt and of the other.
    """

    clean: Int64[Tensor, "pair token"]
    other: Int64[Tensor, "pair token"]
    answers: Int64[Tensor, "pair 2"]


def answer_pairs(prompts: Prompts, generator: torch.Generator) -> Pairs:
    """Return pairs that differ in the answer only; the new attribute comes from another prompt, which names it.

    Raises:
        ValueError: if no other prompt names an attribute that a prompt lacks, or an answer does not stand once in its
            fact.
    """
    other = prompts.input_ids.clone()
    right = prompts.answer_ids.gather(1, prompts.target[:, None])[:, 0]
    new = torch.empty_like(right)
    everything = prompts.answer_ids.unique()
    for row, target in enumerate(prompts.target.tolist()):
        first = prompts.start + target * prompts.block_length
        fact = other[row, first : first + prompts.block_length]
        unused = everything[~torch.isin(everything, prompts.answer_ids[row])]
        place = (fact == right[row]).nonzero().flatten()
        if len(unused) == 0 or len(place) != 1:
            raise ValueError(
                "a pair needs an attribute that the prompt does not name, and its answer once in the fact; got "
                f"{len(unused)} and {len(place)}. Pass more prompts, or fewer facts"
            )
        new[row] = unused[int(torch.randint(len(unused), (), generator=generator))]
        fact[place] = new[row]
    return Pairs(clean=prompts.input_ids, other=other, answers=torch.stack([right, new], 1))


def patched_heads(model: Any, pairs: Pairs, count: int) -> dict[str, np.ndarray]:
    """Return the logit of the clean answer minus that of the other, with one head's output taken from the clean prompt.

    Returns:
        ``clean_whole`` and ``other_whole`` ``[pair]`` of both prompts as they are; ``answer_patched``
        ``[pair, layer, head]`` on the other prompt, with the head's output at the last token from the clean one.
    """
    arrays: dict[str, list[np.ndarray]] = {"clean_whole": [], "other_whole": [], "answer_patched": []}
    for clean, other, answers in zip(
        pairs.clean[:count], pairs.other[:count], pairs.answers[:count].cpu(), strict=True
    ):
        outputs = record_head_outputs(model, torch.stack([clean, other]))
        whole = _difference(outputs.logits[:, answers])
        with_clean = _difference(patch_each_head(model, other, outputs.outputs[0, :, -1], answers))
        for name, x in zip(arrays, (whole[0], whole[1], with_clean), strict=True):
            arrays[name].append(x.numpy())
    return {name: np.stack(values).astype(np.float32) for name, values in arrays.items()}


def silenced_heads(model: Any, prompts: Prompts, count: int) -> dict[str, np.ndarray]:
    """Return the loss when one head's output is replaced by its mean over the prompts at the last token.

    Returns:
        ``kept [prompt]``, log-probability of the right answer among the named attributes, and ``lost``
        ``[prompt, layer, head]``, what is lost of it.
    """
    outputs = record_head_outputs(model, prompts.input_ids)
    mean = outputs.outputs[:, :, -1].mean(0)
    remaining, lost = [], []
    for row in range(min(count, len(prompts.target))):
        named, right = _named(prompts, row)
        remaining.append(_log_probability(outputs.logits[row, named], right).numpy())
        logits = patch_each_head(model, prompts.input_ids[row], mean, named)
        lost.append(remaining[-1] - _log_probability(logits, right).numpy())
    return {"kept": np.stack(remaining).astype(np.float32), "lost": np.stack(lost).astype(np.float32)}


def _named(prompts: Prompts, row: int) -> tuple[Tensor, int]:
    """Return the different attributes that a prompt names, and the place of the right one among them."""
    named = prompts.answer_ids[row].cpu().unique()
    return named, int((named == int(prompts.answer_ids[row, prompts.target[row]])).nonzero())


def _difference(logits: Tensor) -> Tensor:
    return logits[..., 0] - logits[..., 1]


def _log_probability(logits: Tensor, right: int) -> Tensor:
    return logits.double().log_softmax(-1)[..., right]
