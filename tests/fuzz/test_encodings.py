"""Encodings on random inputs: finite numbers that agree with each other, or a stated refusal."""

import math

import literal
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_inputs import DTYPES, KINDS, attempt, broken, cases, tensors, whole

from posym_core.encodings import ENCODINGS, LayerShape, UndefinedCrossLogits, make_encoding
from posym_core.metrics._permutations import score_cross_logits

SHAPE = LayerShape(heads=2, dim=8, width=6, length=8)
# In these the logit of a content at a position is no number of its own.
WITHOUT_C = ("carope", "selective-rope", "path", "urpe")


def encoding(name, dtype):
    torch.manual_seed(3)
    return make_encoding(name, SHAPE).to(getattr(torch, dtype)).requires_grad_(False)


@st.composite
def layers(draw, kind):
    """An encoding with queries, keys and inputs of some tokens, and positions that may not suit it."""
    name, dtype, tokens = draw(st.sampled_from(list(ENCODINGS))), draw(DTYPES), draw(st.integers(1, 4))
    query, key = (draw(tensors((2, tokens, 8), kind, dtype)) for _ in range(2))
    content = draw(tensors((tokens, 6), "bad" if kind == "bad" else "everyday", dtype))
    positions = None
    if draw(st.booleans()):
        anywhere = st.one_of(st.integers(-9, 9).map(float), st.floats(-9, 9), st.sampled_from([1e15, 1e17, math.inf]))
        positions = torch.tensor(draw(st.lists(anywhere, min_size=tokens, max_size=tokens)), dtype=torch.float64)
    return name, encoding(name, dtype), query, key, positions, content


@cases
@given(KINDS.flatmap(layers))
def test_logits(layer):
    name, found_by, query, key, positions, content = layer
    needed = content if found_by.needs_content else None
    logits = attempt(found_by.logits, query, key, positions=positions, content=needed)
    inputs = [x for x in (query, key, positions, needed) if x is not None]
    if broken(*inputs):
        assert logits is None
    if logits is None:
        return
    at = torch.arange(query.shape[-2]) if positions is None else positions
    hidden = at > at[:, None]
    whole(logits[:, ~hidden])
    assert bool((logits[:, hidden] == -math.inf).all())
    weights = attempt(found_by.attention, logits, positions=positions)
    assert weights is None or not bool(weights.isnan().any())
    if name == "nope":
        expected = torch.stack([literal.logits(query[0, -1], key[0, [j]], SHAPE.scale) for j in range(len(at))])[:, 0]
        rounding = 16 * torch.finfo(query.dtype).eps * float(query[0, -1].abs().sum() * key.abs().amax()) + 1e-300
        seen = ~hidden[-1]
        torch.testing.assert_close(logits[0, -1, seen], expected[seen], rtol=0, atol=max(rounding, 1e-37))


@cases
@given(KINDS.flatmap(layers))
def test_cross_logits_of_encodings(layer):
    """The diagonal is the logit of a content where it stands."""
    name, found_by, query, key, positions, content = layer
    options = {"content": torch.cat([content, content[-1:]])} if found_by.needs_content else {}
    if name in ("sinusoidal", "learned"):
        return
    if name in WITHOUT_C:
        with pytest.raises(UndefinedCrossLogits, match=r"so (there is|no logits)"):
            found_by.cross_logits(query[:, -1], key, positions=positions, **options)
        return
    C = attempt(found_by.cross_logits, query[:, -1], key, positions=positions, **options)
    if broken(query[:, -1], key, *options.values()) or (positions is not None and broken(positions)):
        assert C is None
    if C is None:
        return
    whole(C)
    at = torch.arange(key.shape[-2], dtype=torch.float64) if positions is None else positions
    again = torch.cat([at, at[-1:] + 1])
    if found_by.needs_content or bool((again > again[-1]).any()):
        return
    query = torch.cat([key, query[:, -1:]], dim=1)  # of the other queries nothing is read
    logits = attempt(found_by.logits, query, torch.cat([key, key[:, -1:]], dim=1), positions=again)
    if logits is not None and float(at.abs().amax()) < 100:
        size = float((1 + query[:, -1].abs().amax()) * (1 + key.abs().amax()))  # PoPE's magnitudes are above 0
        eps = 1e-5 if query.dtype == torch.float32 else 1e-12
        eps *= size if name == "tapa" else 1  # a phase is a product of query and key as well
        torch.testing.assert_close(
            C.diagonal(dim1=-2, dim2=-1).double() / size, logits[:, -1, :-1].double() / size, rtol=0, atol=20 * eps
        )


@cases
@given(st.data(), st.integers(1, 4), KINDS, DTYPES, st.booleans())
def test_cross_scores(data, m, kind, dtype, crowded):
    C = data.draw(tensors((m, m), kind, dtype))
    outside = data.draw(tensors(2, kind, dtype)) if crowded else None
    found = attempt(score_cross_logits, C, outside=outside)
    if m < 2 or broken(C) or (crowded and broken(outside)):
        assert found is None
        return
    if found is None:
        assert kind == "finite"
        return
    whole(found.positional, found.symbolic)
    for score in (found.positional, found.symbolic):
        assert -1e-9 <= float(score) <= 1 + 1e-9
