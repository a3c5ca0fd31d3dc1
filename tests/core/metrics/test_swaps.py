import math

import literal
import numpy as np
import pytest
import torch
from block_tables import make_block_table

from posym_core import rope_angles, rotate, swap_scores
from posym_core.metrics import _swaps as swaps

PAIRINGS = ["halves", "neighbours"]
FIELDS = ("positional", "symbolic", "entropy", "attention")
FLOAT64_ERROR = 1e-10


def head(*shape, keys=21, dim=8, seed=0, size=1.0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    query = size * torch.randn(*shape, dim, generator=generator, dtype=torch.float64)
    return query.to(dtype), torch.randn(*shape, keys, dim, generator=generator, dtype=torch.float64).to(dtype)


def agree(found, expected, atol):
    assert (float(found.positional), float(found.symbolic)) == pytest.approx(expected, abs=atol)


def gaps_of_100():
    """Nearly all attention is inside one pair: subtracting it from the whole would leave noise."""
    keys = torch.zeros(8, 4, dtype=torch.float64)
    keys[2, 0], keys[5, 1] = 100.0, 99.0
    query = torch.tensor([1.0, 0.7, -0.3, 0.2], dtype=torch.float64)
    return rotate(query, 7, rope_angles(4)), rotate(keys, torch.arange(8), rope_angles(4)), rope_angles(4)


def no_match_is_left():
    """After the swap both members of the pair lose their match and the rest must come out of 1 - 1e-40."""
    angles = torch.tensor([math.pi / 2], dtype=torch.float64)
    keys = rotate(torch.tensor([[90.0, 0], [0, 90.0], [0, 0], [0, 0], [0, 0]]).double(), torch.arange(5), angles)
    return torch.tensor([1.0, 0.0], dtype=torch.float64), keys, angles


def identical_blocks():
    query, keys = head(keys=9)
    keys[4:8] = rotate(keys[:4], torch.full((4,), 4), rope_angles(8))
    return query, keys, rope_angles(8)


EXTREMES = {
    "gaps of 100": (gaps_of_100, {}, (0.0, 1e-30, 1e-8)),
    "no match is left": (no_match_is_left, {}, (1e-60, 1e-8)),
    # Its squares underflow, so norms must not be formed from them.
    "attention of 1e-170": (lambda: (*head(seed=125, size=26.0, keys=14), rope_angles(8)), {"tau": 1.0}, (0.0, 1e-8)),
    "identical blocks": (identical_blocks, {"length": 4}, (1e-8,)),
    "partial rotary": (lambda: (*head(), torch.tensor([1, 0.1, 0, 0]).double()), {"start": 1, "length": 3}, (1e-8,)),
    # What a swap brings into sight counts in the normaliser: below a high floor scores are proportional to it.
    "a hidden block gains": (
        lambda: (*head(), rope_angles(8)), {"length": 3, "tau": 1.0, "visible": torch.arange(21) >= 9}, (0.0, 0.3)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_are_those_of_the_literal_definition(name):
    make, options, floors = EXTREMES[name]
    given, length, rest = make(), options.get("length", 1), {x: options[x] for x in options if x != "length"}
    blocks = (len(given[1]) - 1 - options.get("start", 0)) // length
    for eps in floors:
        found = swap_scores(*given, block_length=length, eps=eps, **rest)
        agree(found, literal.swap_scores(*given, length=length, blocks=blocks, eps=eps, **rest), FLOAT64_ERROR)
    if name == "identical blocks":
        assert float(found.positional) == pytest.approx(1)


def test_no_rotation_is_symbolic_and_equal_contents_are_positional():
    query, keys = head(size=2.0)
    assert float(swap_scores(query, keys, torch.zeros(4)).symbolic) == pytest.approx(1, abs=1e-12)
    same = rotate(keys[:1].expand(21, 8), torch.arange(21), rope_angles(8))
    assert float(swap_scores(query, same, rope_angles(8)).positional) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(("shift", "dtype", "error"), [
    (-(10**6), torch.float64, 1e-6), (777_777, torch.float64, 1e-6), (2_000_003, torch.float32, 2e-3),
])  # fmt: skip
def test_only_relative_positions_matter(shift, dtype, error):
    query, keys = head(size=2.0, dtype=dtype)
    angles = rope_angles(8)
    found = swap_scores(query, keys, angles, block_length=2)
    moved = swap_scores(rotate(query, shift, angles), rotate(keys, shift, angles), angles, block_length=2)
    torch.testing.assert_close(moved.positional, found.positional, rtol=0, atol=error)


def test_attention_and_entropy_are_those_of_the_softmax():
    """A sink takes attention but is no block; of the entropy it is one more choice."""
    query, keys = head(size=2.0)
    for sinks in (None, torch.tensor(1.5, dtype=torch.float64)):
        found = swap_scores(query, keys, rope_angles(8), start=2, block_length=3, scale=0.5, sinks=sinks)
        logits = 0.5 * keys @ query
        attention = (logits if sinks is None else torch.cat([logits, sinks[None]])).softmax(0)
        torch.testing.assert_close(found.attention, attention[2:20].view(6, 3).mean(1))
        entropy = torch.distributions.Categorical(probs=attention).entropy() / math.log(len(attention))
        torch.testing.assert_close(found.entropy, entropy)


@pytest.mark.parametrize("per_frequency", [False, True])
def test_batch_equals_loop_and_groups_share_keys(per_frequency):
    query, keys = head(2, 3, size=2.0)
    options = {"block_length": 4, "per_frequency": per_frequency}
    for shared in (keys, keys[:, :1]):
        batch = swap_scores(query, shared, rope_angles(8), **options)
        for i, j in np.ndindex(2, 3):
            alone = swap_scores(query[i, j], shared[i, j % shared.shape[1]], rope_angles(8), **options)
            for field in FIELDS:
                torch.testing.assert_close(getattr(batch, field)[i, j], getattr(alone, field))


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_each_plane_is_a_head_of_its_own(pairing):
    query, keys = head(size=3.0)
    angles = rope_angles(8)
    found = swap_scores(query, keys, angles, block_length=2, scale=0.9, pairing=pairing, per_frequency=True)
    assert found.attention.shape == (4, 10)
    for plane in range(4):
        pick = [plane, plane + 4] if pairing == "halves" else [2 * plane, 2 * plane + 1]
        options = {"length": 2, "blocks": 10, "scale": 0.9}
        expected = literal.swap_scores(query[pick], keys[:, pick], angles[plane : plane + 1], **options)
        assert (float(found.positional[plane]), float(found.symbolic[plane])) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("worth", [0, 2**60])
@pytest.mark.parametrize("room", [500, 5000])
def test_pieces_change_nothing(room, worth, monkeypatch):
    """Some heads at a time, and where the pairs of one are too many, some of these."""
    query, keys = head(2, 3, keys=90, size=2.0)
    visible = torch.arange(90) >= 30
    whole = swap_scores(query, keys, rope_angles(8), start=3, visible=visible)
    for name, number in (("TABLE", room), ("LARGE_TABLE", room), ("WORTH", worth)):
        monkeypatch.setattr(swaps, name, number)
    parts = swap_scores(query, keys, rope_angles(8), start=3, visible=visible)
    for field in FIELDS:
        torch.testing.assert_close(getattr(parts, field), getattr(whole, field), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("worth", "kinds"), [(0, {4, 24}), (10_000, {24}), (2**60, {24})])
def test_sharp_heads_are_scored_on_their_own_where_there_are_enough(worth, kinds, monkeypatch):
    query, keys = head(30, keys=98)
    query *= torch.where(torch.arange(30) % 10 == 0, 20.0, 0.01)[:, None]
    expected = swap_scores(query, keys, rope_angles(8), start=1, block_length=4)
    chosen, choose = [], swaps._choose_rows

    def look(*given):
        for heads, rows in choose(*given):
            chosen.append(rows)
            yield heads, rows

    monkeypatch.setattr(swaps, "WORTH", worth)
    monkeypatch.setattr(swaps, "_choose_rows", look)
    found = swap_scores(query, keys, rope_angles(8), start=1, block_length=4)
    assert {*chosen} == kinds
    for field in FIELDS:
        torch.testing.assert_close(getattr(found, field), getattr(expected, field), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("worth", [0, 2**60])
@pytest.mark.parametrize("options", [{}, {"visible": None, "block_length": 2, "eps": 0.0}, {"softcap": 3.0}])
def test_scores_can_be_differentiated(worth, options, monkeypatch):
    """With blocks that some queries do not see, whose norms are 0 and have no slope."""
    monkeypatch.setattr(swaps, "WORTH", worth)
    seen = torch.arange(7) >= torch.tensor([[0, 2], [3, 1]])[..., None]
    seen[0, 0, 4] = False
    query, keys = head(2, 2, keys=7, dim=4)
    inputs = [x.requires_grad_() for x in (query, keys[:, :1].clone(), torch.randn(2, 2, dtype=torch.float64))]

    def scores(query, keys, sinks):
        options_ = {"visible": seen, "tau": 0.1, "sinks": sinks} | options
        return tuple(vars(swap_scores(query, keys, rope_angles(4), **options_)).values())

    assert torch.autograd.gradcheck(scores, inputs, fast_mode=True)


@pytest.mark.parametrize("score", [swap_scores, make_block_table])
def test_queries_of_all_tokens_are_refused_unless_it_is_said_what_they_see(score):
    query, keys = head(6, keys=6)
    for many, of in ((query, keys[0]), (query[None], keys[:1]), (query.expand(3, 6, 8), keys[0])):
        message = r"6 queries of the same 6 keys\. Pass one query, query\[..., -1, :\], or visible"
        with pytest.raises(ValueError, match=message):
            score(many, of, rope_angles(8))
    said = score(query, keys[0], rope_angles(8), visible=torch.ones(6, 6, dtype=torch.bool))
    shared = score(query, keys[:1], rope_angles(8))
    for name, x in vars(said).items():
        torch.testing.assert_close(getattr(shared, name), x)
    for some, of in ((query[-1], keys[0]), (query[-1:], keys[0]), (query[:5], keys[0]), (query, keys)):
        score(some, of, rope_angles(8))


def test_heads_may_turn_by_angles_of_their_own():
    query, keys = head(2, keys=7)
    angles = torch.stack([rope_angles(8), rope_angles(8, 100.0)])
    together = swap_scores(query, keys, angles)
    for number, own in enumerate(angles):
        alone = swap_scores(query[number], keys[number], own)
        torch.testing.assert_close(together.symbolic[number], alone.symbolic)
