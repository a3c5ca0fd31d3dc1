"""The loop that runs all experiments, on one that measures nothing and records what it is asked."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import tempfile
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from posym_companion import experiments
from posym_companion.book import run_experiment, runs
from posym_companion.experiments import Experiment, finish_part
from posym_companion.results import list_results, load_result, work_folder
from posym_core.store import ResultError
from posym_core.store import _parallel as parallel
from posym_core.store import _resuming as resuming


@dataclass(frozen=True)
class Setting:
    setting: str = "one"
    model: str = "first"
    size: int = 2

    @property
    def name(self) -> str:
        return f"trial/{self.setting}"


@dataclass
class Trial:
    """An experiment of two parts that can be killed after the first."""

    killed: bool = False
    loads: list[str] = field(default_factory=list)
    folder: Any = None
    measured: list[str] = field(default_factory=list)

    def measure(self, setting, *, work=None, **options):
        def part(name):
            self.measured.append(name)
            return {name: np.ones(setting.size)}

        arrays = finish_part(work, "first", lambda: part("first"))
        if self.killed:
            raise KeyboardInterrupt
        arrays |= finish_part(work, "second", lambda: part("second"))
        return {name: arrays[name] for name in ("first", "second")}

    def load(self, model, **options):
        self.loads.append(model)
        self.folder = options["folder"]
        return (model,)

    def measure_loaded(self, model, setting, **options):
        self.measured.append(model)
        return {"first": np.ones(setting.size)}

    @property
    def of_settings(self):
        return Experiment(settings=lambda: [Setting()], small={"size": 1}, measure=self.measure, dims={"*": "x"})

    @property
    def of_models(self):
        return Experiment(
            settings=lambda model="first": [Setting(model=model)],
            small=lambda x: x,
            measure=self.measure_loaded,
            dims={"*": "x"},
            load=self.load,
        )


@pytest.fixture
def trial():
    return Trial()


def other_code(monkeypatch):
    monkeypatch.setattr(resuming, "digest_code", lambda: "other")


def other_libraries(monkeypatch):
    monkeypatch.setattr(resuming, "list_library_versions", lambda: {"torch": "1"})


@pytest.mark.parametrize(
    ("change", "setting", "said"),
    [
        (other_code, Setting(), r'other code \(".* there, "other" now\)'),
        (other_libraries, Setting(), r'other versions of libraries \(torch: ".*" there, "1" now, .*\)'),
        (lambda monkeypatch: None, Setting(size=3), r"other settings \(size: 2 there, 3 now\)"),
        (other_code, Setting(size=3), r"other settings \(.*\) and other code \(.*\)"),
    ],
)
def test_a_killed_run_goes_on_only_with_what_it_was_begun_with(trial, tmp_path, monkeypatch, change, setting, said):
    trial.killed = True
    with pytest.raises(KeyboardInterrupt):
        list(trial.of_settings.run([Setting()], folder=tmp_path))
    trial.killed = False
    with monkeypatch.context() as patch:
        change(patch)
        message = f"unfinished run of trial/one has {said}, and no result mixes two; run it again .* or pass --force"
        with pytest.raises(ValueError, match=message):
            list(trial.of_settings.run([setting], folder=tmp_path))
    assert trial.measured == ["first"]
    list(trial.of_settings.run([Setting()], folder=tmp_path))
    assert trial.measured == ["first", "second"]
    assert not work_folder("trial/one", folder=tmp_path).exists()


HOLDS = """
import sys, time
from pathlib import Path
from posym_companion.experiments import _run_alone
with _run_alone("trial/one", Path(sys.argv[1])):
    print(flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("loaded", [False, True])
def test_of_two_runs_of_one_setting_the_second_says_who_runs_and_a_killed_one_stops_nobody(
    trial, tmp_path, request, loaded, force
):
    experiment, work = (trial.of_models if loaded else trial.of_settings), work_folder("trial/one", folder=tmp_path)
    other = subprocess.Popen([sys.executable, "-c", HOLDS, str(work)], stdout=subprocess.PIPE)
    request.addfinalizer(other.stdout.close)
    request.addfinalizer(other.wait)
    request.addfinalizer(other.kill)
    assert other.stdout.readline()
    said = rf"^trial/one is being run by process {other.pid} since \d{{4}}-.*; wait for it, or pass another --results f"
    with pytest.raises(ResultError, match=said):
        list(experiment.run([Setting()], folder=tmp_path, force=force))
    assert trial.measured == []
    assert [found.name for found in experiment.run([Setting("two")], folder=tmp_path)] == ["trial/two"]
    other.kill()
    other.wait()
    # What is kept is nobody's any more, while the run goes on.
    going = experiment.run([Setting("three"), Setting("four")], folder=tmp_path)
    next(going)
    assert [path.name for path in work.parent.glob(".[tf]*")] == [".four.work"]
    going.close()
    assert [found.name for found in experiment.run([Setting()], folder=tmp_path, force=force)] == ["trial/one"]
    assert not list(work.parent.glob(".*"))


def test_machines_of_a_cluster_do_not_wait_for_each_other(trial, tmp_path, monkeypatch):
    in_another_process(monkeypatch)
    with experiments._run_alone("trial/one", work_folder("trial/one", folder=tmp_path)):
        assert len(list(trial.of_models.run([Setting()], folder=tmp_path, cluster="tcp://somewhere:1"))) == 1


def test_a_damaged_part_is_measured_again(trial, tmp_path):
    trial.killed = True
    with pytest.raises(KeyboardInterrupt):
        list(trial.of_settings.run([Setting()], folder=tmp_path))
    trial.killed = False
    (part,) = work_folder("trial/one", folder=tmp_path).glob("*.safetensors")
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.warns(UserWarning, match=r"first.part.safetensors cannot be read.*; it is measured again"):
        (found,) = trial.of_settings.run([Setting()], folder=tmp_path)
    assert trial.measured == ["first", "first", "second"]
    assert found["first"].tolist() == [1, 1]


def test_force_discards_what_other_code_began(trial, tmp_path, monkeypatch):
    trial.killed = True
    with pytest.raises(KeyboardInterrupt):
        list(trial.of_settings.run([Setting()], folder=tmp_path))
    trial.killed = False
    other_code(monkeypatch)
    list(trial.of_settings.run([Setting()], folder=tmp_path, force=True))
    assert trial.measured == ["first", "first", "second"]


def not_writable(monkeypatch, folder):
    def refuse(**options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)


def full_disk(monkeypatch, folder):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: namedtuple("Usage", "free")(free=2_000_000))


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("want", "message"),
    [
        (not_writable, r"cannot be kept in .*results \(Permission denied\); pass a folder that can be written to"),
        (full_disk, r"results has 2 MB free, and 100 MB must be for what is measured; make room or pass a folder on"),
    ],
)
def test_what_keeping_a_result_needs_is_asked_before_measuring(trial, tmp_path, monkeypatch, want, message, jobs):
    folder = tmp_path / "results"
    with monkeypatch.context() as patch:
        want(patch, folder)
        with pytest.raises(OSError, match=message):
            list(trial.of_settings.run([Setting()], folder=folder, jobs=jobs))
    assert trial.measured == []


