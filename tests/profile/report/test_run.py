"""Profiles of sets of prompts in folders: what is measured, and what a broken run, a disk or another folder does."""

import csv
import errno
import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray
from architectures import tokens
from saved_models import save_model

from posym_core.metrics._cube_parts import PARTS
from posym_core.store import _sealing as sealing
from posym_core.store._sealing import write_atomically
from posym_profile import load_model, origin_cube, profile
from posym_profile.report import _run as runs
from posym_profile.report._folder import ProfileError
from posym_profile.report._run import ProfileSettings, run_profiles
from posym_profile.scores import tabulate_heads
from posym_profile.scores._head_table import SHARES
from posym_profile.scores._labels import measure_head_labels
from posym_profile.scores._visibility import HiddenBlocksWarning

pytestmark = pytest.mark.usefixtures("one_thread")
LAYOUT = {"start": 3, "block_length": 4, "blocks": 4}
# The two shapes mixed, so that batches and prompts are in different orders.
LENGTHS = {"0": 26, "1": 20, "2": 26, "3": 26, "4": 20, "5": 26, "6": 20}


def ids_of(name):
    return tokens(1, LENGTHS[name], seed=int(name))[0]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A model's folder and a prompt file of seven prompts of two lengths, four batches."""
    folder = tmp_path_factory.mktemp("tiny")
    lines = [json.dumps({"id": name, "input_ids": ids_of(name).tolist(), **LAYOUT}) + "\n" for name in LENGTHS]
    (folder / "prompts.jsonl").write_text("".join(lines))
    model = save_model(folder / "model", "Gemma3")
    return ProfileSettings(model=str(model), input=str(folder / "prompts.jsonl"), batch_size=2, device="cpu")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="module")
def whole(tiny, place):
    """The profile of an unbroken run, in its place."""
    return run(tiny, place)


@pytest.fixture(scope="module")
def two(tiny, tmp_path_factory):
    """Two models' folders."""
    folder = tmp_path_factory.mktemp("models")
    return [tiny.model, str(save_model(folder / "other", "Llama"))]


def run(settings, folder, **options):
    """The scores of a profile, as its folder holds them."""
    return run_profiles([settings.model], settings, folder, **options)[folder]


def alone(tiny, name, **options):
    model, _ = load_model(tiny.model, device="cpu")
    return profile(model, ids_of(name), **LAYOUT, **{"visible_only": False, **options}).isel(prompt=0)


def test_a_profile_holds_what_profile_measures(tiny, whole, place):
    assert {path.name for path in place.iterdir()} == {"scores.nc", "heads.csv"}
    assert whole["prompt"].values.tolist() == ["0", "2", "3", "5", "1", "4", "6"]
    for name, length in LENGTHS.items():
        found, expected = whole.sel(prompt=name), alone(tiny, name)
        assert found.length == length
        for score in ("positional", "symbolic", "entropy", "visible_blocks"):
            np.testing.assert_allclose(found[score], expected[score], atol=1e-4)
    with xarray.open_dataset(place / "scores.nc") as read:
        assert read.identical(whole)


def test_planes_and_labels_are_measured_when_asked_for(tiny, whole, tmp_path):
    model, _ = load_model(tiny.model, device="cpu")
    found = run(replace(tiny, labels=True, per_frequency=True), tmp_path)
    for name, x in measure_head_labels(model).items():
        np.testing.assert_allclose(found[name], x, atol=1e-6)
    rows = list(csv.DictReader((tmp_path / "heads.csv").read_text().splitlines()))
    assert float(rows[5]["copying"]) == pytest.approx(float(found.copying[1, 1]), abs=1e-6)
    np.testing.assert_array_equal(found.positional, whole.positional)
    expected = alone(tiny, "1", per_frequency=True)
    for name in ("plane_positional", "plane_symbolic", "plane_angle"):
        np.testing.assert_allclose(found[name].sel(prompt="1"), expected[name], atol=1e-4)


def test_hidden_blocks_are_told_and_left_out_when_asked_for(tiny, whole, tmp_path):
    said = []
    run(tiny, tmp_path / "all", report=said.append)
    assert len(said) == 1
    assert "see all blocks whole in layers 0, 1 (because of a sliding window, say)" in said[0]
    assert said[0].endswith("; pass --visible-only to score visible blocks alone, or shorter prompts")
    heads = list(csv.DictReader((tmp_path / "all" / "heads.csv").read_text().splitlines()))
    assert {(row["layer"], row["hidden_blocks"]) for row in heads} == {("0", "2"), ("1", "2"), ("2", "0")}
    said.clear()
    found = run(replace(tiny, visible_only=True), tmp_path / "seen", report=said.append)
    assert said == []
    for name in LENGTHS:
        expected = alone(tiny, name, visible_only=True)
        np.testing.assert_allclose(found.positional.sel(prompt=name), expected.positional, atol=1e-4)
    assert not np.allclose(found.positional[:, :2], whole.positional[:, :2], atol=0.1)
    np.testing.assert_array_equal(found.positional[:, 2], whole.positional[:, 2])


@pytest.fixture(scope="module")
def cubed(tiny, tmp_path_factory):
    """A profile with cubes."""
    return run(replace(tiny, cube=True), tmp_path_factory.mktemp("cubed") / "out")


