"""What every encoding keeps: ``C`` is what truly moving tokens gives, or is refused with the reason."""

import itertools
import math

import pytest
import torch
from own_packages import example
from refusals import refuse_each

from posym_core import cross_logits, exclusion, rope_angles, rotate
from posym_core.encodings import (
    ENCODINGS,
    URPE,
    EncodedHeads,
    LayerShape,
    NoPE,
    PartialRoPE,
    RoPE,
    UndefinedCrossLogits,
    make_encoding,
)
from posym_core.encodings._latent import LatentProjections
from posym_core.encodings._mixed import MixedHeads
from posym_core.encodings._rotary import DecoupledRoPE

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


@pytest.mark.parametrize("name", list(ENCODINGS))
def test_float32_is_kept_and_close(name):
    layer, x = heads(name), inputs()
    encoding = heads(name).encoding
    for parameter in encoding.parameters():
        parameter.data = parameter.data.float()  # .float() would round the angles, too
    narrow = EncodedHeads(encoding=encoding, query_map=layer.query_map.float(), key_map=layer.key_map.float())
    logits = narrow.logits(x.float())
    assert logits.dtype == torch.float32
    # TAPA's phases, some ten turns here, are products of rounded queries and keys as well.
    torch.testing.assert_close(logits.double(), layer.logits(x), rtol=0, atol=1e-3 if name == "tapa" else 1e-4)


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
    one, rest, whole = ONE, REST, WHOLE
    mixed = MixedHeads(whole, [RoPE(one), NoPE(rest)])
    layer = heads("rope")
    layer = EncodedHeads(encoding=mixed, query_map=layer.query_map, key_map=layer.key_map)
    x = inputs()
    for method in ("logits", "cross_logits"):
        found, rope, nope = (
            getattr(EncodedHeads(encoding=e, query_map=layer.query_map, key_map=layer.key_map), method)(x)
            for e in (mixed, RoPE(whole), NoPE(whole))
        )
        torch.testing.assert_close(found[:1], rope[:1])
        torch.testing.assert_close(found[1:], nope[1:])
    path = make_encoding("path", one).double()
    urpe = make_encoding("urpe", rest).double()
    mixed = MixedHeads(whole, [path, urpe])
    assert mixed.needs_content
    assert mixed.path_dependent
    layer = EncodedHeads(encoding=mixed, query_map=layer.query_map, key_map=layer.key_map)
    logits = layer.logits(x)
    torch.testing.assert_close(mixed.attention(logits)[1:], urpe.attention(logits[1:]))
    with pytest.raises(UndefinedCrossLogits, match="under PaTH"):
        layer.cross_logits(x)


def test_one_key_may_serve_all_heads():
    encoding = RoPE(SHAPE)
    q = torch.randn(3, 4, 8, dtype=torch.float64)
    k = torch.randn(1, 4, 8, dtype=torch.float64)
    torch.testing.assert_close(encoding.logits(q, k), encoding.logits(q, k.expand(3, 4, 8)))


def test_cross_logits_at_chosen_places():
    """Positions and the query's own may be anything where the encoding is defined there."""
    q, k = torch.randn(3, 8, dtype=torch.float64), torch.randn(3, 4, 8, dtype=torch.float64)
    encoding = RoPE(SHAPE)
    C = encoding.cross_logits(q, k, position=7.5, positions=torch.tensor([0.0, -2.5, 100.0, 3.0]))
    for b, place in enumerate([0.0, -2.5, 100.0, 3.0]):
        expected = SHAPE.scale * (rotate(k, place, rope_angles(8)) @ rotate(q, 7.5, rope_angles(8))[..., None])[..., 0]
        torch.testing.assert_close(C[..., b], expected)
    at_home = rotate(k, torch.arange(4), rope_angles(8))
    core = cross_logits(rotate(q, 4, rope_angles(8)), at_home, rope_angles(8), scale=SHAPE.scale)
    torch.testing.assert_close(encoding.cross_logits(q, k), core)


def test_latent_projections_share_the_turned_key():
    shape = LayerShape(heads=3, dim=8, width=20)
    projections = LatentProjections(shape, rotated=4, rank=5).double()
    query, key = projections(inputs())
    assert query.shape == key.shape == (3, 6, 8)
    torch.testing.assert_close(key[0, :, 4:], key[2, :, 4:], rtol=0, atol=0)
    assert torch.linalg.matrix_rank(key[..., :4].transpose(0, 1).flatten(1)) <= 5
    assert isinstance(projections.encoding(), DecoupledRoPE)
    assert projections.encoding().rotated == 4


