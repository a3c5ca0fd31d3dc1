"""Checks of plain arguments, for which neither PyTorch nor a model is loaded: the command line asks for them first.

Each failure names the rule, the value and the way out.
"""

from __future__ import annotations

import operator
import re
import sys
from pathlib import Path
from types import FrameType

DTYPES = ("float32", "float64", "bfloat16", "float16")
# Settings of a profile that :func:`check_profile` takes.
CHECKED = (
    *("task", "facts", "prompts", "input", "tau", "eps"),
    *("batch_size", "threads", "device", "dtype", "device_map"),
)


def name_caller() -> str:
    """Return ``"swap_scores: "`` if that is the public function or class that was called from outside these packages.

    Checks that many functions share begin their errors with it; it is empty where none was called, as by a command.
    """
    frame: FrameType | None = sys._getframe()
    name = ""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        parts = [part for part in frame.f_code.co_qualname.split(".") if not re.fullmatch("__.*__", part)]
        public = parts and not any(part.startswith(("_", "<")) for part in parts)
        if public and module.startswith("posym_") and not module.endswith(("._arguments", "._checks", "__main__")):
            name = f"{'.'.join(parts)}: "
        frame = frame.f_back
    return name


def require_positive(name: str, value: float) -> None:
    """Refuse what is not a number above 0."""
    if not value > 0:
        raise ValueError(f"{name_caller()}{name} must be above 0; got {value}")


def require_floor(name: str, value: float) -> None:
    """Refuse what is not 0 or a positive finite number."""
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name_caller()}{name} must be 0 or a positive finite number; got {value}")


def require_count(name: str, value: int, least: int, reason: str = "") -> int:
    """Return ``value`` as an int; refuse what is no integer (of Python, NumPy, a tensor) of at least ``least``."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        because = f" ({reason})" if reason else ""
        raise ValueError(f"{name_caller()}{name} must be a whole number of at least {least}{because}; got {value!r}")
    return number


def require_counts(**counts: tuple[int, int]) -> None:
    """Refuse what is no such integer: ``require_counts(facts=(facts, 2), count=(count, 1))``."""
    for name, (value, least) in counts.items():
        require_count(name, value, least)


def require_one_place(device: str, device_map: object) -> None:
    """Refuse a device beside a map of devices."""
    if device_map is not None and device != "auto":
        raise ValueError(f"device_map decides about devices, and device={device!r} says otherwise; pass one of them")


def check_places(jobs: int, cluster: str | None) -> None:
    """Refuse numbers of processes that do not fit, and two places at once."""
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise ValueError(f"jobs must be a whole number of at least 1; got {jobs!r}")
    if cluster is not None and jobs != 1:
        raise ValueError(f"jobs={jobs} and cluster={cluster!r} are two places to work at; pass one of them")


def check_profile(
    *,
    task: str | None,
    facts: int,
    prompts: int,
    input: str | None,
    tau: float = 1,
    eps: float = 1,
    batch_size: int | None = None,
    threads: int | None = None,
    device: str = "auto",
    dtype: str | None = None,
    device_map: object = None,
) -> None:
    """Refuse settings of a profile that no model and no prompts could have.

    Args:
        task, facts, prompts, input, tau, eps, batch_size, threads, device, dtype, device_map: see ``ProfileSettings``.

    Raises:
        ValueError: if a number is out of range, or two settings exclude each other.
        FileNotFoundError: if there is no input file.
    """
    if (task is None) == (input is None):
        raise ValueError(f"pass either a task or an input file; got task={task!r} and input={input!r}")
    if dtype is not None and dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(map(repr, DTYPES))}; got {dtype!r}")
    if task is not None:
        require_counts(facts=(facts, 2), prompts=(prompts, 1))
    require_one_place(device, device_map)
    require_positive("tau", tau)
    require_floor("eps", eps)
    for name, number in (("batch_size", batch_size), ("threads", threads)):
        if number is not None:
            require_count(name, number, 1)
    if input is not None and not Path(input).is_file():
        raise FileNotFoundError(
            f"there is no prompt file at {input}; pass a .txt file of text with [[blocks]], one prompt a "
            "line, a file of JSON Lines, or a task"
        )


def find_folder_above(folder: Path | str) -> Path:
    """Return the folder, or the nearest existing one above it.

    Raises:
        NotADirectoryError: if that is a file.
    """
    folder = Path(folder)
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not above.is_dir():
        raise NotADirectoryError(f"{above} is a file, so no folder can be made there; pass another --out")
    return above
