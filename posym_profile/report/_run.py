"""Profile whole sets of prompts on one model or several, and keep what is measured in a folder each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from posym_core.store import check_places, choose_device, record_provenance, require_keeping, run_grid, write_files
from posym_profile.language_models._loading import load_tokenizer
from posym_profile.prompts._drafts import Prompts
from posym_profile.report._explored import make_explorer_page
from posym_profile.report._folder import (
    HEADS,
    find_finished,
    read_scores,
    require_place,
    write_profile,
    write_table_of_models,
)
from posym_profile.report._measuring import Part, ProfileSettings, hold_model, join_parts, measure_part, split_parts
from posym_profile.report._page import list_caveats, render_pages
from posym_profile.scores._visibility import format_count, shorten_name

if TYPE_CHECKING:
    from xarray import Dataset


@dataclass(frozen=True, kw_only=True)
class _Unfinished:
    """A profile that is being measured: its settings, prompts and parts, and what is measured of these."""

    settings: ProfileSettings
    described: Mapping[str, Any]
    prompts: Sequence[Prompts]
    parts: Sequence[Part]
    measured: dict[int, Dataset] = field(default_factory=dict)


def run_profiles(
    models: Sequence[str],
    settings: ProfileSettings,
    folder: Path | str,
    *,
    figures: bool = False,
    explorer: bool = False,
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
        figures, explorer: whether to write ``report.html`` with its figures, and ``explorer.html``.
        force: put new profiles in the place of those that are there.
        report: called with a line about what a user may want to know.
        jobs, cluster: how many processes measure batches, or the address of a Dask scheduler whose workers do.

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
    folders = {folder / shorten_name(model): model for model in models} if len(models) > 1 else {folder: models[0]}
    if len(folders) < len(models):
        raise ValueError(f"models of one command must have different names; got {' '.join(models)}")
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
        parts = split_parts(asked, prompts)
        unfinished[place] = _Unfinished(settings=asked, described=described, prompts=prompts, parts=parts)
    for place, work in _measure(unfinished, progress=progress, jobs=jobs, cluster=cluster):
        finished[place] = _finish(place, work, figures, explorer, report)
    for place, work in unfinished.items():
        for line in list_caveats(finished[place], work.prompts):
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
            bar.update(len(items[task].prompts))
            if len(work.measured) == len(work.parts):
                yield place, work


def _finish(place: Path, work: _Unfinished, figures: bool, explorer: bool, report: Callable[[str], None]) -> Dataset:
    """Write a profile whose parts are all there, and return what is read from its folder."""
    scores = join_parts([work.measured[number] for number in range(len(work.parts))])
    provenance = record_provenance(scores.attrs.pop("seconds"), device=scores.attrs.pop("device"))
    scores.attrs |= {
        "settings": json.dumps(work.described),
        "provenance": json.dumps({**provenance, "threads": torch.get_num_threads()}),
        "model": json.dumps(work.settings.model)[1:-1],
        "prompts": format_count(scores.sizes["prompt"], "prompt"),
    }
    pages = render_pages(scores, work.prompts) if figures else {}
    if explorer:
        model, tokenizer = hold_model(work.settings), load_tokenizer(work.settings.model)
        try:
            pages |= make_explorer_page(work.settings, work.prompts, model, tokenizer)
        except ValueError as error:  # it is too large, which is no reason to lose what was measured
            report(f"no explorer is written: {error}")
    write_profile(place, scores, pages)
    return read_scores(place)
