"""Encodings that act along the path or on the weights: word by word, and what they are in special cases."""

import itertools
import math

import pytest
import torch
from encoding_pairs import SHAPE, TIGHT, content, loop, pair

from posym_core.encodings import URPE, CARoPE, NoPE, PaTH, SelectiveRoPE


@pytest.mark.parametrize("accumulate", [True, False])
def test_carope_word_by_word(accumulate):
    encoding = CARoPE(SHAPE, accumulate=accumulate).double().requires_grad_(False)
    encoding.weight.normal_()
    encoding.constant.copy_(torch.tensor([-8.0, -9.0]))
    query, key, x = *pair(), content()

    def phase(h, m, plane):
        drive = [float(x[t] @ encoding.weight[h] + encoding.constant[h] + encoding.begin) for t in range(7)]
        f = [1 / (math.log1p(math.exp(value)) + 1) for value in drive]
        assert all(0 < value < 1 for value in f)
        return sum(f[t] ** plane for t in range(m + 1)) if accumulate else m * f[m] ** plane

    def logit(h, i, j):
        total = 0.0
        for plane in range(4):
            turn = phase(h, i, plane) - phase(h, j, plane)
            q = complex(query[h, i, plane], query[h, i, plane + 4])
            k = complex(key[h, j, plane], key[h, j, plane + 4])
            total += (q * complex(math.cos(turn), math.sin(turn)) * k.conjugate()).real
        return 8**-0.5 * total

    torch.testing.assert_close(encoding.logits(query, key, content=x), loop(query, key, logit), **TIGHT)


def selective(seed=0):
    torch.manual_seed(seed)
    encoding = SelectiveRoPE(SHAPE, base=100.0).double().requires_grad_(False)
    for parameter in encoding.parameters():
        parameter.normal_()
    return encoding


def test_selective_rope_token_by_token():
    encoding = selective()
    query, key, x = *pair(), content()

    def turn(h, t, plane):
        seen = 0.0
        for back in range(4):
            if t - back >= 0:
                column = encoding.direction[h, :, plane]
                unit = x[t - back] / x[t - back].norm()
                seen += float(
                    encoding.kernel[h, plane, 3 - back] * encoding.strength[h] * unit @ column / column.norm()
                )
        opened = float(x[t] / x[t].norm() @ encoding.gate[h] + encoding.opening[h])
        return (seen + math.exp(encoding.rate[h, plane])) / (1 + math.exp(-opened))

    def logit(h, i, j):
        total = 0.0
        for plane in range(4):
            phase = 100 ** (-plane / 4) * sum(turn(h, t, plane) for t in range(j + 1, i + 1))
            q = complex(query[h, i, plane], query[h, i, plane + 4])
            k = complex(key[h, j, plane], key[h, j, plane + 4])
            total += (q * complex(math.cos(phase), math.sin(phase)) * k.conjugate()).real
        return 8**-0.5 * total

    torch.testing.assert_close(encoding.logits(query, key, content=x), loop(query, key, logit), **TIGHT)


def test_path_is_the_product_of_all_maps_between():
    """Build every map, multiply them out, and take the bilinear form."""
    torch.manual_seed(0)
    encoding = PaTH(SHAPE).double().requires_grad_(False)
    encoding.strength.normal_()
    query, key, x = *pair(9), content(9)
    w = torch.nn.functional.normalize(x @ encoding.direction, dim=-1)
    beta = [[2 / (1 + math.exp(-float(x[t] @ encoding.strength[h]))) for t in range(9)] for h in range(2)]

    def logit(h, i, j):
        vector = key[h, j]
        for t in range(j + 1, i + 1):
            vector = (torch.eye(8, dtype=torch.float64) - beta[h][t] * torch.outer(w[h, t], w[h, t])) @ vector
        return 8**-0.5 * query[h, i] @ vector

    found = encoding.logits(query, key, content=x)
    torch.testing.assert_close(found, loop(query, key, logit), rtol=0, atol=1e-11)


def test_path_without_maps_is_nope():
    query, key = pair()
    encoding = PaTH(SHAPE).double().requires_grad_(False)
    encoding.constant.fill_(-200)  # beta below 1e-86
    torch.testing.assert_close(encoding.logits(query, key, content=content()), NoPE(SHAPE).logits(query, key), **TIGHT)


def test_urpe_is_softmax_times_toeplitz_and_begins_as_its_bias():
    encoding = URPE(SHAPE).double().requires_grad_(False)
    query, key = pair()
    logits = encoding.logits(query, key)
    torch.testing.assert_close(logits, encoding.biased.logits(query, key), **TIGHT)
    torch.testing.assert_close(encoding.attention(logits), logits.softmax(-1), **TIGHT)
    encoding.factors.normal_()
    weights = encoding.attention(logits)
    for h, i, j in itertools.product(range(2), range(7), range(7)):
        expected = logits[h, i].softmax(-1)[j] * encoding.factors[h, 31 + j - i]
        assert float(weights[h, i, j]) == pytest.approx(float(expected), abs=1e-14)
    assert (weights.sum(-1) - 1).abs().max() > 0.1
