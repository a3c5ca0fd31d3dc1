"""Profile whole sets of prompts and keep what is measured in a folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from posym_core.metrics import BlockLayout
from posym_core.store import choose_device, describe_device, record_provenance, require_keeping
from posym_profile.language_models._loading import load_model, load_tokenizer
from posym_profile.planes._rotary_planes import find_planes
from posym_profile.report._explored import Explorer
from posym_profile.report._folder import ProfileRun, require_place, write_profile
from posym_profile.report._measuring import choose_batch_size, measure_batch
from posym_profile.report._page import render_pages
from posym_profile.report._profile_settings import ProfileSettings
from posym_profile.report._prompt_files import BlockedPrompt, group_prompts
from posym_profile.report._tables import describe_lists
from posym_profile.scores._head_tables import pack_labels, pack_windows
from posym_profile.scores._labels import measure_head_labels
from posym_profile.scores._layer_measurement import resolve_queries, stack_padded
from posym_profile.scores._profiling import check_queries, find_windows
from posym_profile.scores._visibility import POSITIONAL, describe_hidden_blocks, describe_long_prompts


def run_profile(
    settings: ProfileSettings,
    folder: Path | str,
    *,
    figures: bool = False,
    explorer: Explorer | None = None,
    force: bool = False,
    progress: bool = True,
    report: Callable[[str], None] = lambda line: None,
) -> ProfileRun:
    """Measure prompts and keep the profile in ``folder``, whole or not at all.

    Args:
        settings: what to measure.
        folder: new or empty.
        figures: whether to write figures and ``report.html``, too.
        explorer: an explorer to write, too.
        force: put the new profile in the place of one that the folder holds.
        progress: show a progress bar on standard error.
        report: called with a line about what a user may want to know.

    Raises:
        ProfileError: if the folder holds something else.
        OSError: if nothing could be kept there; before anything is loaded.
    """
    folder = Path(folder)
    require_place(folder, force=force)
    choose_device(settings.device)
    require_keeping(folder.absolute().parent)
    described = settings.describe_settings()
    tokenizer = load_tokenizer(settings.model)
    prompts = settings.make_prompts(tokenizer)
    settings = replace(settings, queries=read_queries(settings, prompts))
    if explorer is not None:
        explorer.check(settings, prompts)
    dtype = getattr(torch, settings.dtype) if settings.dtype else None
    model, _ = load_model(settings.model, device=settings.device, dtype=dtype, device_map=settings.device_map)
    began = time.perf_counter()
    arrays = _measure_all(model, prompts, settings, progress=progress)
    seconds = time.perf_counter() - began
    provenance = record_provenance(seconds, device=_describe_devices(model)) | {"threads": torch.get_num_threads()}
    profile = ProfileRun(folder=folder, settings=described, provenance=provenance, arrays=arrays, prompts=prompts)
    pages = render_pages(profile) if figures else {}
    if explorer is not None:
        pages |= explorer.make_pages(settings, profile, model, tokenizer)
    write_profile(profile, pages)
    for line in list_caveats(profile):
        report(line)
    return profile


def read_queries(settings: ProfileSettings, prompts: Sequence[BlockedPrompt]) -> list[int]:
    """Return the queries as numbers; in every prompt each must stand behind two blocks."""
    kinds = {(len(prompt.input_ids), prompt.start, prompt.block_length) for prompt in prompts}
    numbers = resolve_queries(settings.queries, [length for length, *_ in kinds])
    for length, start, block_length in kinds:
        check_queries(numbers, [length], BlockLayout(start=start, block_length=block_length))
    return numbers


def list_caveats(profile: ProfileRun) -> list[str]:
    """List what must be said of a finished profile: hidden blocks, prompts too long, and prompts that are lists."""
    arrays, lines = profile.arrays, []
    if not profile.settings.get("visible_only"):
        visible = arrays["visible_blocks"].reshape(-1, arrays["visible_blocks"].shape[-1])
        blocks = np.repeat(arrays["blocks"], len(visible) // len(arrays["blocks"]))
        consequence = f"{POSITIONAL}; pass --visible-only to score visible blocks alone, or shorter prompts"
        last = "queries" not in profile.settings
        lines.append(describe_hidden_blocks(visible.tolist(), blocks.tolist(), consequence, last=last))
    lines.append(describe_long_prompts(arrays["tokens_beyond"].tolist()))
    lines.append(describe_lists(profile.prompts, cube=bool(profile.settings.get("cube"))))
    return [line for line in lines if line]


def _measure_all(
    model: Any, prompts: Sequence[BlockedPrompt], settings: ProfileSettings, *, progress: bool
) -> dict[str, np.ndarray]:
    """Measure batches of prompts of one shape, and put the arrays into the prompts' order."""
    from tqdm import tqdm

    members: list[list[int]] = []
    for numbers in group_prompts(prompts, range(len(prompts))).values():
        size = choose_batch_size(prompts[numbers[0]], settings)
        members += [numbers[first : first + size] for first in range(0, len(numbers), size)]
    planes = {length: find_planes(model, length) for length in {len(prompt.input_ids) for prompt in prompts}}
    parts: list[dict[str, np.ndarray]] = []
    with tqdm(total=len(prompts), unit="prompt", disable=not progress) as bar:
        for numbers in members:
            batch = [prompts[number] for number in numbers]
            parts.append(measure_batch(model, batch, settings, planes[len(batch[0].input_ids)]))
            bar.update(len(numbers))
    order = np.argsort(np.concatenate([np.array(numbers) for numbers in members]))
    arrays: dict[str, Any] = {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
    if len(settings.queries) > 1:
        arrays["queries"] = np.array(settings.queries)
    for name in ("start", "block_length", "blocks"):
        arrays[name] = np.array([getattr(prompt, name) for prompt in prompts])
    arrays["length"] = np.array([len(prompt.input_ids) for prompt in prompts])
    if settings.per_frequency or settings.energy:
        lengths, arrays["shape"] = np.unique(arrays["length"], return_inverse=True)
        angles = [[layer.angles.cpu() for layer in planes[int(length)]] for length in lengths]
        arrays["plane_angle"] = np.stack([stack_padded(layers, dim=0).numpy() for layers in angles])
    if settings.labels:
        arrays |= pack_labels(measure_head_labels(model))
    if (windows := find_windows(model, arrays["visible_blocks"].shape[-1])) is not None:
        arrays["window"] = pack_windows(windows)
    return dict(sorted(arrays.items()))


def _describe_devices(model: Any) -> str:
    """Return where the model's weights are, in words."""
    places = {parameter.device for parameter in model.parameters() if parameter.device.type != "meta"}
    return " and ".join(sorted(describe_device(place) for place in places or {choose_device("cpu")}))
