"""Tasks of one's own: a file, found by name and in lists; what is refused."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import pytest
import torch
from own_packages import as_before, example
from saved_models import save_model

import posym_profile.__main__ as command_line
import posym_profile.prompts
from posym_core._extensions import ExtensionError
from posym_profile.__main__ import main
from posym_profile.prompts import PROMPT_TASKS, Prompts, make_prompts, register_prompt_task
from posym_profile.report import _chunks as chunks
from posym_profile.report import _survey as survey
from posym_profile.report._folder import load_profile
from posym_profile.report._profile_settings import ProfileSettings

OURS = list(PROMPT_TASKS)
PLAIN = """
from posym_profile.prompts import keyvalue_prompts
def {name}(tokenizer, *, facts, count, seed=0):
    return keyvalue_prompts(tokenizer, facts=facts, count=count, seed=seed)
"""


@pytest.fixture
def patch(tmp_path) -> Iterator[pytest.MonkeyPatch]:
    with as_before(PROMPT_TASKS, tmp_path) as patch:
        yield patch


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_model(tmp_path_factory.mktemp("tiny") / "model"))


def profiled(model, task, out):
    command = ["profile", model, "--task", task, "--facts", "4", "--prompts", "3", "--threads", "1", "--out", str(out)]
    return main(command)


def install(folder, code=None, name="riddle-pack", entry="riddle"):
    """A package whose entry point names a task ``riddles``."""
    module = name.replace("-", "_")
    entries, code = {entry: f"{module}:riddles"}, PLAIN.format(name="riddles") if code is None else code
    return write_package(folder, name, GROUP, entries, **{module: code})


def test_the_example_is_found_by_adding_one_file(patch, tmp_path, model, capsys):
    """Once it is named there, the command line knows it, and so do survey and report."""
    pytest.importorskip("matplotlib")
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "echo.py").write_text(example("A prompt task"), encoding="utf-8")
    path = [*posym_profile.prompts.__path__, str(tmp_path / "room")]
    patch.setattr(posym_profile.prompts, "__path__", path)
    patch.setattr(posym_profile.prompts.__spec__, "submodule_search_locations", path)
    PROMPT_TASKS._imported = False
    assert list(PROMPT_TASKS) == [*OURS, "echo"]
    assert profiled(model, "echo", tmp_path / "out") == 1
    assert "task must be one of 'binding', " in capsys.readouterr().err
    patch.setattr(command_line, "TASKS", (*command_line.TASKS, "echo"))
    assert profiled(model, "echo", tmp_path / "out") == 0
    found = load_profile(tmp_path / "out")
    assert found.arrays["blocks"].tolist() == [4, 4, 4]
    assert "task echo (names that are said twice, and one of them once more)" in (
        tmp_path / "out" / "report.html"
    ).read_text(encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["profile", "--help"])
    assert re.search(r"text,\s+echo, or\s+module:function", capsys.readouterr().out)
    (tmp_path / "models").write_text(model, encoding="utf-8")
    drawn = ["--facts", "4", "--prompts", "3", "--threads", "1", "--draws", "20"]
    assert main(["survey", str(tmp_path / "models"), "--task", "echo", *drawn, "--out", str(tmp_path / "survey")]) == 0
    assert ",echo," in (tmp_path / "survey" / "survey.csv").read_text(encoding="utf-8")


def test_after_it_is_removed_it_is_unknown():
    assert "echo" not in PROMPT_TASKS
    with pytest.raises(ValueError, match=r"task must be one of 'binding', .*'text', or module:name .*; got 'echo'"):
        ProfileSettings(task="echo")


def test_what_a_task_was_is_part_of_a_profile(patch, tmp_path, model, capsys):
    """The same name with other code is another profile."""
    file = tmp_path / "mine.py"
    file.write_text(PLAIN.format(name="riddles"), encoding="utf-8")
    patch.syspath_prepend(tmp_path)
    assert profiled(model, "mine:riddles", tmp_path / "out") == 0
    assert profiled(model, "mine:riddles", tmp_path / "out") == 0
    file.write_text(PLAIN.format(name="riddles") + "\nSEED = 1\n", encoding="utf-8")
    assert profiled(model, "mine:riddles", tmp_path / "out") == 1
    assert "holds a profile of other settings (task_sha256:" in capsys.readouterr().err
    assert "task_sha256" not in ProfileSettings(task="binding", model=model).describe_settings()


def test_a_function_in_no_package_goes_by_module_and_name(patch, tmp_path, model):
    (tmp_path / "mine.py").write_text(PLAIN.format(name="riddles"), encoding="utf-8")
    patch.syspath_prepend(tmp_path)
    assert profiled(model, "mine:riddles", tmp_path / "out") == 0
    assert load_profile(tmp_path / "out").settings["task"] == "mine:riddles"
    assert re.fullmatch("mine-riddles-[0-9a-f]{6}", survey._name_folder("mine:riddles"))  # a folder's name everywhere
    assert list(PROMPT_TASKS) == OURS


WRONG = {
    "nowhere_at_all:riddles": "cannot be loaded: ModuleNotFoundError: No module named 'nowhere_at_all'. It must be",
    "own_file:puzzles": "cannot be loaded: AttributeError: .*'puzzles'. It must be module:name, of a module that Py",
    "own_file:SEED": "loaded: prompt task 'own_file:SEED' must be a function that makes prompts; got 3",
    "own_file:narrow": r"is called as make\(tokenizer, facts=4, count=2, seed=0\), but it takes \(tokenizer\): ",
    "own_script:riddles": "cannot be loaded: SystemExit: 2. It must be module:name",
    "own_broken:riddles": "cannot be loaded: SyntaxError: ",
    "own_file.py:riddles": "own is module:name, such as my_file:riddles for .*; got 'own_file.py:rid",
    "./own_file:riddles": "without its end and with full stops for further folders; got './own_file:riddles'",
    "own_file:": "a task of your own is module:name, .*; got 'own_file:'",
    ":riddles": "a task of your own is module:name, .*; got ':riddles'",
    # Called with a tokenizer, and refused before the model is loaded.
    "own_file:others": "must return posym_profile.prompts.Prompts; got list. Make them with posym_profile.prompts.draf",
    "own_file:strangers": "of the task 'own_file:strangers' must lie between 0 and 96 .*; got 3 to 1000; make",
}


@pytest.mark.parametrize("task", WRONG)
def test_what_is_wrong_with_a_task_of_ones_own_is_told(task, patch, tmp_path, model, capsys):
    """From a folder that Python does not look into, as for a script that is installed."""
    code = (
        PLAIN.format(name="riddles")
        + """
