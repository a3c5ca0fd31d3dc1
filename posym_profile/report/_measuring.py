"""Measure prompts of a profile a batch at a time, in this process or in others."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from posym_core.store import choose_device, describe_device, hold
from posym_profile.language_models._answers import choose_answers
from posym_profile.language_models._loading import load_model
from posym_profile.report._profile_settings import ProfileSettings
from posym_profile.report._prompt_files import BlockedPrompt, group_prompts, join_prompts
from posym_profile.scores._cubes import origin_cube
from posym_profile.scores._layer_measurement import TOKENS_A_BATCH
from posym_profile.scores._profiling import profile

if TYPE_CHECKING:
    from xarray import Dataset

# However short prompts are, this many are measured in one pass.
PROMPTS_A_PASS = 16
# Of the symbolic part of a prompt: what goes with these.
OF_SYMBOLIC_PART = ("symbol", "origin")


@dataclass(frozen=True, kw_only=True)
class Part:
    """Prompts of one shape that are measured together.

    Attributes:
        settings: what is measured, and on which model.
        prompts: the prompts.
        numbers: their places among all prompts of the profile.
        first: whether to measure what is known of a model whatever the prompt, too.
    """

    settings: ProfileSettings
    prompts: Sequence[BlockedPrompt]
    numbers: Sequence[int]
    first: bool = False


def choose_pass_size(length: int, batch_size: int | None = None) -> int:
    """Choose the prompts of ``length`` tokens in a pass: ``batch_size``, or about 4,096 tokens and at most 16."""
    return batch_size or min(PROMPTS_A_PASS, max(1, TOKENS_A_BATCH // length))


def split_parts(settings: ProfileSettings, prompts: Sequence[BlockedPrompt]) -> list[Part]:
    """Split prompts into parts of one shape and one pass each."""
    parts: list[Part] = []
    for numbers in group_prompts(prompts, range(len(prompts))).values():
        size = choose_pass_size(len(prompts[numbers[0]].input_ids), settings.batch_size)
        for first in range(0, len(numbers), size):
            some = numbers[first : first + size]
            chosen = [prompts[number] for number in some]
            parts.append(Part(settings=settings, prompts=chosen, numbers=some, first=not parts))
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
    batch, began = join_prompts(part.prompts), time.perf_counter()
    names = ("tau", "per_frequency", "energy", "visible_only", "queries")
    options: dict[str, Any] = {name: getattr(settings, name) for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say is said of all parts together
        scores = profile(model, batch, labels=settings.labels and part.first, batch_size=len(part.prompts), **options)
        if settings.cube:
            scores = scores.merge(measure_cubes(model, part.prompts, settings.batch_size))
    if batch.answer_ids.shape[1]:
        choices = choose_answers(model, batch, batch_size=len(part.prompts))
        answers = {name: getattr(choices, name).numpy() for name in ("correct", "log_probability", "alternatives")}
        scores = scores.assign({name: ("prompt", x) for name, x in answers.items()})
    wide = [name for name, x in scores.items() if x.dtype == np.float64 and {"prompt", "head"} <= {*x.dims}]
    scores = scores.assign({name: scores[name].astype(np.float32) for name in wide})
    return scores.assign_attrs(device=_describe_devices(model), seconds=time.perf_counter() - began)


def measure_cubes(model: Any, prompts: Sequence[BlockedPrompt], batch_size: int | None) -> Dataset:
    """Measure what each prompt's logits vary with, see :func:`posym_profile.origin_cube`."""
    import xarray

    rows: list[dict[str, np.ndarray]] = []
    for prompt in prompts:
        layout: dict[str, Any] = prompt.layout
        cube = origin_cube(model, torch.tensor(prompt.input_ids), **layout, batch_size=batch_size)
        shares = {f"{name}_share": x for name, x in cube.shares.items()}
        shares |= {f"symbolic_part_{name}": cube.symbolic_shares[name] for name in OF_SYMBOLIC_PART}
        rows.append({name: x.float().numpy() for name, x in shares.items()})
    dims = ("prompt", "layer", "head")
    return xarray.Dataset({name: (dims, np.stack([row[name] for row in rows])) for name in rows[0]})


def join_parts(parts: Sequence[Part], measured: Sequence[Dataset], prompts: Sequence[BlockedPrompt]) -> Dataset:
    """Join what was measured of all parts, in the order of the prompts, which are called by their ids."""
    import xarray

    alone = [name for name, x in measured[0].items() if "prompt" not in x.dims]
    of_prompts = [part.drop_vars(alone, errors="ignore") for part in measured]
    joined = xarray.concat(of_prompts, "prompt", combine_attrs="override")
    order = np.argsort(np.concatenate([np.array(part.numbers) for part in parts]))
    joined = joined.isel(prompt=order).assign_coords(prompt=[prompt.id for prompt in prompts])
    return joined.merge(measured[0][alone]).assign_attrs(seconds=sum(part.attrs["seconds"] for part in measured))


def _describe_devices(model: Any) -> str:
    """Return where the model's weights are, in words."""
    places = {parameter.device for parameter in model.parameters() if parameter.device.type != "meta"}
    return " and ".join(sorted(describe_device(place) for place in places or {choose_device("cpu")}))
