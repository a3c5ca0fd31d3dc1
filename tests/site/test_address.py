"""The project's public address: one in all places, set by one command, and a placeholder that nothing is taken from."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import address
import nbformat
import pytest

OWN, PLACEHOLDER = "https://github.com/owner/heads", "https://github.com/OWNER/posym"
# An address of this project: on GitHub under its name, or its pages.
NAMED = re.compile(r"https://(?:github\.com/[\w{}-]+/posym\b|[\w{}-]+\.github\.io/posym\b)")


@pytest.fixture
def project(tmp_path: Path, root: Path) -> Path:
    """The files that name the address, and one chapter."""
    for name in (*address.NAMED_IN, "book/where_and_what/scores.ipynb"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, tmp_path / name)
    return tmp_path


def test_no_other_address_stands_anywhere(root: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a checkout of git")
    texts = [root / name for name in listed.stdout.splitlines() if not name.startswith(("results/", "tests/site/"))]
    found = {match for path in texts if path.is_file() for match in NAMED.findall(path.read_text(errors="replace"))}
    assert found == {address.repository_address(root)}


def test_one_command_sets_it_everywhere(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = address.repository_address(project)
    assert address.main([], project) == 0
    assert address.main(["--set", OWN + "/"], project) == 0
    named = capsys.readouterr().out.splitlines()
    assert named == [f"written to {name}" for name in (*address.NAMED_IN, "book/where_and_what/scores.ipynb")]
    for path in (path for path in project.rglob("*") if path.is_file()):
        text = path.read_text(encoding="utf-8")
        assert before not in text
        assert OWN in text
    assert address.main([], project) == 0


@pytest.mark.parametrize("wrong", ["github.com/owner/heads", "https://github.com/owner", 'https://x/y/z"; import os'])
def test_refuses_what_is_no_address(wrong: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        address.main(["--set", wrong], project)
    assert f"an address reads https://host/owner/name; got {wrong!r}" in capsys.readouterr().err


def test_set_up_cell_is_put_first_and_follows_the_address() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import torch")])
    for where in (OWN, "https://example.org/one/two"):
        assert address.write_setup_cell(notebook, where, "book")
        assert not address.write_setup_cell(notebook, where, "book")
        assert notebook.cells[0].source == address.TEMPLATE.format(address=where, folder="book")
        assert notebook.cells[0].metadata["tags"] == address.TAGS
    assert [cell.source for cell in notebook.cells[1:]] == ["import torch"]


class Shell:
    """What a cell asks of IPython, written down; a script that it runs is run."""

    def __init__(self, root: Path) -> None:
        self.root, self.asked = root, list[str]()

    def system(self, command: str) -> None:
        self.asked.append(command)
        assert command.startswith("git clone "), command
        (Path.cwd() / "posym" / "book" / "part").mkdir(parents=True, exist_ok=True)
        shutil.copytree(self.root / "tools", Path.cwd() / "posym" / "tools", dirs_exist_ok=True)

    def run_line_magic(self, name: str, line: str) -> None:
        self.asked.append(f"%{name} {line}")
        script, *arguments = line.split()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sys, "argv", [script, *arguments])
            runpy.run_path(script, run_name="__main__")


@pytest.fixture
def shell(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    return Shell(root)


def run_cell(shell: Shell, address_: str, folder: str) -> None:
    exec(address.TEMPLATE.format(address=address_, folder=folder), {"get_ipython": lambda: shell})


def test_set_up_cell_in_colab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shell: Shell) -> None:
    installed: list[list[str]] = []
    monkeypatch.setattr("subprocess.run", lambda command, *, check: installed.append(command) if check else None)
    monkeypatch.setitem(sys.modules, "google.colab", object())
    run_cell(shell, OWN, "book/part")
    assert shell.asked == [f"git clone --quiet --depth 1 {OWN} posym", "%run posym/tools/colab.py book/part"]
    install, bare = [sys.executable, "-m", "pip", "install", "--quiet"], f"{tmp_path}/posym/requirements-bare.txt"
    assert installed == [[*install, f"{tmp_path}/posym[lm,chapters]"], [*install, "--no-deps", "--requirement", bare]]
    assert Path.cwd() == tmp_path / "posym" / "book" / "part"


def test_set_up_cell_refuses_the_placeholder(monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    monkeypatch.setitem(sys.modules, "google.colab", object())
    with pytest.raises(RuntimeError, match=r"OWNER/posym is a placeholder; set the repository's own with tools"):
        run_cell(shell, PLACEHOLDER, "book")
    assert shell.asked == []
