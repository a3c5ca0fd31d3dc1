"""What an experiment is, and the loop that runs all of them: nothing is measured twice, a killed run goes on."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from posym_companion.catalogue import EXPERIMENTS, experiment_module
from posym_core.models.language import PACKAGED, load_model
from posym_core.runs.devices import choose_device, device_name
from posym_core.runs.files import write_atomically
from posym_core.runs.parallel import check_places, run_grid
from posym_core.runs.provenance import library_versions, own_code, require_same_code
from posym_core.runs.results import (
    Result,
    ResultError,
    attached_file,
    load_result,
    require_keeping,
    result_path,
    results_folder,
    save_result,
    work_folder,
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a measurement leaves, where that is more than arrays.

    Attributes:
        arrays: by name.
        files: content of files to keep beside the result, by their ending.
        seconds: how long it took; None for the time since the loop began it.
    """

    arrays: Mapping[str, np.ndarray]
    files: Mapping[str, bytes] = field(default_factory=dict)
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What to run: a module of this package has one, called ``EXPERIMENT``.

    A setting is a frozen dataclass that JSON can hold, with the ``name`` of its result, ``"experiment/setting"``.

    Attributes:
        settings: settings at full size: of the language model whose name it is called with, where it has an argument
            ``model``, and else of models of the experiment's own.
        small: from a setting to one of a size for trying out.
        measure: from a setting, with ``device``, a folder ``work`` for checkpoints and ``progress``, to arrays by name
            or :class:`Measured`. With ``load``, from what it loaded and the setting, with ``progress``.
        dims: names of the arrays' dimensions, see :func:`posym_core.runs.results.named_dims`; or what makes them of a
            setting.
        load: from ``setting.model``, with ``device`` and the results' ``folder``, to what is measured. Every process
            keeps it until a setting needs another.
    """

    settings: Callable[..., Iterable[Any]]
    small: Callable[[Any], Any]
    measure: Callable[..., Mapping[str, np.ndarray] | Measured]
    dims: Mapping[str, str] | Callable[[Any], Mapping[str, str]]
    load: Callable[..., tuple[Any, ...]] | None = None

    @property
    def takes_model(self) -> bool:
        """Whether the experiment can be run on a language model of the caller's choice."""
        return "model" in inspect.signature(self.settings).parameters

    def run(
        self,
        settings: Iterable[Any],
        *,
        device: str = "auto",
        folder: Path | str | None = None,
        force: bool = False,
        progress: bool = True,
        jobs: int = 1,
        cluster: str | None = None,
    ) -> Iterator[Result]:
        """Run settings and keep each result as it comes.

        A result that is there with the same settings is read, not run. Until a result is kept, what its measurement
        goes on from lies in :func:`posym_core.runs.results.work_folder`; only on a cluster, whose machines need not
        share a disk, a measurement that is cut short begins anew.

        Args:
            settings: what to run.
            device: see :func:`posym_core.load_model`.
            folder: of results; by default :func:`posym_core.runs.results.results_folder`.
            force: run again what is there, from the beginning.
            progress: show progress bars.
            jobs: processes of this machine, which share its threads; results come as they are ready.
            cluster: address of a Dask scheduler, in place of ``jobs``.

        Raises:
            ValueError: if an unfinished run of the same name has other settings, code or versions of libraries.
            ImportError, OSError: if the results could not be kept, see
                :func:`posym_core.runs.results.require_keeping`; before anything is measured.
        """
        check_places(jobs, cluster)
        folder = Path(folder) if folder is not None else results_folder()
        here = jobs == 1 and cluster is None
        loaded: dict[str, tuple[Any, ...]] = {}
        todo = []
        for setting in settings:
            if not force and (stored := stored_result(setting, folder=folder)) is not None:
                yield stored
                continue
            require_keeping(folder)
            if here:
                yield self._keep(setting, loaded, device=device, folder=folder, force=force, progress=progress)
            else:
                todo.append(setting)
        if todo:
            threads = max(1, torch.get_num_threads() // min(jobs, len(todo)))
            asked = {"device": device, "force": force, "threads": threads, "code_digest": own_code()}
            where = {"results": str(folder), "keep": cluster is None, "run": uuid.uuid4().hex}
            work = [SettingWork(setting=setting, **asked, **where) for setting in todo]
            for place, files in run_grid(run_setting, work, jobs=jobs, cluster=cluster):
                yield _keep_files(todo[place].name, files, folder)

    def _keep(
        self,
        setting: Any,
        loaded: dict[str, tuple[Any, ...]],
        *,
        device: str,
        folder: Path,
        inputs: Path | None = None,
        force: bool,
        progress: bool,
    ) -> Result:
        began = time.perf_counter()
        work = work_folder(setting.name, folder=folder)
        if self.load is None:
            _begin(work, setting, force=force)
            measured = self.measure(setting, device=device, work=work, progress=progress)
        else:
            if setting.model not in loaded:
                loaded.clear()
                loaded[setting.model] = self.load(setting.model, device=device, folder=inputs or folder)
                began = time.perf_counter()
            measured = self.measure(*loaded[setting.model], setting, progress=progress)
        if not isinstance(measured, Measured):
            measured = Measured(arrays=measured)
        place = result_path(setting.name, folder=folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        for ending, content in measured.files.items():
            write_atomically(place.with_name(place.name + ending), content)
        result = save_result(
            setting.name,
            measured.arrays,
            dims=self.dims(setting) if callable(self.dims) else self.dims,
            settings=asdict(setting),
            device=device_name(choose_device(device)),
            seconds=time.perf_counter() - began if measured.seconds is None else measured.seconds,
            folder=folder,
            attached=[place.name + ending for ending in measured.files],
        )
        shutil.rmtree(work, ignore_errors=True)
        return result


@dataclass(frozen=True, kw_only=True)
class SettingWork:
    """One setting as any process that has the package can run it.

    Attributes:
        setting: of the experiment that its name says.
        device: see :func:`posym_core.load_model`.
        force: begin anew what is unfinished.
        results: folder of results that the experiment may read.
        keep: whether ``results`` is a folder of this machine, where the result and what is finished of it are kept.
        threads: CPU threads to compute with.
        code_digest: of the code that asks; another code refuses.
        run: a mark that all settings of one run have; what is loaded in a process is for one run.
    """

    setting: Any
    device: str
    force: bool
    results: str
    keep: bool
    threads: int
    code_digest: str
    run: str


# What this process has loaded, by run and experiment.
_LOADED: dict[tuple[str, str], dict[str, tuple[Any, ...]]] = {}
_ONE_AT_A_TIME = threading.RLock()


def run_setting(work: SettingWork) -> dict[str, bytes]:
    """Run one setting; returns the files of its result by their ending if they are not kept where it runs."""
    require_same_code(work.code_digest)
    with _ONE_AT_A_TIME:
        name, results = work.setting.name, Path(work.results)
        experiment = name.partition("/")[0]
        if (work.run, experiment) not in _LOADED:
            _LOADED.clear()
        loaded = _LOADED.setdefault((work.run, experiment), {})
        keep = partial(
            experiment_module(experiment).EXPERIMENT._keep,
            work.setting,
            loaded,
            device=work.device,
            force=work.force,
            progress=False,
        )
        before = torch.get_num_threads()
        torch.set_num_threads(work.threads)
        try:
            if work.keep:
                keep(folder=results)
                return {}
            with tempfile.TemporaryDirectory() as place:
                keep(folder=Path(place), inputs=results)
                return {path.suffix: path.read_bytes() for path in Path(place).glob(f"{name}.*")}
        finally:
            torch.set_num_threads(before)


def _keep_files(name: str, files: Mapping[str, bytes], folder: Path) -> Result:
    place = result_path(name, folder=folder)
    place.parent.mkdir(parents=True, exist_ok=True)
    # The description comes last, so that a result is there only when it is whole.
    for ending in sorted(files, key=lambda ending: ending == ".json"):
        write_atomically(place.with_name(place.name + ending), files[ending])
    return load_result(name, folder=folder)


def language_model(name: str = PACKAGED, *, device: str = "auto", folder: Any = None) -> tuple[Any, Any]:
    """A language model and its tokenizer, as an experiment loads them."""
    return load_model(name, device=device)


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
    return _as_json({**defaults, **result.settings}) == _as_json(asdict(setting))


def stored_result(setting: Any, *, folder: Path | str | None = None) -> Result | None:
    """The whole, unaltered result of a setting, if it is there and was made with just this setting.

    Files beside it must be there too, unless the setting says ``files_kept = False``.
    """
    try:
        stored = load_result(setting.name, folder=folder)
        for file in stored.provenance.get("attached", {}):
            there = result_path(stored.name, folder=folder).with_name(file).exists()
            if there or getattr(setting, "files_kept", True):
                attached_file(stored, file, folder=folder)
    except ResultError:
        return None
    return stored if made_with(stored, setting) else None


def finished_part(work: Path | None, name: str, measure: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """A part of a measurement, read if it was finished before, and otherwise measured and kept in ``work``.

    Returns:
        Its arrays, and ``seconds`` with what it took.
    """
    kept = work / f"{name}.npz" if work is not None else None
    if kept is not None and kept.is_file():
        with np.load(kept, allow_pickle=False) as stored:
            return dict(stored)
    began = time.perf_counter()
    part = measure()
    part["seconds"] = np.array(time.perf_counter() - began)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, lambda file: np.savez_compressed(file, allow_pickle=False, **part))
    return part


def _begin(work: Path, setting: Any, *, force: bool) -> None:
    """Make a work folder for a setting, or refuse one that was begun with other settings, code or libraries."""
    if force:
        shutil.rmtree(work, ignore_errors=True)
    asked = {"settings": _as_json(asdict(setting)), "code": own_code(), "versions of libraries": library_versions()}
    begun = work / "begun.json"
    if begun.is_file():
        there = json.loads(begun.read_text())
        if differing := [what for what in asked if there.get(what) != asked[what]]:
            raise ValueError(
                f"an unfinished run of {setting.name} has other {' and other '.join(differing)}, and no result mixes "
                "two; run it again with those, or pass --force to discard what is finished"
            )
    work.mkdir(parents=True, exist_ok=True)
    write_atomically(begun, json.dumps(asked).encode())


def _as_json(settings: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(settings))


def experiment(name: str) -> Experiment:
    """An experiment.

    Raises:
        ValueError: if there is none of this name.
    """
    return experiment_module(name).EXPERIMENT


def run_experiment(
    name: str, *, model: str | None = None, small: bool = False, folder: Path | str | None = None, **options: Any
) -> Iterator[Result]:
    """Run every setting of an experiment, and yield each result as it is kept.

    Args:
        name: one of :data:`posym_companion.catalogue.EXPERIMENTS`.
        model: a language model, for experiments that take one; by default the packaged one.
        small: a size that runs in minutes; it needs a ``folder`` of its own, because its results have the same names.
        folder: of results; by default :func:`posym_core.runs.results.results_folder`.
        options: see :meth:`posym_companion.loop.Experiment.run`.

    Raises:
        ValueError: if the name is unknown, or something cannot be done with it.
    """
    found = experiment(name)
    if model is not None and not found.takes_model:
        raise ValueError(
            f"{name} has models of its own, so --model {model} has no place in it; leave it out. The experiments that "
            f"take a model are {', '.join(each for each in EXPERIMENTS if experiment(each).takes_model)}"
        )
    if small and folder is None:
        raise ValueError("the small size has the full size's names for its results; pass another --results folder")
    settings = list(found.settings() if model is None else found.settings(model))
    if small:
        settings = list({setting.name: setting for setting in map(found.small, settings)}.values())
    yield from found.run(settings, folder=folder, **options)
