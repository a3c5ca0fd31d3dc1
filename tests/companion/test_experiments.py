"""What holds of every experiment: its settings have names of their own, a run is described, repeated and resumed."""

from __future__ import annotations

import importlib
import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import torch
from architectures import build

from posym_companion import experiments
from posym_companion.catalogue import EXPERIMENTS, MODULES
from posym_companion.results import list_results, load_result, work_folder
from posym_core.models import CosineSettings, TrainingSettings

MODELS = ("gemma-3-270m", experiments.SECOND, experiments.TAUGHT, "some/model")
# Which settings tiny models are measured on in seconds, by the ends of their names, and what is smaller than small.
LANGUAGE: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "binding_profile": (("270m_likes_16", "random1_likes_16_facts"), {"facts": 3, "prompts": 2}),
    "gram_spectra": (("",), {"tokens": 6}),
    "head_geometry": (("270m_text_64", "270m_index_16"), {"facts": 4, "prompts": 2}),
    "hop_prompts": (("",), {}),
    "origin_patching": (("270m_likes",), {}),
    "origins": (("270m_likes_16", "270m_prose_16"), {}),
    "plane_profile": (("text_16", "index_32"), {"facts": 4, "prompts": 2}),
    "random_weights": (("random1_likes_16", "trained_bought_16_lead8"), {"prompts": 2}),
    "reader_heads": (("/0_likes", "/0_likes_alone"), {}),
    "score_robustness": (("choices", "tasks", "intervention", "answers"), {"prompts": 2, "permutations": 4}),
    "taught_gemma": (("/all_0",), {}),
}
TRAINED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "encoding_study": (("/distance_rope",), {"seeds": (0, 1), "steps": 3, "test": 20, "ablated": 10, "pointed": 1}),
    "task_solvers": (
        ("/1e4_2x2_8",),
        {
            "width": 16,
            "training": CosineSettings(steps=12, batch=8, warmup=2, record_every=6),
            "look_every": 6,
            "test_prompts": 24,
            "score_prompts": 4,
        },
    ),
    "frequency_control": (
        ("/full",),
        {
            "lengths": (8,),
            "frequencies": (1, 3),
            "dim": 8,
            "band": 2,
            "seeds": (0, 1),
            "repetition": 2,
            "few_symbols": 4,
            "training": TrainingSettings(steps=6, batch=8),
            "test_inputs": 700,
            "snapshot_frequencies": (1, 3),
        },
    ),
}
# What is called once more after each part of a run: a run is killed at one of these calls.
KILLED = {
    "encoding_study": ("train_model", 2),
    "frequency_control": ("run_cell", 3),
    "task_solvers": ("measure_roles", 1),
    "taught_gemma": ("measure_snapshot", 2),
}


def list_settings(name: str) -> list[tuple[Any, ...]]:
    """All settings of an experiment, of each model."""
    experiment = experiments.load_experiment(name)
    if not experiment.takes_model:
        return [tuple(experiment.settings())]
    return [tuple(experiment.settings(model)) for model in MODELS]


def choose_settings(name: str) -> list[Any]:
    """Those that are measured here, at their smallest."""
    ends, changes = (LANGUAGE | TRAINED)[name]
    shrink = experiments.load_experiment(name).shrink
    every = list_settings(name)[0]
    found = [next(setting for setting in every if setting.name.endswith(end)) for end in ends]
    known = [{key: x for key, x in changes.items() if hasattr(setting, key)} for setting in found]
    return [replace(shrink(setting), **some) for setting, some in zip(found, known, strict=True)]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_setting_has_a_name_of_its_own_and_a_small_size(name):
    shrink = experiments.load_experiment(name).shrink
    for settings in list_settings(name):
        names = [setting.name for setting in settings]
        assert len(set(names)) == len(names) > 0
        for setting in settings:
            assert experiments.has_settings(FakeResult(json.loads(json.dumps(asdict(setting)))), setting)
            for one in (setting, shrink(setting)):
                assert one.name.partition("/")[0] == name
            assert shrink(shrink(setting)) == shrink(setting)


