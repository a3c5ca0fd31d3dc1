"""What every encoding keeps: ``C`` is what truly moving tokens gives, or is refused with the reason."""

import itertools

import pytest
import torch
from own_packages import example
from refusals import refuse_each

from posym_core import exclusion, rope_angles, rotate
from posym_core.encodings import (
    ENCODINGS,
    EncodedHeads,
    LayerShape,
    NoPE,
    RoPE,
    UndefinedCrossLogits,
    make_encoding,
)
from posym_core.encodings._mixed import MixedHeads

UNDEFINED = ["carope", "selective-rope", "path", "urpe"]
DEFINED = [name for name in ENCODINGS if name not in UNDEFINED]
ADDITIVE = ["nope", "sinusoidal", "learned", "t5", "alibi"]
SHAPE = LayerShape(heads=3, dim=8, width=20, length=16)


def moved_parameters(encoding, seed=0):
    """Parameters away from their initial values, which are often zero."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in encoding.parameters():
        parameter.data = parameter.data + 0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return encoding


def heads(name, shape=SHAPE, seed=0):
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    encoding = moved_parameters(make_encoding(name, shape).double()).requires_grad_(False)
    maps = torch.randn(2, shape.heads, shape.width, shape.dim, generator=generator, dtype=torch.float64)
    return EncodedHeads(encoding=encoding, query_map=maps[0], key_map=maps[1] / shape.width**0.5)


def inputs(tokens=6, seed=1, *batch):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*batch, tokens, SHAPE.width, generator=generator, dtype=torch.float64)


def literal_cross_logits(layer, x):
    """Put content ``a`` at place ``b`` by swapping the two tokens, and compute the whole sequence again."""
    m = len(x) - 1
    C = torch.zeros(SHAPE.heads, m, m, dtype=torch.float64)
    for a, b in itertools.product(range(m), repeat=2):
        order = list(range(m + 1))
        order[a], order[b] = order[b], order[a]
        C[:, a, b] = layer.logits(x[order])[:, -1, b]
    return C


@pytest.mark.parametrize("name", DEFINED)
def test_cross_logits_are_those_of_moved_tokens(name):
    layer, x = heads(name), inputs()
    C = layer.cross_logits(x)
    assert C.shape == (3, 5, 5)
    torch.testing.assert_close(C, literal_cross_logits(layer, x), rtol=0, atol=1e-12)
    torch.testing.assert_close(C.diagonal(dim1=-2, dim2=-1), layer.logits(x)[:, -1, :-1], rtol=0, atol=1e-12)
    orders = torch.stack([torch.randperm(5) for _ in range(60)])
    assert (layer.spread(x, orders) < 1e-13).all()


def test_urpe_acts_on_weights_and_has_no_cross_logits():
    with pytest.raises(UndefinedCrossLogits, match="multiplies the softmax by a factor"):
        heads("urpe").cross_logits(inputs())


@pytest.mark.parametrize("name", ["carope", "selective-rope", "path"])
def test_what_depends_on_the_tokens_between_has_no_cross_logits(name):
    layer, x = heads(name), inputs()
    assert layer.encoding.path_dependent
    with pytest.raises(UndefinedCrossLogits, match=r"tokens between key and query.*EncodedHeads.permuted_logits"):
        layer.cross_logits(x)
    orders = torch.stack([torch.randperm(5) for _ in range(60)])
    assert (layer.spread(x, orders) > 0.005).all()


@pytest.mark.parametrize("name", list(ENCODINGS))
def test_permuted_logits_start_from_the_plain_ones_and_batch(name):
    layer, x = heads(name), inputs(6, 1, 2)
    orders = torch.stack([torch.arange(5), torch.tensor([3, 0, 4, 1, 2])])
    both = layer.permuted_logits(x, orders)
    assert both.shape == (2, 2, 3, 5)
    torch.testing.assert_close(both[:, 0], layer.logits(x)[..., -1, :-1])
    torch.testing.assert_close(both[1, 1], layer.logits(x[1, [3, 0, 4, 1, 2, 5]])[:, -1, :-1])


@pytest.mark.parametrize("name", list(ENCODINGS))
def test_shifting_all_positions_changes_nothing_for_relative_encodings_only(name):
    layer, x = heads(name), inputs()
    encoding = layer.encoding
    found = []
    for start in (0, 4):
        positions = start + torch.arange(6)
        embedded = encoding.embed(x, positions)
        q, k = (embedded[None] @ m for m in (layer.query_map, layer.key_map))
        found.append(encoding.logits(q, k, positions=positions, content=embedded))
    same = torch.allclose(*found, rtol=0, atol=1e-12)
    assert same == encoding.relative == (name not in ("sinusoidal", "learned", "carope-own"))


@pytest.mark.parametrize("name", list(ENCODINGS))
@pytest.mark.parametrize("causal", [True, False])
def test_order_of_storage_does_not_matter_and_causal_layers_look_back_only(name, causal):
    if name == "path" and not causal:
        with pytest.raises(ValueError, match="layer must be causal; got causal=False"):
            make_encoding(name, LayerShape(heads=1, dim=4, causal=False))
        return
    shape = LayerShape(heads=3, dim=8, width=20, length=16, causal=causal)
    layer, x = heads(name, shape), inputs()
    plain = layer.logits(x)
    hidden = torch.ones(6, 6).triu(1).bool()
    assert bool(torch.isinf(plain[:, hidden]).all()) == causal
    assert torch.isfinite(plain[:, ~hidden]).all()
    order = torch.tensor([2, 5, 0, 1, 4, 3])
    embedded = layer.encoding.embed(x[order], order)
    q, k = (embedded[None] @ m for m in (layer.query_map, layer.key_map))
    stored = layer.encoding.logits(q, k, positions=order, content=embedded)
    torch.testing.assert_close(stored, plain[:, order][:, :, order])


@pytest.mark.parametrize("name", DEFINED)
def test_additive_encodings_have_no_interaction_and_the_others_mix(name):
    share = exclusion(heads(name).cross_logits(inputs())).interaction_share
    assert (share < 1e-24).all() if name in ADDITIVE else (share > 1e-5).all()


@pytest.mark.parametrize("name", [name for name in ENCODINGS if list(make_encoding(name, SHAPE).parameters())])
def test_every_parameter_has_a_gradient(name):
    layer, x = heads(name), inputs()
    encoding = layer.encoding.requires_grad_(True)
    logits = layer.logits(x)
    encoding.attention(logits)[..., -1, :].square().sum().backward()
    for label, parameter in encoding.named_parameters():
        assert parameter.grad is not None, label
        assert torch.isfinite(parameter.grad).all(), label
        assert parameter.grad.abs().max() > 0, label


def test_mixed_heads_are_their_parts():
    layer, x = heads("rope"), inputs()

    def of_heads(encoding):
        return EncodedHeads(encoding=encoding, query_map=layer.query_map, key_map=layer.key_map)

    for method in ("logits", "cross_logits"):
        mixed = MixedHeads(WHOLE, [RoPE(ONE), NoPE(REST)])
        found, rope, nope = (getattr(of_heads(one), method)(x) for one in (mixed, RoPE(WHOLE), NoPE(WHOLE)))
        torch.testing.assert_close(found, torch.cat([rope[:1], nope[1:]]))
    urpe = moved_parameters(make_encoding("urpe", REST).double())
    mixed = of_heads(MixedHeads(WHOLE, [make_encoding("path", ONE).double(), urpe]))
    logits = mixed.logits(x)
    torch.testing.assert_close(mixed.encoding.attention(logits)[1:], urpe.attention(logits[1:]))
    with pytest.raises(UndefinedCrossLogits, match="under MixedHeads"):
        mixed.cross_logits(x)


def test_cross_logits_at_chosen_places_and_of_one_key_for_all_heads():
    """Positions and the query's own may be anything where the encoding is defined there."""
    q, k = torch.randn(3, 8, dtype=torch.float64), torch.randn(1, 4, 8, dtype=torch.float64)
    places = torch.tensor([0.0, -2.5, 100.0, 3.0])
    C = RoPE(SHAPE).cross_logits(q, k, position=7.5, positions=places)
    for b, place in enumerate(places.tolist()):
        expected = SHAPE.scale * (rotate(k, place, rope_angles(8)) @ rotate(q, 7.5, rope_angles(8))[..., None])[..., 0]
        torch.testing.assert_close(C[..., b], expected)