def test_urpe_weights_before_the_normaliser():
    layer, x = heads("urpe"), inputs()
    encoding = layer.encoding
    assert isinstance(encoding, URPE)
    encoding.factors[:, ::3] *= -1
    with pytest.raises(UndefinedCrossLogits, match=r"multiplies the softmax.*cross_weights"):
        layer.cross_logits(x)
    query = (x[None] @ layer.query_map)[:, -1]
    weights = encoding.cross_weights(query, x[:-1] @ layer.key_map)
    assert (weights < 0).any()
    # After any permutation, the attention to places is a diagonal of the matrix up to one factor per head.
    for order in (torch.arange(5), torch.tensor([4, 2, 0, 1, 3])):
        moved = x[torch.cat([order, torch.tensor([5])])]
        attention = encoding.attention(layer.logits(moved))[:, -1, :-1]
        ratio = attention / weights[:, order, torch.arange(5)]
        torch.testing.assert_close(ratio, ratio[:, :1].expand(3, 5))
        assert (ratio > 0).all()


Q, GAP, FAR = torch.zeros(3, 4, 8), torch.tensor([0, 2, 3, 4]), torch.tensor([0.0, 1.0, 2.0, 1e15])
ONE, REST, WHOLE = (LayerShape(heads=heads, dim=8, width=20) for heads in (1, 2, 3))


def of(name, *given, method="logits", **options):
    return lambda: getattr(make_encoding(name, SHAPE), method)(*given, **options)


def made(name, **options):
    return lambda: make_encoding(name, SHAPE, **options)


test_refusals = refuse_each(
    (made("rotary"), r"encoding must be one of 'nope', .*; got 'rotary'"),
    (lambda: LayerShape(heads=0, dim=4), "heads must be a whole number of at least 1; got 0"),
    (lambda: LayerShape(heads=1, dim=4, scale=-1), r"positive finite number, or 0 for dim \*\* -0.5; got -1"),
    (of("rope", Q[:2], Q[:2]), r"shape \[..., 3 heads, token, 8\]; got \(2, 4, 8\) and \(2, 4, 8\)"),
    (of("rope", Q[..., :6], Q[..., :6]), "the layer's 8 dimensions; got 6 and 6"),
    (of("rope", Q, Q.double()), "share dtype and device"),
    (of("rope", Q.half(), Q.half()), "query must be float32 or float64", TypeError),
    (of("rope", Q, Q, positions=FAR * torch.nan), "positions must be finite"),
    (of("path", Q, Q), r"PaTH draws on the layer's inputs; pass content of shape \[..., 4, 20\]"),
    (of("path", Q, Q, content=torch.zeros(5, 20)), r"content must have shape \[..., 4, 20\], .*; got \(5, 20\)"),
    *((of(name, Q, Q, content=torch.zeros(4, 20), positions=GAP), r"be consecutive; got \[0.0, 2.0, 3.0, 4.0\]")
      for name in ("path", "carope", "selective-rope")),
    (of("learned", Q[:, 0], Q, method="cross_logits"), r"pass key_map of shape \[3, 20, 8\], got none"),
    (of("learned", torch.zeros(17, 20), method="embed"), "vectors for positions 0 to 15; got 0 to 16"),
    (of("learned", torch.zeros(1, 20), torch.tensor([0.5]), method="embed"), "defined at whole positions only"),
    (made("learned", spread=-1), "spread must be 0 or a positive finite number; got -1"),
    (of("sinusoidal", torch.zeros(4, 19), method="embed"), r"have shape \[..., token, 20\]; got \(4, 19\)"),
    (made("p-rope", share=1.5), r"share must lie in \[0, 1\]; got 1.5"),
    (lambda: PartialRoPE(SHAPE, share=0.1), "leaves no plane to rotate"),
    (lambda: PartialRoPE(LayerShape(heads=1, dim=100), share=0.0199), r"share=0\.0199 of 100 dimensions leaves no"),
    (of("rollpe", Q, Q, positions=GAP + 0.5), "shifts are defined at whole positions only"),
    (made("alibi", slopes=torch.ones(2)), r"slopes must have shape \[3\], one per head; got \(2,\)"),
    *((made("tapa", share=share), f"phases at least one of 8 dimensions each; got {share}")
      for share in (-0.5, 0.1, 1, math.nan)),
    *((made("tapa", power=power), f"power must be a positive finite number; got {power}")
      for power in (0, -1, math.inf, math.nan)),
    (lambda: make_encoding("tapa", SHAPE, power=2.0).logits(1e4 + Q, 1e4 + Q, positions=FAR), "phases may reach .*; p"),
    (of("grape-a", Q, Q + 1e25, positions=FAR), "slopes times distances may reach .*; pass smaller numbers, or"),
    (made("dape", bias=make_encoding("alibi", REST)), "bias must be made for the same layer"),
    (of("urpe", torch.zeros(3, 17, 17), method="attention"), "factors for distances up to 15; got 16"),
    (lambda: EncodedHeads(encoding=RoPE(SHAPE), query_map=torch.zeros(3, 20, 7), key_map=torch.zeros(3, 20, 8)),
     r"query_map must have shape \[3, 20, 8\]; got \(3, 20, 7\)"),
    (lambda: heads("nope").permuted_logits(inputs(), torch.arange(5)), r"shape \[permutation, 5\]; got \(5,\)"),
    (lambda: MixedHeads(WHOLE, [RoPE(ONE), NoPE(ONE)]), r"heads must add up to the layer's 3; got \[1, 1\]"),
    (lambda: MixedHeads(WHOLE, [make_encoding("sinusoidal", ONE), NoPE(REST)]), "adds to the embeddings of all"),
    (lambda: LatentProjections(WHOLE, rotated=8, rank=5), "even number below the 8 dimensions of a head; got 8"),
)  # fmt: skip


