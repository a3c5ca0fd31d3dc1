"""Profile whole sets of prompts on one model or several, and keep what is measured in a folder each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from posym_core.metrics import BlockLayout
from posym_core.store import check_places, choose_device, record_provenance, require_keeping, run_grid, write_files
from posym_profile.language_models._loading import load_tokenizer
from posym_profile.report._explored import Explorer
from posym_profile.report._folder import HEADS, find_finished, read_scores, require_place, write_profile
from posym_profile.report._measuring import Part, hold_model, join_parts, measure_part, split_parts
from posym_profile.report._page import render_pages
from posym_profile.report._profile_settings import ProfileSettings
from posym_profile.report._prompt_files import BlockedPrompt
from posym_profile.report._tables import describe_lists, write_table_of_models
from posym_profile.scores._layer_measurement import resolve_queries
from posym_profile.scores._profiling import check_queries
from posym_profile.scores._visibility import POSITIONAL, describe_hidden_blocks, describe_long_prompts, shorten_name

if TYPE_CHECKING:
    from xarray import Dataset


@dataclass(frozen=True, kw_only=True)
class _Unfinished:
    """A profile that is being measured: its settings, prompts and parts, and what is measured of these."""

    settings: ProfileSettings
    described: Mapping[str, Any]
    prompts: Sequence[BlockedPrompt]
    parts: Sequence[Part]
    measured: dict[int, Dataset] = field(default_factory=dict)


def name_folders(models: Sequence[str], folder: Path) -> dict[Path, str]:
    """Name the folder of each model's profile: ``folder`` itself for one, and folders in it for several."""
    if len(models) == 1:
        return {folder: models[0]}
    short = [shorten_name(model) for model in models]
    # Models of one name in two places are called by the whole of it.
    names = [name if short.count(name) == 1 else model.strip("/").replace("/", "--")
             for name, model in zip(short, models, strict=True)]  # fmt: skip
    if len(set(names)) < len(names):
        raise ValueError(f"models must be different; got {' '.join(models)}")
    return {folder / name: model for name, model in zip(names, models, strict=True)}


def run_profiles(
    models: Sequence[str],
    settings: ProfileSettings,
    folder: Path | str,
    *,
    figures: bool = False,
    explorer: Explorer | None = None,
    force: bool = False,
    progress: bool = False,
    report: Callable[[str], None] = lambda line: None,
    jobs: int = 1,
    cluster: str | None = None,
) -> dict[Path, Dataset]:
    """Measure prompts on every model and keep each profile in a folder, whole or not at all.

    A folder that holds such a profile already is left as it is, so that a run that was interrupted goes on with the
    models that are missing. Several models have a folder each in ``folder``, and one table of all heads beside these.

    Args:
        models: as :func:`posym_profile.load_model` takes them.
        settings: what to measure; its ``model`` does not count.
        folder: new or empty, or with a part of these profiles.
        figures: whether to write figures and ``report.html``, too.
        explorer: an explorer to write, too.
        force: put new profiles in the place of those that are there.
        progress: show a progress bar on standard error.
        report: called with a line about what a user may want to know.
        jobs: processes of this machine that measure batches of prompts side by side, each with a model of its own.
        cluster: address of a Dask scheduler on whose workers to measure them instead.

    Returns:
        The scores by folder, as ``scores.nc`` holds them.

    Raises:
        ProfileError: if a folder holds something else.
        OSError: if nothing could be kept there; before anything is loaded.
    """
    folder = Path(folder)
    check_places(jobs, cluster)
    choose_device(settings.device)
    finished: dict[Path, Dataset] = {}
    unfinished: dict[Path, _Unfinished] = {}
    folders = name_folders(models, folder)
    for place, model in folders.items():
        require_place(place, force=force)
        require_keeping(place.absolute().parent)
        asked = replace(settings, model=model)
        described = asked.describe_settings()
        if not force and (held := find_finished(place, described)) is not None:
            finished[place] = held
            report(f"{place} holds this profile already")
            continue
        prompts = asked.make_prompts(load_tokenizer(model))
        asked = replace(asked, queries=read_queries(asked, prompts))
        if explorer is not None:
            explorer.check(asked, prompts)
        parts = split_parts(asked, prompts)
        unfinished[place] = _Unfinished(settings=asked, described=described, prompts=prompts, parts=parts)
    for place, work in _measure(unfinished, progress=progress, jobs=jobs, cluster=cluster):
        finished[place] = _finish(place, work, figures, explorer)
        for line in list_caveats(finished[place], work.prompts, work.settings):
            report(line if len(models) == 1 else f"{shorten_name(work.settings.model)}: {line}")
    if len(models) > 1:
        tables = {shorten_name(model): finished[place] for place, model in folders.items()}
        write_files(folder, {HEADS: write_table_of_models(tables)})
    return {place: finished[place] for place in folders}


