"""Tasks of one's own: a function in a file, found by its name; what is refused."""

from __future__ import annotations

import json
import re
import sys
from types import ModuleType

import pytest
import torch
from own_packages import example
from saved_models import save_model

from posym_profile.__main__ import TASKS, main
from posym_profile.prompts import PROMPT_TASKS, Prompts, make_prompts
from posym_profile.prompts._prompt_tasks import find_prompt_task
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
        ("own_file:strangers", "of the task 'own_file:strangers' do not fit: input_ids must lie between 0 and 96; got"),
    ],
)
def test_what_is_wrong_with_a_task_of_ones_own_is_told(task, message, folder, model, monkeypatch, capsys):
    code = """
from dataclasses import replace
from posym_profile.prompts import keyvalue_prompts
others = lambda tokenizer, *, facts, count, seed=0: [1]
def strangers(tokenizer, **options):
    prompts = keyvalue_prompts(tokenizer, **options)
    return replace(prompts, input_ids=prompts.input_ids.index_fill(1, prompts.input_ids[0, :1] * 0, 1000))
"""
    (folder / "own_file.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(measuring, "load_model", lambda *a, **k: pytest.fail("loaded"))
    assert profiled(model, task, folder / "out") == 1
    assert re.search(message, said := capsys.readouterr().err), said
    assert not (folder / "out").exists()


def test_a_function_is_found_as_it_is():
    assert find_prompt_task("posym_profile.prompts:keyvalue_prompts") is PROMPT_TASKS["keyvalue"]


GOOD = {
    "input_ids": torch.arange(20).reshape(2, 10), "start": 1, "block_length": 2, "blocks": 4, "texts": ["", ""],
    "answer_ids": torch.ones(2, 4, dtype=torch.int64), "target": torch.tensor([0, 3]),
}  # fmt: skip


@pytest.mark.parametrize(("change", "message"), [
    ({"input_ids": torch.zeros(2, 10)}, "do not fit: input_ids, answer_ids and target must be int64, with 2 rows of"),
    ({"target": torch.tensor([[0, 3]])}, "with 2 rows of 2, 2 and 1 dimensions"),
    ({"input_ids": GOOD["input_ids"][:1]}, "with 2 rows"),
    ({"blocks": 1}, r"blocks must be a whole number of at least 2 .*got 1"),
    ({"start": 2}, "blocks cover 8 keys from start=2, but only 7 precede the query's own"),
    ({"target": torch.tensor([-1, 4])}, "target must lie between 0 and 3; got -1 to 4"),
    ({"input_ids": GOOD["input_ids"] + 1}, "input_ids must lie between 0 and 19; got 1 to 20"),
])  # fmt: skip
def test_prompts_whose_shapes_do_not_fit_are_refused(change, message, monkeypatch):
    made = dict(GOOD)
    my_own = ModuleType("my_own")
    monkeypatch.setitem(sys.modules, "my_own", my_own)
    my_own.own = lambda tokenizer, *, facts, count, seed=0: Prompts(**made)
    assert make_prompts(range(20), "my_own:own", facts=4, count=2).blocks == 4
    made.update(change)
    with pytest.raises(ValueError, match=message):
        make_prompts(range(20), "my_own:own", facts=4, count=2)
