import csv
import errno
import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from architectures import tokens
from refusals import refuse_each
from saved_models import save_model

from posym_core.metrics._cube_parts import PARTS
from posym_core.store import _sealing as sealing
from posym_core.store._sealing import write_atomically
from posym_profile import load_model, origin_cube, profile
from posym_profile.language_models._refusals import UnsupportedModelError
from posym_profile.planes._rotary_planes import find_planes
from posym_profile.report._folder import ProfileError, load_profile
from posym_profile.report._profile_settings import ProfileSettings
from posym_profile.report._prompt_files import BlockedPrompt, write_prompts
from posym_profile.report._run import run_profile
from posym_profile.scores._labels import measure_head_labels
from posym_profile.scores._visibility import HiddenBlocksWarning

pytestmark = pytest.mark.usefixtures("one_thread")
FILES = {"profile.json", "scores.safetensors", "heads.csv", "prompts.jsonl"}
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
def whole(tiny, tmp_path_factory):
    """The profile of an unbroken run."""
    return run_profile(tiny, tmp_path_factory.mktemp("whole"), progress=False)


def assert_same_numbers(found, expected):
    assert found.arrays.keys() == expected.arrays.keys()
    for name, array in expected.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array, err_msg=name)
    assert found.prompts == expected.prompts


def test_a_profile_holds_what_profile_measures(tiny, whole):
    model, _ = load_model(tiny.model, device="cpu")
    assert {path.name for path in whole.folder.iterdir()} == FILES
    assert whole.arrays["length"].tolist() == list(LENGTHS)
    planes = {length: find_planes(model, length) for length in set(LENGTHS)}
    for number, prompt in enumerate(whole.prompts):
        ids = torch.tensor(prompt.input_ids)
        options = {"tau": tiny.tau, "planes": planes[len(ids)], "progress": False, "visible_only": False}
        alone = profile(model, ids, start=3, block_length=4, blocks=4, **options)
        for name in ("positional", "symbolic", "entropy"):
            np.testing.assert_allclose(whole.arrays[name][number], getattr(alone, name)[0].numpy(), atol=1e-4)
        assert whole.arrays["visible_blocks"][number].tolist() == alone.visible_blocks[0].tolist()
    assert_same_numbers(load_profile(whole.folder), whole)


def test_a_folder_has_the_scores_of_several_queries_and_labels(tiny, whole, tmp_path):
    model, _ = load_model(tiny.model, device="cpu")
    asked = replace(tiny, queries=[15, -1], labels=True)
    found = run_profile(asked, tmp_path, progress=False)
    assert found.settings["queries"] == [15, -1]
    assert found.arrays["queries"].tolist() == [15, -1]
    assert found.arrays["visible_blocks"].shape == (7, 2, 3)
    for name in ("positional", "symbolic", "entropy"):
        np.testing.assert_allclose(found.arrays[name][:, 1], whole.arrays[name], atol=1e-5)
    labels = measure_head_labels(model)
    assert found.arrays["window"].tolist()[:2] == [16, 16]
    for name in ("previous_token", "first_token", "induction", "copying"):
        np.testing.assert_allclose(found.arrays[f"label_{name}"], getattr(labels, name).numpy(), atol=1e-6)
    rows = list(csv.DictReader((tmp_path / "heads.csv").read_text().splitlines()))
    assert [row["query"] for row in rows] == ["15"] * 12 + ["-1"] * 12
    assert float(rows[5]["copying"]) == pytest.approx(float(labels.copying[1, 1]), abs=1e-6)
    assert "queries" not in whole.settings
    assert "labels" not in whole.settings
    assert_same_numbers(load_profile(tmp_path), found)


