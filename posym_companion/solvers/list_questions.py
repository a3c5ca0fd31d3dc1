"""Questions about the facts of some lists, each of which a language model reads once for all its questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posym_companion.language_models.origins import ask_other_facts
from posym_core.metrics import BlockLayout
from posym_profile.capture import find_input_device
from posym_profile.language_models import run_with_cache
from posym_profile.prompts import Prompts


@dataclass(frozen=True, kw_only=True)
class ListQuestions:
    """As many questions about every list, list by list, with the fact that each is about and the attributes that its
    list names.
    """

    told: Int[Tensor, "list token"]
    questions: Int[Tensor, "question token"]
    asked: Int[Tensor, " question"]
    alternatives: Int[Tensor, "question fact"]

    @torch.no_grad()
    def logits(self, model: Any) -> Float[Tensor, "question fact"]:
        """Return a model's logits of the attributes, on its device."""
        device = find_input_device(model)
        _, cache = run_with_cache(model.base_model, self.told.to(device))
        cache.batch_repeat_interleave(len(self.questions) // len(self.told))
        last = run_with_cache(model.base_model, self.questions.to(device), cache)[0].last_hidden_state
        vectors = model.get_output_embeddings().weight[self.alternatives.to(device)]
        return torch.einsum("pw,paw->pa", last[:, -1], vectors)


def questions_about(lists: Prompts, which: Sequence[int], facts: Sequence[int]) -> ListQuestions:
    """Return a question about each of some facts, of each of some lists."""
    swaps, asked = BlockLayout(**lists.layout), torch.as_tensor(facts)
    same = torch.arange(swaps.fit(lists.input_ids.shape[1]).number).expand(len(asked), -1)
    tokens = torch.cat(
        [ask_other_facts(lists.input_ids[row], same, swaps, int(lists.target[row]), asked) for row in which]
    )
    return ListQuestions(
        told=tokens[:: len(asked), : swaps.stop],
        questions=tokens[:, swaps.stop :],
        asked=asked.repeat(len(which)),
        alternatives=lists.answer_ids[torch.as_tensor(which)].repeat_interleave(len(asked), 0),
    )
