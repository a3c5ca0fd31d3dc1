"""Answers of a GPT-J decoder some of whose heads are made to attend, or to say, something else.

A head can be given an attention of our choice, such as a program's, or an output, such as its own mean over many
sequences, which tells later layers nothing about the sequence at hand. What the answer loses is what the head was
needed for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from posym_core.rope import join_planes, split_planes

Head = tuple[int, int]


@torch.no_grad()
def answers_with(
    model: Any,
    tokens: Int64[Tensor, "sequence token"],
    *,
    attention: Mapping[Head, Float[Tensor, "sequence query key"]] | None = None,
    output: Mapping[Head, Float[Tensor, "*rows dim"]] | None = None,
    seen: Callable[[int, Tensor, Tensor], None] | None = None,
) -> Float[Tensor, "sequence vocabulary"]:
    """Logits of the token after the last, with some heads altered.

    Args:
        model: from :func:`posym_core.sequence_models.decoder`, in evaluation mode.
        tokens: on the model's device.
        attention: weights instead of a head's own, by (layer, head).
        output: what a head adds before its layer's output projection, by (layer, head): ``[dim]``, ``[token, dim]`` or
            ``[sequence, token, dim]``. It wins over ``attention``.
        seen: called with (layer, attention ``[sequence head query key]``, output ``[sequence head token dim]``) as
            altered.

    Raises:
        ValueError: if the model is in training mode or a head does not exist.
    """
    attention, output = attention or {}, output or {}
    if model.training:
        raise ValueError("the model is in training mode, where dropout alters its answers; call model.eval()")
    depth, heads = len(model.transformer.h), model.config.n_head
    for layer, head in {**attention, **output}:
        if not (0 <= layer < depth and 0 <= head < heads):
            raise ValueError(f"the model has {depth} layers of {heads} heads, counted from 0; got {(layer, head)}")
    future = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool, device=tokens.device).triu(1)
    x = model.transformer.wte(tokens)
    for layer, block in enumerate(model.transformer.h):
        read = block.ln_1(x)
        query, keys = (_turned(block.attn, project(read)) for project in (block.attn.q_proj, block.attn.k_proj))
        values = _by_head(block.attn, block.attn.v_proj(read))
        logits = query @ keys.transpose(-1, -2) / block.attn.scale_attn
        weights = logits.masked_fill(future, -torch.inf).softmax(-1)
        for head in range(heads):
            if (layer, head) in attention:
                weights[:, head] = attention[layer, head].to(weights)
        said = weights @ values
        for head in range(heads):
            if (layer, head) in output:
                said[:, head] = output[layer, head].to(said)
        if seen is not None:
            seen(layer, weights, said)
        x = x + block.attn.out_proj(said.transpose(1, 2).flatten(2)) + block.mlp(read)
    return model.lm_head(model.transformer.ln_f(x[:, -1]))


def mean_outputs(model: Any, tokens: Int64[Tensor, "sequence token"]) -> dict[Head, Float[Tensor, "token dim"]]:
    """What every head says on average at every position of these sequences."""
    found: dict[Head, Tensor] = {}

    def keep(layer: int, _: Tensor, said: Tensor) -> None:
        found.update({(layer, head): x for head, x in enumerate(said.mean(0))})

    answers_with(model, tokens, seen=keep)
    return found


def _by_head(attention: Any, x: Tensor) -> Float[Tensor, "sequence head token dim"]:
    return x.unflatten(-1, (attention.num_attention_heads, attention.head_dim)).transpose(1, 2)


def _turned(attention: Any, x: Tensor) -> Float[Tensor, "sequence head token dim"]:
    """Queries or keys at their positions, by the model's own table of sines and cosines."""
    sine, cosine = attention.embed_positions[: x.shape[1]].to(x).chunk(2, dim=-1)
    first, second = split_planes(_by_head(attention, x), "neighbours")
    return join_planes(first * cosine - second * sine, second * cosine + first * sine, "neighbours")