def in_another_process(monkeypatch):
    """As a worker would do it, but here."""
    monkeypatch.setattr(experiments, "run_grid", lambda function, items, **places: enumerate(map(function, items)))


@pytest.mark.parametrize("places", [{}, {"jobs": 2}, {"cluster": "tcp://somewhere:1"}])
def test_a_process_loads_a_model_once_for_its_settings(trial, tmp_path, monkeypatch, places):
    in_another_process(monkeypatch)
    settings = [Setting("one"), Setting("two"), Setting("three", model="second")]
    found = list(trial.of_models.run(settings, folder=tmp_path, **places))
    assert [result.name for result in found] == ["trial/one", "trial/two", "trial/three"]
    assert trial.loads == ["first", "second"]
    # Another run loads again: the files of a model may have changed.
    list(trial.of_models.run(settings[:1], folder=tmp_path, force=True, **places))
    assert trial.loads == ["first", "second", "first"]
    assert not parallel.HELD


def test_processes_keep_what_is_finished_over_a_kill(trial, tmp_path, monkeypatch):
    in_another_process(monkeypatch)
    trial.killed = True
    with pytest.raises(KeyboardInterrupt):
        list(trial.of_settings.run([Setting()], folder=tmp_path, jobs=2))
    trial.killed = False
    (found,) = trial.of_settings.run([Setting()], folder=tmp_path, jobs=2)
    assert trial.measured == ["first", "second"]
    np.testing.assert_array_equal(found["second"], load_result("trial/one", folder=tmp_path)["second"])
    assert not work_folder("trial/one", folder=tmp_path).exists()


@pytest.fixture
def page(trial, tmp_path, monkeypatch):
    """A page beside stored results, on which the trial is the only experiment."""
    monkeypatch.setenv("POSYM_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(runs, "load_experiment", lambda name: trial.of_settings)
    return tmp_path / "my_results"


def test_a_readers_run_is_kept_by_its_size_and_read_again(trial, page, monkeypatch, capsys):
    found = [run_experiment("trial", size=size)["first"].tolist() for size in ("small", "full", "small", "full")]
    assert found == [[1], [1, 1], [1], [1, 1]]
    assert trial.measured == ["first", "second"] * 2
    assert list_results(folder=page / "small") == list_results(folder=page / "full") == ["trial/one"]
    assert not page.with_name("results").exists()
    # Other code measures the small one again, which takes seconds, and not the full one.
    monkeypatch.setattr(runs, "record_provenance", lambda seconds: {"code_digest": "other"})
    assert [len(run_experiment("trial/one", size=size)["first"]) for size in ("full", "small")] == [2, 1]
    assert trial.measured == ["first", "second"] * 3
    assert capsys.readouterr().err == ""


def test_a_readers_full_run_goes_on_where_it_was_stopped(trial, page):
    trial.killed = True
    with pytest.raises(KeyboardInterrupt):
        run_experiment("trial/one", size="full")
    trial.killed = False
    run_experiment("trial/one", size="full")
    assert trial.measured == ["first", "second"]


def test_a_readers_run_measures_stored_models(trial, page, monkeypatch):
    monkeypatch.setattr(runs, "load_experiment", lambda name: trial.of_models)
    run_experiment("trial", size="full")
    assert trial.folder == page.with_name("results")


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("no_such/one", "small", r"experiment must be one of .*'random_solvers'.*; got 'no_such'"),
        ("random_solvers", "small", r"name must be one of 'random_solvers/all', 'random_solvers/planes'; got"),
        ("random_solvers/all", "tiny", r"size must be 'small' or 'full'; got 'tiny'"),
    ],
)
def test_a_reader_is_told_what_can_be_run(name, size, message):
    with pytest.raises(ValueError, match=message):
        run_experiment(name, size=size)


def test_a_reader_runs_on_the_device_that_is_there(tmp_path, monkeypatch, other_device):
    monkeypatch.setenv("POSYM_RESULTS", str(tmp_path / "results"))
    assert run_experiment("random_solvers/all").provenance["device"].startswith(other_device.type)
