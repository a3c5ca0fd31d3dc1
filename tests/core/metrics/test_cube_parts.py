"""Symbol, origin and place by literal loops, by constructed heads, and where nothing can be told."""

import itertools
import math

import literal
import pytest
import torch

from posym_core import rotate
from posym_core.metrics._blocks import BlockLayout
from posym_core.metrics._cube_parts import (
    PARTS,
    arrange_cube,
    compute_block_logits,
    draw_latin_square,
    measure_prompt_variance,
    normalize_parts,
    split_variance,
)
from posym_core.metrics._heads import Heads

N = 5


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def random_cube(*shape, seed=0):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def parts_by_loops(cube):
    """The seven parts by explicit sums over one cube, each effect less those of fewer axes."""
    sizes = cube.shape
    places = list(itertools.product(*map(range, sizes)))

    def mean(**fixed):
        chosen = [p for p in places if all(p[int(axis[1])] == at for axis, at in fixed.items())]
        return sum(float(cube[p]) for p in chosen) / len(chosen)

    def effect(axes, p):
        value = mean(**{f"a{axis}": p[axis] for axis in axes})
        return value - sum(effect(below, p) for n in range(len(axes)) for below in itertools.combinations(axes, n))

    return {name: sum(effect(axes, p) ** 2 for p in places) / len(places) for axes, name in PARTS.items()}


def test_parts_are_those_of_explicit_sums():
    cube = random_cube(3, 3, 2)
    found = split_variance(cube)
    for name, size in parts_by_loops(cube).items():
        assert float(found[name]) == pytest.approx(size, rel=1e-12)
    assert float(sum(found.values())) == pytest.approx(float(cube.var(correction=0)), rel=1e-12)
    assert float(sum(normalize_parts(found).values())) == pytest.approx(1, rel=1e-12)


def test_places_that_do_not_count_may_hold_anything():
    cube = random_cube(2, 4, 4, 4)
    seen = torch.tensor([[True, False, True, True], [True, True, True, True]])
    blind = cube.masked_fill(~seen[:, None, None, :], -math.inf)
    found = split_variance(blind, seen)
    for name in PARTS.values():
        assert float(found[name][0]) == pytest.approx(float(split_variance(cube[0][..., [0, 2, 3]])[name]), rel=1e-12)
        assert float(found[name][1]) == pytest.approx(float(split_variance(cube[1])[name]), rel=1e-12)
    nowhere = split_variance(cube, torch.zeros(4, dtype=torch.bool))
    assert all(x.isnan().all() for x in nowhere.values())


@pytest.mark.parametrize(("times", "tells"), [(0.4, False), (2.5, True)])
def test_what_rounding_makes_of_equal_logits_is_no_part(times, tells):
    """Sixteen units in the last place of the largest logit are the line."""
    for unit, options in ((2**-23, {"rounding": 2**-23}), (2**-52, {})):
        cube = torch.full((2, 2, 2), 8.0, dtype=torch.float64)
        cube[0] += times * 16 * unit * 8
        assert bool(split_variance(cube, **options)["symbol"].isnan()) is not tells


@pytest.mark.parametrize("blocks", [2, 3, 8])
def test_orders_are_a_latin_square_and_neighbours_vary(blocks):
    orders = draw_latin_square(blocks, seeded(3))
    each = list(range(blocks))
    assert all(sorted(line.tolist()) == each for line in (*orders, *orders.T))
    # In the cyclic square itself each symbol has one and the same predecessor in all prompts but one.
    before = {tuple(row[at - 1 : at + 1].tolist()) for row in orders for at in range(1, blocks)}
    assert blocks < 8 or len(before) > 3 * blocks


@pytest.mark.parametrize("softcap", [None, 3.0])
@pytest.mark.parametrize("read", [None, 0, 2])
def test_block_logits_by_turning_every_key(read, softcap):
    start, length, blocks, dim = 2, 3, 4, 8
    tokens = start + length * blocks + 2
    keys, query = random_cube(2, tokens, dim, seed=1), random_cube(2, dim, seed=2)
    angles = torch.tensor([1.0, 0.3, 0.05, 0.0], dtype=torch.float64)
    visible = torch.ones(tokens, dtype=torch.bool)
    visible[: start + length + 1] = False  # the first block, and one key of the second
    heads = Heads(query=query, keys=keys, angles=angles, scale=0.7, visible=visible, softcap=softcap)
    found = compute_block_logits(heads, BlockLayout(start=start, block_length=length, blocks=blocks), read=read)
    for prompt, a, b in itertools.product(range(2), range(blocks), range(blocks)):
        C = literal.cross_logits(query[prompt], keys[prompt], angles, scale=0.7)
        every = []
        for offset in range(length):
            content, place = start + a * length + offset, start + b * length + offset
            logit = float(C[content, place])
            logit = logit if softcap is None else softcap * math.tanh(logit / softcap)
            every.append(logit if visible[place] else -math.inf)
        every = every if read is None else [every[read]]
        expected = float(torch.tensor(every, dtype=torch.float64).logsumexp(0))
        assert float(found[prompt, a, b]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("corner", "value", "turning"),
    [("symbol", lambda s, o: s**2, 0.0), ("origin", lambda s, o: math.sqrt(o), 0.0), ("place", lambda s, o: 0.0, 2.0)],
)
def test_each_corner_has_a_head(corner, value, turning):
    """Keys hold a function of symbol and origin in a plane that stands still, and may turn in another."""
    orders, angles = draw_latin_square(N, seeded(7)), torch.tensor([0.0, 0.9], dtype=torch.float64)
    contents, query = torch.zeros(N, N + 1, 4, dtype=torch.float64), torch.tensor([1.0, 1, 0, 0]).expand(N, 4).double()
    for prompt, place in itertools.product(range(N), range(N)):
        contents[prompt, place, 0] = value(int(orders[prompt, place]), place)
    contents[..., 1] = turning
    heads = Heads(query=query, keys=rotate(contents, torch.arange(N + 1), angles), angles=angles)
    cube = arrange_cube(compute_block_logits(heads, BlockLayout(start=0, block_length=1, blocks=N)), orders)
    assert float(normalize_parts(split_variance(cube))[corner]) == pytest.approx(1, abs=1e-12)


def test_the_symbolic_part_of_a_prompt_is_symbol_origin_and_both():
    """The identity of the two scores' decomposition with that of the cube, for any matrices whatever."""
    orders = draw_latin_square(N, seeded(1))
    C = random_cube(N, 3, N, N, seed=6)
    cube = arrange_cube(C, orders)
    parts = split_variance(cube)
    between = measure_prompt_variance(cube, orders, torch.ones(N, dtype=torch.bool))
    by_prompt = C.mean(-1).var(-1, correction=0).mean(0)  # variance of row means, mean over prompts
    of_cube = parts["symbol"] + parts["origin"] + parts["symbol_origin"] - between
    torch.testing.assert_close(of_cube, by_prompt, atol=1e-14, rtol=1e-12)
    for prompt, place in itertools.product(range(N), range(N)):
        expected = C[prompt, :, place]
        torch.testing.assert_close(cube[:, int(orders[prompt, place]), place], expected, atol=0, rtol=0)