Q, GAP = torch.zeros(3, 4, 8), torch.tensor([0, 2, 3, 4])
ONE, REST, WHOLE = (LayerShape(heads=heads, dim=8, width=20) for heads in (1, 2, 3))


def of(name, *given, method="logits", **options):
    return lambda: getattr(make_encoding(name, SHAPE), method)(*given, **options)


def made(name, **options):
    return lambda: make_encoding(name, SHAPE, **options)


test_refusals = refuse_each(
    (made("rotary"), r"encoding must be one of 'nope', .*; got 'rotary'"),
    (of("rope", Q[:2], Q[:2]), r"shape \[..., 3 heads, token, 8\], .* got \(2, 4, 8\) and"),
    (of("rope", Q.half(), Q.half()), "query must be float32 or float64", TypeError),
    (of("path", Q, Q), r"PaTH draws on the layer's inputs; pass content of shape \[..., 4, 20\]"),
    (of("carope", Q, Q, content=torch.zeros(4, 20), positions=GAP), r"be consecutive; got \[0.0, 2.0, 3.0, 4.0\]"),
    (made("p-rope", share=1.5), r"share must lie in \[0, 1\]; got 1.5"),
    (of("rollpe", Q, Q, positions=GAP + 0.5), "shifts are defined at whole positions only"),
    (made("alibi", slopes=torch.ones(2)), r"slopes must have shape \[3\], one per head; got \(2,\)"),
    (made("tapa", share=0.1), "phases at least one of 8 dimensions each; got 0.1"),
    (made("tapa", power=0), "power must be a positive finite number; got 0"),
)  # fmt: skip


def test_the_example_of_an_encoding_runs_as_it_is_printed():
    """A class of one's own is made as ours are, and its ``C`` is that of contents truly moved."""
    room: dict = {}
    exec(example("An encoding"), room)
    maps = torch.randn(2, 3, 20, 8, dtype=torch.float64)
    encoding = make_encoding(room["Window"], SHAPE, reach=2).double()
    made = EncodedHeads(encoding=encoding, query_map=maps[0], key_map=maps[1])
    x, order = torch.randn(5, 20, dtype=torch.float64), torch.tensor([[3, 1, 0, 2]])
    torch.testing.assert_close(made.permuted_logits(x, order)[0], made.cross_logits(x)[:, order[0], torch.arange(4)])
