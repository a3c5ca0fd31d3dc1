import csv
import errno
import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray
from architectures import tokens
from refusals import refuse_each
from saved_models import save_model

from posym_core.metrics._cube_parts import PARTS
from posym_core.store import _sealing as sealing
from posym_core.store._sealing import write_atomically
from posym_profile import load_model, origin_cube, profile
from posym_profile.language_models._refusals import UnsupportedModelError
from posym_profile.report import _run as runs
from posym_profile.report._folder import ProfileError
from posym_profile.report._measuring import measure_part
from posym_profile.report._profile_settings import ProfileSettings
from posym_profile.report._prompt_files import BlockedPrompt, write_prompts
from posym_profile.report._run import name_folders, run_profiles
from posym_profile.scores._head_table import tabulate_heads
from posym_profile.scores._labels import measure_head_labels
from posym_profile.scores._visibility import HiddenBlocksWarning

pytestmark = pytest.mark.usefixtures("one_thread")
FILES = {"scores.nc", "heads.csv", "prompts.jsonl"}
# Long prompts first, and the two shapes mixed, so that batches and prompts are in different orders.
LENGTHS = (26, 20, 26, 26, 20, 26, 20)


def write_input(path, lengths=LENGTHS):
    prompts = [
        BlockedPrompt(
            input_ids=tuple(tokens(1, length, seed=number)[0].tolist()),
            start=3,
            block_length=4,
            blocks=4,
            id=str(number),
        )
        for number, length in enumerate(lengths)
    ]
    path.write_bytes(write_prompts(prompts))
    return prompts


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A model's folder and a prompt file of seven prompts of two lengths, four batches."""
    folder = tmp_path_factory.mktemp("tiny")
    write_input(folder / "prompts.jsonl")
    model = save_model(folder / "model", "Gemma3")
    return ProfileSettings(model=str(model), task=None, input=str(folder / "prompts.jsonl"), batch_size=2, device="cpu")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="module")
def whole(tiny, place):
    """The profile of an unbroken run, in its place."""
    return run(tiny, place)


def run(settings, folder, **options):
    """The scores of a profile, as its folder holds them."""
    return run_profiles([settings.model], settings, folder, **options)[folder]


def settings_of(scores):
    return json.loads(scores.attrs["settings"])


def prompts_of(folder):
    return [BlockedPrompt.from_line(line) for line in (folder / "prompts.jsonl").read_text("utf-8").splitlines()]


def alone(tiny, prompt, **options):
    model, _ = load_model(tiny.model, device="cpu")
    blocks = {"start": 3, "block_length": 4, "blocks": 4}
    return profile(model, torch.tensor(prompt.input_ids), **blocks, **{"visible_only": False, **options})


def test_a_profile_holds_what_profile_measures(tiny, whole, place):
    assert {path.name for path in place.iterdir()} == FILES
    assert whole.length.values.tolist() == list(LENGTHS)
    for number, prompt in enumerate(prompts_of(place)):
        found = alone(tiny, prompt)
        for name in ("positional", "symbolic", "entropy"):
            np.testing.assert_allclose(whole[name][number], found[name][0], atol=1e-4)
        assert whole.visible_blocks[number].values.tolist() == found.visible_blocks[0].values.tolist()
    with xarray.open_dataset(place / "scores.nc") as read:
        assert read.identical(whole)
        assert read["prompt"].values.tolist() == [str(number) for number in range(7)]


