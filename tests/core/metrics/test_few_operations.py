"""Scores as a GPU is asked for them: those of a CPU, in few operations, within a budget, and no number read.

Every test of ``test_swaps.py`` runs this way, too.
"""

import re
import weakref

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.operations import SIZES, counted, layer, scoring
from posym_core import rope_angles, swap_scores
from posym_core._checks import is_asynchronous
from posym_core.metrics import _few_blocks as hubs
from posym_core.metrics import _memory as memory
from posym_core.metrics import _swaps as swaps

FIELDS = ("positional", "symbolic", "entropy", "attention")
MOST_OPERATIONS = 300


def layer_of(heads=2, group=2, keys=30, dim=8, seed=0, size=1.0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    query = size * torch.randn(1, heads, group, dim, generator=generator, dtype=torch.float64)
    all_keys = torch.randn(1, heads, 1, keys, dim, generator=generator, dtype=torch.float64)
    return query.to(dtype), all_keys.to(dtype)


def both_ways(*args, **options):
    found = []
    for way in ("cpu", "device"):
        with scoring(way):
            found.append(swap_scores(*args, **options))
    return found


@pytest.mark.parametrize(("keys", "block_length"), SIZES)
def test_operations_are_few_and_only_the_flags_are_read(keys, block_length):
    found = counted(layer(keys, block_length), "device")
    assert found.dispatched <= MOST_OPERATIONS
    assert found.reads == 1


OPTIONS = {
    "plain": {},
    "a window, sinks and a cap": {"visible": True, "sinks": True, "softcap": 5.0},
    "planes": {"per_frequency": True, "visible": True, "sinks": True},
    "neighbours": {"pairing": "neighbours", "eps": 0.0, "tau": 0.1},
    "products in float32": {"products": torch.float32},
}


def filled(options, query, keys):
    """With a window and sinks in the place of True."""
    shapes = {"visible": (*query.shape[:-1], keys.shape[-2]), "sinks": query.shape[:-1]}
    made = {name: torch.ones(shape, dtype=query.dtype) for name, shape in shapes.items()}
    made["visible"] = made["visible"].cumsum(-1) > shapes["visible"][-1] // 3
    return {name: made.get(name, value) for name, value in options.items()}


@pytest.mark.parametrize("name", OPTIONS)
def test_no_number_is_read_of_tensors_that_have_none(name):
    """Fake tensors have shapes alone; on a GPU, whatever they stop at would wait."""
    with FakeTensorMode(), scoring("device"):
        query, keys = torch.empty(1, 8, 4, 64), torch.empty(1, 8, 1, 1026, 64)
        options = filled(OPTIONS[name], query, keys)
        found = swap_scores(query, keys, torch.empty(32), start=1, block_length=16, scale=0.125, **options)
        planes = (32,) if name == "planes" else ()
        assert found.positional.shape == found.symbolic.shape == found.entropy.shape == (1, 8, 4, *planes)
        assert found.attention.shape == (1, 8, 4, *planes, 64)


@pytest.mark.parametrize(
    ("heads", "group", "keys", "length"), [(1, 1, 5, 2), (2, 3, 60, 1), (3, 1, 31, 5), (1, 2, 17, 3)]
)
@pytest.mark.parametrize("size", [0.01, 30.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", OPTIONS)
def test_scores_are_those_of_a_cpu(heads, group, keys, length, size, dtype, name):
    query, all_keys = layer_of(heads, group, keys, size=size, dtype=dtype)
    options = filled(OPTIONS[name], query, all_keys) | {"block_length": length}
    expected, found = both_ways(query, all_keys, rope_angles(8), **options)
    for field in FIELDS:
        assert getattr(found, field).dtype == dtype
        exact = 1e-9 if dtype == torch.float64 and "products" not in options else 1e-6
        torch.testing.assert_close(getattr(found, field), getattr(expected, field), rtol=0, atol=exact)


@pytest.mark.parametrize("keys", [258, 600])
def test_scores_are_those_of_hubs(keys):
    query, all_keys = layer_of(3, 4, keys, dim=64, size=0.3)
    query[:, 1] *= 20
    expected, found = both_ways(query, all_keys, rope_angles(64), start=1, block_length=2)
    for field in FIELDS:
        torch.testing.assert_close(getattr(found, field), getattr(expected, field), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("keys", "size", "expected"),
    [(130, 5.0, ["_by_all_pairs"]), (258, 0.01, ["_by_all_pairs"]), (258, 5.0, ["list_hub_pairs"])],
)
def test_a_cpu_asks_for_hubs_where_pairs_are_many_and_leaves_out_what_weighs_nothing(keys, size, expected, monkeypatch):
    """A key head of four queries of 64 dimensions: 64 blocks of 4 are on the line from which it asks."""
    query, all_keys = layer_of(1, 4, keys, dim=64, size=size)
    ways, dearest = [], 4 * 4 * ((keys - 2) // 4) ** 2 * (64 + 64)
    assert (dearest < hubs.WORTH) == (keys == 130)
    for way in ("_by_all_pairs", "list_hub_pairs"):
        once = getattr(swaps, way)
        monkeypatch.setattr(swaps, way, lambda *args, way=way, once=once: ways.append(way) or once(*args))
    angles = rope_angles(64)
    found = counted(lambda: swap_scores(query, all_keys, angles, start=1, block_length=4), "cpu")
    assert ways == expected
    assert found.dispatched <= MOST_OPERATIONS
    # How large queries, keys and angles are.
    assert found.reads == 3


class Live(TorchDispatchMode):
    """The most bytes that arrays made within the block took at once."""

    def __init__(self):
        super().__init__()
        self.sizes, self.most = {}, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        def arrays(x):
            return {y.untyped_storage() for y in tree_leaves(x) if isinstance(y, torch.Tensor)}

        given_ = {x._cdata for x in arrays((args, kwargs))}
        found = func(*args, **(kwargs or {}))
        for made in arrays(found):
            if made._cdata not in given_ and made._cdata not in self.sizes:
                self.sizes[made._cdata] = made.nbytes()
                weakref.finalize(made, self.sizes.pop, made._cdata)
        self.most = max(self.most, sum(self.sizes.values()))
        return found


@pytest.mark.parametrize(
    ("heads", "group", "keys", "length", "pieces"),
    [(8, 4, 65, 1, "heads"), (24, 1, 258, 64, "heads"), (64, 1, 66, 4, "heads"), (2, 4, 514, 1, "rows")],
)
def test_memory_stays_within_its_budget_and_chunks_change_nothing(heads, group, keys, length, pieces, monkeypatch):
    """Some heads at a time, and where the pairs of one are too many, some rows of them."""
    query, all_keys = layer_of(heads, group, keys, dim=16, size=2.0)
    options = filled({"block_length": length, "visible": True, "sinks": True}, query, all_keys)
    rows, once, blocks = [], swaps._in_few_operations, (keys - 1) // length
    monkeypatch.setattr(swaps, "_in_few_operations", lambda *args: rows.append(args[-1]) or once(*args))
    with scoring("device"):
        whole = swap_scores(query, all_keys, rope_angles(16), **options)
        assert rows == [blocks]
        monkeypatch.setattr(memory, "BUDGET", 2**21)
        with Live() as live:
            parts = swap_scores(query, all_keys, rope_angles(16), **options)
    assert len(rows) > 2
    assert all((some < blocks) == (pieces == "rows") for some in rows[1:])
    copies = 8 * (query.numel() + all_keys.numel()) + options["visible"].numel()
    assert 2**18 < live.most < 2**21 + copies
    for field in FIELDS:
        torch.testing.assert_close(getattr(parts, field), getattr(whole, field), rtol=1e-12, atol=1e-13)


def test_a_card_with_little_room_is_asked_for_half_of_it(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (300, 2**40))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 200)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 100)
    assert memory.find_budget(torch.device("cuda", 0)) == 200
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**40, 2**40))
    assert memory.find_budget(torch.device("cuda", 0)) == memory.find_budget(torch.device("cpu")) == 2**30