def _measure(unfinished: Mapping[Path, _Unfinished], *, progress: bool, jobs: int, cluster: str | None):
    """Measure all parts, and yield each profile with its folder when its last part is there."""
    from tqdm import tqdm

    tasks = [(place, number) for place, work in unfinished.items() for number in range(len(work.parts))]
    items = [unfinished[place].parts[number] for place, number in tasks]
    places: dict[str, Any] = {"jobs": jobs, "cluster": cluster, "threads": torch.get_num_threads()}
    with tqdm(total=sum(len(part.prompts) for part in items), unit="prompt", disable=not (progress and items)) as bar:
        for task, measured in run_grid(measure_part, items, **places):
            place, number = tasks[task]
            work = unfinished[place]
            work.measured[number] = measured
            bar.update(len(work.parts[number].prompts))
            if len(work.measured) == len(work.parts):
                yield place, work


def _finish(place: Path, work: _Unfinished, figures: bool, explorer: Explorer | None) -> Dataset:
    """Write a profile whose parts are all there, and return what is read from its folder."""
    measured = [work.measured[number] for number in range(len(work.parts))]
    scores = join_parts(work.parts, measured, work.prompts)
    provenance = record_provenance(scores.attrs.pop("seconds"), device=scores.attrs.pop("device"))
    described = {"settings": dict(work.described), "provenance": {**provenance, "threads": torch.get_num_threads()}}
    scores.attrs |= {name: json.dumps(value) for name, value in described.items()}
    scores.attrs |= {"model": json.dumps(work.settings.model)[1:-1], "prompts": f"{len(work.prompts)} prompts"}
    pages = render_pages(scores, work.prompts) if figures else {}
    if explorer is not None:
        model, tokenizer = hold_model(work.settings), load_tokenizer(work.settings.model)
        pages |= explorer.make_pages(work.settings, work.prompts, model, tokenizer)
    write_profile(place, scores, work.prompts, pages)
    return read_scores(place)


def read_queries(settings: ProfileSettings, prompts: Sequence[BlockedPrompt]) -> list[int]:
    """Return the queries as numbers; in every prompt each must stand behind two blocks."""
    kinds = {(len(prompt.input_ids), prompt.start, prompt.block_length) for prompt in prompts}
    numbers = resolve_queries(settings.queries, [length for length, *_ in kinds])
    for length, start, block_length in kinds:
        check_queries(numbers, [length], BlockLayout(start=start, block_length=block_length))
    return numbers


def list_caveats(scores: Dataset, prompts: Sequence[BlockedPrompt], settings: ProfileSettings) -> list[str]:
    """List what must be said of a finished profile: hidden blocks, prompts too long, and prompts that are lists."""
    lines = []
    if not settings.visible_only:
        visible = scores.visible_blocks.values.reshape(-1, scores.sizes["layer"])
        blocks = np.repeat(scores.blocks.values, len(visible) // len(prompts))
        consequence = f"{POSITIONAL}; pass --visible-only to score visible blocks alone, or shorter prompts"
        last = [*settings.queries] == [-1]
        lines.append(describe_hidden_blocks(visible.tolist(), blocks.tolist(), consequence, last=last))
    lines.append(describe_long_prompts(scores.tokens_beyond.values.tolist()))
    lines.append(describe_lists(prompts, cube=settings.cube))
    return [line for line in lines if line]
