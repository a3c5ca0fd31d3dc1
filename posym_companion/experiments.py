"""Experiments, and the loop that runs all of them: nothing is measured twice, a killed run goes on."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout

from posym_companion.catalogue import EXPERIMENTS, experiment_module
from posym_companion.results import (
    Result,
    find_attached_file,
    find_results_folder,
    load_result,
    result_path,
    save_result,
    work_folder,
)
from posym_core.store import (
    HELD,
    DamagedError,
    ResultError,
    UnfinishedWork,
    check_places,
    choose_device,
    describe_device,
    describe_work,
    hold,
    list_library_versions,
    read_part,
    require_keeping,
    run_grid,
    write_part,
)
from posym_profile.language_models import PACKAGED, load_model

# The packaged model of another family: what is claimed of language models is asked of it, too, with smaller samples.
SECOND = "smollm2-135m"
TAUGHT = "gemma-3-270m-binds"
# What is measured on the way and read by no judge, chapter or other experiment, and so is not stored: of results whose
# names fit the pattern, arrays whose names fit one of these.
UNREAD = {
    "binding_profile/*": "entropy interaction_share log_probability positional_share symbolic_share",
    "binding_profile/*_facts": "variance bound slack plane_interaction_share",
    "binding_profile/gemma-3-270m*_64*": "plane_[eips]*",
    "binding_profile/gemma-3-270m-random*": "positional symbolic null_* plane_energy_share",
    "binding_profile/smollm2-135m-random*": "positional symbolic null_* plane_energy_share",
    "frequency_control/*": "induction_[aps]*/key induction_[aps]*/query *_all_32/key *_all_32/query "
    "*x_single_[16][64]/key *x_single_[16][64]/query *l_single_[16][64]/key *l_single_[16][64]/query",
    "head_geometry/*": "symbolic_share",
    "head_geometry/*_[bi]*": "drawn_keys curve",
    "hop_mechanism/letter_[1-4]": "query keys",
    "multihop/*": "onward",
    "multihop/*_[1-4]": "attention",
    "multihop/*_extra*": "attention use",
    "plane_profile/*": "entropy",
    "random_weights/smollm2*": "kept",
    "random_weights/*_*_*_*": "kept",
}
# Stored in half precision, since no number that is written down depends on the rest; of others it does.
HALF = {"binding_profile/*": "plane_energy_share", "multihop/*": "use"}


@dataclass(frozen=True, kw_only=True)
class PromptSetting:
    """A language model on prompts: what settings of experiments have in common.

    Attributes:
        model: name for :func:`posym_profile.load_model`.
        facts: blocks of a prompt.
        prompts: how many.
        seed: of the prompts, and of all else that is drawn.
    """

    model: str = PACKAGED
    facts: int = 16
    prompts: int = 12
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class RunOutput:
    """Output of a measurement that leaves more than arrays.

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
    """An experiment: a module of this package has one, called ``EXPERIMENT``.

    A setting is a frozen dataclass that JSON can hold, with the ``name`` of its result, ``"experiment/setting"``.

    Attributes:
        settings: settings at full size: of the language model whose name it is called with, where it has an argument
            ``model``, and else of models of the experiment's own.
        small: of a size for trying out, what fields are, or what makes them of those of a setting; or what makes such a
            setting of another.
        measure: from a setting, with ``device``, a folder ``work`` for checkpoints and ``progress``, to arrays by name
            or :class:`RunOutput`. With ``load``, from what it loaded and the setting, with ``progress``.
        dims: names of the arrays' dimensions, see ``name_dims``; or what makes them of a
            setting.
        load: from ``setting.model``, with ``device`` and the results' ``folder``, to what is measured. Every process
            keeps it until a setting needs another.
    """

    settings: Callable[..., Iterable[Any]]
    small: Mapping[str, Any] | Callable[[Any], Any]
    measure: Callable[..., Mapping[str, np.ndarray] | RunOutput]
    dims: Mapping[str, str] | Callable[[Any], Mapping[str, str]]
    load: Callable[..., tuple[Any, ...]] | None = None

    @property
    def takes_model(self) -> bool:
        """Return whether the experiment can be run on a language model of the caller's choice."""
        return "model" in inspect.signature(self.settings).parameters

    def shrink(self, setting: Any) -> Any:
        """Return a setting at the size for trying out."""
        if callable(self.small):
            return self.small(setting)
        return replace(
            setting, **{name: x(getattr(setting, name)) if callable(x) else x for name, x in self.small.items()}
        )

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

        A result that is there with the same settings is read, not run, and comes first. Until a result is kept, what
        its measurement goes on from lies in :func:`posym_companion.results.work_folder`; only on a cluster, whose
        machines need not share a disk, a measurement that is cut short begins again. With ``force`` all are run again.
        """
        check_places(jobs, cluster)
        folder = Path(folder) if folder is not None else find_results_folder()
        todo = []
        for setting in settings:
            if not force and (stored := stored_result(setting, folder=folder)) is not None:
                yield stored
            else:
                todo.append(setting)
        if not todo:
            return
        require_keeping(folder)
        asked = {
            "experiment": self,
            "device": device,
            "results": folder,
            "parts_kept": cluster is None,
            "force": force,
            "progress": progress and jobs == 1 and cluster is None,
            "run": uuid.uuid4().hex,
        }
        threads = max(1, torch.get_num_threads() // min(jobs, len(todo)))
        places = {"jobs": jobs, "cluster": cluster, "threads": threads}
        with contextlib.ExitStack() as stack:
            alone = [stack.enter_context(contextlib.ExitStack()) for _ in todo]
            for setting, lock in zip(todo, alone, strict=True) if cluster is None else ():
                lock.enter_context(_run_alone(setting.name, work_folder(setting.name, folder=folder)))
            stack.callback(HELD.clear)
            for place, output in run_grid(partial(run_setting, **asked), todo, **places):
                setting = todo[place]
                dims = self.dims(setting) if callable(self.dims) else self.dims
                output["arrays"] = stored_arrays(setting.name, output["arrays"])
                result = save_result(setting.name, dims=dims, settings=asdict(setting), folder=folder, **output)
                UnfinishedWork(work_folder(setting.name, folder=folder)).remove()
                alone[place].close()
                yield result


def run_setting(
    setting: Any,
    *,
    experiment: Experiment,
    device: str,
    results: Path,
    parts_kept: bool,
    force: bool,
    progress: bool,
    run: str,
) -> dict[str, Any]:
    """Measure one setting, for the process that asks to keep by :func:`posym_companion.results.save_result`."""
    began = time.perf_counter()
    if experiment.load is None:
        parts = work_folder(setting.name, folder=results) if parts_kept else None
        if parts is not None:
            _begin(parts, setting, force=force)
        measured = experiment.measure(setting, device=device, work=parts, progress=progress)
    else:
        load = partial(experiment.load, setting.model, device=device, folder=results)
        loaded = hold((run, setting.model), load)
        began = time.perf_counter()
        measured = experiment.measure(*loaded, setting, progress=progress)
    if not isinstance(measured, RunOutput):
        measured = RunOutput(arrays=measured)
    return {
        "arrays": measured.arrays,
        "attached": measured.files,
        "device": describe_device(choose_device(device)),
        "seconds": time.perf_counter() - began if measured.seconds is None else measured.seconds,
        "versions": list_library_versions(),
    }


def stored_arrays(name: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return those of a result's arrays that are stored, and as they are, see :data:`UNREAD` and :data:`HALF`.

    >>> found = stored_arrays("multihop/letter_0", {"use": np.ones(2), "onward": np.ones(2)})
    >>> {name: x.dtype for name, x in found.items()}
    {'use': dtype('float16')}
    """

    def named(table: Mapping[str, str]) -> set[str]:
        patterns = [
            one for names, array_names in table.items() if fnmatchcase(name, names) for one in array_names.split()
        ]
        return {key for key in arrays if any(fnmatchcase(key, one) for one in patterns)}

    unread, half = named(UNREAD), named(HALF)
    return {key: np.asarray(x, np.float16) if key in half else x for key, x in arrays.items() if key not in unread}


