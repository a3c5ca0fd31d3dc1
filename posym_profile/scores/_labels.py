"""Measure the labels that the field gives to heads: attention to the previous and the first token, induction, copying.

All four are read off prompts of random tokens that are shown twice, where neither grammar nor meaning tells what comes
next and only the first showing does. They say nothing about a prompt of one's own: there the scores do.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posym_core._checks import Checks, require_known_tokens
from posym_core.store import map_batches
from posym_profile.capture._attention_calls import AttentionInputs
from posym_profile.capture._capturing import (
    check_input_ids,
    check_model,
    find_input_device,
    forward_with_hook,
    get_input_embeddings,
)
from posym_profile.capture._routes import Route
from posym_profile.capture._wrappers import get_text_config, unwrap
from posym_profile.language_models._answers import compute_last_logits
from posym_profile.planes._shifted_keys import move_to_cpu
from posym_profile.scores._head_table import LABELS
from posym_profile.scores._layer_measurement import stack_padded

if TYPE_CHECKING:
    from xarray import Dataset

# Tokens that are drawn for a prompt, prompts, and numbers in the logits of one pass, as vocabularies are large.
LENGTH, PROMPTS, LOGITS = 50, 3, 2**27


def measure_head_labels(
    model: nn.Module, tokens: Int[Tensor, "prompt token"] | None = None, *, seed: int = 0
) -> Dataset:
    """Measure the labels of every head on prompts of tokens that are shown twice, in one pass or a few.

    Args:
        model: see :func:`posym_profile.profile`; with an output layer over its vocabulary.
        tokens: what is shown twice, ``[prompt, token]``, without a mark of beginning. By default different random
            tokens of the middle nine tenths of the vocabulary: the first ones are controls or frequent, the last ones
            rare or unused; 50 in each of 3 prompts.
        seed: of the draws.

    Returns:
        An :class:`xarray.Dataset` of four labels ``[layer, head]``, 0 to 1, means over prompts; NaN where a layer has
        fewer heads. Windows narrower than what is shown leave no induction to be seen.

        * ``previous_token``: attention from each token but the first to the one before it.
        * ``first_token``: attention from each token but the first to the first, the tokenizer's mark of beginning if
          there is one: where heads rest that have nothing to attend to.
        * ``induction``: attention from each token of the second showing to the token that came after it in the first,
          Olsson et al. (2022), *In-context Learning and Induction Heads*, "prefix matching".
        * ``copying``: of the tokens that the second showing repeats, the share that the model puts out rightly while
          the head's largest attention is on that token in the first showing: the retrieval score of Wu et al. (2025),
          *Retrieval Head Mechanistically Explains Long-Context Factuality*, section 2. 0 for all heads of a model that
          does not repeat what it was shown.

    Raises:
        UnsupportedModelError: if the model cannot be captured.
    """
    import xarray

    model = unwrap(model)
    check_model(model)
    if tokens is None:
        tokens = _draw_tokens(model, seed)
    else:
        tokens = check_input_ids(tokens, least=2)
        require_known_tokens("tokens", tokens, get_input_embeddings(model))
    start = getattr(get_text_config(model.config), "bos_token_id", None)
    start = torch.full((len(tokens), int(isinstance(start, int))), start if isinstance(start, int) else 0)
    ids = torch.cat([start, tokens.cpu(), tokens.cpu()], 1).to(find_input_device(model))
    length = tokens.shape[1]
    # From each token of the second showing that another follows, to what followed it in the first.
    second = torch.arange(ids.shape[1] - length, ids.shape[1] - 1)
    route: Route | None = None

    def measure(prompts: Int[Tensor, "prompt token"]) -> Float[Tensor, "label prompt layer head"]:
        nonlocal route
        seen: list[Tensor] = []
        foretold: list[Tensor] = []

        def foretell(model: Any, prompts: Int[Tensor, "prompt token"]) -> None:
            with torch.no_grad():
                logits, _ = compute_last_logits(model, prompts, keep=length, use_cache=False)
            foretold.append(logits[:, :-1].argmax(-1))

        receive = functools.partial(_look, seen=seen, rows=second, length=length)
        with Checks():
            route = forward_with_hook(model, prompts, receive, rows=None, route=route, run=foretell)
        *moved, said = move_to_cpu([*seen, foretold[-1]])
        right = said == prompts[:, second + 1].cpu()
        for place in range(3, len(moved), 4):
            moved[place] = (moved[place] & right[:, None]).float().mean(-1)
        return torch.stack([stack_padded(moved[place::4], dim=1) for place in range(4)])

    parts = ids.split(max(1, LOGITS // (ids.shape[1] * len(get_input_embeddings(model).weight))))
    means = torch.cat([x for part in parts for x in map_batches(measure, part)], 1).double().mean(1).float().numpy()
    return xarray.Dataset({name: (("layer", "head"), x) for name, x in zip(LABELS, means, strict=True)})


def _look(call: AttentionInputs, seen: list[Tensor], rows: Int[Tensor, " row"], length: int) -> None:
    """Note three mean attentions ``[prompt, head]``, and which rows look at the follower ``[prompt, head, row]``."""
    weights, rows = call.weights(), rows.to(call.keys.device)
    previous, first, followers = weights[..., 1:, :].diagonal(0, -2, -1), weights[..., 1:, 0], rows + 1 - length
    seen += [x.mean(-1) for x in (previous, first, weights[..., rows, followers])]
    seen.append(weights[..., rows, :].argmax(-1) == followers)


def _draw_tokens(model: nn.Module, seed: int) -> Int[Tensor, "prompt token"]:
    vocabulary = len(get_input_embeddings(model).weight)
    named = [getattr(get_text_config(model.config), f"{name}_token_id", None) for name in ("bos", "eos", "pad")]
    special = [x for ids in named for x in (ids if isinstance(ids, list | tuple) else (ids,)) if x is not None]
    known = torch.arange(vocabulary // 20, vocabulary - vocabulary // 20)
    known = known[~torch.isin(known, torch.tensor(special, dtype=known.dtype))]
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([known[torch.randperm(len(known), generator=generator)[:LENGTH]] for _ in range(PROMPTS)])
