import math
import os
import sys

import pytest
import torch
from refusals import refuse_each

from posym_core.store import _parallel as parallel
from posym_core.store._devices import choose_device, describe_device
from posym_core.store._parallel import run_grid

ITEMS = [4.0, 9.0, 16.0, 25.0]


def test_results_come_with_the_number_of_their_item():
    assert list(run_grid(math.sqrt, ITEMS)) == [(0, 2.0), (1, 3.0), (2, 4.0), (3, 5.0)]
    assert list(run_grid(math.sqrt, [])) == []
    done = []
    next(run_grid(done.append, [1, 2, 3]))
    assert done == [1]  # here work is done when it is asked for


def test_processes_give_what_one_gives_and_end_with_what_the_function_raises():
    assert sorted(run_grid(math.sqrt, ITEMS, jobs=2)) == list(run_grid(math.sqrt, ITEMS))
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        list(run_grid(math.sqrt, [4.0, -1.0], jobs=2))


def test_other_code_in_a_process_is_refused(monkeypatch):
    monkeypatch.setattr(parallel, "digest_code", lambda: "other")
    with pytest.raises(RuntimeError, match="a worker has other code of posym_core than the machine that asks; install"):
        list(run_grid(math.sqrt, ITEMS, jobs=2))


def test_an_item_is_done_with_the_threads_that_are_asked_for():
    before = torch.get_num_threads()
    found = run_grid(lambda _: torch.get_num_threads(), [0, 1], threads=before + 1)
    assert next(found) == (0, before + 1)
    assert torch.get_num_threads() == before


NOWHERE = "tcp://127.0.0.1:1"
test_refusals = refuse_each(
    (lambda: run_grid(math.sqrt, ITEMS, jobs=0), "jobs must be .* of at least 1; got 0"),
    (lambda: run_grid(math.sqrt, ITEMS, jobs=2, cluster=NOWHERE), "and cluster='tcp.*' are two places to work at; pas"),
    (lambda: list(run_grid(os._exit, [1, 1], jobs=2)), "worker process .* memory usage", RuntimeError),
)  # fmt: skip


def test_a_cluster_that_cannot_be_asked(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(parallel, "PATIENCE", 0.2)
    with pytest.raises(ConnectionError, match=rf"no Dask scheduler with workers answers at '{NOWHERE}'; start"):
        list(run_grid(math.sqrt, ITEMS, cluster=NOWHERE))
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"needs the package distributed; install it with: pip install 'posym-core\["):
        list(run_grid(math.sqrt, ITEMS, cluster=NOWHERE))


@pytest.mark.parametrize(("library", "devices", "expected"), [(False, 0, "cpu"), (True, 0, "cpu"), (True, 1, "cuda")])
def test_auto_is_a_gpu_only_where_there_is_one(library, devices, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: library)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    assert choose_device().type == expected


def test_a_device_is_named_for_what_it_is():
    named = describe_device(choose_device("cpu"))
    assert named.startswith("CPU (")
    assert named.endswith((f", {torch.get_num_threads()} threads)", ", 1 thread)"))
