"""The papers' definitions word by word, in loops: what the closed forms are tested against."""

from __future__ import annotations

import itertools
import math

import torch

from posym_core import rotate


def logits(query, keys, scale=1.0, softcap=None):
    """One head's logits, key by key."""
    values = torch.stack([scale * (key * query).sum() for key in keys])
    return values if softcap is None else softcap * torch.tanh(values / softcap)


def cross_logits(query, keys, angles, scale=1.0, pairing="halves"):
    """Un-rotate each content, put it at each position, rotate it there, and take the dot product."""
    m = len(keys)
    C = torch.zeros(m, m, dtype=keys.dtype)
    for a, b in itertools.product(range(m), repeat=2):
        moved = rotate(rotate(keys[a], -a, angles, pairing=pairing), b, angles, pairing=pairing)
        C[a, b] = scale * (moved @ query)
    return C


def swapped_order(keys, start, length, i, j):
    """Which content stands where after blocks ``i`` and ``j`` changed places."""
    order = list(range(keys))
    first, second = start + i * length, start + j * length
    order[first : first + length], order[second : second + length] = (
        order[second : second + length],
        order[first : first + length],
    )
    return order


def cosine(x, y, eps):
    """Cosine with each norm floored at ``eps``; 0 for vanishing vectors. Squares would underflow before ``hypot``."""
    first, second = max(math.hypot(*x.tolist()), eps), max(math.hypot(*y.tolist()), eps)
    return float((x / first) @ (y / second)) if first > 0 and second > 0 else 0.0


def swap_scores(
    query,
    keys,
    angles,
    *,
    start=0,
    length=1,
    blocks,
    tau=1e-4,
    eps=1e-8,
    scale=1.0,
    pairing="halves",
    visible=None,
    softcap=None,
    sink=None,
):
    """Un-rotate the keys, permute them, rotate them again, softmax, block means, cosine: one head, every pair."""
    n = len(keys)
    positions = torch.arange(n)
    contents = rotate(keys, -positions, angles, pairing=pairing)

    def block_means(order):
        values = logits(query, rotate(contents[order], positions, angles, pairing=pairing), scale, softcap)
        if visible is not None:
            values = values.masked_fill(~visible, -math.inf)
        if sink is not None:
            values = torch.cat([values, sink[None]])
        attention = values.softmax(-1)[:n]
        return torch.stack([attention[start + i * length :][:length].mean() for i in range(blocks)])

    d = block_means(list(range(n)))
    gaps, along, across = [], [], []
    for i, j in itertools.combinations(range(blocks), 2):
        after = block_means(swapped_order(n, start, length, i, j))[[i, j]]
        gaps.append((d[i] - d[j]).abs())
        along.append(cosine(after, d[[i, j]], eps))
        across.append(cosine(after, d[[j, i]], eps))
    gaps = torch.stack(gaps)
    weights = ((gaps - gaps.max()) / tau).softmax(0)
    return float(weights @ torch.tensor(along, dtype=weights.dtype)), float(
        weights @ torch.tensor(across, dtype=weights.dtype)
    )


def exclusion(C):
    """Theorem 1's two sides by enumerating every permutation."""
    m = len(C)
    values = C.diagonal()
    positional = symbolic = 0.0
    for permutation in itertools.permutations(range(m)):
        for j in range(m):
            positional += float(C[permutation[j], j] - C[j, j]) ** 2
            symbolic += float(C[j, permutation[j]] - C[j, j]) ** 2
    variance = float(((values - values.mean()) ** 2).sum()) / m
    return variance, (positional + symbolic) / (math.factorial(m) * m)


def shares(C):
    """Two-way analysis of variance with explicit sums."""
    m = len(C)
    mean = float(C.sum()) / m**2
    rows = [float(C[a].sum()) / m for a in range(m)]
    columns = [float(C[:, b].sum()) / m for b in range(m)]
    position = sum(m * (column - mean) ** 2 for column in columns)
    symbol = sum(m * (row - mean) ** 2 for row in rows)
    interaction = sum(
        (float(C[a, b]) - rows[a] - columns[b] + mean) ** 2 for a, b in itertools.product(range(m), repeat=2)
    )
    total = sum((float(C[a, b]) - mean) ** 2 for a, b in itertools.product(range(m), repeat=2))
    return position / total, symbol / total, interaction / total
