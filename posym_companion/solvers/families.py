"""Small language models of the architectures that the papers profile, to be trained on facts.

They are Hugging Face models like the large ones, with weights of their own, so that :func:`posym_profile.profile` reads
them like any other: Llama (plain), Qwen-2 (biases of queries and keys), Gemma-2 (soft-capped logits, layers with a
sliding window in turn with layers that see everything, norms around each part).
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from posym_core._checks import require_counts, require_evaluation
from posym_core.tasks import FactsBatch, FactsTask

Family = Literal["llama", "qwen2", "gemma2"]
FAMILIES: tuple[Family, ...] = get_args(Family)


def family_model(
    family: Family,
    task: FactsTask,
    *,
    layers: int = 4,
    heads: int = 2,
    width: int = 64,
    window: int = 8,
    seed: int = 0,
) -> Any:
    """Make a causal language model over a task's tokens: random weights, on the CPU, in training mode, in float32.

    Embedding and read-out are not tied; embeddings reach the first layer with a spread of one half, and maps have a
    spread of one over the root of three times the width.

    Args:
        family: architecture.
        task: decides the vocabulary and the longest prompt.
        layers: number of layers.
        heads: heads a layer, each with ``width / heads`` dimensions and keys of its own.
        width: of the residual stream; the network between has twice as many units.
        window: tokens that Gemma-2's every other layer sees, beginning with the first.
        seed: of the weights. The caller's random state is left alone.

    Raises:
        ValueError: if the family is unknown or ``heads`` does not divide ``width`` into even parts.
    """
    if family not in FAMILIES:
        raise ValueError(f"family must be one of {', '.join(FAMILIES)}; got {family!r}")
    require_counts(layers=(layers, 1), heads=(heads, 1), window=(window, 1))
    if width % (2 * heads):
        raise ValueError(f"{heads} heads must have an even number of dimensions each; width={width} gives them none")
    with warnings.catch_warnings():
        # tqdm looks for widgets when transformers first imports it in a notebook; no bar is going to be shown.
        warnings.filterwarnings("ignore", message="IProgress not found")
        import transformers

    names = {"llama": "Llama", "qwen2": "Qwen2", "gemma2": "Gemma2"}[family]
    dim = width // heads
    options: dict[str, Any] = {
        "vocab_size": task.vocabulary,
        "hidden_size": width,
        "intermediate_size": 2 * width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "max_position_embeddings": task.context + 2 * task.facts,
        "initializer_range": (3 * width) ** -0.5,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
        "attn_implementation": "eager",
    }
    if family == "gemma2":
        options |= {"head_dim": dim, "query_pre_attn_scalar": dim, "sliding_window": window}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = getattr(transformers, f"{names}Config")(**options)
        model: Any = getattr(transformers, f"{names}ForCausalLM")(config)
        # Gemma multiplies embeddings by the root of the width.
        nn.init.normal_(model.model.embed_tokens.weight, std=0.5 * (width**-0.5 if family == "gemma2" else 1))
    return model.float().train()


class FactsLoss(nn.Module):
    """Cross-entropy of a language model's answers, over all tokens: what
    :func:`posym_core.models.train` takes.
    """

    def __init__(self, model: Any, task: FactsTask):
        super().__init__()
        self.model, self.task = model, task

    def losses(self, batch: FactsBatch) -> Float[Tensor, ""]:
        """Mean over the questions of prompts ``[prompt, ...]``."""
        scores = answer_scores(self.model, self.task, batch)
        return functional.cross_entropy(scores.flatten(0, 1), self.task.first_attribute + batch.answer.flatten())


def answer_scores(model: Any, task: FactsTask, batch: FactsBatch) -> Float[Tensor, "prompt question vocabulary"]:
    """A language model's scores of what follows every question."""
    return model(batch.tokens, use_cache=False).logits[:, task.context :: 2]


@torch.no_grad()
def answers_right(model: Any, task: FactsTask, batch: FactsBatch) -> Float[Tensor, "prompt question"]:
    """1 where a model in evaluation mode gives the highest score of all tokens to the answer, 0 elsewhere."""
    require_evaluation(model)
    return (answer_scores(model, task, batch).argmax(-1) == task.first_attribute + batch.answer).float()
