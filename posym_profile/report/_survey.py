"""Put many models into one table: profile every model of a list on every task, and count what its heads share.

A survey's folder holds ``survey.json`` (rows, settings, where the numbers come from, a checksum of its own),
``survey.csv`` (the rows), ``survey.html`` (the same as a page with figures) and ``profiles/MODEL/TASK``, the profiles,
from which a later run goes on.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from posym_core._arguments import check_places
from posym_core._checks import require_count
from posym_core.metrics import DRAWS, TRENDS, measure_head_trends, share_interval
from posym_core.store import choose_device, record_provenance, require_keeping, seal, write_files
from posym_profile.language_models._model_summary import ModelSummary, summarize_model
from posym_profile.report._chunks import is_disk_full
from posym_profile.report._folder import ProfileError, ProfileRun
from posym_profile.report._profile_settings import ProfileSettings
from posym_profile.report._prompt_files import BlockedPrompt
from posym_profile.report._run import run_profile
from posym_profile.report._survey_page import render_survey
from posym_profile.report._tables import describe_lists, find_share_median, score_blind_choice, write_csv
from posym_profile.scores._head_tables import SHARES, count_hidden_blocks

FORMAT = 1
TABLE, PAGE, DESCRIPTION, PROFILES = "survey.csv", "survey.html", "survey.json", "profiles"
ESTIMATES = ("right", *TRENDS)

Row = dict[str, Any]


def read_models(path: Path | str) -> list[str]:
    """Read names from a file, one a line; empty lines and what follows a ``#`` are not read."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no list of models at {path}; write a file with one name or folder a line")
    names: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        name = line.partition("#")[0].strip()
        if not name:
            continue
        if name in names:
            raise ValueError(f"{path}, line {number}: {name!r} is in the list already; leave it out")
        if (name[0] in "./~" or Path(name).exists()) and not (Path(name) / "config.json").is_file():
            raise FileNotFoundError(
                f"{path}, line {number}: no model can be read in the folder {name!r} (it needs config.json, a "
                "tokenizer and safetensors); correct it or leave it out"
            )
        names.append(name)
    if not names:
        raise ValueError(f"{path} names no model; write one name or folder a line")
    return names


def run_survey(
    models: Sequence[str],
    tasks: Sequence[str],
    folder: Path | str,
    *,
    options: Mapping[str, Any] | None = None,
    draws: int = DRAWS,
    jobs: int = 1,
    cluster: str | None = None,
    force: bool = False,
    progress: bool = True,
    report: Callable[[str], None] = lambda line: None,
) -> list[Row]:
    """Profile models on tasks and keep one table of them in ``folder``; a run that was killed goes on where it stopped.

    Args:
        models: names for :func:`posym_profile.load_model`.
        tasks: some of ``PROMPT_TASKS``, or ``module:function``; none where ``options`` name an ``input`` file.
        folder: made if missing.
        options: of ``ProfileSettings``, the same for all.
        draws: of the bootstrap behind intervals.
        jobs: processes of this machine that share a model's prompts.
        cluster: address of a Dask scheduler, in place of ``jobs``.
        force: discard the profiles that the folder holds.
        progress: show progress bars.
        report: called with a line about what a user may want to know.

    Returns:
        A row a model and task, in their order: ``model``, ``task``, ``refused`` (why there are no numbers, or ``""``),
        what ``summarize_model`` says, ``heads``, ``prompts``,
        ``tokens``, ``chance`` and the share of ``right`` answers (None without answers), the numbers of
        :class:`posym_core.metrics.HeadTrends` and, with the option ``cube``, medians over heads of the shares in
        ``heads.csv``.

    Raises:
        ProfileError: if the folder holds profiles of other settings, and not ``force``.
        OSError: if nothing could be kept there, before anything is loaded; or if the disk is full.
    """
    folder, began = Path(folder), time.perf_counter()
    given_file = (options or {}).get("input")
    sources: list[str | None] = [None] if given_file and not tasks else [*tasks]
    if not models or not sources:
        raise ValueError(
            f"a survey needs a model and a task or an input file; got {len(models)} models and {len(tasks)} tasks"
        )
    for thing, given in (("model", models), ("task", tasks)):
        for name, times in Counter(given).items():
            if times > 1:
                raise ValueError(f"each {thing} has rows of its own and may be there once; got {name!r} {times} times")
    require_count("draws", draws, 2)
    check_places(jobs, cluster)
    fixed = {**(options or {}), "energy": True}
    work = [ProfileSettings(model=model, task=task, **fixed) for model in models for task in sources]
    if cluster is None:
        choose_device(work[0].device)
    require_keeping(folder)
    places = {"jobs": jobs, "cluster": cluster, "force": force, "progress": progress, "report": report, "lists": False}
    rows = []
    lists: dict[str, list[BlockedPrompt]] = {}
    for settings in work:
        task = settings.task or Path(str(settings.input)).name
        report(f"{settings.model}, {task}")
        place = folder / PROFILES / _name_folder(settings.model) / _name_folder(task)
        row: Row = {"model": settings.model, "task": task, "refused": ""}
        try:
            summary = summarize_model(settings.model)
            profile = run_profile(settings, place, **places)
            row |= make_row(profile, summary, draws=draws)
            if describe_lists(profile.prompts):
                lists.setdefault(task, []).extend(profile.prompts)
        except (ProfileError, ConnectionError):
            raise
        except (RuntimeError, ValueError, OSError, ImportError) as error:
            if is_disk_full(error):
                raise
            row["refused"] = (str(error).strip() or type(error).__name__).splitlines()[0]
            report(f"refused: {row['refused']}")
        rows.append(row)
    shown = {"tasks": list(dict.fromkeys(row["task"] for row in rows)), "draws": draws, **(options or {})}
    if given_file:
        shown |= {"input": Path(given_file).name}
    caveat = ""
    if lists:
        caveat = f"{', '.join(lists)}: {describe_lists(list(chain(*lists.values())), cube=work[0].cube)}"
        report(caveat)
    provenance = record_provenance(time.perf_counter() - began)
    described = {"format": FORMAT, "settings": shown, "rows": rows, "provenance": provenance}
    page = render_survey(rows, shown, provenance, lists=caveat).encode()
    write_files(folder, {TABLE: write_survey_table(rows), PAGE: page, DESCRIPTION: seal(described)})
    return rows