QUERY, KEYS = layer_of(keys=12, dtype=torch.float32)
NAN, INFINITY, LARGE = float("nan"), float("inf"), 1e30
BAD = {
    "query of NaN": {"query": QUERY.index_fill(-1, torch.tensor(1), NAN)},
    "infinite keys": {"keys": KEYS.index_fill(-2, torch.tensor([1, 2]), -INFINITY)},
    "scale of NaN": {"scale": NAN},
    "infinite scale": {"scale": INFINITY},
    "scale without room": {"query": QUERY * 0, "scale": 1e39, "products": torch.float32},
    "angles of NaN": {"angles": torch.tensor([1, NAN, 1, 1])},
    "phases without end": {"angles": torch.full((4,), 1e308, dtype=torch.float64)},
    "query without room": {"query": QUERY.double() * 1e308, "keys": KEYS.double()},
    "query with room once it is scaled": {"query": QUERY * 1e37, "scale": 1e-6, "products": torch.float32},
    "scaled query without room": {"query": QUERY * 1e35, "keys": KEYS * 1e-9, "scale": 1e4, "products": torch.float32},
    "keys without room": {"query": QUERY * 0, "keys": KEYS * 1e38, "products": torch.float32},
    "logits without room": {"query": QUERY * LARGE, "keys": KEYS * LARGE, "products": torch.float32},
    "a query that sees nothing": {"visible": torch.arange(12) > torch.tensor([[30, 2], [2, 2]])[..., None]},
    "sinks of NaN": {"sinks": torch.tensor([[0, NAN], [NAN, 0]])},
    "infinite sinks": {"sinks": torch.full((2, 2), -INFINITY)},
}


@pytest.mark.parametrize("per_frequency", [False, True])
@pytest.mark.parametrize("name", BAD)
def test_bad_numbers_are_refused_in_the_words_of_a_cpu(name, per_frequency):
    options = {"query": QUERY, "keys": KEYS, "angles": rope_angles(8), "per_frequency": per_frequency} | BAD[name]
    with scoring("cpu"), pytest.raises(ValueError, match=r"must|may") as expected:
        swap_scores(**options)
    with scoring("device"), pytest.raises(ValueError, match=f"^{re.escape(str(expected.value))}$"):
        swap_scores(**options)


def test_which_devices_wait(monkeypatch):
    monkeypatch.delenv("POSYM_SCORING", raising=False)
    assert not is_asynchronous(torch.device("cpu"))
    assert is_asynchronous(torch.device("cuda", 1))
    with scoring("device"):
        assert is_asynchronous(torch.device("cpu"))
    with scoring("cpu"):
        assert not is_asynchronous(torch.device("cuda"))
    with scoring("gpu"), pytest.raises(ValueError, match=r"POSYM_SCORING must be 'cpu' or 'device', .*; got 'gpu'"):
        swap_scores(QUERY, KEYS, rope_angles(8))