def test_a_table_is_the_frame_with_intervals(tiny, tmp_path):
    """In Python as in heads.csv: the same columns, the same numbers."""
    pandas = pytest.importorskip("pandas")
    model, _ = load_model(tiny.model, device="cpu")
    run = run_profile(replace(tiny, labels=True), tmp_path, progress=False)
    ids = torch.zeros(7, max(LENGTHS), dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for number, prompt in enumerate(run.prompts):
        ids[number, : len(prompt.input_ids)] = torch.tensor(prompt.input_ids)
        mask[number, : len(prompt.input_ids)] = 1
    options = {"start": 3, "block_length": 4, "blocks": 4, "visible_only": False, "labels": True, "progress": False}
    frame = profile(model, ids, mask, **options).frame(intervals=True)
    written = pandas.read_csv(tmp_path / "heads.csv")
    assert list(written) == list(frame)
    pandas.testing.assert_frame_equal(written, frame, check_dtype=False, atol=1e-4)


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
    monkeypatch.setattr("posym_profile.report._run.load_model", None)
    asked = replace(tiny, queries=queries)
    with pytest.raises(ValueError, match=message):
        run_profile(asked, tmp_path, progress=False)


def test_planes_are_scored_when_asked_for(tiny, whole, tmp_path):
    found = run_profile(replace(tiny, per_frequency=True), tmp_path, progress=False)
    assert found.arrays["plane_positional"].shape == (7, 3, 4, 8)
    assert found.arrays["plane_angle"].shape == (2, 3, 8)
    assert found.arrays["shape"].tolist() == [1, 0, 1, 1, 0, 1, 0]
    np.testing.assert_array_equal(found.arrays["positional"], whole.arrays["positional"])
    model, _ = load_model(tiny.model, device="cpu")
    ids = torch.tensor(found.prompts[1].input_ids)
    options = {"progress": False, "per_frequency": True, "visible_only": False}
    alone = profile(model, ids, start=3, block_length=4, blocks=4, **options)
    np.testing.assert_allclose(found.arrays["plane_symbolic"][1], alone.symbolic[0].numpy(), atol=1e-4)


def test_visible_blocks_alone_are_scored_when_asked_for(tiny, whole, tmp_path):
    said = []
    found = run_profile(replace(tiny, visible_only=True), tmp_path, progress=False, report=said.append)
    assert said == []
    assert found.settings["visible_only"] is True
    assert "visible_only" not in whole.settings
    model, _ = load_model(tiny.model, device="cpu")
    for number, prompt in enumerate(found.prompts):
        options = {"tau": tiny.tau, "progress": False, "visible_only": True}
        alone = profile(model, torch.tensor(prompt.input_ids), start=3, block_length=4, blocks=4, **options)
        np.testing.assert_allclose(found.arrays["positional"][number], alone.positional[0].numpy(), atol=1e-4)
    assert not np.allclose(found.arrays["positional"][:, :2], whole.arrays["positional"][:, :2], atol=0.1)
    np.testing.assert_array_equal(found.arrays["positional"][:, 2], whole.arrays["positional"][:, 2])


def test_blocks_that_are_not_seen_are_told(tiny, whole, tmp_path):
    said = []
    run_profile(tiny, tmp_path, progress=False, report=said.append)
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
    found = run_profile(replace(tiny, model=str(model), **settings), tmp_path / "out", progress=False,
                        report=said.append)  # fmt: skip
    beyond = len(found.prompts[0].input_ids) - 24
    assert beyond > 0
    assert found.arrays["tokens_beyond"].tolist() == [beyond] * 2
    told = f"2 of 2 prompts are longer than the model's max_position_embeddings, by up to {beyond} tokens"
    assert said[0].startswith(told)


def by_hand(model, prompt):
    """Cubes of one prompt, as someone who calls the function takes them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HiddenBlocksWarning)
        return origin_cube(model, torch.tensor(prompt.input_ids), start=3, block_length=4, blocks=4)


@pytest.fixture(scope="module")
def cubed(tiny, tmp_path_factory):
    """A profile with cubes, and what was said on the way."""
    said = []
    folder = tmp_path_factory.mktemp("cubed")
    return run_profile(replace(tiny, cube=True), folder, progress=False, report=said.append), said


def test_a_cube_is_that_of_every_prompt_by_hand(tiny, whole, cubed):
    found, _ = cubed
    model, _ = load_model(tiny.model, device="cpu")
    cubes = [by_hand(model, prompt) for prompt in found.prompts]
    for name in PARTS.values():
        expected = np.stack([cube.shares[name].numpy() for cube in cubes])
        np.testing.assert_allclose(found.arrays[f"cube_{name}"], expected, atol=1e-4, err_msg=name)
    for name in ("symbol", "origin"):
        # What the first layers see of these prompts is next to nothing, of which shares are rounding.
        expected = np.stack([cube.symbolic_shares[name].numpy() for cube in cubes])
        np.testing.assert_allclose(found.arrays[f"symbolic_part_{name}"], expected, atol=1e-3, err_msg=name)
    np.testing.assert_allclose(found.arrays["positional"], whole.arrays["positional"], atol=1e-4)
    assert found.arrays.keys() > whole.arrays.keys()


def test_the_table_of_a_cube_is_means_of_its_prompts(whole, cubed):
    found, _ = cubed
    rows, before = (
        list(csv.DictReader((profile.folder / "heads.csv").read_text().splitlines())) for profile in (found, whole)
    )
    more = [name for name in rows[0] if name not in before[0]]
    assert more == [
        *(f"{name}_share{end}" for name in ("symbol", "origin", "place") for end in ("", "_low", "_high")),
        *("symbol_origin_share", "symbol_place_share", "origin_place_share", "all_three_share"),
        *("symbolic_part_symbol", "symbolic_part_origin"),
    ]
    for row in rows:
        shares = found.arrays["cube_origin"][:, int(row["layer"]), int(row["head"])].astype(float)
        assert float(row["origin_share"]) == pytest.approx(shares.mean(), rel=1e-5)
        assert float(row["origin_share_low"]) <= shares.mean() <= float(row["origin_share_high"])
        assert sum(float(row[name]) for name in more if name.endswith("_share")) == pytest.approx(1, abs=1e-5)
    described = json.loads((found.folder / "profile.json").read_text())
    assert described["arrays"]["cube_all_three"] == {"shape": [7, 3, 4], "dtype": "float32"}
    assert described["settings"]["cube"] is True
    assert "cube" not in json.loads((whole.folder / "profile.json").read_text())["settings"]


def test_places_seen_whole_count_in_a_cube_whatever_is_scored(tiny, cubed, tmp_path):
    found = run_profile(replace(tiny, cube=True, visible_only=True), tmp_path, progress=False)
    for name in PARTS.values():
        np.testing.assert_array_equal(found.arrays[f"cube_{name}"], cubed[0].arrays[f"cube_{name}"])


@pytest.mark.parametrize("options", [{"dtype": "bfloat16"}, {"device": "auto", "device_map": "auto"}])
def test_cubes_of_rounded_and_of_spread_models(tiny, cubed, tmp_path, options):
    if "device_map" in options:
        pytest.importorskip("accelerate")
    found = run_profile(replace(tiny, cube=True, **options), tmp_path, progress=False)
    close = 1e-5 if "device_map" in options else 0.15
    if "device_map" in options:
        np.testing.assert_allclose(found.arrays["positional"], cubed[0].arrays["positional"], atol=1e-4)
    for name in PARTS.values():
        np.testing.assert_allclose(found.arrays[f"cube_{name}"], cubed[0].arrays[f"cube_{name}"], atol=close)


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
    run_profile(ProfileSettings(**fixed, **options), tmp_path / "out", progress=False, report=said.append)
    lists = [line for line in said if "lists of one frame" in line]
    assert len(lists) == bool(says)
    assert all(re.fullmatch(says, line) for line in lists)


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize("damage", ["missing", "truncated", "altered"])
def test_damage_is_found_and_named(whole, tmp_path, name, damage):
    for path in whole.folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    load_profile(tmp_path)
    content = bytearray((tmp_path / name).read_bytes())
    if damage == "missing":
        (tmp_path / name).unlink()
        message = f"{name} is missing"
    elif damage == "truncated":
        (tmp_path / name).write_bytes(content[:-20])
        message = f"{name} (was altered or truncated: it has .* bytes instead of|is not a whole description)"
    else:
        place = content.index(b"0") if name == "profile.json" else len(content) // 2
        content[place] ^= 1
        (tmp_path / name).write_bytes(content)
        message = f"{name} .*(altered|format)"
    with pytest.raises(ProfileError, match=message):
        load_profile(tmp_path)


def test_a_folder_without_a_profile(tmp_path):
    with pytest.raises(ProfileError, match=r"holds no profile \(profile.json is missing\); make one with"):
        load_profile(tmp_path)


@pytest.mark.parametrize("cube", [False, True])
def test_models_without_rotary_encoding_are_refused_by_name(tiny, tmp_path, cube):
    model = save_model(tmp_path / "model", "GPT-2")
    with pytest.raises(UnsupportedModelError, match=r"GPT2LMHeadModel.*no rotary encoding"):
        run_profile(replace(tiny, model=str(model), cube=cube), tmp_path / "out", progress=False)


def test_a_model_with_layers_on_disk_gives_the_same(tiny, whole, tmp_path):
    pytest.importorskip("accelerate")
    places = {"model.embed_tokens": "cpu", "model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "cpu"}
    places |= {f"model.layers.{layer}": "disk" if layer == 1 else "cpu" for layer in range(3)}
    model, _ = load_model(tiny.model, device_map=places)
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu", "meta"}
    ids = torch.tensor(whole.prompts[0].input_ids)
    found = profile(model, ids, start=3, block_length=4, blocks=4, progress=False, visible_only=False)
    np.testing.assert_allclose(found.positional[0].numpy(), whole.arrays["positional"][0], atol=1e-4)


def made(**options):
    return lambda: ProfileSettings(**({"task": None, "input": "x"} | options))


test_settings_that_do_not_fit = refuse_each(
    (made(task="binding"), "pass either a task or an input file; got task='binding' and input='x'"),
    (made(input=None), "pass either a task or an input file; got task=None and input=None"),
    (made(dtype="float8"), "dtype must be one of 'float32', .*; got 'float8'"),
)


def test_settings_of_numpy_and_torch_are_those_of_python():
    numbers = {"facts": np.int64(4), "tau": np.float32(0.5), "energy": np.bool_(True), "seed": torch.tensor(3)}
    described = ProfileSettings(**numbers).describe_settings()
    assert described == ProfileSettings(facts=4, tau=0.5, energy=True, seed=3).describe_settings()
    assert described == json.loads(json.dumps(described))


def test_a_profile_is_there_when_it_is_whole(tiny, tmp_path, monkeypatch):
    """A disk that fills up, or a user who ends the run, leaves neither a half of it nor what was written so far."""

    def failing(path, content):
        if path.name == "heads.csv":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_atomically(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(sealing, "write_atomically", failing)
        with pytest.raises(OSError, match="No space left"):
            run_profile(tiny, tmp_path / "out", progress=False)
    assert list(tmp_path.iterdir()) == []


def test_a_profile_takes_no_other_folders_place(tiny, tmp_path):
    folder = tmp_path / "out"
    first = run_profile(tiny, folder, progress=False)
    for force, change, message in (
        (False, lambda: None, "holds a profile; pass another --out, or --force to put this one in its place"),
        (True, (folder / "notes.txt").touch, r"holds notes.txt beside a profile, which --force would discard; move"),
        (True, (folder / "profile.json").unlink, r"holds other files, such as heads.csv; pass a new folder as --out"),
    ):
        change()
        with pytest.raises(ProfileError, match=message):
            run_profile(tiny, folder, progress=False, force=force)
        assert (folder / "heads.csv").read_bytes() == (first.folder / "heads.csv").read_bytes()


def test_a_new_profile_takes_an_old_ones_place(tiny, tmp_path):
    run_profile(tiny, tmp_path / "out", progress=False)
    found = run_profile(replace(tiny, tau=0.5), tmp_path / "out", progress=False, force=True)
    assert_same_numbers(load_profile(tmp_path / "out"), found)
    assert load_profile(tmp_path / "out").settings["tau"] == 0.5
