"""One function on many items: in this process, in several processes of this machine, or on a Dask cluster.

The function and its items travel to other processes, so the function must be found by its name in a module, and items
and results must be small. What it returns must depend on the item alone; then all three ways give the same numbers. A
process does one item at a time, and may hold what several need (:func:`hold`).
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Generator, Hashable, Sequence
from typing import Any, TypeAlias, TypeVar

import torch

from posym_core._checks import require_count
from posym_core.store._provenance import digest_code

Item = TypeVar("Item")
Found = TypeVar("Found")

Results: TypeAlias = Generator[tuple[int, Found], None, None]

# How long to wait for a scheduler to answer and for a first worker, in seconds.
PATIENCE = 30
# What this process holds, and what sees to it that it does one thing at a time.
HELD: dict[Hashable, Any] = {}
_ONE_AT_A_TIME = threading.RLock()
NEEDS_EXTRA = "a Dask cluster needs the package distributed; install it with: pip install 'posym-core[cluster]'"


def check_places(jobs: int, cluster: str | None) -> None:
    """Raise if a number of processes does not fit, or two places are given at once."""
    if require_count("jobs", jobs, 1) != 1 and cluster is not None:
        raise ValueError(f"jobs={jobs} and cluster={cluster!r} are two places to work at; pass one of them")


def hold(key: Hashable, load: Callable[[], Found]) -> Found:
    """Return what this process holds under a key; ``load`` makes it if something else is held, which is let go."""
    if key not in HELD:
        HELD.clear()
        HELD[key] = load()
    return HELD[key]


def run_grid(
    function: Callable[[Item], Found],
    items: Sequence[Item],
    *,
    jobs: int = 1,
    cluster: str | None = None,
    threads: int | None = None,
) -> Results[Found]:
    """Apply ``function`` to every item, and yield ``(number of the item, result)`` as results come.

    Args:
        function: a function of one item, at the top of an importable module unless ``jobs`` is 1.
        items: what to apply it to.
        jobs: processes of this machine; 1 works in this process and in order.
        cluster: address of a Dask scheduler, such as ``"tcp://10.0.0.1:8786"``, in place of ``jobs``. A worker that
            dies is replaced by another: its items are done again.
        threads: CPU threads a process, because sums depend on their number in the last bits; by default as it has.

    Raises:
        ValueError: if ``jobs`` is out of range or given together with ``cluster``.
        RuntimeError: if a worker has other code of this package, or died, most often for want of memory.
        ImportError: if Dask is not installed.
        ConnectionError: if no scheduler answers, or it has no workers.

    What ``function`` raises is raised here, and ends the run.
    """
    check_places(jobs, cluster)
    numbered = functools.partial(_numbered, function, digest_code(), threads)
    if cluster is not None:
        return _on_cluster(numbered, items, cluster)
    if jobs == 1 or len(items) < 2:
        return (numbered(pair) for pair in enumerate(items))
    return _in_processes(numbered, items, jobs)


def _numbered(
    function: Callable[[Item], Found], code: str, threads: int | None, pair: tuple[int, Item]
) -> tuple[int, Found]:
    if digest_code() != code:
        raise RuntimeError(
            "a worker has other code of posym_core than the machine that asks; install the same version on both"
        )
    with _ONE_AT_A_TIME:
        before = torch.get_num_threads()
        torch.set_num_threads(threads or before)
        try:
            return pair[0], function(pair[1])
        finally:
            torch.set_num_threads(before)


def _in_processes(numbered: Callable[[Any], Any], items: Sequence[Any], jobs: int) -> Results[Any]:
    import joblib

    # One at a time: items take long, and those in flight are lost when the run is ended.
    options: dict[str, Any] = {"batch_size": 1, "pre_dispatch": "n_jobs", "return_as": "generator_unordered"}
    parallel: Any = joblib.Parallel(n_jobs=min(jobs, len(items)), backend="loky", **options)
    yield from parallel(joblib.delayed(numbered)(pair) for pair in enumerate(items))


def _on_cluster(numbered: Callable[[Any], Any], items: Sequence[Any], address: str) -> Results[Any]:
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        raise ImportError(f"{NEEDS_EXTRA} ({error})") from error

    with contextlib.ExitStack() as stack:
        try:
            client = stack.enter_context(Client(address, timeout=PATIENCE, set_as_default=False))
            client.wait_for_workers(1, timeout=PATIENCE)
        except (OSError, ValueError, TimeoutError) as error:
            raise ConnectionError(
                f"no Dask scheduler with workers answers at {address!r}; start one with `dask scheduler`, workers with "
                "`dask worker ADDRESS`, and pass the address it prints"
            ) from error
        futures: Any = client.map(numbered, list(enumerate(items)), pure=False)
        try:
            for future in as_completed(futures, loop=client.loop):
                yield future.result()
                future.release()
        finally:
            client.cancel(futures)
