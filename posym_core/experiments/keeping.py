"""One loop for all experiments on language models: measure a setting, keep the result, and do neither twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from posym_core.devices import choose_device, device_name
from posym_core.results import Result, ResultError, load_result, save_result


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


AnySetting = TypeVar("AnySetting", bound=Setting)
Measure = Callable[[Any, Any, AnySetting], dict[str, np.ndarray]]


def made_with(result: Result, setting: Any) -> bool:
    """Whether a stored result has these settings, a dataclass.

    A setting that the result does not name is younger than it and had what is its default now.
    """
    defaults = {field.name: field.default for field in fields(setting) if field.default is not MISSING}
    stored, asked = {**defaults, **result.settings}, asdict(setting)
    return json.loads(json.dumps(stored)) == json.loads(json.dumps(asked))


def keep_each(
    settings: Iterable[AnySetting],
    measure: Measure[AnySetting],
    *,
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
        load: :func:`posym_core.load_model`, or what stands in for it.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        folder: where results are kept; by default this checkout's.
        force: measure again what is there.
    """
    loaded: tuple[str, Any, Any] | None = None
    for setting in settings:
        said = asdict(setting)  # pyright: ignore[reportArgumentType]
        if not force:
            try:
                stored = load_result(setting.name, folder=folder)
            except ResultError:
                stored = None
            if stored is not None and made_with(stored, setting):
                yield stored
                continue
        if loaded is None or loaded[0] != setting.model:
            loaded = (setting.model, *load(setting.model, device=device))
        began = time.perf_counter()
        arrays = measure(loaded[1], loaded[2], setting)
        yield save_result(
            setting.name,
            arrays,
            settings=said,
            device=device_name(choose_device(device)),
            seconds=time.perf_counter() - began,
            folder=folder,
        )
