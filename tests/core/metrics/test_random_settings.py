"""Swap scores of random settings against the literal loop in float64: windows, holes, caps, sinks, any temperature."""

import math

import literal
import pytest
import torch
from random_inputs import ASKED

from posym_core import rope_angles, swap_scores
from posym_core.metrics import _swaps as swaps

SETTINGS = int(ASKED or 40)
# Where gaps of attention are divided by a temperature this small, their rounding is multiplied by its inverse.
COLD, ERROR, COLD_ERROR = 1e-4, 1e-12, 1e-10


def draw_setting(number):
    """A head and its options, for both functions."""
    generator = torch.Generator().manual_seed(number)

    def pick(*values):
        return values[int(torch.randint(len(values), (), generator=generator))]

    def uniform(low, high):
        return low + (high - low) * float(torch.rand((), generator=generator, dtype=torch.float64))

    dim, length, blocks, start = pick(2, 4, 8), pick(1, 2, 3, 4), pick(2, 3, 5, 8, 17), pick(0, 1, 3)
    keys = start + length * blocks + pick(1, 2, 5)
    size = 10 ** uniform(-2, 1.5)
    query = size * torch.randn(dim, generator=generator, dtype=torch.float64)
    all_keys = torch.randn(keys, dim, generator=generator, dtype=torch.float64)
    visible = pick(None, None, "window", "holes")
    if visible == "window":
        visible = torch.arange(keys) >= pick(0, keys // 3, keys // 2)
    elif visible == "holes":
        visible = torch.rand(keys, generator=generator) > 0.3
        visible[-1] = True
    options = {
        "start": start,
        "blocks": blocks,
        "scale": pick(1.0, 0.35, -0.5),
        "pairing": pick("halves", "neighbours"),
        "tau": 10 ** uniform(-8, 4),
        "eps": pick(0.0, 1e-8, 1e-8, 1e-3, 10.0),
        "softcap": pick(None, None, 3.0, 30.0),
        "visible": visible,
    }
    sink = pick(None, None, torch.randn((), generator=generator, dtype=torch.float64))
    return (query, all_keys, rope_angles(dim)), options, length, sink


@pytest.mark.parametrize("worth", [0, 2**60])
def test_scores_are_those_of_the_literal_loop(worth, monkeypatch):
    monkeypatch.setattr(swaps, "WORTH", worth)
    for number in range(SETTINGS):
        given, options, length, sink = draw_setting(number)
        found = swap_scores(*given, block_length=length, sinks=sink, **options)
        expected = literal.swap_scores(*given, length=length, sink=sink, **options)
        error = ERROR if options["tau"] >= COLD else COLD_ERROR
        assert (float(found.positional), float(found.symbolic)) == pytest.approx(expected, rel=0, abs=error), number


@pytest.mark.parametrize("largest", [10.0, 300.0, 1e3, 1e4])
@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("worth", [0, 2**60])
def test_no_head_is_low_on_both(largest, length, worth, monkeypatch):
    """Without a floor both scores add up to 1 at least, see ``posym_core.metrics.score_pair``, whatever logits are."""
    monkeypatch.setattr(swaps, "WORTH", worth)
    generator = torch.Generator().manual_seed(0)
    keys = torch.randn(50, 23, 8, generator=generator, dtype=torch.float64)
    query = torch.randn(50, 8, generator=generator, dtype=torch.float64)
    query *= largest / (keys @ query[..., None]).abs().amax((1, 2))[:, None]
    # The query's own key is not seen, so that the blocks have all attention before and after.
    visible = torch.arange(23) < 22
    found = swap_scores(query, keys, rope_angles(8), block_length=length, eps=0.0, visible=visible)
    assert float((found.positional + found.symbolic).min()) >= 1 - 1e-9


def test_a_swap_that_takes_the_largest_logit_away_leaves_attention_somewhere():
    """Logits of 400 and 350 become -400 and -350, and all else is at -3000: attention stays at the first place."""
    keys = torch.tensor([[400.0, 0], [350.0, 0], [-3000.0, 0]])
    found = swap_scores(torch.tensor([1.0, 0.0]), keys, torch.tensor([math.pi]))
    assert (float(found.positional), float(found.symbolic)) == pytest.approx((1, 0), abs=1e-12)


@pytest.mark.parametrize("times", [20, 50, 1e4])
def test_logits_far_apart_are_those_of_the_literal_loop(times):
    generator = torch.Generator().manual_seed(1)
    query = times * torch.randn(8, generator=generator, dtype=torch.float64)
    keys = torch.randn(30, 8, generator=generator, dtype=torch.float64)
    for tau in (1e-4, 1.0):
        found = swap_scores(query, keys, rope_angles(8), tau=tau)
        expected = literal.swap_scores(query, keys, rope_angles(8), blocks=29, tau=tau)
        assert (float(found.positional), float(found.symbolic)) == pytest.approx(expected, rel=0, abs=1e-10)
