"""Rotations, cross-logits and scores of random inputs: numbers of the literal definition, or a stated refusal."""

import itertools
import math

import literal
import pytest
import torch
from block_tables import make_block_table
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from random_inputs import (
    BROKEN,
    DTYPES,
    KINDS,
    PAIRINGS,
    POSITIVE,
    attempt,
    broken,
    cases,
    heads,
    rounding,
    size,
    tensors,
    whole,
    wide,
)

from posym_core import cross_logits, exclusion, frequency_shares, frequency_use, rope_angles, rotate, swap_scores
from posym_core.metrics._frequencies import dirichlet_kernel
from posym_core.metrics._permutations import score_permutations


@cases
@given(st.integers(-3, 300), st.one_of(st.floats(), st.sampled_from([1e4, 1e6, 5e-324, 1.7e308, *BROKEN])))
def test_rope_angles(dim, base):
    found = attempt(rope_angles, dim, base)
    if dim < 2 or dim % 2 or not 0 < base < math.inf:
        assert found is None
    elif found is not None:
        whole(found)
        expected = [math.pow(base, -2 * plane / dim) for plane in range(dim // 2)]
        assert found.tolist() == pytest.approx(expected, rel=1e-12)
    else:
        assert base < 1e-290


@cases
@given(st.data(), st.integers(1, 4), st.integers(1, 3), DTYPES, PAIRINGS, KINDS)
def test_rotate(data, rows, planes, dtype, pairing, kind):
    x = data.draw(tensors((rows, 2 * planes), kind, dtype))
    positions, angles = data.draw(tensors(rows, kind)), data.draw(tensors(planes, kind))
    found = attempt(rotate, x, positions, angles, pairing=pairing)
    if broken(x, positions, angles):
        assert found is None
    elif kind == "everyday":
        index = [(p, p + planes) if pairing == "halves" else (2 * p, 2 * p + 1) for p in range(planes)]
        for row, (plane, (first, second)) in itertools.product(range(rows), enumerate(index)):
            number = complex(float(x[row, first]), float(x[row, second]))
            turn = float(positions[row]) * float(angles[plane])
            number *= complex(math.cos(turn), math.sin(turn))
            got = complex(float(found[row, first]), float(found[row, second]))
            assert abs(got - number) <= (1e-5 if dtype == "float32" else 1e-13) * (abs(number) + 1e-30)
    elif found is not None:
        whole(found)


@cases
@given(heads(), st.booleans())
def test_cross_logits(head, per_frequency):
    args, options = head
    found = cross_logits(*args, per_frequency=per_frequency, **options)
    expected = literal.cross_logits(*wide(args), **options)
    whole(found)
    found = found.sum(-3) if per_frequency else found
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=rounding(args) * size(args, options))


@cases
@given(st.data(), KINDS)
def test_exclusion(data, kind):
    m, dtype = data.draw(st.integers(1, 4)), data.draw(DTYPES)
    C = data.draw(tensors((m, m), kind, dtype))
    found = attempt(exclusion, C)
    if broken(C):
        assert found is None
    if found is None:
        assert kind != "everyday"
        return
    whole(found.variance, found.bound, found.slack)
    shares = [float(x) for x in (found.positional_share, found.symbolic_share, found.interaction_share)]
    spread = float(C.double().amax() - C.double().amin())
    largest, eps = float(C.double().abs().amax()), torch.finfo(C.dtype).eps
    assert all(map(math.isnan, shares)) == (spread <= 4 * eps * largest)
    if kind == "everyday":
        variance, bound = literal.exclusion(C.double())
        tolerance = {"rel": 1e-5 if dtype == "float32" else 1e-10, "abs": 1e-12 if dtype == "float64" else 1e-30}
        assert float(found.variance) == pytest.approx(variance, **tolerance)
        assert float(found.bound) == pytest.approx(bound, **tolerance)
        assert float(found.slack) == pytest.approx(bound - variance, rel=1e-4, abs=1e-10 * (1 + bound))
        if spread > 1e-3 * largest and spread > 1e-100:
            assert shares == pytest.approx(literal.shares(C.double() / spread), abs=1e-5)
    if not math.isnan(shares[0]):
        assert sum(shares) == pytest.approx(1, abs=1e-6)
        assert min(shares) >= 0


@cases
@given(heads(most_keys=5))
def test_frequency_shares(head):
    args, options = head
    found = frequency_shares(*args, **options)
    query, keys, angles = wide(args)
    whole(found.energy)
    tiny = torch.finfo(args[1].dtype).tiny
    for plane in range(len(angles)):
        at = [plane, plane + len(angles)] if options["pairing"] == "halves" else [2 * plane, 2 * plane + 1]
        C = literal.cross_logits(query[at], keys[:, at], angles[plane : plane + 1], options["scale"])
        largest = float(query[at].norm() * keys[:, at].norm(dim=1).amax()) * abs(options["scale"])
        energy = float((C - C.mean()).square().mean())
        assert float(found.energy[plane]) == pytest.approx(energy, rel=1e-4, abs=1e-9 * largest**2 + tiny)
        shares = [float(x[plane]) for x in (found.positional_share, found.symbolic_share, found.interaction_share)]
        if energy > 1e-6 * largest**2 and energy > 1e-200:
            assert shares == pytest.approx(literal.shares(C / math.sqrt(energy)), abs=1e-5)
        elif math.isnan(shares[0]):
            assert energy <= 1e-10 * largest**2 + 1e-300
        else:
            assert sum(shares) == pytest.approx(1, abs=1e-5)


@cases
@given(heads())
def test_frequency_use(head):
    args, options = head
    query, keys, _ = wide(args)
    products = options["scale"] * query * keys
    halves = products.unflatten(-1, (2, -1)).sum(-2)
    expected = halves if options["pairing"] == "halves" else products.unflatten(-1, (-1, 2)).sum(-1)
    found = frequency_use(*args, **options)
    torch.testing.assert_close(found.double(), expected.amax(0), rtol=0, atol=rounding(args) * size(args, options))


@cases
@given(st.sampled_from(["finite", "bad"]).flatmap(heads), st.booleans())
def test_heads_of_any_size(head, per_frequency):
    """Whatever is not refused gives numbers; only shares of planes without variance are undefined."""
    args, options = head
    found = attempt(cross_logits, *args, per_frequency=per_frequency, **options)
    shares = attempt(frequency_shares, *args, **options)
    used = attempt(frequency_use, *args, **options)
    if broken(*args, options["scale"]):
        assert found is shares is used is None
        return
    whole(*(x for x in (found, used) if x is not None))
    if shares is not None:
        whole(shares.energy)
        parts = torch.stack([shares.positional_share, shares.symbolic_share, shares.interaction_share]).double()
        undefined = parts.isnan().all(0)
        assert bool((shares.energy[undefined] == 0).all())
        torch.testing.assert_close(parts.sum(0)[~undefined], torch.ones(int((~undefined).sum()), dtype=torch.float64))


@cases
@given(st.data(), st.integers(-1, 12))
def test_dirichlet_kernel(data, positions):
    angles = data.draw(tensors(3))
    found = attempt(dirichlet_kernel, angles, positions)
    if positions < 1:
        assert found is None
        return
    for angle, value in zip(angles.tolist(), found.tolist(), strict=True):
        phases = [complex(math.cos(angle * b), math.sin(angle * b)) for b in range(positions)]
        assert value == pytest.approx(abs(sum(phases)) / positions, abs=1e-12)


@st.composite
def swaps(draw, kind="everyday"):
    """A head with blocks, which may not fit, and all options of the scores."""
    args, options = draw(heads(kind, most_keys=9))
    keys, dtype = args[1].shape[0], str(args[1].dtype).removeprefix("torch.")
    options["start"] = draw(st.integers(0, 2) if kind == "everyday" else st.integers(-2, 11))
    options["block_length"] = draw(st.integers(1, 3) if kind == "everyday" else st.integers(-1, 5))
    options["blocks"] = draw(st.one_of(st.none(), st.integers(2, 8) if kind == "everyday" else st.integers(-1, 9)))
    if draw(st.booleans()):
        seen = draw(arrays(bool, keys))
        seen[-1] |= kind == "everyday"
        options["visible"] = torch.from_numpy(seen)
    if draw(st.booleans()):
        options["softcap"] = draw(st.floats(0.1, 50) if kind == "everyday" else st.floats())
    if draw(st.booleans()):
        options["sinks"] = draw(tensors((), kind, dtype))
    return args, options


@cases
@given(swaps(), st.sampled_from([1e-5, 1e-4, 0.1, 1.0, 1e12]), st.sampled_from([0.0, 1e-8, 1e-2]))
def test_swap_scores(head, tau, eps):
    args, options = head
    found = attempt(swap_scores, *args, tau=tau, eps=eps, **options)
    length, start = options.pop("block_length"), options["start"]
    most = max(0, len(args[1]) - 1 - start) // length
    blocks = options.pop("blocks") or most
    if blocks < 2 or blocks > most:
        assert found is None
        return
    whole(found.positional, found.symbolic, found.entropy, found.attention)
    sink = options.pop("sinks", None)
    options |= {"length": length, "blocks": blocks, "sink": None if sink is None else sink.double()}
    expected = literal.swap_scores(*wide(args), tau=tau, eps=eps, **options)
    assert (float(found.positional), float(found.symbolic)) == pytest.approx(expected, abs=2e-5)
    assert -1e-9 <= float(found.entropy) <= 1 + 1e-6


@cases
@given(st.sampled_from(["finite", "bad"]).flatmap(swaps), POSITIVE, st.one_of(POSITIVE, st.floats()), st.booleans())
def test_scores_of_any_head(head, tau, eps, per_frequency):
    args, options = head
    found = attempt(swap_scores, *args, tau=tau, eps=eps, per_frequency=per_frequency, **options)
    capped = options.get("softcap", 1.0)
    if broken(*args, options["scale"], eps, capped, options.get("sinks", 0.0)) or capped <= 0 or eps < 0:
        assert found is None
    if found is not None:
        whole(found.positional, found.symbolic, found.entropy, found.attention)
        for score in (found.positional, found.symbolic, found.entropy):
            assert bool((score >= -1e-6).all())
            assert bool((score <= 1 + 1e-6).all())


@cases
@given(swaps(), st.data())
def test_scores_of_any_permutation(head, data):
    """The table against keys that are moved one by one, and the scores against their formula."""
    args, options = head
    table = attempt(make_block_table, *args, **options)
    assume(table is not None)
    blocks, length, start = table.sums.shape[-1], options["block_length"], options["start"]
    order = data.draw(st.permutations(range(blocks)).filter(lambda order: order != list(range(blocks))))
    orders = torch.tensor([order])
    query, keys, angles = wide(args)
    positions, sink = torch.arange(len(keys)), options.get("sinks")
    contents = rotate(keys, -positions, angles, pairing=options["pairing"])

    def attention(order):
        places = list(range(len(keys)))
        for place, block in enumerate(order):
            for offset in range(length):
                places[start + place * length + offset] = start + block * length + offset
        moved = rotate(contents[places], positions, angles, pairing=options["pairing"])
        values = literal.logits(query, moved, options["scale"], options.get("softcap"))
        if "visible" in options:
            values = values.masked_fill(~options["visible"], -math.inf)
        values = values if sink is None else torch.cat([values, sink.double()[None]])
        shown = values.softmax(-1)
        return [float(shown[start + place * length :][:length].mean()) for place in range(blocks)]

    before, after = attention(range(blocks)), attention(order)
    assert table.attention().tolist() == pytest.approx(before, abs=1e-9)
    assert table.attention(orders)[0].tolist() == pytest.approx(after, abs=1e-9)
    found = score_permutations(torch.tensor(before), torch.tensor(after)[None], orders)
    moved = [place for place in range(blocks) if order[place] != place]
    now, stayed, followed = (
        torch.tensor([values[place] for place in moved]).double()
        for values in (after, before, [before[content] for content in order])
    )
    assert float(found.positional) == pytest.approx(literal.cosine(now, stayed, 1e-8), abs=1e-4)
    assert float(found.symbolic) == pytest.approx(literal.cosine(now, followed, 1e-8), abs=1e-4)
    whole(found.positional, found.symbolic)
