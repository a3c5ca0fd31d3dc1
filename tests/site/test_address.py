"""The project's public address: one in all places, set by one command, and a placeholder that nothing is taken from."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import address
import colab
import nbformat
import pytest

OWN, CHAPTER = "https://github.com/owner/heads", "book/where_and_what/scores.ipynb"
# An address of this project: on GitHub under its name, or its pages.
NAMED = re.compile(r"https://(?:github\.com/[\w{}-]+/posym\b|[\w{}-]+\.github\.io/posym\b)")


@pytest.fixture
def project(tmp_path: Path, root: Path) -> Path:
    """The files that name the address, and one chapter."""
    for name in (*address.NAMED_IN, CHAPTER):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, tmp_path / name)
    return tmp_path


def set_up(project: Path) -> str:
    """The first code cell of the chapter."""
    cells = nbformat.read(project / CHAPTER, as_version=4).cells
    return next(cell.source for cell in cells if cell.cell_type == "code")


def test_no_other_address_stands_anywhere(root: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a checkout of git")
    texts = [root / name for name in listed.stdout.splitlines() if not name.startswith(("results/", "tests/site/"))]
    found = {match for path in texts if path.is_file() for match in NAMED.findall(path.read_text(errors="replace"))}
    assert found == {address.repository_address(root)}


def test_one_address_is_set_everywhere_and_chapters_fetch_the_book_from_there(project: Path) -> None:
    before = address.repository_address(project)
    address.set_address(OWN, project)
    address.write_setup_cells(OWN, project)
    for name in address.NAMED_IN:
        text = (project / name).read_text(encoding="utf-8")
        assert OWN in text
        assert before not in text
    assert f"git clone -q --depth 1 {OWN} posym" in set_up(project)
    assert "posym/tools/colab.py book/where_and_what" in set_up(project)


def test_chapters_take_nothing_from_the_placeholder(project: Path) -> None:
    address.write_setup_cells("https://github.com/OWNER/posym", project)
    with pytest.raises(RuntimeError, match="--set URL"):
        exec(set_up(project), {"get_ipython": lambda: "google.colab"})
    exec(set_up(project), {"get_ipython": lambda: "a shell of this machine"})


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


def test_colab_installs_this_clone_with_what_chapters_need(monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[list[str]] = []
    monkeypatch.setattr("subprocess.run", lambda command, *, check: installed.append(command) if check else None)
    monkeypatch.chdir(Path.cwd())
    colab.main("book/where_and_what")
    install = [sys.executable, "-m", "pip", "install", "--quiet"]
    bare = [*install, "--no-deps", "--requirement", f"{colab.ROOT}/requirements-bare.txt"]
    assert installed == [[*install, f"{colab.ROOT}[lm,chapters]"], bare]
    assert Path.cwd() == colab.ROOT / "book" / "where_and_what"