def test_a_folder_has_the_scores_of_several_queries_and_labels(tiny, whole, tmp_path):
    model, _ = load_model(tiny.model, device="cpu")
    found = run(replace(tiny, queries=[15, -1], labels=True), tmp_path)
    assert found["query"].values.tolist() == settings_of(found)["queries"] == [15, -1]
    assert found.visible_blocks.shape == (7, 2, 3)
    for name in ("positional", "symbolic", "entropy"):
        np.testing.assert_allclose(found[name].sel(query=-1), whole[name], atol=1e-5)
    labels = measure_head_labels(model)
    assert found.window.values.tolist()[:2] == [16, 16]
    for name in labels:
        np.testing.assert_allclose(found[name], labels[name], atol=1e-6)
    rows = list(csv.DictReader((tmp_path / "heads.csv").read_text().splitlines()))
    assert [row["query"] for row in rows] == ["15"] * 12 + ["-1"] * 12
    assert float(rows[5]["copying"]) == pytest.approx(float(labels.copying[1, 1]), abs=1e-6)


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ([200], "queries must lie from"),
        (
            [5],
            r"queries must stand behind at least two blocks, from token 11 on \(start=3, block_length=4\); got 5,",
        ),
    ],
)
def test_queries_that_prompts_do_not_have_are_refused_before_a_pass(tiny, tmp_path, monkeypatch, queries, message):
    monkeypatch.setattr("posym_profile.report._measuring.load_model", None)
    asked = replace(tiny, queries=queries)
    with pytest.raises(ValueError, match=message):
        run(asked, tmp_path)


def test_planes_and_energies_are_measured_when_asked_for(tiny, whole, tmp_path):
    found = run(replace(tiny, per_frequency=True, energy=True), tmp_path)
    assert found.plane_positional.shape == (7, 3, 4, 8)
    np.testing.assert_array_equal(found.positional, whole.positional)
    expected = alone(tiny, prompts_of(tmp_path)[1], per_frequency=True, energy=True)
    np.testing.assert_allclose(found.plane_symbolic[1], expected.plane_symbolic[0], atol=1e-4)
    np.testing.assert_allclose(found.plane_energy[1], expected.plane_energy[0], atol=1e-4)
    np.testing.assert_array_equal(found.plane_angle[1], expected.plane_angle[0])


def test_visible_blocks_alone_are_scored_when_asked_for(tiny, whole, tmp_path):
    said = []
    found = run(replace(tiny, visible_only=True), tmp_path, report=said.append)
    assert said == []
    assert settings_of(found)["visible_only"] is True
    for number, prompt in enumerate(prompts_of(tmp_path)):
        expected = alone(tiny, prompt, visible_only=True)
        np.testing.assert_allclose(found.positional[number], expected.positional[0], atol=1e-4)
    assert not np.allclose(found.positional[:, :2], whole.positional[:, :2], atol=0.1)
    np.testing.assert_array_equal(found.positional[:, 2], whole.positional[:, 2])


def test_blocks_that_are_not_seen_are_told(tiny, whole, tmp_path):
    said = []
    run(tiny, tmp_path, report=said.append)
    assert len(said) == 1
    assert "(a sliding window, say), but in layers 0, 1: 2 of 4 to 3 of 4" in said[0]
    assert said[0].endswith("; pass --visible-only to score visible blocks alone, or shorter prompts")
    heads = list(csv.DictReader((tmp_path / "heads.csv").read_text().splitlines()))
    assert {(row["layer"], row["hidden_blocks"]) for row in heads} == {("0", "2"), ("1", "2"), ("2", "0")}


def test_prompts_beyond_the_positions_of_the_model_are_told(tiny, tmp_path):
    model = save_model(tmp_path / "model", "Llama")
    config = json.loads((model / "config.json").read_text()) | {"max_position_embeddings": 24}
    (model / "config.json").write_text(json.dumps(config))
    said, settings = [], {"task": "binding", "input": None, "facts": 6, "prompts": 2}
    found = run(replace(tiny, model=str(model), **settings), tmp_path / "out", report=said.append)
    beyond = int(found.length[0]) - 24
    assert beyond > 0
    assert found.tokens_beyond.values.tolist() == [beyond] * 2
    told = f"2 of 2 prompts are longer than the model's max_position_embeddings, by up to {beyond} tokens"
    assert said[0].startswith(told)


