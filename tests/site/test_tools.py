"""The scripts behind the make targets: keys of the environment and of the build, and the lock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import build_book
import environment
import lock
import pytest


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small copy of what the keys look at."""
    for name in ("posym_core/rope.py", "posym_core/figure.js", "results/heads.json", "book/scores.ipynb", "_toc.yml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    for name in ("requirements.txt", "pyproject.toml"):
        (tmp_path / name).write_text("")
    (tmp_path / "_config.yml").write_text("title: Heads\nrepository: {url: https://github.com/owner/heads}\n")
    return tmp_path


@pytest.mark.parametrize(
    "name", ["posym_core/rope.py", "posym_core/figure.js", "results/heads.json", "requirements.txt"]
)
def test_executed_chapters_depend_on_package_results_and_lock(project: Path, name: str) -> None:
    before = build_book.execution_cache(project)
    (project / name).write_text("changed")
    assert build_book.execution_cache(project) != before


@pytest.mark.parametrize("change", ["added", "renamed", "removed"])
def test_key_sees_files_come_and_go(project: Path, change: str) -> None:
    before = build_book.execution_cache(project)
    file = project / "results" / "heads.json"
    if change == "added":
        (project / "results" / "more.json").write_text("")
    elif change == "renamed":
        file.rename(file.with_name("tails.json"))
    else:
        file.unlink()
    assert build_book.execution_cache(project) != before


def test_key_ignores_what_changes_no_output(project: Path) -> None:
    before = build_book.execution_cache(project)
    (project / "posym_core" / "__pycache__").mkdir()
    (project / "posym_core" / "__pycache__" / "rope.pyc").write_text("compiled")
    (project / "book" / "scores.ipynb").write_text("edited; jupyter-cache itself looks at the cells")
    assert build_book.execution_cache(project) == before


def test_the_ledger_follows_the_cells_that_show_claims(project: Path) -> None:
    before = build_book.execution_cache(project)
    (project / "book" / "scores.ipynb").write_text('{"tags": ["hide-input", "shows-u25-7"]}')
    moved = build_book.execution_cache(project)
    assert moved != before
    (project / "book" / "scores.ipynb").write_text('{"tags": ["hide-input", "live-u25-7"]}')
    assert build_book.execution_cache(project) not in (before, moved)


def test_site_is_current_only_while_nothing_changes(project: Path) -> None:
    assert not build_book.site_is_current(project)
    (project / "_build" / "html").mkdir(parents=True)
    assert not build_book.site_is_current(project)
    (project / "_build" / "html.key").write_text(build_book.tree_key(project, build_book.SITE_INPUTS))
    assert build_book.site_is_current(project)
    (project / "book" / "scores.ipynb").write_text("edited")
    assert not build_book.site_is_current(project)


@pytest.mark.parametrize("status", [0, 1])
def test_only_a_whole_build_is_published(project: Path, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    site = project / "_build" / "html"
    site.mkdir(parents=True)
    (site / "old.html").write_text("made from other files")
    stale = project / "_build" / ".jupyter_cache" / "another-state"
    stale.mkdir(parents=True)

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if "--path-output" in command:
            assert "-W" in command
            work = Path(command[command.index("--path-output") + 1])
            (work / "_build" / "html").mkdir(parents=True)
            (work / "_build" / "html" / "index.html").write_text("new")
        return subprocess.CompletedProcess(command, status if "--path-output" in command else 0)

    monkeypatch.setattr(subprocess, "run", run)
    assert build_book.build(project) == status
    assert not stale.exists()
    assert not (site / "old.html").exists()
    assert (site / "index.html").exists() == build_book.site_is_current(project) == (status == 0)
    # A failed build must not be resumed: Sphinx would not report its warnings again.
    assert any((project / "_build" / "pages").iterdir()) == (status == 0)


def test_a_site_that_cannot_be_finished_is_not_published(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if "--path-output" in command:
            (Path(command[command.index("--path-output") + 1]) / "_build" / "html").mkdir(parents=True)
        return subprocess.CompletedProcess(command, 0)

    def finish(*_: object) -> None:
        raise ValueError("MathJax cannot read 1 formulas")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(build_book, "finish", finish)
    with pytest.raises(ValueError, match="cannot read 1 formulas"):
        build_book.build(project)
    assert not any((project / "_build").glob("html*"))
    assert not any((project / "_build" / "pages").iterdir())


def test_environment_is_made_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: commands.append(command))
    venv = project / ".venv"
    venv.mkdir()
    assert environment.make_environment(venv, project)
    assert ["--requirement" in command for command in commands] == [False, True, False]
    assert not environment.make_environment(venv, project)
    (project / "requirements.txt").write_text("numpy==2.4.6\n")
    assert environment.make_environment(venv, project)
    assert len(commands) == 6


def test_interrupted_installation_is_taken_up_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv = project / ".venv"
    venv.mkdir()

    def fail(command: list[str], **_: object) -> None:
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(subprocess.CalledProcessError):
        environment.make_environment(venv, project)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: None)
    assert environment.make_environment(venv, project)


def test_lock_holds_names_and_versions_only() -> None:
    frozen = (
        "torch==2.13.0+cpu\nnumpy==2.4.6\nnvidia-nccl-cu13==2.27\ntriton==3.5\ncuda-bindings==13.0\nBabel==2.18.0\n"
    )
    assert lock.locked_lines(frozen) == ["Babel==2.18.0", "numpy==2.4.6", "torch==2.13.0"]
    with pytest.raises(ValueError, match="names no version; install it from a package index"):
        lock.locked_lines("numpy @ file:///somewhere/numpy.whl")


def test_tools_refuse_an_old_python(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    monkeypatch.setattr(sys, "argv", ["environment.py"])
    assert environment.main() == 1
    assert "Python 3.11 or newer is needed, but this is 3.9.1; pass PYTHON=" in capsys.readouterr().err


def test_missing_browser_stops_continuous_integration(root: Path, tmp_path: Path) -> None:
    # An empty path holds neither a browser nor a way to install one.
    for name in ("bash", "id"):
        found = next(Path(folder) / name for folder in os.environ["PATH"].split(":") if (Path(folder) / name).exists())
        (tmp_path / name).symlink_to(found)
    script = str(root / "tools" / "browser.sh")
    command = [str(tmp_path / "bash"), script]
    elsewhere = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert elsewhere.returncode == 0
    assert "browser tests will be skipped; install chromium" in elsewhere.stdout
    assert subprocess.run(command, env={"PATH": str(tmp_path), "CI": "true"}).returncode == 1
