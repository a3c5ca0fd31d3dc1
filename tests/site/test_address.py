"""The project's public address: one in all places, set by one command, and notebooks that Colab can open and run."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import address
import nbformat
import pytest
import yaml

OWN, CHAPTER = "https://github.com/owner/heads", "book/where_and_what/scores.ipynb"
# An address of this project: on GitHub under its name, or its pages.
NAMED = re.compile(r"https://(?:github\.com/[\w{}-]+/posym\b|[\w{}-]+\.github\.io/posym\b)")


@pytest.fixture
def project(tmp_path: Path, root: Path) -> Path:
    """The files that name the address, what Colab runs, and one chapter."""
    for name in (*address.NAMED_IN, CHAPTER, "tools/colab.py", "requirements-bare.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, tmp_path / name)
    return tmp_path


def set_up(project: Path) -> str:
    """The first code cell of the chapter."""
    cells = nbformat.read(project / CHAPTER, as_version=4).cells
    return next(cell.source for cell in cells if cell.cell_type == "code")


def run_in_colab(cell: str) -> None:
    """Run a first cell as Colab's shell does."""

    def magic(name: str, line: str) -> None:
        assert name == "run"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", line.split())
            runpy.run_path(line.split()[0], run_name="__main__")

    class Shell(SimpleNamespace):
        def __str__(self) -> str:
            return "<google.colab._shell.Shell object>"

    shell = Shell(system=lambda line: subprocess.run(line, shell=True, check=True), run_line_magic=magic)
    exec(cell, {"get_ipython": lambda: shell})


def commit_to_bare(folder: Path, bare: Path) -> None:
    """Make a bare repository with what a folder holds."""
    person = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    for command in (
        ["init", "-q"],
        ["add", "."],
        [*person, "commit", "-qm", "All"],
        ["clone", "-q", "--bare", ".", bare],
    ):
        subprocess.run(["git", *map(str, command)], cwd=folder, check=True)


def test_one_address_is_set_everywhere(project: Path, root: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True).stdout.splitlines()
    texts = [root / name for name in listed if not name.startswith(("results/", "tests/site/"))]
    before = address.repository_address(project)
    named = {match for path in texts if path.is_file() for match in NAMED.findall(path.read_text(errors="replace"))}
    assert named <= {before}
    address.set_address(OWN, project)
    for name in address.NAMED_IN:
        text = (project / name).read_text(encoding="utf-8")
        assert OWN in text
        assert before not in text


def test_chapters_take_nothing_from_the_placeholder(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    address.write_setup_cells("https://github.com/OWNER/posym", project)
    run_in_colab(set_up(project))
    assert capsys.readouterr().out.count("\n") == 1
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match=r"tools/address.py --set URL"):
        run_in_colab(set_up(project))


def test_the_first_cell_fetches_and_installs_the_book(
    project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = tmp_path_factory.mktemp("there") / "heads.git", tmp_path_factory.mktemp("here")
    address.write_setup_cells(there.as_uri(), project)
    commit_to_bare(project, there)
    installed: list[list[str]] = []
    run = subprocess.run

    def pip(command: Any, **options: Any) -> Any:
        return installed.append(command[4:]) if "pip" in command else run(command, **options)

    monkeypatch.setattr(subprocess, "run", pip)
    monkeypatch.chdir(here)
    run_in_colab(set_up(project))
    clone = here / "posym"
    assert Path.cwd() == clone / "book" / "where_and_what"
    bare = ["--quiet", "--no-deps", "--requirement", str(clone / "requirements-bare.txt")]
    assert installed == [["--quiet", f"{clone}[lm,chapters]"], bare]


def test_chapters_of_the_project_begin_with_the_present_set_up_cell(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "book", tmp_path / "book")
    address.write_setup_cells(address.repository_address(root), tmp_path)
    changed = [
        x for x in (root / "book").rglob("*.ipynb") if x.read_bytes() != (tmp_path / x.relative_to(root)).read_bytes()
    ]
    assert not changed, "run python tools/address.py"


@pytest.mark.parametrize("wrong", ["github.com/owner/heads", "https://github.com/owner", 'https://x/y/z"; import os'])
def test_a_text_that_is_no_address_is_refused(wrong: str, root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "tools/address.py", "--set", wrong], cwd=root, capture_output=True, text=True
    )
    assert "an address reads https://host/owner/name" in done.stderr


def test_the_workflow_writes_the_branch_that_the_rocket_opens(root: Path, tmp_path: Path) -> None:
    """As its last job does, into a bare repository beside; what installs and builds may not write."""
    jobs = yaml.safe_load((root / ".github" / "workflows" / "book.yml").read_text(encoding="utf-8"))["jobs"]
    assert [jobs[name]["permissions"] for name in ("build", "notebooks")] == [
        {"contents": "read"},
        {"contents": "write"},
    ]
    (tmp_path / "notebooks" / CHAPTER).parent.mkdir(parents=True)
    shutil.copy(root / CHAPTER, tmp_path / "notebooks" / CHAPTER)
    (tmp_path / "gh").write_text("#!/bin/sh\n")
    (tmp_path / "gh").chmod(0o755)
    bare = tmp_path / "owner" / "heads"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    paths = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_SERVER_URL": tmp_path.as_uri()}
    names = {"GITHUB_REPOSITORY": "owner/heads", "GITHUB_SHA": "0123"}
    for _ in range(2):  # a second time, too, when the branch is there
        command = ["bash", "-ec", jobs["notebooks"]["steps"][-1]["run"]]
        subprocess.run(command, cwd=tmp_path, env=os.environ | paths | names, check=True)
        shutil.rmtree(tmp_path / "notebooks" / ".git")
    branch = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["sphinx"]["config"]
    there = f"{branch['html_theme_options']['repository_branch']}:{CHAPTER}"
    shown = subprocess.run(["git", "show", there], cwd=bare, capture_output=True)
    assert shown.stdout == (root / CHAPTER).read_bytes()