def by_hand(model, prompt):
    """Cubes of one prompt, as someone who calls the function takes them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HiddenBlocksWarning)
        return origin_cube(model, torch.tensor(prompt.input_ids), start=3, block_length=4, blocks=4)


@pytest.fixture(scope="module")
def cubed(tiny, tmp_path_factory):
    """A profile with cubes."""
    return run(replace(tiny, cube=True), tmp_path_factory.mktemp("cubed") / "out")


def test_a_cube_is_that_of_every_prompt_by_hand(tiny, whole, place, cubed):
    model, _ = load_model(tiny.model, device="cpu")
    cubes = [by_hand(model, prompt) for prompt in prompts_of(place)]
    for name in PARTS.values():
        expected = np.stack([cube.shares[name].numpy() for cube in cubes])
        np.testing.assert_allclose(cubed[f"{name}_share"], expected, atol=1e-4, err_msg=name)
    for name in ("symbol", "origin"):
        # What the first layers see of these prompts is next to nothing, of which shares are rounding.
        expected = np.stack([cube.symbolic_shares[name].numpy() for cube in cubes])
        np.testing.assert_allclose(cubed[f"symbolic_part_{name}"], expected, atol=1e-3, err_msg=name)
    np.testing.assert_allclose(cubed.positional, whole.positional, atol=1e-4)
    assert set(cubed) > set(whole)


def test_the_table_of_a_cube_is_means_of_its_prompts(whole, cubed):
    rows, before = tabulate_heads(cubed), tabulate_heads(whole)
    more = [name for name in rows if name not in before]
    assert more == [
        *(f"{name}_share{end}" for name in ("symbol", "origin", "place") for end in ("", "_low", "_high")),
        *("symbol_origin_share", "symbol_place_share", "origin_place_share", "all_three_share"),
        *("symbolic_part_symbol", "symbolic_part_origin"),
    ]
    for row in rows.to_dict("records"):
        shares = cubed.origin_share[:, row["layer"], row["head"]].astype(float)
        assert row["origin_share"] == pytest.approx(float(shares.mean()), rel=1e-5)
        assert row["origin_share_low"] <= row["origin_share"] <= row["origin_share_high"]
        assert sum(row[name] for name in more if name.endswith("_share")) == pytest.approx(1, abs=1e-5)


def test_places_seen_whole_count_in_a_cube_whatever_is_scored(tiny, cubed, tmp_path):
    found = run(replace(tiny, cube=True, visible_only=True), tmp_path)
    for name in PARTS.values():
        np.testing.assert_array_equal(found[f"{name}_share"], cubed[f"{name}_share"])


@pytest.mark.parametrize("options", [{"dtype": "bfloat16"}, {"device": "auto", "device_map": "auto"}])
def test_cubes_of_rounded_and_of_spread_models(tiny, cubed, tmp_path, options):
    if "device_map" in options:
        pytest.importorskip("accelerate")
    found = run(replace(tiny, cube=True, **options), tmp_path)
    close = 1e-5 if "device_map" in options else 0.15
    if "device_map" in options:
        np.testing.assert_allclose(found.positional, cubed.positional, atol=1e-4)
    for name in PARTS.values():
        np.testing.assert_allclose(found[f"{name}_share"], cubed[f"{name}_share"], atol=close)


LISTS = (
    r"all prompts are lists of one frame \(blocks share 2 of 4 tokens\) without a lead, so a high symbolic score can "
    r"mean that a head follows how many such blocks came before a key, and not what its block says\. Put some of the "
    r"same frame in front .*\. To vary the frame .* or to read the one token that differs .* helps less; "
)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"task": "binding"}, LISTS + "add --cube to see how much"),
        ({"task": "binding", "cube": True}, LISTS + "the shares of symbol and origin tell how much of it that is"),
        ({"task": "binding-with-lead"}, ""),
        ({"task": "text"}, ""),
    ],
)
def test_lists_of_one_frame_without_a_lead_are_told(tmp_path, options, says):
    model, said = save_model(tmp_path / "model"), []
    fixed = {"model": str(model), "facts": 4, "prompts": 2, "device": "cpu"}
    run(ProfileSettings(**fixed, **options), tmp_path / "out", report=said.append)
    lists = [line for line in said if "lists of one frame" in line]
    assert len(lists) == bool(says)
    assert all(re.fullmatch(says, line) for line in lists)


def test_a_damaged_profile_is_named(tiny, place, whole, tmp_path):
    for path in place.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "scores.nc").write_bytes((place / "scores.nc").read_bytes()[:500])
    with pytest.raises(ProfileError, match=r"scores.nc cannot be read \(.*\); measure again with --force"):
        run(tiny, tmp_path)
    assert run(tiny, tmp_path, force=True).symbolic.equals(whole.symbolic)


@pytest.mark.parametrize("cube", [False, True])
def test_models_without_rotary_encoding_are_refused_by_name(tiny, tmp_path, cube):
    model = save_model(tmp_path / "model", "GPT-2")
    with pytest.raises(UnsupportedModelError, match=r"GPT2LMHeadModel.*no rotary encoding"):
        run(replace(tiny, model=str(model), cube=cube), tmp_path / "out")


def test_a_model_with_layers_on_disk_gives_the_same(tiny, whole, place):
    pytest.importorskip("accelerate")
    places = {"model.embed_tokens": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "cpu"}
    places |= {f"model.layers.{layer}": "disk" if layer == 1 else "cpu" for layer in range(3)}
    model, _ = load_model(tiny.model, device_map=places)
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu", "meta"}
    prompt = prompts_of(place)[0]
    found = profile(model, torch.tensor(prompt.input_ids), **prompt.layout, visible_only=False)
    np.testing.assert_allclose(found.positional[0], whole.positional[0], atol=1e-4)


def made(**options):
    return lambda: ProfileSettings(**({"task": None, "input": "x"} | options))


test_settings_that_do_not_fit = refuse_each(
    (made(task="binding"), "pass either a task or an input file; got task='binding' and input='x'"),
    (made(input=None), "pass either a task or an input file; got task=None and input=None"),
    (made(dtype="float8"), "dtype must be one of 'float32', .*; got 'float8'"),
)


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


def test_a_new_profile_takes_an_old_ones_place(tiny, tmp_path):
    run(tiny, tmp_path / "out")
    assert settings_of(run(replace(tiny, tau=0.5), tmp_path / "out", force=True))["tau"] == 0.5


@pytest.fixture(scope="module")
def two(tiny, tmp_path_factory):
    """Two models' folders."""
    folder = tmp_path_factory.mktemp("models")
    return [tiny.model, str(save_model(folder / "other", "Llama"))]


