"""A survey: its table against the functions that its numbers come from, refusals, going on, a cluster, and the page."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from asked_addresses import Addresses
from axe_playwright_python.sync_playwright import Axe
from in_browser import opened
from saved_models import save_model
from scipy import stats

from posym_core.metrics._contrasts import contrast_layers
from posym_core.metrics._stats import correlate_heads
from posym_core.store._resuming import write_part
from posym_core.store._sealing import unseal
from posym_profile import load_model
from posym_profile.__main__ import main
from posym_profile.language_models._loading import load_tokenizer
from posym_profile.language_models._model_summary import summarize_model
from posym_profile.language_models._refusals import UnsupportedModelError
from posym_profile.report import _chunks as profile_chunks
from posym_profile.report import _run as profile_runs
from posym_profile.report import _survey as surveys
from posym_profile.report._folder import ProfileError, load_profile
from posym_profile.report._profile_settings import ProfileSettings
from posym_profile.report._run import run_profile
from posym_profile.report._survey import PAGE, read_models, run_survey

pytestmark = pytest.mark.usefixtures("one_thread")
OPTIONS = {"facts": 3, "prompts": 4, "batch_size": 2, "threads": 1, "device": "cpu"}
TASKS = ["binding", "index"]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list[str]:
    """Two models that can be profiled, and one that has no rotation."""
    folder = tmp_path_factory.mktemp("models")
    return [str(save_model(folder / name, name)) for name in ("Gemma3", "Llama", "GPT-2")]


@pytest.fixture(scope="module")
def surveyed(models, tmp_path_factory):
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("survey")
    return run_survey(models, TASKS, folder, options=OPTIONS, draws=50, progress=False), folder


def test_rows_are_in_order_and_name_what_is_refused(surveyed, models):
    rows, folder = surveyed
    assert [(row["model"], row["task"]) for row in rows] == [(model, task) for model in models for task in TASKS]
    assert [bool(row["refused"]) for row in rows] == [False] * 4 + [True] * 2
    assert "no rotary encoding" in rows[-1]["refused"]
    kept = unseal(folder / surveys.DESCRIPTION, format=surveys.FORMAT)
    assert kept["rows"] == json.loads(json.dumps(rows))
    assert kept["settings"] == {**OPTIONS, "draws": 50, "tasks": TASKS}
    assert set(kept["provenance"]) == {"code_version", "code_digest", "date", "seconds", "versions"}


def test_numbers_are_those_of_the_profiles(surveyed, models):
    rows, folder = surveyed
    for row in rows[:4]:
        (place,) = (folder / "profiles").glob(f"*{Path(row['model']).name}-*/{row['task']}")
        arrays = load_profile(place).arrays
        positional, symbolic = arrays["positional"].astype(float), arrays["symbolic"].astype(float)
        assert row["correlation"]["value"] == correlate_heads(positional, symbolic, draws=50).value
        exact = stats.binomtest(int(arrays["correct"].sum()), len(arrays["correct"])).proportion_ci()
        assert [row["right"][end] for end in ("low", "high")] == pytest.approx([exact.low, exact.high])
        assert row["right"]["value"] == arrays["correct"].mean()
        assert row["right"]["method"] == "exact binomial over prompts"
        gap = (positional - symbolic).mean(0).ravel()
        energy, angles = arrays["plane_energy"].astype(float).mean(0), arrays["plane_angle"][0].astype(float)
        np.testing.assert_allclose(arrays["plane_energy"].sum(-1), 1, rtol=1e-5)
        use = [(energy[i, j] * np.log(angles[i])).sum() for i, j in np.ndindex(*energy.shape[:2])]
        assert row["frequency_law"]["value"] == pytest.approx(stats.spearmanr(gap, use).statistic)
        slow = angles * row["tokens"] / (2 * np.pi) < 1 / 8
        parts = [energy[i, j][slow[i]].sum() for i, j in np.ndindex(*energy.shape[:2])]
        assert row["slow_energy"]["value"] == pytest.approx(np.mean(parts), abs=1e-5)
        assert 0 < row["chance"] < 1


def test_layers_are_compared_with_their_own_kind(surveyed, models):
    rows, folder = surveyed
    gemma, llama = rows[0], rows[2]
    # Two local layers of three, one in either half; Llama has none.
    (place,) = (folder / "profiles").glob("*Gemma3-*/binding")
    scores = load_profile(place).arrays["positional"].astype(float)
    local = contrast_layers(scores[:, :2], split=1, draws=50).difference
    assert gemma["positional_local"]["value"] == local.value
    assert gemma["positional_global"] is None
    assert gemma["windows"] == [16]
    # Prompts of three facts do not fit into it, and nothing hides them from Llama.
    assert (gemma["hidden_layers"], llama["hidden_layers"]) == (2, 0)
    assert gemma["rope_bases"] == [1e4, 1e6]
    assert llama["positional_local"] is llama["symbolic_local"] is None
    assert llama["positional_global"]["value"] == pytest.approx(
        contrast_layers(load_profile(next((folder / "profiles").glob("*Llama-*/binding"))).arrays["positional"])
        .difference.value
    )  # fmt: skip
    assert llama["windows"] == []


def test_outlines_are_those_of_the_loaded_model(models):
    for name in models[:2]:
        model, _ = load_model(name, device="cpu")
        said = summarize_model(name)
        assert said.parameters == sum(parameter.numel() for parameter in model.parameters())
        assert said.architecture == type(model).__name__
        assert said.layers == len(said.windows) == 3
    with pytest.raises(FileNotFoundError, match="no model 'nowhere/at-all' could be loaded"):
        summarize_model("nowhere/at-all")


def test_the_table_can_be_read(surveyed):
    rows, folder = surveyed
    table = list(csv.DictReader(io.StringIO((folder / surveys.TABLE).read_text())))
    assert len(table) == len(rows)
    for cells, row in zip(table, rows, strict=True):
        assert cells["model"] == row["model"]
        assert cells["refused"] == row["refused"]
        for name in surveys.ESTIMATES:
            number = row.get(name)
            if number is None:
                assert cells[name] == cells[f"{name}_low"] == ""
            else:
                assert float(cells[name]) == pytest.approx(number["value"], rel=1e-6)
                assert float(cells[f"{name}_low"]) <= float(cells[f"{name}_high"])
    assert table[0]["rope_bases"] == "10000 1e+06"
    assert [cells["hidden_layers"] for cells in table] == ["2"] * 2 + ["0"] * 2 + [""] * 2


def test_with_cubes_there_are_medians_of_shares(surveyed, models, tmp_path, capsys):
    (tmp_path / "list").write_text(f"{models[1]}\n{models[2]}\n")
    command = ["survey", str(tmp_path / "list"), "--task", "binding", "--out", str(tmp_path / "out"), "--cube"]
    command += ["--facts", "3", "--prompts", "4", "--batch-size", "2", "--threads", "1", "--draws", "20"]
    assert main([*command, "--device", "cpu", "--no-progress"]) == 0
    assert "--cube: about 12 passes more, one for each block of 4 prompts" in capsys.readouterr().err
    cells, refused = csv.DictReader(io.StringIO((tmp_path / "out" / surveys.TABLE).read_text()))
    (place,) = (tmp_path / "out" / "profiles").glob("*Llama-*/binding")
    heads = list(csv.DictReader((place / "heads.csv").read_text().splitlines()))
    marked = json.loads((place / "profile.json").read_text())["marks"]["cube"]
    for name in ("symbol_share", "origin_share", "place_share", "all_three_share", "symbolic_part_origin"):
        median = np.median([float(row[name]) for row in heads])
        assert float(cells[name]) == pytest.approx(median, rel=1e-5)
        assert marked[name]["median"] == pytest.approx(median, rel=1e-5)
        assert float(cells[f"{name}_low"]) <= median <= float(cells[f"{name}_high"])
        assert refused[name] == ""
    page = (tmp_path / "out" / PAGE).read_text()
    for label in ("Symbol", "Origin", "Place", "Origin in symbolic part"):
        assert f"<dt>{label}</dt>" in page
    described = unseal(tmp_path / "out" / surveys.DESCRIPTION, format=surveys.FORMAT)
    assert described["settings"]["cube"] is True
    without = (surveyed[1] / surveys.TABLE).read_text()
    assert "share" not in without.splitlines()[0]
    assert "<dt>Origin</dt>" not in (surveyed[1] / PAGE).read_text()


def test_a_later_run_goes_on_from_the_profiles(surveyed, models, tmp_path, monkeypatch):
    rows, folder = surveyed
    shutil.copytree(folder / "profiles", tmp_path / "profiles")
    said = []
    again = run_survey(models, TASKS, tmp_path, options=OPTIONS, draws=50, progress=False, report=said.append)
    assert again == rows
    assert sum("holds this profile already" in line for line in said) == 4
    with pytest.raises(ProfileError, match=r"other settings \(seed: 0 there, 1 now\)"):
        run_survey(models, TASKS, tmp_path, options={**OPTIONS, "seed": 1}, draws=50, progress=False)


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes, started once: each imports for longer than it measures."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**options, silence_logs=50) as started:
        yield started


def test_a_cluster_gives_the_rows_of_this_machine_and_goes_on(surveyed, models, cluster, tmp_path, monkeypatch, capsys):
    """The run is ended while the third of six profiles has one of its two chunks."""
    (tmp_path / "list").write_text("\n".join(models))
    ends = iter([None] * 5 + [KeyboardInterrupt()])

    def save_until_ended(path, arrays, about):
        if (end := next(ends, None)) is not None:
            raise end
        write_part(path, arrays, about)

    monkeypatch.setattr(profile_runs, "write_part", save_until_ended)
    monkeypatch.setattr(profile_chunks, "load_model", lambda *a, **k: pytest.fail("measured on this machine"))
    command = ["survey", str(tmp_path / "list"), "--task", ",".join(TASKS), "--out", str(tmp_path / "out")]
    command += ["--cluster", cluster.scheduler_address, "--draws", "50", "--no-progress"]
    for name, value in OPTIONS.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    assert main(command) == 130
    assert not (tmp_path / "out" / surveys.DESCRIPTION).exists()
    capsys.readouterr()
    assert main(command) == 0
    said = capsys.readouterr()
    assert said.err.count("holds this profile already") == 2
    assert said.err.count("going on: 1 of 2 chunks are finished") == 1
    assert said.err.count("no rotary encoding") == 2
    assert said.out.startswith("4 profiles, 2 refused: ")

    def numbers(rows):
        return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]

    found = unseal(tmp_path / "out" / surveys.DESCRIPTION, format=surveys.FORMAT)["rows"]
    assert numbers(found) == json.loads(json.dumps(numbers(surveyed[0])))


def test_a_worker_that_is_killed_changes_no_number(models, cluster, tmp_path, monkeypatch):
    """One of two worker processes dies when the first chunk of a profile has come."""
    settings = ProfileSettings(model=models[0], task="binding", **{**OPTIONS, "prompts": 8})
    whole, killed = run_profile(settings, tmp_path / "here", progress=False), []

    def kill_one(path, arrays, about):
        if not killed:
            # One that is at work; the nanny beside it starts another.
            busy = {worker.address for worker in cluster.scheduler.workers.values() if worker.processing}
            assert busy
            killed.extend([nanny.pid for nanny in cluster.workers.values() if nanny.worker_address in busy][:1])
            os.kill(killed[0], signal.SIGKILL)
        write_part(path, arrays, about)

    monkeypatch.setattr(profile_runs, "write_part", kill_one)
    monkeypatch.setattr(profile_chunks, "load_model", lambda *a, **k: pytest.fail("measured on this machine"))
    found = run_profile(settings, tmp_path / "there", cluster=cluster.scheduler_address, progress=False)
    assert len(killed) == 1
    assert found.arrays.keys() == whole.arrays.keys()
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array, err_msg=name)
    assert found.prompts == whole.prompts
    assert found.provenance["threads"] == 1
    assert (tmp_path / "there" / "heads.csv").read_bytes() == (tmp_path / "here" / "heads.csv").read_bytes()


def test_the_page_asks_for_nothing_and_shows_every_row(surveyed, models):
    rows, folder = surveyed
    page = (folder / PAGE).read_text(encoding="utf-8")
    addresses = Addresses(page)
    assert (addresses.undescribed, len(addresses.asked)) == (0, 5)  # four figures and no icon
    assert all(address.startswith("data:") for address in addresses.asked)
    assert page.count('<td class="name">') == 2 * 4
    assert "no rotary encoding" in page
    assert "prefers-color-scheme: dark" in page
    assert "3 models on binding, index: 4 profiles, 2 refused." in page
    assert f"{rows[0]['correlation']['value']:.2f} <small>[" in page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_sorts_and_is_accessible(scheme, surveyed, browser, tmp_path):
    with opened(browser, (surveyed[1] / PAGE).read_text("utf-8"), tmp_path, color_scheme=scheme) as page:
        assert Axe().run(page).response["violations"] == []
        models = page.locator("tbody tr td:first-child")
        page.get_by_role("button", name="Model").click()
        assert models.all_text_contents() == sorted(models.all_text_contents(), reverse=True)


def test_a_model_that_cannot_be_read_has_a_row_and_those_behind_it_are_measured(models, tmp_path, capsys):
    broken = shutil.copytree(models[1], tmp_path / "broken")
    os.truncate(broken / "model.safetensors", 1000)
    impossible = shutil.copytree(models[1], tmp_path / "impossible")
    config = json.loads((impossible / "config.json").read_text()) | {"num_attention_heads": 0}
    (impossible / "config.json").write_text(json.dumps(config))
    (tmp_path / "list").write_text(f"{broken}\n{impossible}\n{models[1]}\n")
    command = ["survey", str(tmp_path / "list"), "--out", str(tmp_path / "out"), "--facts", "3", "--prompts", "2"]
    assert main([*command, "--threads", "1", "--draws", "20", "--no-progress"]) == 0
    assert "1 profile, 2 refused" in capsys.readouterr().out
    rows = unseal(tmp_path / "out" / surveys.DESCRIPTION, format=surveys.FORMAT)["rows"]
    assert "model.safetensors cannot be read" in rows[0]["refused"]
    assert "could be loaded: ZeroDivisionError" in rows[1]["refused"]
    assert rows[2]["refused"] == ""


def test_that_prompts_are_lists_is_told_once_at_the_end_and_on_the_page(models, tmp_path):
    said = []
    run = {"options": OPTIONS, "draws": 20, "progress": False, "report": said.append}
    for _ in range(2):  # anew, and from the profiles that are there
        said.clear()
        run_survey(models[:2], ["binding", "binding-with-lead", "index"], tmp_path, **run)
        (told,) = (line for line in said if "lists of one frame" in line)
        assert told == said[-1]
        assert told.startswith("binding, index: all prompts are lists of one frame (blocks share")
        assert told in unescape((tmp_path / PAGE).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no list of models at .*; write a file with one name or folder a line"),
        ("", "names no model; write one name or folder a line"),
        ("# only\n\n", "names no model"),
        ("a/b\nc\na/b\n", r"line 3: 'a/b' is in the list already; leave it out"),
        ("./missing\n", r"line 1: no model can be read in the folder './missing' \(it needs config.json"),
    ],
)
def test_bad_lists_are_refused_before_anything_runs(content, message, tmp_path, capsys):
    if content is not None:
        (tmp_path / "list").write_text(content)
    assert main(["survey", str(tmp_path / "list"), "--out", str(tmp_path / "out")]) == 1
    assert re.search(f"error: .*{message}", capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--task", ""], "task must be one of"),
        (["--device", "nowhere"], "device 'nowhere' cannot be used here"),
        (["--jobs", "0"], "jobs must be a whole number of at least 1"),
        (
            ["--task", "induction,induction"],
            "each task has rows of its own and may be there once; got 'induction' 2 times",
        ),
    ],
)
def test_bad_settings_are_refused_before_anything_runs(options, message, models, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(surveys, "run_profile", lambda *a, **k: pytest.fail("something ran"))
    (tmp_path / "list").write_text(models[1])
    assert main(["survey", str(tmp_path / "list"), "--out", str(tmp_path / "out"), *options]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_way_and_an_empty_list_are_refused(models, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        run_survey(models, TASKS, tmp_path / "file", options=OPTIONS)
    with pytest.raises(
        ValueError, match="a survey needs a model and a task or an input file; got 0 models and 2 tasks"
    ):
        run_survey([], TASKS, tmp_path / "out")


ENCODERS = {
    "ModernBertConfig": "is no decoder of text (modernbert, an encoder or a model for other inputs): transformers has "
    "no causal language model of this kind; use a decoder with rotary attention",
    "BertConfig": "is an encoder (bert): its first token sees those behind it; use a decoder with rotary attention",
    "T5Config": "is an encoder-decoder (t5), whose decoder also attends to another sequence; use a decoder with rotary",
    "BartConfig": "is an encoder-decoder (bart)",
    "Qwen2VLConfig": "is a vision-language model (qwen2_vl), which transformers does not load as a decoder of text; "
    "load it by transformers.AutoModelForImageTextToText and give the model to posym_profile.profile, or use a decoder",
}


@pytest.mark.parametrize("kind", ENCODERS)
def test_what_is_no_decoder_is_refused_in_one_line_everywhere(kind, tmp_path, capsys):
    """Its configuration is enough, so that nothing is loaded for it."""
    import transformers

    folder = tmp_path / "model"
    getattr(transformers, kind)().save_pretrained(folder)
    for function in (load_model, load_tokenizer, summarize_model):
        with pytest.raises(UnsupportedModelError) as caught:
            function(str(folder))
        assert ENCODERS[kind] in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1
    command = ["profile", str(folder), "--task", "binding", "--out", str(tmp_path / "one"), "--no-progress"]
    assert main(command) == 1
    assert capsys.readouterr().err.strip() == f"error: {caught.value}"
    (row,) = run_survey([str(folder)], ["binding"], tmp_path / "many", options=OPTIONS, draws=50, progress=False)
    assert row["refused"] == str(caught.value)
    (cells,) = csv.DictReader(io.StringIO((tmp_path / "many" / surveys.TABLE).read_text()))
    assert cells["refused"] == str(caught.value)
    assert "1 model on binding: 0 profiles, 1 refused." in (tmp_path / "many" / PAGE).read_text()


def test_a_list_may_name_the_hub(tmp_path):
    (tmp_path / "list").write_text("gemma-3-270m\nQwen/Qwen2.5-1.5B # on the hub\n")
    assert read_models(tmp_path / "list") == ["gemma-3-270m", "Qwen/Qwen2.5-1.5B"]


def test_a_full_disk_ends_the_survey(models, tmp_path, monkeypatch):
    import errno

    def full(*a, **k):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(surveys, "run_profile", full)
    with pytest.raises(OSError, match="No space left"):
        run_survey(models, TASKS, tmp_path, options=OPTIONS)


def test_what_keeping_a_survey_needs_is_asked_before_a_model_is_looked_at(models, tmp_path, monkeypatch):
    monkeypatch.setattr(surveys, "summarize_model", lambda *a: pytest.fail("a model was looked at"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2_000_000))
    with pytest.raises(OSError, match=r"survey has 2 MB free, and 100 MB must be for what is measured; make room or"):
        run_survey(models, TASKS, tmp_path / "survey", options=OPTIONS)
