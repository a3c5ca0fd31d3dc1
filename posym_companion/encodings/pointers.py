"""Which heads of a trained classifier handle position? What can be told before any head is switched off.

Gu et al., *Deconstructing Positional Information* (2026), find a head that holds position by removing heads one after
the other. Here every head is looked at instead: its scores and variance shares (Urrutia et al. 2026a), the spread of
its logits, its use of frequencies. The comparison of these pointers with ablations is ours.

The queries are those of the two triggers of a sentence, the keys all its other tokens, as each layer is given them.
"""

from __future__ import annotations

import copy

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from posym_core._checks import require_evaluation
from posym_core.encodings import Encoding, RoPE, UndefinedCrossLogits
from posym_core.metrics import exclusion, frequency_use, mean_frequency, score_cross_logits
from posym_core.models import EncodingModel, Layer, LayerAttention
from posym_core.tasks import PADDING, TRIGGERS, SentenceBatch

SCORED = (
    "positional",
    "symbolic",
    "positional_share",
    "symbolic_share",
    "interaction_share",
    "deviation",
    "mean_frequency",
)
POINTERS = ("between", *SCORED)


def layer_cross_logits(
    encoding: Encoding, call: LayerAttention, sentence: int, query: int, others: Int64[Tensor, " key"]
) -> Float[Tensor, "head content position"]:
    """Return ``C`` of one token's query over other tokens of its sentence, as contents and as positions, in float64."""
    tokens = torch.cat([others, others.new_tensor([query])])
    content = call.inputs[sentence, tokens].double() if encoding.needs_content else None
    return encoding.cross_logits(
        call.query[sentence, :, query].double(),
        call.key[sentence][:, others].double(),
        position=float(query),
        positions=others.double(),
        content=content,
    )


@torch.no_grad()
def head_pointers(model: EncodingModel, batch: SentenceBatch) -> dict[str, Float[Tensor, "layer head"]]:
    """Return what can be seen of every head, averaged over sentences and over the queries of both triggers.

    A query that meets fewer than two other tokens has nothing that could be swapped and counts for "between" alone.

    Returns:
        By name, float64: ``"between"``, attention from one trigger to the other, the one pointer that knows what the
        task is; then what needs no task: ``"positional"`` and ``"symbolic"``, the scores on all swaps of two keys;
        ``"positional_share"``, ``"symbolic_share"`` and ``"interaction_share"`` of the variance of ``C``;
        ``"deviation"``, the standard deviation of the logits; ``"mean_frequency"``, frequency IDs weighted with their
        use, 1 for the fastest. NaN where an encoding has no ``C``, where a ``C`` is constant, where no query counts,
        and, for frequencies, where heads do not rotate whole.
    """
    require_evaluation(model)
    counts = torch.stack([(batch.tokens == trigger).sum(1) for trigger in TRIGGERS])
    if (counts != 1).any():
        bad = int((counts != 1).any(0).nonzero()[0])
        raise ValueError(
            f"every sentence must hold each trigger once; sentence {bad} holds {counts[:, bad].tolist()}. Draw them "
            "from DistanceTask"
        )
    device = model.embedding.weight.device
    tokens = batch.tokens.to(device)
    calls = model.calls(tokens)
    places = torch.stack([(tokens == trigger).long().argmax(1) for trigger in TRIGGERS], dim=1)  # [sentence, trigger]
    values: dict[str, list[Tensor]] = {name: [] for name in POINTERS}
    for layer, call in zip(model.layers, calls, strict=True):
        assert isinstance(layer, Layer)
        encoding = layer.attention.encoding
        weights = encoding.attention(call.logits).double()
        rows = torch.arange(len(tokens), device=device)
        first, second = places.unbind(1)
        values["between"].append(
            torch.stack([weights[rows, :, first, second], weights[rows, :, second, first]]).mean((0, 1))
        )
        scored = _scored(copy.deepcopy(encoding).double(), call, tokens, places)
        for name in SCORED:
            values[name].append(scored[name])
    return {name: torch.stack(layers).cpu() for name, layers in values.items()}


def _scored(
    encoding: Encoding, call: LayerAttention, tokens: Tensor, places: Tensor
) -> dict[str, Float[Tensor, " head"]]:
    """Return all pointers of one layer that are read off ``C``."""
    values: dict[str, list[Tensor]] = {name: [] for name in SCORED}
    nothing = torch.full((encoding.shape.heads,), torch.nan, dtype=torch.float64, device=tokens.device)
    for sentence in range(len(tokens)):
        seen = (tokens[sentence] != PADDING).nonzero()[:, 0]
        for query in places[sentence].tolist():
            others = seen[seen != query]
            if encoding.shape.causal:
                others = others[others < query]
            if len(others) < 2:
                continue
            try:
                C = layer_cross_logits(encoding, call, sentence, query, others)
            except UndefinedCrossLogits:
                return dict.fromkeys(SCORED, nothing)
            remaining = call.logits[sentence, :, query, query].double()[:, None]
            scores, shares = score_cross_logits(C, outside=remaining), exclusion(C)
            values["positional"].append(scores.positional)
            values["symbolic"].append(scores.symbolic)
            for name in ("positional_share", "symbolic_share", "interaction_share"):
                values[name].append(getattr(shares, name))
            values["deviation"].append(shares.variance.sqrt())
            values["mean_frequency"].append(_mean_frequency(encoding, call, sentence, query, others))
    if not values["deviation"]:
        return dict.fromkeys(SCORED, nothing)
    return {name: torch.stack(each).nanmean(0) for name, each in values.items()}


def _mean_frequency(
    encoding: Encoding, call: LayerAttention, sentence: int, query: int, others: Tensor
) -> Float[Tensor, " head"]:
    if not isinstance(encoding, RoPE):
        return torch.full((encoding.shape.heads,), torch.nan, dtype=torch.float64, device=others.device)
    position = torch.cat([others, others.new_tensor([query])]).double()
    plain = torch.cat([call.key[sentence][:, others], call.query[sentence, :, query, None]], dim=1)
    turned = encoding.placed(plain.double(), position, keys=True)
    use = frequency_use(
        turned[:, -1], turned[:, :-1], encoding.angles, scale=encoding.shape.scale, pairing=encoding.pairing
    )
    return mean_frequency(use)
