"""The experiments by name, and how each runs here, in several processes or on a cluster.

An experiment is a module of this package with ``full_size(model)``, a list of settings with a ``name`` each,
``small(setting)``, and ``run(settings, *, device, folder, force, progress)``, which yields one kept result a setting.
A new one needs a line in :data:`EXPERIMENTS` and nothing else.
"""

from __future__ import annotations

import importlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from posym_companion.experiments import frequency_control
from posym_companion.experiments.loop import made_with
from posym_core.models.language import PACKAGED
from posym_core.runs.files import write_atomically
from posym_core.runs.parallel import run_grid
from posym_core.runs.provenance import own_code, require_same_code
from posym_core.runs.results import Result, ResultError, load_result, result_path, results_folder, work_folder

EXPERIMENTS = {
    "binding_profile": "scores, exclusion, shares per plane and accuracy of a language model on binding prompts",
    "encoding_study": "Distance and Count under every encoding, all else equal and as released, every head removed",
    "encoding_tasks": "one attention layer with every encoding on the canonical tasks, also at greater length",
    "frequency_control": "toy heads that own one angle, two or all, on the three canonical tasks",
    "frequency_surgery": "bands of angles set to 0, removed or moved in a language model",
    "gram_spectra": "eigenvalues of a language model's queries and keys without positions, under a kernel and rotated",
    "head_geometry": "queries and keys of a language model in its rotation planes",
    "head_explorer": "what the head explorer shows: four inputs, many temperatures and block lengths",
    "hop_length": "accuracy and attention of the trained multihop models against length",
    "hop_mechanism": "programs, ablations and rotation planes of the trained multihop models",
    "hop_prompts": "Number and Letter with one hop, put to a language model as text, at growing length",
    "hop_variants": "small multihop models with other heads, angles and training lengths",
    "multihop": "GPT-J models trained on the tasks Number and Letter, every head watched",
    "plane_profile": "every head and every plane of a language model at many lengths",
    "score_robustness": "how scores depend on everything that is chosen when they are made",
}


def experiment(name: str) -> ModuleType:
    """The module of an experiment.

    Raises:
        ValueError: if there is none of this name.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"experiment must be one of {', '.join(map(repr, EXPERIMENTS))}; got {name!r}")
    return importlib.import_module(f"posym_companion.experiments.{name}")


def run_experiment(
    name: str,
    *,
    model: str = PACKAGED,
    small: bool = False,
    device: str = "auto",
    folder: Path | str | None = None,
    force: bool = False,
    progress: bool = True,
    jobs: int = 1,
    cluster: str | None = None,
) -> Iterator[Result]:
    """Run every setting of an experiment, and yield each result as it is kept.

    Args:
        name: one of :data:`EXPERIMENTS`.
        model: for experiments on language models.
        small: a size that runs in minutes; it needs a ``folder`` of its own, because its results have the same names.
        device: see :func:`posym_core.load_model`.
        folder: of results; by default :func:`posym_core.runs.results.results_folder`.
        force: run again what is there already.
        progress: show progress bars.
        jobs: processes of this machine, which share its threads.
        cluster: address of a Dask scheduler, in place of ``jobs``.

    Raises:
        ValueError: if the name is unknown, or something cannot be done with it.
    """
    module = experiment(name)
    if small and folder is None:
        raise ValueError("the small size has the full size's names for its results; pass another --results folder")
    folder = Path(folder) if folder is not None else results_folder()
    if module is frequency_control:
        if jobs > 1 or cluster is not None:
            raise ValueError(f"{name} trains its models at once, as one ensemble; run it without --jobs or --cluster")
        yield _frequency_control(small, device, folder, force, progress)
        return
    settings = module.full_size(model)
    if small:
        settings = list({setting.name: setting for setting in map(module.small, settings)}.values())
    options = {"device": device, "force": force, "progress": progress}
    if jobs == 1 and cluster is None:
        yield from module.run(settings, folder=folder, **options)
        return
    todo = []
    for setting in settings:
        stored = None if force else _stored(setting, folder)
        if stored is None:
            todo.append(setting)
        else:
            yield stored
    threads = max(1, torch.get_num_threads() // jobs)
    shared = {"name": name, "device": device, "threads": threads, "code_digest": own_code()}
    work = [SettingWork(setting=setting, **shared) for setting in todo]
    for place, files in run_grid(run_setting, work, jobs=jobs, cluster=cluster):
        yield _keep(todo[place].name, files, folder)


@dataclass(frozen=True, kw_only=True)
class SettingWork:
    """One setting of an experiment as any process that has the package can run it.

    Attributes:
        name: of the experiment.
        setting: one of its settings.
        device: see :func:`posym_core.load_model`.
        threads: CPU threads to compute with.
        code_digest: of the code that asks; another code refuses.
    """

    name: str
    setting: Any
    device: str
    threads: int
    code_digest: str


def run_setting(work: SettingWork) -> dict[str, bytes]:
    """Run one setting and return the files of its result by their ending; nothing is kept where it runs."""
    require_same_code(work.code_digest)
    before = torch.get_num_threads()
    torch.set_num_threads(work.threads)
    try:
        with tempfile.TemporaryDirectory() as place:
            module = experiment(work.name)
            (result,) = module.run([work.setting], device=work.device, folder=place, progress=False)
            return {path.suffix: path.read_bytes() for path in Path(place).glob(f"{result.name}.*") if path.is_file()}
    finally:
        torch.set_num_threads(before)


def _keep(name: str, files: dict[str, bytes], folder: Path) -> Result:
    place = result_path(name, folder=folder)
    place.parent.mkdir(parents=True, exist_ok=True)
    # The description comes last, so that a result is there only when it is whole.
    for ending in sorted(files, key=lambda ending: ending == ".json"):
        write_atomically(place.with_name(place.name + ending), lambda file, content=files[ending]: file.write(content))
    return load_result(name, folder=folder)


def _stored(setting: Any, folder: Path) -> Result | None:
    try:
        stored = load_result(setting.name, folder=folder)
    except ResultError:
        return None
    return stored if made_with(stored, setting) else None


def _frequency_control(small: bool, device: str, folder: Path, force: bool, progress: bool) -> Result:
    settings = frequency_control.FrequencyControlSettings
    asked = settings.small() if small else settings()
    name = frequency_control.SMALL if small else frequency_control.NAME
    try:
        stored: Sequence[Result] = () if force else (load_result(name, folder=folder),)
    except ResultError:
        stored = ()
    for result in stored:
        if made_with(result, asked):
            return result
    # Beside the results, so that a killed run goes on; the experiment refuses work of other settings.
    work = work_folder(name, folder=folder)
    if force:
        shutil.rmtree(work, ignore_errors=True)
    result = frequency_control.run(asked, name=name, folder=folder, work=work, device=device, progress=progress)
    assert isinstance(result, Result)
    shutil.rmtree(work, ignore_errors=True)
    return result