def test_positions_are_told_apart_up_to_the_last_that_float64_counts():
    query, key = torch.randn(2, 3, 1, 8, dtype=torch.float64)[:, :, :1]
    encoding = NoPE(SHAPE)
    for last in (2**53, -(2**53)):
        encoding.logits(query, key, positions=torch.tensor([last]))
    for beyond in (2**53 + 2, -(2**53) - 2, 2**54):
        with pytest.raises(
            ValueError, match=r"positions must lie within 2\*\*53, where float64 counts exactly; got 9|1.8"
        ):
            encoding.logits(query, key, positions=torch.tensor([beyond]))


def test_a_share_that_is_whole_up_to_rounding_loses_no_plane():
    # 0.58 * 100 / 2 is 28.999999999999996.
    for share, rotated in ((0.58, 58), (0.5799, 56), (0.02, 2)):
        assert PartialRoPE(LayerShape(heads=1, dim=100), share=share).rotated == rotated


def test_logits_have_room_up_to_a_sixteenth_of_the_largest_number():
    """The bound is ``2 dim scale`` times both magnitudes; on either side of it, for both types of number."""
    for dtype in (torch.float32, torch.float64):
        edge = (torch.finfo(dtype).max / 16 / (2 * SHAPE.dim * SHAPE.scale)) ** 0.5
        kept, refused = (torch.full((3, 1, 8), factor * edge, dtype=dtype) for factor in (0.999, 1.001))
        assert bool(NoPE(SHAPE).logits(kept, kept).isfinite().all())
        with pytest.raises(ValueError, match=r"logits may reach .*e\+\d+, but torch.float\d\d holds"):
            NoPE(SHAPE).logits(refused, refused)


def test_the_example_of_an_encoding_runs_as_it_is_printed():
    """A class of one's own is made as ours are, and its ``C`` is that of contents truly moved."""
    room: dict = {}
    exec(example("An encoding"), room)
    made = EncodedHeads(
        encoding=make_encoding(room["Window"], SHAPE, reach=2).double(),
        query_map=torch.randn(3, 20, 8, dtype=torch.float64),
        key_map=torch.randn(3, 20, 8, dtype=torch.float64),
    )
    x, order = torch.randn(5, 20, dtype=torch.float64), torch.tensor([[3, 1, 0, 2]])
    torch.testing.assert_close(made.permuted_logits(x, order)[0], made.cross_logits(x)[:, order[0], torch.arange(4)])
    with pytest.raises(ValueError, match=r"encoding must be one of 'nope', .*, or a class; got 'window'"):
        make_encoding("window", SHAPE)
