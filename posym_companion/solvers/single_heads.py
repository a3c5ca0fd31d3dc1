"""One head at a time replaced: what is lost without it, and how much of a difference between prompts it carries.

At the last token every head is asked at once: the tokens before it are read once and kept, and every head is a row of
one batch.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from posym_core._checks import require_known_tokens
from posym_profile.capture import unwrap
from posym_profile.interventions import check_prompts, edit_head_outputs, require_outputs
from posym_profile.language_models import make_unsupported_error, run_with_cache

# Rows of one pass over the last token; each holds a copy of what the model keeps of the prompt.
ROWS = 72


def patch_each_head(
    model: Any,
    input_ids: Int64[Tensor, " token"],
    outputs: Float[Tensor, "layer head dim"],
    answers: Int64[Tensor, " answer"],
) -> Float[Tensor, "layer head answer"]:
    """Return logits of some answers behind a prompt when one head at a time says something else at the last token.

    The model keeps keys and values of a prompt of at least two tokens, and gives the same logits by them.
    """
    model = unwrap(model)
    ids = check_prompts(model, input_ids, least=2)
    require_known_tokens("answers", answers, model.get_output_embeddings())
    layers, heads, _ = require_outputs(model, outputs)
    places = [(layer, head) for layer in range(layers) for head in range(heads)]
    logits = []
    with torch.no_grad():
        cache = _kept(model, ids)
        for first in range(0, len(places), ROWS):
            rows = places[first : first + ROWS]

            def change(layer: int, output: Tensor, rows: list[tuple[int, int]] = rows) -> Tensor:
                output = output.clone()
                for row, (place, head) in enumerate(rows):
                    if place == layer:
                        output[row, -1, head] = outputs[layer, head, : output.shape[-1]].to(output)
                return output

            with edit_head_outputs(model, change):
                edited_logits = _last_logits(model, ids, cache, len(rows))
            logits.append(edited_logits[:, answers.to(edited_logits.device)].float().cpu())
    return torch.cat(logits).unflatten(0, (layers, heads))


def _kept(model: Any, ids: Int64[Tensor, "1 token"]) -> Any:
    """Return what a model keeps of the tokens before the last; refuse it if its logits are not those of a pass."""
    way = "replace outputs of the last token in passes over whole prompts, by edit_head_outputs"
    _, cache = run_with_cache(model, ids[:, :-1], logits_to_keep=1)
    if cache is None:
        raise make_unsupported_error(model, "keeps no keys and values of the tokens before the last", way)
    whole = model(ids, use_cache=False, logits_to_keep=1).logits[:, -1]
    off = float((_last_logits(model, ids, cache, 1) - whole).abs().max() / whole.abs().max())
    if not off <= max(1e-3, 16 * torch.finfo(whole.dtype).eps):
        why = f"gives other logits by what it keeps of a prompt (relative difference {off:.1g})"
        raise make_unsupported_error(model, why, way)
    return cache


def _last_logits(model: Any, ids: Int64[Tensor, "1 token"], kept: Any, rows: int) -> Float[Tensor, "row vocabulary"]:
    """Return logits of so many passes over the last token at once, behind what is kept of the others."""
    cache = copy.deepcopy(kept)
    # Not batch_repeat_interleave, which layers without keys lack.
    cache.reorder_cache(torch.zeros(rows, dtype=torch.long, device=ids.device))
    last = ids[:, -1:].expand(rows, 1)
    return run_with_cache(model, last, cache, logits_to_keep=1)[0].logits[:, -1]
