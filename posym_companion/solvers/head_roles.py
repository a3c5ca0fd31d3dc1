"""Roles of the heads of a decoder: the loss without each of them, and the share of the answer that it carries.

Mean ablation puts a head's mean over prompts in place of what it reads, so that later layers learn nothing from it
about the prompt at hand. Patching puts in what it reads on a prompt that differs in the answer only: a head that
carries the answer takes the model's preference along, whatever else it may be needed for. A head on which the answer
depends without its carrying it, such as one that ties an attribute to the name before it, is found by ablation alone.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from posym_core.models import DecoderEnsemble, replace_heads
from posym_core.tasks import FactsBatch

# A head carries a question if patching it moves at least so much of the answer, and is needed if its ablation costs
# more than so much of the accuracy.
CARRIES, NEEDED = 0.2, 0.1


@torch.no_grad()
def mark_members_right(model: DecoderEnsemble, batch: FactsBatch) -> Float[Tensor, "seed variant prompt question"]:
    """1 where a member's answer is right, 0 elsewhere."""
    return (model(batch.tokens).argmax(-1) == batch.answer[:, None]).float()


@torch.no_grad()
def record_members_outputs(
    model: DecoderEnsemble, batch: FactsBatch
) -> list[Float[Tensor, "seed variant prompt head token dim"]]:
    """Return what every layer's heads read, before the output map."""
    outputs: list[Tensor] = []

    def keep(layer: int, read: Tensor) -> Tensor:
        outputs.append(read)
        return read

    model(batch.tokens, edit=keep)
    return outputs


@torch.no_grad()
def mean_ablation(model: DecoderEnsemble, batch: FactsBatch) -> Float[Tensor, "seed variant layer head"]:
    """Return accuracy with one head at a time replaced, at every token, by its mean over the prompts."""
    means = [read.mean(2, keepdim=True) for read in record_members_outputs(model, batch)]
    rows = []
    for layer, head in _heads(model):
        replaced = model(batch.tokens, edit=replace_heads({(layer, head): means[layer][..., head, :, :]}))
        rows.append((replaced.argmax(-1) == batch.answer[:, None]).double().flatten(2).mean(-1))
    return torch.stack(rows, dim=-1).unflatten(-1, (model.layers, model.heads))


@torch.no_grad()
def patching(model: DecoderEnsemble, batch: FactsBatch, other: FactsBatch) -> Float[Tensor, "seed variant layer head"]:
    """Return how much of the answer a head carries: the part of the preference that comes along when it alone is
    patched.

    The preference is the score of ``other``'s answer minus that of ``batch``'s. What it gains when a head reads as on
    ``other``'s prompts, over what it gains on ``other``'s prompts themselves; both are summed over prompts first.
    Prompts have one question, and ``other`` another answer to it, see :func:`with_other_answers`.
    """
    if batch.answer.shape[-1] != 1 or (batch.answer == other.answer).any():
        raise ValueError("patching needs prompts with one question, and another answer to each; draw them with ask")

    def preference(scores: Tensor) -> Tensor:
        def of(answer: Tensor) -> Tensor:
            return scores.gather(-1, answer[:, None, :, :, None].expand(*scores.shape[:-1], 1)).double()

        return (of(other.answer) - of(batch.answer)).flatten(2).sum(-1)

    reads = record_members_outputs(model, other)
    before, after = preference(model(batch.tokens)), preference(model(other.tokens))
    edits = [replace_heads({(layer, head): reads[layer][..., head, :, :]}) for layer, head in _heads(model)]
    rows = [preference(model(batch.tokens, edit=edit)) - before for edit in edits]
    carried = torch.stack(rows, dim=-1) / (after - before)[..., None]
    return carried.unflatten(-1, (model.layers, model.heads))


def with_other_answers(model: DecoderEnsemble, batch: FactsBatch) -> FactsBatch:
    """Return the same prompts with the next attribute in the place of the answer, and nowhere else."""
    task = model.task
    answer = (batch.answer + 1) % task.attributes
    place = 1 + batch.fact * task.words + (1 if task.words == 2 else 2)
    return batch._replace(tokens=batch.tokens.scatter(-1, place, task.first_attribute + answer), answer=answer)


def _heads(model: DecoderEnsemble) -> list[tuple[int, int]]:
    return [(layer, head) for layer in range(model.layers) for head in range(model.heads)]
