"""Every function on heads where a look at a number is dear: one look at most, and bad numbers refused all the same."""

import re
import threading
import weakref

import pytest
import torch
from block_tables import make_block_table
from torch._subclasses.fake_tensor import FakeTensorMode

from benchmarks.operations import counted, scoring
from posym_core import cross_logits, exclusion, frequency_shares, rope_angles, rotate
from posym_core._checks import Checks, require
from posym_core.metrics import (
    frequency_use,
    list_swap_orders,
    score_cross_logits,
    score_permutations,
    simulate_random_swaps,
    swap_scores,
)
from posym_core.metrics._permutations import permute_blocks


def permuted(heads, made, **options):
    """Scores of permutations inside of heads."""
    window = {"visible": made("visible"), "sinks": made("sinks"), "softcap": 5.0}
    table = make_block_table(*heads, block_length=2, scale=0.3, **window | options)
    orders = list_swap_orders(table.sums.shape[-1])
    return score_permutations(table.attention(), table.attention(orders), orders)


# Of heads (query, keys, angles) and of what else there may be, by name.
FUNCTIONS = {
    "swap_scores": lambda heads, made: swap_scores(*heads, block_length=2, sinks=made("sinks")),
    "score_permutations": permuted,
    "score_cross_logits": lambda heads, made: score_cross_logits(made("C"), outside=made("C")[..., 0]),
    "permute_blocks": lambda heads, made: permute_blocks(made("ids"), list_swap_orders(4), start=1, block_length=2),
    "frequency_shares": lambda heads, made: frequency_shares(*heads),
    "frequency_use": lambda heads, made: frequency_use(*heads),
    "exclusion": lambda heads, made: exclusion(made("C")),
    "cross_logits": lambda heads, made: cross_logits(*heads),
    "cross_logits of planes": lambda heads, made: cross_logits(*heads, per_frequency=True),
    "rotate": lambda heads, made: rotate(heads[1], torch.arange(20), heads[2]),
}
SHAPES = {"visible": (2, 3, 20), "sinks": (2, 3), "C": (2, 5, 5), "ids": (2, 20)}


def number_free(name):
    """What a function needs, of shapes alone."""
    kinds = {"visible": torch.bool, "ids": torch.int64}
    return torch.empty(SHAPES[name], dtype=kinds.get(name, torch.float32))


def numbers(name):
    drawn = torch.randn(SHAPES[name], generator=torch.Generator().manual_seed(len(name)))
    return {"visible": drawn.cumsum(-1).abs() >= 0, "ids": drawn.long()}.get(name, drawn)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_number_is_read_of_tensors_that_have_none(name):
    with FakeTensorMode(), scoring("device"):
        FUNCTIONS[name]((torch.empty(2, 3, 8), torch.empty(2, 1, 20, 8), torch.empty(4)), number_free)


def heads(**bad):
    generator = torch.Generator().manual_seed(0)
    good = {
        "query": torch.randn(2, 3, 8, generator=generator),
        "keys": torch.randn(2, 1, 20, 8, generator=generator),
        "angles": rope_angles(8),
    }
    return tuple({**good, **bad}.values())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_flags_of_a_call_are_read_once(name):
    given = heads()
    calls = 3 if name == "score_permutations" else 1
    assert counted(lambda: FUNCTIONS[name](given, numbers), "device").reads == calls