def make_row(profile: ProfileRun, summary: ModelSummary, *, draws: int = DRAWS) -> Row:
    """Make a row's numbers from a profile with energies."""
    arrays = profile.arrays
    prompts, layers, heads = arrays["positional"].shape
    # What makes no attention call has no window to speak of.
    windows = summary.windows if len(summary.windows) == layers else (None,) * layers
    trends = measure_head_trends(
        arrays["positional"],
        arrays["symbolic"],
        arrays["plane_energy"],
        arrays["plane_angle"][0],
        tokens=int(arrays["length"].max()),
        local=np.array([window is not None for window in windows]),
        draws=draws,
    )
    answered = "correct" in arrays
    return {
        "architecture": summary.architecture,
        "parameters": summary.parameters,
        "layers": layers,
        "heads": heads,
        "rope_bases": list(summary.rope_bases),
        "windows": sorted({window for window in windows if window is not None}),
        "hidden_layers": int((count_hidden_blocks(arrays) > 0).sum()),
        "prompts": prompts,
        "tokens": int(arrays["length"].max()),
        "chance": score_blind_choice(arrays) if answered else None,
        "right": asdict(share_interval(arrays["correct"], over="prompts")) if answered else None,
        **{name: None if number is None else asdict(number) for name, number in vars(trends).items()},
        **{name: find_share_median(arrays, name, draws=draws) for name in SHARES if "cube_symbol" in arrays},
        "identity": profile.settings["identity"],
        **{name: profile.provenance[name] for name in ("device", "code_digest", "seconds")},
    }


def write_survey_table(rows: Sequence[Row]) -> bytes:
    """Write rows as CSV; an estimate takes three columns. Shares have columns where a row has any."""
    plain = (
        *("model", "task", "refused", "architecture", "parameters", "layers", "heads", "prompts", "tokens"),
        *("chance", "hidden_layers"),
    )
    lists = ("rope_bases", "windows")
    estimates = [*ESTIMATES, *(name for name in SHARES if any(name in row for row in rows))]
    names = [*plain, *lists, *(name + end for name in estimates for end in ("", "_low", "_high"))]

    def cells(row: Row) -> list[object]:
        numbers = [row.get(name) or {} for name in estimates]
        return [
            *(row.get(name, "") for name in plain),
            *(" ".join(f"{x:g}" for x in row.get(name, [])) for name in lists),
            *(number.get(part, "") for number in numbers for part in ("value", "low", "high")),
        ]

    return write_csv(names, map(cells, rows))


def _name_folder(name: str) -> str:
    """Return a folder's name for that of a model or task; what a folder cannot be called is told apart by a digest."""
    plain = re.sub(r"[^\w.-]", "-", name).strip(".")
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"