def test_several_models_have_a_folder_each_and_one_table(tiny, whole, two, tmp_path):
    found = run_profiles(two, tiny, tmp_path / "out")
    assert list(found) == [tmp_path / "out" / name for name in ("model", "other")]
    assert found[tmp_path / "out" / "model"].equals(whole)
    rows = list(csv.DictReader((tmp_path / "out" / "heads.csv").read_text().splitlines()))
    assert [row["model"] for row in rows] == ["model"] * 12 + ["other"] * 12
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"model", "other", "heads.csv"}


def test_what_is_finished_is_skipped_and_what_is_not_begins_again(tiny, two, tmp_path, monkeypatch):
    """A run that ends in the second model's last batch has the first one's profile, and nothing of the second."""
    asked = []

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
    run_profiles(two, tiny, tmp_path, report=said.append)
    assert {name for name, _ in asked} == {"other"}
    assert f"{tmp_path / 'model'} holds this profile already" in said


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


def test_models_of_one_name_have_folders_of_their_whole_names(tmp_path):
    assert list(name_folders(["a/tiny", "b/tiny", "c/other/"], tmp_path)) == [
        tmp_path / "a--tiny", tmp_path / "b--tiny", tmp_path / "other"
    ]  # fmt: skip
    with pytest.raises(ValueError, match="models must be different; got a a"):
        name_folders(["a", "a"], tmp_path)
