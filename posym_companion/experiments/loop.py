"""Two loops for all experiments: measure a setting, or train its models, keep the result, and do neither twice."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from posym_core.runs.devices import choose_device, device_name
from posym_core.runs.results import Result, ResultError, load_result, save_result, work_folder


class Setting(Protocol):
    """A frozen dataclass that says what to measure."""

    @property
    def model(self) -> str:
        """Name for :func:`posym_core.load_model`."""
        ...

    @property
    def name(self) -> str:
        """What the result is called."""
        ...


class TrainingSetting(Protocol):
    """A frozen dataclass that says what to train."""

    @property
    def name(self) -> str:
        """What the result is called."""
        ...


AnySetting = TypeVar("AnySetting", bound=Setting)
AnyTraining = TypeVar("AnyTraining", bound=TrainingSetting)
Measure = Callable[[Any, Any, AnySetting], dict[str, np.ndarray]]


def plain(model: str) -> str:
    """A model's name as the name of a result can hold it.

    >>> plain("Qwen/Qwen2.5-1.5B")
    'Qwen-Qwen2-5-1-5B'
    """
    return re.sub("[^A-Za-z0-9]", "-", model)


def made_with(result: Result, setting: Any) -> bool:
    """Whether a stored result has these settings, a dataclass.

    A setting that the result does not name is younger than it and had what is its default now.
    """
    defaults = {field.name: field.default for field in fields(setting) if field.default is not MISSING}
    stored, asked = {**defaults, **result.settings}, asdict(setting)
    return json.loads(json.dumps(stored)) == json.loads(json.dumps(asked))


def stored_result(setting: Any, *, folder: Path | str | None = None) -> Result | None:
    """The whole, unaltered result of a setting, if it is there and was made with just this setting."""
    try:
        stored = load_result(setting.name, folder=folder)
    except ResultError:
        return None
    return stored if made_with(stored, setting) else None


def keep_each(
    settings: Iterable[AnySetting],
    measure: Measure[AnySetting],
    *,
    dims: Mapping[str, str] | Callable[[AnySetting], Mapping[str, str]],
    load: Callable[..., tuple[Any, Any]],
    device: str = "auto",
    folder: Path | str | None = None,
    force: bool = False,
) -> Iterator[Result]:
    """Run settings one after the other and keep each result as it comes.

    A result that is there with the same settings is read, not run, unless ``force``; so an interrupted run goes on
    where it stopped. A model is loaded when the first setting needs it, and kept until one needs another.

    Args:
        settings: what to measure.
        measure: from model, tokenizer and setting to arrays by name.
        dims: see :func:`posym_core.runs.results.save_result`; or what makes them of a setting.
        load: :func:`posym_core.load_model`, or what stands in for it.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        folder: where results are kept; by default this checkout's.
        force: measure again what is there.
    """
    loaded: tuple[str, Any, Any] | None = None
    for setting in settings:
        said = asdict(setting)  # pyright: ignore[reportArgumentType]
        if not force and (stored := stored_result(setting, folder=folder)) is not None:
            yield stored
            continue
        if loaded is None or loaded[0] != setting.model:
            loaded = (setting.model, *load(setting.model, device=device))
        began = time.perf_counter()
        arrays = measure(loaded[1], loaded[2], setting)
        yield save_result(
            setting.name,
            arrays,
            dims=dims(setting) if callable(dims) else dims,
            settings=said,
            device=device_name(choose_device(device)),
            seconds=time.perf_counter() - began,
            folder=folder,
        )


def keep_trained(
    settings: Iterable[AnyTraining],
    measure: Callable[..., dict[str, np.ndarray]],
    *,
    dims: Mapping[str, str],
    device: str = "auto",
    folder: Path | str | None = None,
    force: bool = False,
    progress: bool = True,
) -> Iterator[Result]:
    """Train the models of settings one after the other and keep each result as it comes.

    A result that is there with the same settings is read, not made. Checkpoints of a setting's models lie in a folder
    beside the results until its result is kept, so that an interrupted training goes on.

    Args:
        settings: what to train.
        measure: from a setting, with ``device``, the folder ``work`` for checkpoints and ``progress``, to arrays by
            name.
        dims: see :func:`posym_core.runs.results.save_result`.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        folder: where results are kept; by default this checkout's.
        force: train again what is there.
        progress: whether trainings show a bar.
    """
    for setting in settings:
        work = work_folder(setting.name, folder=folder)
        if not force and (stored := stored_result(setting, folder=folder)) is not None:
            yield stored
            continue
        if force:
            shutil.rmtree(work, ignore_errors=True)
        began = time.perf_counter()
        arrays = measure(setting, device=device, work=work, progress=progress)
        stored = save_result(
            setting.name,
            arrays,
            dims=dims,
            settings=asdict(setting),  # pyright: ignore[reportArgumentType]
            device=device_name(choose_device(device)),
            seconds=time.perf_counter() - began,
            folder=folder,
        )
        shutil.rmtree(work, ignore_errors=True)
        yield stored