def test_a_cube_is_that_of_every_prompt_by_hand(tiny, whole, cubed):
    model, _ = load_model(tiny.model, device="cpu")
    for name in ("0", "1"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HiddenBlocksWarning)
            cube = origin_cube(model, ids_of(name), **LAYOUT)
        for share in SHARES:
            np.testing.assert_allclose(cubed[share].sel(prompt=name), cube[share][0], atol=1e-3)
    np.testing.assert_allclose(cubed.positional, whole.positional, atol=1e-4)
    for row in tabulate_heads(cubed).to_dict("records"):
        assert row["origin_share_low"] <= row["origin_share"] <= row["origin_share_high"]
        assert sum(row[f"{part}_share"] for part in PARTS.values()) == pytest.approx(1, abs=1e-5)


def test_a_model_with_layers_on_disk_gives_the_same(tiny, whole):
    pytest.importorskip("accelerate")
    places = {"model.embed_tokens": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "cpu"}
    places |= {f"model.layers.{layer}": "disk" if layer == 1 else "cpu" for layer in range(3)}
    model, _ = load_model(tiny.model, device_map=places)
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu", "meta"}
    found = profile(model, ids_of("0"), **LAYOUT, visible_only=False)
    np.testing.assert_allclose(found.positional[0], whole.positional.sel(prompt="0"), atol=1e-4)


def test_a_damaged_profile_is_named(tiny, place, whole, tmp_path):
    for path in place.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "scores.nc").write_bytes((place / "scores.nc").read_bytes()[:500])
    with pytest.raises(ProfileError, match=r"scores.nc cannot be read \(.*\); measure again with --force"):
        run(tiny, tmp_path)
    assert run(tiny, tmp_path, force=True).symbolic.equals(whole.symbolic)


def test_a_profile_is_there_when_it_is_whole(tiny, tmp_path, monkeypatch):
    """A disk that fills up, or a user who ends the run, leaves neither a half of it nor what was written so far."""

    def failing(path, content):
        if path.name == "heads.csv":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_atomically(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(sealing, "write_atomically", failing)
        with pytest.raises(OSError, match="No space left"):
            run(tiny, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_profile_that_is_replaced_is_never_half_there(tiny, tmp_path, monkeypatch):
    """A kill in the middle of removing the old one leaves the new one whole: half of it would count as finished."""

    def killed(path, **options):
        (path / "heads.csv").unlink(missing_ok=True)
        raise KeyboardInterrupt

    folder = tmp_path / "out"
    run(tiny, folder)
    with monkeypatch.context() as patch:
        patch.setattr("posym_profile.report._folder.shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            run(replace(tiny, tau=0.5), folder, force=True)
    assert {path.name for path in folder.iterdir()} == {"scores.nc", "heads.csv"}
    assert run(replace(tiny, tau=0.5), folder).attrs["tau"] == 0.5


def test_a_profile_takes_no_other_folders_place(tiny, tmp_path):
    folder = tmp_path / "out"
    run(tiny, folder)
    written = (folder / "heads.csv").read_bytes()
    for force, change, message in (
        (False, lambda: None, "holds a profile with other settings; pass another --out, or --force to put this one in"),
        (True, (folder / "notes.txt").touch, r"holds notes.txt beside a profile, which --force would discard; move"),
        (True, (folder / "scores.nc").unlink, r"holds other files, such as heads.csv; pass a new folder as --out"),
    ):
        change()
        with pytest.raises(ProfileError, match=message):
            run(replace(tiny, tau=0.5), folder, force=force)
        assert (folder / "heads.csv").read_bytes() == written


def test_what_is_finished_is_skipped_and_what_is_not_begins_again(tiny, two, whole, tmp_path, monkeypatch):
    """A run that ends in the second model's last batch has the first one's profile, and nothing of the second."""
    asked, measure_part = [], runs.measure_part

    def failing(part):
        asked.append((Path(part.settings.model).name, len(part.prompts)))
        if len(asked) == 8:
            raise RuntimeError("the power went")
        return measure_part(part)

    monkeypatch.setattr(runs, "measure_part", failing)
    with pytest.raises(RuntimeError, match="the power went"):
        run_profiles(two, tiny, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    asked.clear()
    said = []
    found = run_profiles(two, tiny, tmp_path, report=said.append)
    assert {name for name, _ in asked} == {"other"}
    assert f"{tmp_path / 'model'} holds this profile already" in said
    assert list(found) == [tmp_path / "model", tmp_path / "other"]
    assert found[tmp_path / "model"].equals(whole)
    rows = list(csv.DictReader((tmp_path / "heads.csv").read_text().splitlines()))
    assert [row["model"] for row in rows] == ["model"] * 12 + ["other"] * 12


@pytest.mark.parametrize("way", ["jobs", "cluster"])
def test_batches_in_other_processes_give_the_same(way, tiny, two, whole, tmp_path):
    if way == "jobs":
        found = run_profiles(two, tiny, tmp_path, jobs=2)
    else:
        distributed = pytest.importorskip("distributed")
        options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
        with distributed.LocalCluster(**options) as here:
            found = run_profiles(two, tiny, tmp_path, cluster=here.scheduler_address)
    for name in ("positional", "symbolic", "entropy", "visible_blocks"):
        np.testing.assert_array_equal(found[tmp_path / "model"][name], whole[name])