def test_every_stored_result_is_of_a_setting_of_the_catalogue():
    """A setting that is renamed, changed or left out leaves a result behind that belongs to none."""
    settings = {setting.name: setting for name in EXPERIMENTS for every in list_settings(name) for setting in every}
    stored = list_results()
    assert len(stored) > 300
    assert set(stored) <= set(settings)
    assert [name for name in stored if not experiments.has_settings(load_result(name), settings[name])] == []


class FakeResult:
    """A result of which nothing but the settings is known."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings


@pytest.fixture(scope="module")
def wide(tokenizer):
    """A tiny model whose windows hide nothing."""
    return build("Gemma3", vocab_size=len(tokenizer), sliding_window=512).requires_grad_(False)


@pytest.fixture
def models(wide, tokenizer, monkeypatch, all_arrays_stored):
    """Experiments get a tiny model, taught nothing, and how often they asked for it."""
    asked: list[Any] = []
    monkeypatch.setattr(experiments, "load_model", lambda *a, **k: asked.append(a) or (wide, tokenizer))
    monkeypatch.setattr(importlib.import_module(MODULES["reader_heads"]), "kept_factors", lambda *a: {})
    return asked


def measured_arrays(result: Any) -> set[str]:
    """Names of arrays that another run repeats: all but how long parts took."""
    return {key for key in result.arrays if not key.endswith("seconds")}


def run_settings(name: str, folder: Any, **options: Any) -> list[Any]:
    settings = choose_settings(name)
    return list(experiments.load_experiment(name).run(settings, device="cpu", folder=folder, progress=False, **options))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*LANGUAGE, *TRAINED])
def test_a_run_is_described_kept_and_repeats_itself(name, models, tmp_path):
    """Dimensions are named, or nothing would be kept; what is there is not measured again, and by force is the same."""
    first = run_settings(name, tmp_path)
    assert [result.name for result in first] == [setting.name for setting in choose_settings(name)]
    for result in first:
        numbers = {key: x for key, x in result.arrays.items() if x.dtype.kind in "fiub"}
        assert not any(np.isinf(x).any() for x in numbers.values())
        # A number that a tiny model or a small size leaves undefined is NaN; most are defined.
        assert sum(not np.isfinite(x).any() for x in numbers.values()) < len(numbers) / 2
    loads = len(models)
    assert [result.provenance for result in run_settings(name, tmp_path)] == [result.provenance for result in first]
    assert len(models) == loads
    for once, again in zip(first, run_settings(name, tmp_path, force=True), strict=True):
        for key in measured_arrays(once):
            np.testing.assert_array_equal(once[key], again[key], err_msg=key)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", KILLED)
def test_a_killed_run_goes_on_and_ends_as_a_whole_one(name, models, tmp_path, monkeypatch):
    torch.manual_seed(0)
    (place, last), module = KILLED[name], importlib.import_module(MODULES[name])
    (setting, *_) = choose_settings(name)
    run = experiments.load_experiment(name).run
    (whole,) = run([setting], device="cpu", folder=tmp_path / "whole", progress=False)
    measure, calls = getattr(module, place), []

    def die(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        if len(calls) == last:
            raise KeyboardInterrupt
        return measure(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(module, place, die)
        with pytest.raises(KeyboardInterrupt):
            list(run([setting], device="cpu", folder=tmp_path / "cut", progress=False))
    assert list_results(folder=tmp_path / "cut") == []
    assert list(work_folder(setting.name, folder=tmp_path / "cut").glob("*.safetensors"))
    torch.rand(3)  # the global generator stands elsewhere when the run goes on
    (resumed,) = run([setting], device="cpu", folder=tmp_path / "cut", progress=False)
    for key in measured_arrays(whole):
        np.testing.assert_array_equal(whole[key], resumed[key], err_msg=key)
    assert not work_folder(setting.name, folder=tmp_path / "cut").exists()
