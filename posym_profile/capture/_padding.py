"""Remove the padding of prompts of different lengths in one tensor."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from posym_core._checks import Checks, require
from posym_profile.capture._wrappers import get_text_config

WITHOUT = "leave the padding out, or tell posym_profile.profile of it by attention_mask (1 for tokens, 0 for padding)"


def remove_padding(
    model: nn.Module, input_ids: Int[Tensor, "prompt token"], attention_mask: Tensor | None, least: int
) -> list[Int[Tensor, "prompt token"]]:
    """Return the prompts in their order without padding, those of one length that follow each other in one tensor.

    Raise if a prompt has fewer than ``least`` tokens, or the model's pad token at an end that no mask tells of.
    """
    with Checks():
        if attention_mask is None:
            _refuse_pad_tokens(model, input_ids)
            return [input_ids]
        seen = _read_mask(attention_mask, input_ids, least).cpu()
        first = seen.int().argmax(1)
        last = first + seen.sum(1)
        runs: list[list[Tensor]] = []
        for number, (ids, a, b) in enumerate(zip(input_ids, first.tolist(), last.tolist(), strict=True)):
            _refuse_pad_tokens(model, ids[None, a:b], number)
            if not runs or len(runs[-1][0]) != b - a:
                runs.append([])
            runs[-1].append(ids[a:b])
        return [torch.stack(run) for run in runs]


def _read_mask(mask: Any, input_ids: Tensor, least: int) -> Bool[Tensor, "prompt token"]:
    """Return which entries are tokens; raise unless the tokens of each prompt stand next to each other."""
    if not isinstance(mask, Tensor) or mask.numel() != input_ids.numel() or mask.shape[-1] != input_ids.shape[-1]:
        got = tuple(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(f"attention_mask must be a tensor of shape {tuple(input_ids.shape)}, as input_ids; got {got}")
    seen = mask.reshape(input_ids.shape).bool()
    if bool((mask != mask.bool()).any()):
        raise ValueError("attention_mask must be 1 for tokens and 0 for padding, and holds other values")
    tokens = seen.sum(1)
    begins = seen[:, 0].int() + (seen[:, 1:] & ~seen[:, :-1]).sum(1)
    if int(tokens.min()) < least or bool((begins > 1).any()):
        raise ValueError(
            f"attention_mask must leave each prompt at least {least} tokens, and hide none between them, where swaps "
            f"are not defined; it leaves {tokens.tolist()}"
        )
    return seen


def _refuse_pad_tokens(model: nn.Module, input_ids: Int[Tensor, "prompt token"], number: int = 0) -> None:
    """Raise if a prompt begins or ends with padding: it would be scored as content."""
    config = get_text_config(getattr(model, "config", None))
    pad = getattr(config, "pad_token_id", None)
    if not isinstance(pad, int):
        return
    ends = [getattr(config, name, None) for name in ("bos_token_id", "eos_token_id")]
    # One such token may begin or end a text where the model has no pad token of its own.
    allowed = int(any(pad in end if isinstance(end, list | tuple) else pad == end for end in ends))
    is_pad = input_ids == pad
    for side, from_end in (("begins", is_pad), ("ends", is_pad.flip(1))):
        run = from_end.int().cumprod(1).sum(1)
        require(
            (run <= allowed).all(),
            lambda run=run, side=side: (
                f"prompt {number + int(run.argmax())} {side} with {int(run.max())} pad tokens (id {pad}), which would "
                f"be scored as content; {WITHOUT}"
            ),
        )