from dataclasses import replace
SEED = 3
narrow = lambda tokenizer: 3
others = lambda tokenizer, *, facts, count, seed=0: [1]
def strangers(tokenizer, **options):
    prompts = riddles(tokenizer, **options)
    return replace(prompts, input_ids=prompts.input_ids.clamp(min=1).index_fill(1, prompts.input_ids[0, :1] * 0, 1000))
"""
    )
    (tmp_path / "own_file.py").write_text(code, encoding="utf-8")
    (tmp_path / "own_script.py").write_text("import sys\nsys.exit(2)\n", encoding="utf-8")
    (tmp_path / "own_broken.py").write_text("def riddles(:\n", encoding="utf-8")
    patch.chdir(tmp_path)
    patch.setattr(sys, "path", [path for path in sys.path if path])
    patch.setattr(chunks, "load_model", lambda *a, **k: pytest.fail("loaded"))
    assert profiled(model, task, tmp_path / "out") == 1
    assert re.search(WRONG[task], said := capsys.readouterr().err), said
    assert not (tmp_path / "out").exists()


def test_a_function_in_a_file_of_this_folder_is_found(patch, tmp_path, model):
    (tmp_path / "own_file.py").write_text("from own_neighbour import riddles", encoding="utf-8")
    (tmp_path / "own_neighbour.py").write_text(PLAIN.format(name="riddles"), encoding="utf-8")
    patch.chdir(tmp_path)
    patch.setattr(sys, "path", [path for path in sys.path if path])
    assert profiled(model, "own_file:riddles", tmp_path / "out") == 0


def test_two_of_one_name_are_refused():
    place = "posym_profile.prompts._lists_and_text"
    with pytest.raises(ExtensionError, match=f"task 'text' is {place}:text_prompts already, and .* name; rename one"):
        register_prompt_task("text")(lambda tokenizer, *, facts, count, seed=0: None)
    assert list(PROMPT_TASKS) == OURS


def test_a_cell_may_run_twice_and_a_module_be_named_that_registered_its_task(patch, tmp_path):
    code = "from posym_profile.prompts import keyvalue_prompts, register_prompt_task\n"
    code += "@register_prompt_task('riddle', 'a riddle')" + PLAIN.format(name="riddles").replace(
        "\nfrom posym_profile.prompts import keyvalue_prompts", ""
    )
    (tmp_path / "riddle_pack.py").write_text(code, encoding="utf-8")
    patch.syspath_prepend(tmp_path)
    assert PROMPT_TASKS.find("riddle_pack:riddles").says == "a riddle"
    sys.modules.pop("riddle_pack")
    import riddle_pack  # type: ignore[import-not-found]

    assert PROMPT_TASKS.find("riddle").make is riddle_pack.riddles


@pytest.mark.parametrize("name", ["Riddle", "a b", "a,b", "", "-a", "a/b"])
def test_a_name_that_no_folder_can_have_is_refused(name):
    with pytest.raises(ExtensionError, match=f"the name of a task must be small letters, .*; got {name!r}"):
        register_prompt_task(name)(lambda tokenizer, *, facts, count, seed=0: None)


GOOD = {
    "input_ids": torch.arange(20).reshape(2, 10), "start": 1, "block_length": 2, "blocks": 4, "texts": ["", ""],
    "answer_ids": torch.ones(2, 4, dtype=torch.int64), "target": torch.tensor([0, 3]),
}  # fmt: skip


MISSHAPEN = [
    ({"input_ids": torch.zeros(2, 10)}, "input_ids of .*own must be an int64 tensor of 2 dimensions; got torch.flo"),
    ({"target": [0, 3]}, "target of .*own must be an int64 tensor of 1 dimensions; got list"),
    ({"texts": [""]}, "was asked for count=2 prompts and must return as many of each; got .*'texts': 1"),
    ({"input_ids": GOOD["input_ids"][:1]}, "'input_ids': 1"),
    ({"blocks": 1}, "blocks of .*own must be at least 2, .*; got blocks=1 of block_length=2 from start=1 in 10 tok"),
    ({"block_length": 0}, "got blocks=4 of block_length=0"),
    ({"start": -1}, "from start=-1"),
    ({"start": 2}, "the last token to the query; got blocks=4 of block_length=2 from start=2 in 10 tokens"),
    ({"target": torch.tensor([0, 4])}, "a place among a prompt's 4 alternatives, from 0 on; got 0 to 4"),
    ({"target": torch.tensor([-1, 0])}, "got -1 to 0"),
]


@pytest.mark.parametrize(("change", "message"), MISSHAPEN)
def test_prompts_whose_shapes_do_not_fit_are_refused(change, message, patch):
    made = dict(GOOD)

    @register_prompt_task("own")
    def own(tokenizer, *, facts, count, seed=0):
        return Prompts(**made)

    assert make_prompts(None, "own", facts=4, count=2).blocks == 4
    made.update(change)
    with pytest.raises(ValueError, match=message):
        make_prompts(None, "own", facts=4, count=2)
