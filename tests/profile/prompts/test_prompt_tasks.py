"""Tasks of one's own: a function in a file, found by its name; what is refused."""

from __future__ import annotations

import json
import re
import sys

import pytest
from own_packages import example
from saved_models import save_model

from posym_profile.__main__ import TASKS, main
from posym_profile.prompts import PROMPT_TASKS
from posym_profile.report import _measuring as measuring
from posym_profile.report._folder import read_scores


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_model(tmp_path_factory.mktemp("tiny") / "model"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that Python does not look into, as for a script that is installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    yield tmp_path
    for name in [name for name, module in sys.modules.items() if str(tmp_path) in str(getattr(module, "__file__", ""))]:
        del sys.modules[name]


def profiled(model, task, out):
    return main(["profile", model, "--task", task, "--facts", "4", "--prompts", "3", "--out", str(out)])


def test_the_command_line_knows_every_task():
    assert tuple(PROMPT_TASKS) == TASKS


def test_the_example_is_a_task_by_module_and_name(folder, model):
    (folder / "my_file.py").write_text(example("A prompt task"), encoding="utf-8")
    assert profiled(model, "my_file:echo_prompts", folder / "out") == 0
    found = read_scores(folder / "out")
    assert found.blocks.values.tolist() == [4, 4, 4]
    settings = json.loads(found.attrs["settings"])
    assert settings["task"] == "my_file:echo_prompts"
    assert re.fullmatch("[0-9a-f]{64}", settings["task_sha256"])


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("nosuch", "task must be one of 'binding', .*, or module:function for one of your own; got 'nosuch'"),
        ("nowhere_at_all:riddles", "cannot be loaded: No module named 'nowhere_at_all'. It must be module:function"),
        ("own_file:puzzles", "cannot be loaded: module 'own_file' has no attribute 'puzzles'"),
        ("own_file:others", "own_file:others must return posym_profile.prompts.Prompts; got list. Make them with"),
    ],
)
def test_what_is_wrong_with_a_task_of_ones_own_is_told(task, message, folder, model, monkeypatch, capsys):
    code = "others = lambda tokenizer, *, facts, count, seed=0: [1]"
    (folder / "own_file.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(measuring, "load_model", lambda *a, **k: pytest.fail("loaded"))
    assert profiled(model, task, folder / "out") == 1
    assert re.search(message, said := capsys.readouterr().err), said
    assert not (folder / "out").exists()
