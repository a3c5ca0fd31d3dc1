"""Attention calls of Hugging Face models: what they are made of."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class AttentionInputs:
    """The inputs from which one attention call of a forward pass computes its weights.

    Attributes:
        index: number of the call within the forward pass, from 0; the layer, unless layers lack attention.
        module: the attention module that called.
        query: post-rotary queries of the chosen rows, float32 or float64.
        keys: post-rotary keys of all tokens; head ``h`` uses key head ``h // (heads / key heads)``.
        scale: what the dot products are multiplied with.
        softcap: logits are ``softcap * tanh(logit / softcap)``; None for none.
        sinks: logit of an attention sink per head, or None.
        visible: which keys each chosen row sees; ``one`` is 1 or the number of heads.
        rows: the chosen rows, counted from 0.
    """

    index: int
    module: nn.Module
    query: Float[Tensor, "prompt head row dim"]
    keys: Float[Tensor, "prompt key_head key dim"]
    scale: float
    softcap: float | None
    sinks: Float[Tensor, " head"] | None
    visible: Bool[Tensor, "prompt one row key"]
    rows: Int[Tensor, " row"]

    def logits(self) -> Float[Tensor, "prompt head row key"]:
        """Compute the logits of the chosen rows, scaled and capped, of visible and invisible keys alike."""
        prompts, heads, rows, dim = self.query.shape
        grouped = self.query.reshape(prompts, self.keys.shape[1], -1, dim)
        logits = (grouped @ self.keys.transpose(-1, -2)).reshape(prompts, heads, rows, -1) * self.scale
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)

    def weights(self) -> Float[Tensor, "prompt head row key"]:
        """Compute the attention weights of the chosen rows."""
        logits = self.logits().masked_fill(~self.visible, -torch.inf)
        if self.sinks is None:
            return logits.softmax(-1)
        sinks = self.sinks.to(logits.dtype)[:, None, None].expand(*logits.shape[:-1], 1)
        return torch.cat([logits, sinks], dim=-1).softmax(-1)[..., :-1]
