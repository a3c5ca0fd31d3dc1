"""A reader's own runs: all that a paper's claims read, and the paper's measurement on a model of the reader's."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from invented import save_invented
from saved_models import save_model

from posym_companion import experiments, reproduce
from posym_companion.claims import language_model
from posym_companion.claims.rows import judge_all, read_rows
from posym_companion.language_models import binding_profile
from posym_companion.one_head.head_geometry import with_random_weights
from posym_companion.results import MissingResultError, find_results_folder, list_results, load_result
from posym_profile.__main__ import main
from posym_profile.language_models import load_model

# A small model of each of the paper's families: its kind and options. The first has a head 12:0, as the paper's.
FAMILIES = {
    "gemma-2-2b-tiny": ("Gemma2", {"sliding_window": 4096, "num_hidden_layers": 13, "num_attention_heads": 2}),
    "qwen2-tiny": ("Qwen2", {"num_hidden_layers": 2}),
    "llama-3-tiny": ("Llama 3", {"num_hidden_layers": 2}),
}


HIDDEN = {"remove-cell", "remove-input", "hide-cell"}


@pytest.mark.parametrize("paper", ["U25", "U26", "G26"])
def test_a_papers_settings_are_those_of_the_results_that_its_claims_read(paper):
    rows = reproduce.choose_rows(paper)
    assert [row.id for row in rows] == [row.id for row in read_rows() if row.id.startswith(f"{paper}-")]
    assert len({row.paper for row in rows}) == 1
    read = {name for row in rows for answer in row.answers.values() for name in answer.evidence}
    needed = [setting for settings in reproduce.list_settings(rows).values() for setting in settings]
    assert sorted(setting.name for setting in needed) == sorted(read)
    assert all(experiments.has_settings(load_result(setting.name), setting) for setting in needed)


def test_rows_are_chosen_by_paper_or_by_claim():
    assert [row.id for row in reproduce.choose_rows("U25-6", "L")] == ["U25-6", "L-3", "L-4"]
    with pytest.raises(ValueError, match="called U27; pass one of B, C, G26, L, T, U25, U26, or ids of claims"):
        reproduce.choose_rows("U25", "U27")


def test_the_estimate_is_what_the_stored_results_took_and_where(tmp_path, monkeypatch):
    needed = reproduce.list_settings(reproduce.choose_rows("U25-6S", "G26-1a"))
    names = [setting.name for settings in needed.values() for setting in settings]
    stored = [json.loads((find_results_folder() / f"{name}.json").read_text())["provenance"] for name in names]
    assert len({one["device"] for one in stored}) == 1
    minutes = sum(one["seconds"] for one in stored) / 60
    device = stored[0]["device"].replace("1 threads", "1 thread")
    said = f"2 are to be measured; the stored ones took {minutes:.1f} minutes on {device}"
    assert reproduce.estimate(needed) == said
    # Of what is there already nothing is measured, and of the rest only what was timed is summed up.
    setting = needed["gram_spectra"][0]
    save_invented(setting.name, {}, tmp_path, **asdict(setting))
    left = reproduce.leave_out_stored(needed, tmp_path)
    assert list(left) == ["frequency_surgery"]
    monkeypatch.setenv("POSYM_RESULTS", str(tmp_path))
    assert reproduce.estimate(needed).endswith("took 0.0 minutes on CPU and 1 was not timed")
    assert reproduce.estimate({}) == "0 are to be measured"


def test_an_experiment_waits_for_the_results_of_another(monkeypatch):
    done: list[str] = []

    class Fake:
        def __init__(self, name: str) -> None:
            self.name = name

        def run(self, settings):
            if needs[self.name] not in (None, *done):
                raise MissingResultError(f"{self.name} needs {needs[self.name]}")
            done.append(self.name)
            yield from settings

    monkeypatch.setattr(reproduce, "load_experiment", Fake)
    needs: dict[str, str | None] = {"a": "b", "b": "c", "c": None}
    assert list(reproduce.run_all({"a": [1], "b": [2], "c": [3]})) == [3, 2, 1]
    needs["c"], done = "elsewhere", []
    with pytest.raises(MissingResultError, match="c needs elsewhere"):
        list(reproduce.run_all({"c": [3]}))


def test_claims_are_reproduced_small_by_one_command(tiny, tokenizer, tmp_path, monkeypatch, capsys):
    loads: list[str] = []
    monkeypatch.setattr(experiments, "load_model", lambda *a, **k: loads.append("") or (tiny, tokenizer))
    claims = ["reproduce", "U25-3T", "G26-1a", "U25-T2"]
    command = [*claims, "--results", str(tmp_path), "--no-progress", "--device", "cpu"]
    assert main([*claims, "--small"]) == 1
    assert "the small size has the full size's names" in capsys.readouterr().err
    assert main([*command, "--small"]) == 0
    said = capsys.readouterr().out.splitlines()
    kept = list_results(folder=tmp_path)
    assert said[0] == f"3 claims read {len(kept)} results: gram_spectra, random_weights"
    assert said[1] == f"{len(kept)} are to be measured, of the small size, which takes minutes"
    assert sorted(line.split(":")[0] for line in said[2:-3]) == [f"Result {name}" for name in kept]
    assert [line.split()[0] for line in said[-3:]] == ["U25-3T", "U25-T2", "G26-1a"]
    assert "proved" in said[-2]
    assert loads
    loads.clear()
    assert main([*command, "--size", "small"]) == 0
    again = capsys.readouterr().out.splitlines()
    assert again[1:] == ["0 are to be measured", *said[-3:]]
    assert not loads


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """Results of the three families at 256 facts, one wording, prompt and draw of weights each, by the command."""
    folder: Path = tmp_path_factory.mktemp("families")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binding_profile, "TEMPLATES", ("likes",))
        patch.setattr(binding_profile, "DRAWS", (0,))
        small = replace(binding_profile.EXPERIMENT, small={"prompts": 1})
        patch.setattr(binding_profile, "EXPERIMENT", small)
        for name, (kind, options) in FAMILIES.items():
            model = save_model(folder / name, kind, words=300, dtype=torch.bfloat16, **options)
            command = ["run", "binding_profile", "--model", str(model), "--facts", "256", "--small"]
            assert main([*command, "--results", str(folder / "results"), "--no-progress", "--device", "cpu"]) == 0
        yield folder


@pytest.fixture
def judged(profiled, monkeypatch):
    """The claims about all heads on these."""
    monkeypatch.setattr(binding_profile, "TEMPLATES", ("likes",))
    monkeypatch.setattr(binding_profile, "DRAWS", (0,))
    monkeypatch.setattr(language_model, "DRAWN", 20)
    rows = judge_all("U25-2", "U25-3", "U25-4", "U25-4H", "U25-5", "U25-9", folder=profiled / "results")
    return {row.id: row for row in rows}


def test_the_papers_models_are_columns_of_their_own_at_256_facts(profiled, judged):
    models = sorted(str(profiled / name) for name in FAMILIES)
    for name in ("U25-2", "U25-3", "U25-4", "U25-9"):
        answers = judged[name].answers
        assert sorted(list(answers)[:3]) == models
        for model in models:
            assert answers[model].grade != "undecided", answers[model].why
            assert any("random weights" in one.name and one.told for one in answers[model].parts)
            assert all("256" in result for result in answers[model].evidence)
        assert [one.grade for one in list(answers.values())[3:]] == ["undecided"] * 3
        assert judged[name].headline.startswith(f"{next(iter(answers))}: ")
    assert list(judged["U25-4H"].answers) == [models[0], "gemma-3-270m"]
    assert judged["U25-4H"].answers[models[0]].grade != "undecided"
    (families,) = judged["U25-5"].answers.values()
    assert families.grade != "undecided"
    assert len(families.evidence) == 2 * len(FAMILIES)
    assert not [result for result in families.evidence if "random" in result or "lead" in result]


def test_models_of_readers_and_their_random_weights_are_measured_as_precise_as_they_come(profiled):
    names = list_results("binding_profile", folder=profiled / "results")
    assert len(names) == 4 * len(FAMILIES)
    model, _ = load_model(str(profiled / "qwen2-tiny"), device="cpu")
    assert model.dtype == with_random_weights(model, 0).dtype == torch.bfloat16


@pytest.mark.parametrize(("kind", "facts"), [("Gemma2", 256), ("Qwen2", 40), ("Llama 3", 40)])
def test_the_chapter_shows_the_papers_table_for_another_model(kind, facts, tmp_path, root, capsys):
    """Its visible cells up to the plane of all heads, which compute while they are read."""
    window = {"sliding_window": 4096} if kind == "Gemma2" else {}
    model = save_model(tmp_path / "model", kind, words=300, num_hidden_layers=13, dtype=torch.bfloat16, **window)
    cells = json.loads((root / "book/language_model/language_model.ipynb").read_text(encoding="utf-8"))["cells"]
    seen = [cell for cell in cells if cell["cell_type"] == "code" and not HIDDEN & {*cell["metadata"].get("tags", ())}]
    code = {cell["id"]: "".join(cell["source"]) for cell in seen}
    assert code["lm-model"] == 'MODEL = "gemma-3-270m"\nFACTS = 16'
    code["lm-model"] = f"MODEL, FACTS = {str(model)!r}, {facts}"
    known: dict[str, Any] = {}
    for name in list(code)[: list(code).index("lm-plane") + 1]:
        exec(code[name], known)
        if name == "lm-table":
            said = str(known["table"])
            assert f"model, {facts} facts" in said
            assert all(number in said for number in ("−0.91", "0.83", "0.56"))
    assert all(paper in str(known["table"]) for paper in ("both high", "s_POS high", "s_SYM high"))
    assert known["model"].dtype == torch.bfloat16
    said = capsys.readouterr().out
    assert re.search(r"^r = -?\d\.\d\d$", said, re.M)
    assert f"{facts} facts of " in said


def test_facts_are_refused_where_an_experiment_has_none(tmp_path, capsys):
    assert main(["run", "hop_length", "--facts", "256", "--results", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "settings of hop_length/number_0 have no facts, so --facts 256 has no place there; leave it out" in said


def test_one_thread_is_one(tmp_path, monkeypatch):
    for device in ("CPU (x86_64, 1 threads)", "CPU (x86_64, 11 threads)"):
        (tmp_path / "one.json").write_text(json.dumps({"provenance": {"device": device, "seconds": 3.0}}))
        monkeypatch.setattr(reproduce, "result_path", lambda name: tmp_path / "one")
        assert reproduce.read_seconds("one") == (device.replace(" 1 threads", " 1 thread"), 3.0)
