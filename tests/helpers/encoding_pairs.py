"""Queries, keys and inputs for tests of encodings, and logits written as a loop over pairs."""

from __future__ import annotations

import itertools
import math

import torch

from posym_core.encodings import LayerShape

SHAPE = LayerShape(heads=2, dim=8, width=12, length=32)
TIGHT = {"rtol": 0, "atol": 1e-12}


def pair(tokens=7, shape=SHAPE, seed=0):
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(2, shape.heads, tokens, shape.dim, generator=generator, dtype=torch.float64)
    return drawn[0], drawn[1]


def content(tokens=7, seed=5):
    return torch.randn(tokens, SHAPE.width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def loop(query, key, logit):
    """Logits pair by pair; ``logit(head, i, j)``."""
    heads, tokens = query.shape[0], query.shape[1]
    expected = torch.full((heads, tokens, tokens), -math.inf, dtype=torch.float64)
    for h, i, j in itertools.product(range(heads), range(tokens), range(tokens)):
        if j <= i:
            expected[h, i, j] = logit(h, i, j)
    return expected
