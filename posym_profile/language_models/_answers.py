"""Ask a language model questions of which it may choose the answer among named alternatives."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from posym_core._checks import require_evaluation, require_known_tokens
from posym_core.store import map_batches
from posym_profile.prompts._drafts import Prompts


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The answers of a model that may choose among the named alternatives.

    Attributes:
        correct: whether the right answer's logit is above all others'.
        log_probability: of the right answer, among the named alternatives; natural logarithm.
        alternatives: how many different ones each question names; a blind choice is right in one of so many.
    """

    correct: Bool[Tensor, " question"]
    log_probability: Float[Tensor, " question"]
    alternatives: Int64[Tensor, " question"]

    @property
    def accuracy(self) -> float:
        """Return the fraction of questions answered right."""
        return float(self.correct.double().mean())

    @property
    def chance(self) -> float:
        """Return the accuracy of a blind choice among the named alternatives."""
        return float((1 / self.alternatives.double()).mean())


def compute_last_logits(
    model: Any, ids: Tensor, cache: Any = None, keep: int = 1, use_cache: bool = True
) -> tuple[Tensor, Any]:
    """Return logits of the last ``keep`` tokens ``[row, token, vocabulary]``, and the grown cache."""
    device = model.get_input_embeddings().weight.device
    # Not by their number: a CPU would take six times as long for several prompts, and some layers leave tokens out.
    last = {"logits_to_keep": torch.arange(ids.shape[1] - keep, ids.shape[1], device=device)}
    last = last if "logits_to_keep" in inspect.signature(model.forward).parameters else {}
    output, grown = run_with_cache(model, ids.to(device), cache, use_cache=use_cache, **last)
    return output.logits[:, -keep:], grown


def run_with_cache(model: Any, ids: Tensor, cache: Any = None, *, use_cache: bool = True, **options: Any) -> Any:
    """Return a model's output on tokens behind those of a ``cache``, and the grown cache, or None."""
    # Transformers 5.24 gave the argument a new name.
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    output = model(ids, **{name: cache}, use_cache=use_cache, **options)
    return output, getattr(output, name, None)


def choose_answers(model: Any, prompts: Prompts, *, batch_size: int | None = None) -> Choices:
    """Let a model choose among the alternatives that each prompt names.

    Args:
        model: a Hugging Face causal language model in evaluation mode; only the last token's logits are computed.
        prompts: made with this model's tokenizer.
        batch_size: prompts per forward pass; by default about 4,096 tokens, or less where memory is short.

    Returns:
        :class:`Choices`, on the CPU.

    Raises:
        ValueError: if prompts hold tokens that the model does not know, or its logits are not finite.
    """
    require_evaluation(model)
    require_known_tokens("input_ids", prompts.input_ids, model.get_input_embeddings())
    answer_ids, target = prompts.answer_ids.cpu(), prompts.target.cpu()
    alternatives = answer_ids.shape[1]
    wrong = ((target < 0) | (target >= alternatives)).nonzero().flatten().tolist()
    if wrong:
        raise ValueError(
            f"target must be a place among a prompt's {alternatives} alternatives, from 0 to {alternatives - 1}; got "
            f"{int(target[wrong[0]])} for prompt {wrong[0]}"
        )

    def compute_logits(ids: Tensor) -> Tensor:
        return compute_last_logits(model, ids, use_cache=False)[0][:, -1].double().cpu()

    with torch.no_grad():
        named = torch.cat([*map_batches(compute_logits, prompts.input_ids, batch_size)]).gather(1, answer_ids)
    if not bool(named.isfinite().all()):
        raise ValueError(
            f"{type(model).__name__} answers with logits that are not finite, of which none is the largest; load the "
            "model again, or in bfloat16 or float32"
        )
    # An attribute named twice is one alternative.
    earlier = torch.ones(alternatives, alternatives).tril(-1).bool()
    repeated = ((answer_ids[:, :, None] == answer_ids[:, None, :]) & earlier).any(-1)
    right = named.gather(1, target[:, None])
    right_ids = answer_ids.gather(1, target[:, None])
    others = named.masked_fill(answer_ids == right_ids, -math.inf)
    return Choices(
        correct=right.squeeze(1) > others.amax(1),
        log_probability=right.squeeze(1) - named.masked_fill(repeated, -math.inf).logsumexp(1),
        alternatives=(~repeated).sum(1),
    )
