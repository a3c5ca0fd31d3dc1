"""The heads of one layer as they are captured, with all that is measured of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posym_core.metrics import BlockLayout, FrequencyShares, Heads, cross_logits, frequency_shares, frequency_use
from posym_profile.capture._attention_calls import AttentionInputs
from posym_profile.planes._rotary_planes import Planes


@dataclass(frozen=True, kw_only=True)
class LayerHeads(Heads):
    """The heads of one attention layer on a batch of prompts, as the functions on heads want them.

    Grouped query heads keep their key head: head ``h`` of the layer is ``(h // group, h % group)``. Dimensions are in
    the ``"halves"`` layout whatever the model's is.

    Attributes:
        layer: number of the attention layer, from 0.
        prompts: which prompts these are.
        query: of one token, the last unless ``token`` says which, rotated.
        keys: of all tokens, rotated; their dimension of 1 broadcasts against the group.
        angles: radians per position, fastest plane first, 0 for unrotated planes; float64.
        scale: what the dot products are multiplied with.
        visible: which keys the query sees.
        softcap: logits are ``softcap * tanh(logit / softcap)``; None for none.
        sinks: logit of an attention sink per head, or None.
        token: which token of each prompt the query is of, from 0; None for the last of all.
    """

    layer: int
    prompts: slice
    query: Float[Tensor, "prompt key_head group dim"]
    keys: Float[Tensor, "prompt key_head 1 key dim"]
    angles: Float[Tensor, " plane"]
    visible: Bool[Tensor, "prompt #key_head #group key"]  # pyright: ignore[reportGeneralTypeIssues]
    token: Int[Tensor, " prompt"] | None = None

    def cross_logits(
        self, keys: slice = slice(None), *, per_frequency: bool = False
    ) -> Float[Tensor, "prompt key_head group *plane key key"]:
        """Compute the cross-logit matrix of every head over some keys, by default all, before any soft-cap."""
        some = self.keys[..., keys, :]
        return cross_logits(self.query, some, self.angles, scale=self.scale, per_frequency=per_frequency)

    def find_seen_blocks(self, swaps: BlockLayout) -> Bool[Tensor, "prompt block"]:
        """Find which blocks the query sees whole in every head; one that a window cuts in two is not among them.

        Nor is the block that the query itself stands in: its own key is not swapped.
        """
        seen = swaps.by_block(self.visible).all(-1).flatten(1, 2).all(1)
        if self.token is None:
            return seen
        behind = swaps.start + swaps.block_length * torch.arange(1, swaps.number + 1, device=seen.device)
        return seen & (behind <= self.token[:, None])

    def frequency_shares(self, keys: slice = slice(-1)) -> FrequencyShares:
        """Measure :func:`posym_core.frequency_shares` of some keys, by default all but the query's own."""
        return frequency_shares(self.query, self.keys[..., keys, :], self.angles, scale=self.scale)

    def frequency_use(self, keys: slice = slice(-1)) -> Float[Tensor, "prompt key_head group plane"]:
        """Measure :func:`posym_core.frequency_use` of the same keys."""
        return frequency_use(self.query, self.keys[..., keys, :], self.angles, scale=self.scale)

    def select_prompts(self, index: Int[Tensor, " prompt"]) -> LayerHeads:
        """Return the same heads on some of the prompts."""
        some: dict[str, Any] = {name: getattr(self, name)[index] for name in ("query", "keys", "visible")}
        # Layers that are measured as one say these once a prompt.
        if self.sinks is not None and self.sinks.ndim == 3:
            some["sinks"] = self.sinks[index]
        if self.token is not None:
            some["token"] = self.token[index]
        return replace(self, **some)


def join_layers(group: list[LayerHeads]) -> LayerHeads:
    """Join layers with the same planes as one with more prompts."""
    first = group[0]
    if len(group) == 1:
        return first
    together: dict[str, Any] = {
        name: torch.cat([getattr(heads, name) for heads in group]) for name in ("query", "keys", "visible")
    }
    if first.sinks is not None:
        # A sink belongs to a layer, so it is said once a prompt.
        together["sinks"] = torch.cat([x.sinks.expand(len(x.query), *x.sinks.shape) for x in group])  # pyright: ignore
    if first.token is not None:
        together["token"] = torch.cat([x.token for x in group])  # pyright: ignore
    return replace(first, **together)


def read_layer_heads(
    call: AttentionInputs, planes: Planes, prompts: slice = slice(None), row: int = -1, token: int | None = None
) -> LayerHeads:
    """Read one of an attention call's rows, that of ``token`` or the last, as the functions on heads take it."""
    groups = call.keys.shape[1], call.query.shape[1] // call.keys.shape[1]
    visible = call.visible[:, :, row]
    return LayerHeads(
        layer=call.index,
        prompts=prompts,
        query=planes.arrange_query(call.query[:, :, row]).unflatten(1, groups),
        keys=planes.arrange_keys(call.keys)[:, :, None],
        angles=planes.angles.to(call.keys.device),
        scale=call.scale,
        visible=visible[:, :, None] if visible.shape[1] == 1 else visible.unflatten(1, groups),
        softcap=call.softcap,
        sinks=None if call.sinks is None else call.sinks.to(call.query.dtype).reshape(groups),
        token=None if token is None else call.rows[row].expand(len(call.keys)),
    )