def load_experiment_model(name: str = PACKAGED, *, device: str = "auto", folder: Any = None) -> tuple[Any, Any]:
    """Return a language model and its tokenizer, as an experiment loads them."""
    return load_model(name, device=device)


def slug(model: str) -> str:
    """Return a model's name as the name of a result can hold it.

    >>> slug("Qwen/Qwen2.5-1.5B")
    'Qwen-Qwen2-5-1-5B'
    """
    return re.sub("[^A-Za-z0-9]", "-", model)


def name_prefix(model: str) -> str:
    """Return what stands before a result's own name: nothing for the packaged model, whose results came first.

    >>> name_prefix("gemma-3-270m"), name_prefix("Qwen/Qwen2.5-1.5B")
    ('', 'Qwen-Qwen2-5-1-5B-')
    """
    return "" if model == PACKAGED else f"{slug(model)}-"


def has_settings(result: Result, setting: Any) -> bool:
    """Return whether a stored result has these settings, a dataclass.

    A setting that the result does not name is younger than it and had what is its default now.
    """
    return _as_json(_with_defaults(setting, result.settings)) == _as_json(asdict(setting))


def _with_defaults(setting: Any, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Stored settings and the defaults of those that they do not name, also of settings within settings."""
    known = {field.name: field.default for field in fields(setting) if field.default is not MISSING} | dict(stored)
    held = {name: getattr(setting, name, None) for name in known}
    return {
        name: _with_defaults(held[name], x) if is_dataclass(held[name]) and isinstance(x, Mapping) else x
        for name, x in known.items()
    }


def stored_result(setting: Any, *, folder: Path | str | None = None) -> Result | None:
    """Return the whole, unaltered result of a setting, if it is there and was made with just this setting.

    Files beside it must be there too, unless the setting says ``files_kept = False``.
    """
    try:
        stored = load_result(setting.name, folder=folder)
        for file in stored.provenance.get("attached", {}):
            present = result_path(stored.name, folder=folder).with_name(file).exists()
            if present or getattr(setting, "files_kept", True):
                find_attached_file(stored, file, folder=folder)
    except ResultError:
        return None
    return stored if has_settings(stored, setting) else None


def finish_part(work: Path | None, name: str, measure: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return a part of a measurement, read if it was finished before, else measured, timed and kept in ``work``."""
    # A checkpoint may have the part's name.
    path = work / f"{name}.part.safetensors" if work is not None else None
    if path is not None and path.is_file():
        try:
            return {name: array.numpy() for name, array in read_part(path)[0].items()}
        except DamagedError as error:
            warnings.warn(f"in {work} {error}; it is measured again", UserWarning, stacklevel=2)
    began = time.perf_counter()
    part = measure()
    part["seconds"] = np.array(time.perf_counter() - began)
    if path is not None:
        write_part(path, part)
    return part


@contextlib.contextmanager
def _run_alone(name: str, work: Path) -> Iterator[None]:
    """Let nobody else run a setting within the block; raise, with who it is, if another process does already.

    The system lets the lock go with its process, so that one that was killed stops nobody.
    """
    work.mkdir(parents=True, exist_ok=True)
    lock, owner = FileLock(work / "running.lock", timeout=0, thread_local=False), work / "running.txt"
    try:
        lock.acquire()
    except Timeout:
        who = owner.read_text("utf-8") if owner.exists() else "another process"
        raise ResultError(f"{name} is being run by {who}; wait for it, or pass another --results folder") from None
    try:
        owner.write_text(f"process {os.getpid()} since {time.strftime('%Y-%m-%d %H:%M:%S')}", "utf-8")
        yield
    finally:
        with contextlib.suppress(OSError):  # not on Windows, where what is locked stays
            owner.unlink()
            (work / "running.lock").unlink()
        lock.release()
        with contextlib.suppress(OSError):  # unfinished work stays
            work.rmdir()


def _begin(work: Path, setting: Any, *, force: bool) -> None:
    """Make a work folder for a setting, or refuse one that was begun with other settings, code or libraries."""
    unfinished = UnfinishedWork(work)
    if force:
        unfinished.remove()
    try:
        differing = unfinished.resume(describe_work(asdict(setting)))
    except DamagedError as error:
        raise ValueError(f"in {work} {error}; pass --force to discard what is finished") from error
    if differing:
        raise ValueError(
            f"an unfinished run of {setting.name} has other {differing}, and no result mixes two; run it again with "
            "those, or pass --force to discard what is finished"
        )


def _as_json(settings: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(settings, default=asdict))


def load_experiment(name: str) -> Experiment:
    """Return an experiment; ValueError if there is none of this name."""
    return experiment_module(name).EXPERIMENT


def choose_settings(name: str, *, model: str | None = None, facts: int | None = None, small: bool = False) -> list[Any]:
    """Return what an experiment runs: on a model, with as many facts a prompt as asked for, at full size or small."""
    experiment = load_experiment(name)
    if model is not None and not experiment.takes_model:
        raise ValueError(
            f"{name} has models of its own, so --model {model} has no place in it; leave it out. The experiments that "
            f"take a model are {', '.join(each for each in EXPERIMENTS if load_experiment(each).takes_model)}"
        )
    settings = list(experiment.settings() if model is None else experiment.settings(model))
    if small:
        settings = list(map(experiment.shrink, settings))
    if facts is not None:
        settings = [_with_facts(setting, facts) for setting in settings]
    return list({setting.name: setting for setting in settings}.values())


def _with_facts(setting: Any, facts: int) -> Any:
    if not hasattr(setting, "facts"):
        raise ValueError(
            f"settings of {setting.name} have no facts, so --facts {facts} has no place there; leave it out"
        )
    return replace(setting, facts=facts)


def require_own_folder(small: bool, folder: Path | str | None) -> None:
    """Raise if the small size has no folder for its results."""
    if small and folder is None:
        raise ValueError("the small size has the full size's names for its results; pass another --results folder")


def run_all_settings(
    name: str,
    *,
    model: str | None = None,
    facts: int | None = None,
    small: bool = False,
    folder: Path | str | None = None,
    **options: Any,
) -> Iterator[Result]:
    """Run every setting of an experiment, and yield each result as it is kept, see :meth:`Experiment.run`.

    The ``small`` size runs in minutes and needs a ``folder`` of its own, because its results have the same names.
    """
    settings = choose_settings(name, model=model, facts=facts, small=small)
    require_own_folder(small, folder)
    yield from load_experiment(name).run(settings, folder=folder, **options)
