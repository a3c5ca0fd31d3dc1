"""The command line: what it writes, what it says, and with which exit status it ends."""

from __future__ import annotations

import csv
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import asdict
from types import SimpleNamespace

import pytest
from saved_models import save_model

from posym_companion.claims.rows import read_rows
from posym_profile.__main__ import main
from posym_profile.language_models import _loading as models
from posym_profile.report import _measuring as measuring
from posym_profile.report import _run as profile_runs
from posym_profile.report._folder import read_scores

LOADERS = ("load_model", "load_tokenizer", "identify_model", "convert_packaged")
LINE = {"input_ids": [1, *range(20, 40)], "start": 1, "block_length": 4, "id": "first, and only"}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    save_model(folder / "model")
    (folder / "prompts.jsonl").write_text(json.dumps(LINE) + "\n" + json.dumps(LINE | {"id": 2}) + "\n")
    return ["profile", str(folder / "model"), "--input", str(folder / "prompts.jsonl")]


def test_a_profile_is_written_told_of_and_not_made_twice(tiny, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    command = [*tiny, "--out", str(tmp_path / "out")]
    assert main(command) == 0
    said = capsys.readouterr()
    assert said.out.startswith("2 prompts, 3 layers, 4 heads, ")
    assert said.out.rstrip().endswith("report.html")
    assert len((tmp_path / "out" / "heads.csv").read_text().splitlines()) == 1 + 12
    assert read_scores(tmp_path / "out")["prompt"].values.tolist() == ["first, and only", "2"]
    assert main(command) == 0
    again = capsys.readouterr()
    assert again.out == said.out
    assert again.err.endswith("out holds this profile already\n")
    assert main([*command, "--tau", "0.1"]) == 1
    assert "with other settings; pass another --out, or --force to put this one in its" in capsys.readouterr().err
    assert main([*command, "--force", "--tau", "0.1"]) == 0
    assert json.loads(read_scores(tmp_path / "out").attrs["settings"])["tau"] == 0.1


def test_several_models_are_measured_by_one_command(tiny, tmp_path, capsys):
    other = save_model(tmp_path / "other", "Mistral")
    command = ["profile", tiny[1], str(other), *tiny[2:], "--out", str(tmp_path / "out"), "--no-report", "--explorer"]
    assert main([*command, "--jobs", "2"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.rpartition("/")[2] for line in said] == ["model", "other"]
    rows = list(csv.DictReader((tmp_path / "out" / "heads.csv").read_text().splitlines()))
    assert {row["model"] for row in rows} == {"model", "other"}
    assert "<title>Head explorer of other</title>" in (tmp_path / "out" / "other" / "explorer.html").read_text()


def test_claims_are_a_line_each_and_one_is_told_whole_anywhere(tmp_path, monkeypatch, capsys):
    """Outside a checkout, too: what claims came to is stored with them."""
    monkeypatch.chdir(tmp_path)
    assert main(["claims"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = read_rows()
    assert len(lines) == len(rows) + 2
    for line, row in zip(lines, rows, strict=False):
        assert re.fullmatch(rf"{row.id} +{row.grade} +{re.escape(f'{row.short}: {row.headline}')}", line)
    assert lines[-1] == "posym claims ID shows the whole of a claim."
    assert main(["claims", "U25-6", "U25-3"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    for row in read_rows("U25-6", "U25-3"):
        said = [row.quote, row.at, row.asks, row.history]
        for answer in row.answers.values():
            said += [answer.headline, *answer.evidence, *(part.name for part in answer.parts)]
            said += [case for part in answer.parts for case in part.missed]
        assert not [text for text in said if " ".join(text.split()) not in told.replace("- ", "-")]
    assert main(["claims", "nosuch"]) == 1
    assert "no claim is called nosuch; claims are U25-1, " in capsys.readouterr().err


def test_claims_are_json_and_are_judged_again_by_other_results(tmp_path, capsys):
    assert main(["claims", "U25-3", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    (row,) = read_rows("U25-3")
    assert found == json.loads(json.dumps(asdict(row) | {"headline": row.headline}))
    assert main(["claims", "U25-3", "--json", "--results", str(tmp_path)]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["grade"] == "undecided"
    assert "is not there" in found["headline"]


def test_a_profile_that_could_not_be_kept_is_not_measured(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(measuring, "identify_model", lambda *a: pytest.fail("asked for the model"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2_000_000))
    assert main([*tiny, "--out", str(tmp_path / "out")]) == 1
    assert re.search("has 2 MB free, and 100 MB must be for what is measured; make room", capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "binding_profile", "--small"], "the small size has the full size's names.*--results folder"),
        (["run", "later_claims", "--model", "Qwen/Q"], "later_claims has models of its own, so --model Qwen/Q"),
        (["profile", "./nowhere", "--task", "text"], "^error: './nowhere' is no folder; pass one that"),
        (["support", "./nowhere"], "^error: './nowhere' is no folder; pass one that"),
        (["claims", "--results", "/nowhere"], "error: there is no folder of results at /nowhere; pass"),
    ],
)
def test_what_cannot_be_done_ends_in_one_line_and_status_1(arguments, message, tmp_path, capsys):
    out = ["--out", str(tmp_path)] if arguments[0] == "profile" else []
    assert main([*arguments, *out]) == 1
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1
    assert re.search(message, said), said


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--input", "FILE", "--facts", "4", "--seed", "1"], "--input are given; leave out --facts and --seed"),
        (["--task", "text", "--device", "abacus"], "device 'abacus' cannot be used here"),
        (["--task", "text", "--device", "cpu", "--device-map", "auto"], "device_map decides about devices"),
        (["gemma-3-270m", "--task", "text"], "models of one command must have different names; got gemma-3-270m gem"),
        (["--task", "text", "--tau", "-1"], "tau must be above 0; got -1.0"),
        (["--task", "nosuch"], "task must be one of 'binding', .*; got 'nosuch'"),
        (["--task", "own:task"], r"task 'own:task' cannot be loaded: invalid syntax \(own.py, line 1\)"),
        (["--input", "nowhere.txt"], "error: nowhere.txt: No such file or directory"),
        (["--input", "."], "error: .: Is a directory"),
        (["--task", "text", "--out", "FILE/in"], "FILE is no folder, so none can be made there; pass another --out"),
        (["--task", "text", "--out", "LINK"], "LINK is no folder, so none can be made there; pass another --out"),
    ],
)
def test_arguments_are_refused_before_anything_is_loaded(wrong, message, tmp_path, monkeypatch, capsys):
    loaded = []
    for module, name in itertools.product((models, measuring, profile_runs), LOADERS):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, lambda *a, name=name, **k: loaded.append(name) or {})
    (tmp_path / "FILE").touch()
    (tmp_path / "LINK").symlink_to(tmp_path / "nowhere")
    (tmp_path / "own.py").write_text("def")
    monkeypatch.chdir(tmp_path)
    assert main(["profile", "--out", "folder", "gemma-3-270m", *wrong]) == 1
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1
    assert re.search(message, said)
    assert loaded == []
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize(
    ("reader", "encoding"), [("head -1 > /dev/null", "utf-8"), ("cat > /dev/null", "ascii")], ids=["a pipe", "letters"]
)
def test_what_reads_the_output_may_stop_or_know_few_letters(reader, encoding, tmp_path):
    say = "import sys; from posym_profile import __main__ as m; m._parser = lambda: P(); sys.exit(m.main())"
    code = "class O: command = staticmethod(lambda o: [print('ü日' * 999) for _ in range(99)] and 0)\n"
    code += f"class P: parse_args = staticmethod(lambda a: O)\n{say}"
    script = tmp_path / "say.py"
    script.write_text(code, encoding="utf-8")
    line = f"set -o pipefail; {sys.executable} {script} | {reader}"
    given = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run(["bash", "-c", line], env=given, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
