"""Measure prompts of a profile a batch at a time, in this process or in others, by settings checked before."""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from posym_core._checks import require_count, require_counts, require_positive
from posym_core.store import TOKENS_A_BATCH, choose_device, describe_device, hold, sha256
from posym_profile.language_models._answers import choose_answers
from posym_profile.language_models._loading import PACKAGED, identify_model, load_model, require_one_place
from posym_profile.prompts._drafts import Prompts
from posym_profile.prompts._prompt_tasks import find_prompt_task, make_prompts
from posym_profile.report._prompt_files import read_prompts
from posym_profile.scores._cubes import origin_cube
from posym_profile.scores._head_table import SHARES
from posym_profile.scores._profiling import profile

if TYPE_CHECKING:
    from xarray import Dataset

# However short prompts are, this many are measured in one pass; else about 4,096 tokens.
PROMPTS_A_PASS = 16


@dataclass(frozen=True, kw_only=True)
class ProfileSettings:
    """Settings of a profile: the options of ``posym profile``, by their names, and as its help describes them.

    Either ``task`` or ``input`` is given. They are checked before anything is loaded.
    """

    model: str = PACKAGED
    task: str | None = None
    facts: int = 16
    prompts: int = 64
    seed: int = 0
    input: str | None = None
    tau: float = 1e-4
    per_frequency: bool = False
    visible_only: bool = False
    cube: bool = False
    labels: bool = False
    batch_size: int | None = None
    device: str = "auto"
    dtype: str | None = None
    device_map: str | None = None

    def __post_init__(self) -> None:
        require_one_place(self.device, self.device_map)
        require_positive("tau", self.tau)
        if self.batch_size is not None:
            require_count("batch_size", self.batch_size, 1)
        if self.input is None:
            require_counts(facts=(self.facts, 2), prompts=(self.prompts, 1))
            find_prompt_task(str(self.task))

    def describe_settings(self) -> dict[str, Any]:
        """Describe all that the numbers depend on, as JSON."""
        left_out = ("facts", "prompts", "seed") if self.input is not None else ()
        described = {name: value for name, value in asdict(self).items() if name not in left_out}
        if self.input is not None:
            described |= {"input": Path(self.input).name, "input_sha256": sha256(Path(self.input))}
        if self.task is not None and ":" in self.task:
            described["task_sha256"] = sha256(Path(inspect.getfile(find_prompt_task(self.task))))
        return described | {"identity": identify_model(self.model)}

    def make_prompts(self, tokenizer: Any) -> list[Prompts]:
        """Draw the prompts of the task, or read those of the input file."""
        if self.input is not None:
            return read_prompts(self.input, tokenizer)
        drawn = {"facts": self.facts, "count": self.prompts, "seed": self.seed}
        prompts = make_prompts(tokenizer, str(self.task), **drawn)
        return [replace(prompts, names=[str(number) for number in range(len(prompts))])]


@dataclass(frozen=True, kw_only=True)
class Part:
    """Prompts of one shape that are measured together.

    Attributes:
        settings: what is measured, and on which model.
        prompts: the prompts.
        first: whether to measure what is known of a model whatever the prompt, too.
    """

    settings: ProfileSettings
    prompts: Prompts
    first: bool = False


def split_parts(settings: ProfileSettings, prompts: Sequence[Prompts]) -> list[Part]:
    """Split prompts into parts of one pass each."""
    parts: list[Part] = []
    for of_shape in prompts:
        size = settings.batch_size or min(PROMPTS_A_PASS, max(1, TOKENS_A_BATCH // of_shape.input_ids.shape[1]))
        for first in range(0, len(of_shape), size):
            parts.append(Part(settings=settings, prompts=of_shape[first : first + size], first=not parts))
    return parts


def hold_model(settings: ProfileSettings) -> Any:
    """Return the model of these settings, which this process keeps until another is asked for."""
    places: dict[str, Any] = {"device": settings.device, "device_map": settings.device_map}
    dtype = getattr(torch, settings.dtype) if settings.dtype else None
    key = settings.model, settings.dtype, settings.device, repr(settings.device_map)
    return hold(key, lambda: load_model(settings.model, dtype=dtype, **places)[0])


def measure_part(part: Part) -> Dataset:
    """Measure a part: scores, and answers, cubes and labels where they are asked for."""
    model, settings = hold_model(part.settings), part.settings
    prompts, began = part.prompts, time.perf_counter()
    asked = "tau", "per_frequency", "visible_only", "batch_size"
    options: dict[str, Any] = {name: getattr(settings, name) for name in asked}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say is said of all parts together
        scores = profile(model, prompts, labels=settings.labels and part.first, **options)
        if settings.cube:
            scores = scores.merge(origin_cube(model, prompts, batch_size=settings.batch_size)[list(SHARES)])
    if prompts.answer_ids.shape[1]:
        choices = choose_answers(model, prompts, batch_size=settings.batch_size)
        scores = scores.assign({name: ("prompt", x.numpy()) for name, x in vars(choices).items()})
    wide = [name for name, x in scores.items() if x.dtype == np.float64 and {"prompt", "head"} <= {*x.dims}]
    scores = scores.assign({name: scores[name].astype(np.float32) for name in wide})
    places = {parameter.device for parameter in model.parameters() if parameter.device.type != "meta"}
    device = " and ".join(sorted(describe_device(place) for place in places or {choose_device("cpu")}))
    scores.attrs |= {"device": device, "seconds": time.perf_counter() - began}
    return scores.assign_coords(prompt=list(prompts.names))


def join_parts(measured: Sequence[Dataset]) -> Dataset:
    """Join what was measured of all parts."""
    import xarray

    alone = [name for name, x in measured[0].items() if "prompt" not in x.dims]
    of_prompts = [part.drop_vars(alone, errors="ignore") for part in measured]
    joined = xarray.concat(of_prompts, "prompt", combine_attrs="override")
    return joined.merge(measured[0][alone]).assign_attrs(seconds=sum(part.attrs["seconds"] for part in measured))