NAN, INFINITY = float("nan"), float("inf")
ONES, ORDER = torch.ones(4), torch.tensor([[1, 0, 2, 3]])
REFUSED = {
    "a query of NaN": lambda: make_block_table(*heads(query=torch.full((2, 3, 8), NAN))),
    "infinite keys": lambda: frequency_shares(*heads(keys=torch.full((2, 1, 20, 8), INFINITY))),
    "angles of NaN": lambda: cross_logits(*heads(angles=torch.full((4,), NAN))),
    "phases without end": lambda: frequency_use(*heads(angles=torch.full((4,), 1e308, dtype=torch.float64))),
    "an infinite scale": lambda: cross_logits(*heads(), scale=INFINITY),
    "squares without room": lambda: frequency_shares(*heads(query=torch.full((2, 3, 8), 1e20)), scale=1e3),
    "logits without room": lambda: cross_logits(*heads(query=torch.full((2, 3, 8), 1e38)), scale=0.5),
    "a query that sees nothing": lambda: make_block_table(*heads(), visible=torch.arange(20) > 30),
    "a matrix of NaN": lambda: exclusion(torch.full((3, 3), NAN)),
    "a matrix without room": lambda: exclusion(torch.full((3, 3), 1e30)),
    "cross-logits of NaN": lambda: score_cross_logits(torch.full((3, 3), NAN)),
    "infinite logits of others": lambda: score_cross_logits(torch.ones(3, 3), outside=torch.tensor([INFINITY])),
    "attention of NaN": lambda: score_permutations(ONES * NAN, ONES[None], ORDER),
    "attention below 0": lambda: simulate_random_swaps(-ONES, generator=torch.Generator().manual_seed(0)),
    "an order that moves nothing": lambda: score_permutations(ONES, ONES.repeat(2, 1), torch.arange(4).repeat(2, 1)),
    "an order that holds a number twice": lambda: score_permutations(ONES, ONES[None], torch.tensor([[1, 1, 2, 3]])),
    "an order of numbers out of range": lambda: make_block_table(*heads(), block_length=4).attention(ORDER + 7),
    "an order below 0": lambda: permute_blocks(torch.arange(9)[None], ORDER - 9, start=0, block_length=2),
    "x without room": lambda: rotate(torch.full((2, 8), 1e38), 1, rope_angles(8)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_numbers_are_refused_in_the_words_of_a_cpu(name):
    with scoring("cpu"), pytest.raises(ValueError, match=r"must|may") as expected:
        REFUSED[name]()
    with scoring("device"), pytest.raises(ValueError, match=f"^{re.escape(str(expected.value))}$"):
        REFUSED[name]()


def is_refused(what, message):
    with pytest.raises(ValueError, match=message):
        what()


def test_the_first_that_is_bad_is_raised_when_all_is_done():
    done = []

    def within(x):
        with Checks() as check:
            check(x, "second")
        done.append("within")

    def whole(x):
        with Checks() as check:
            check(~x, lambda: "first")
            within(x)
            check(x, "third")
            done.append("whole")

    with scoring("device"):
        is_refused(lambda: whole(torch.tensor(False)), r"^second$")
    assert done == ["within", "whole"]
    with scoring("cpu"):
        is_refused(lambda: whole(torch.tensor(False)), r"^second$")
    assert done == ["within", "whole"]


def test_what_needs_no_look_is_refused_at_once_but_behind_what_came_before():
    def both(x):
        with Checks() as check:
            check.finite("x", x)
            check.room("y", INFINITY, torch.float32)
            pytest.fail("y was not refused")

    with scoring("device"):
        is_refused(lambda: both(torch.tensor([NAN, 1, INFINITY])), r"^x must be finite; 2 of its 3")
        is_refused(lambda: both(torch.tensor([1.0])), r"^y may reach inf")


def test_what_fails_within_is_what_is_raised():
    def failing(x):
        with Checks() as check:
            check(x, "bad")
            raise KeyError

    with scoring("device"):
        with pytest.raises(KeyError):
            failing(torch.tensor(False))
        # Nothing is left to whoever comes next.
        require(torch.tensor(True), "good")


def test_arrays_are_not_kept_until_the_flags_are_read():
    keys = torch.ones(1000)
    gone = weakref.ref(keys.untyped_storage())
    with scoring("device"), Checks() as check:
        check.finite("keys", keys)
        del keys
        assert gone() is None


def test_threads_have_flags_of_their_own():
    found = []

    def beside():
        try:
            require(torch.tensor(False), "beside")
        except ValueError as error:
            found.append(str(error))

    with scoring("device"), Checks():
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()
    assert found == ["beside"]
