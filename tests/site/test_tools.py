"""The scripts behind the make targets: what is kept and what is made again, the environment, and the lock."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import build_book
import execute
import nbformat
import pytest
import yaml


def write_notebook(path: Path, text: str, *cells: str) -> None:
    """A notebook of one cell of text and cells of code."""
    code = [nbformat.v4.new_code_cell(cell, id=f"code-{number}") for number, cell in enumerate(cells)]
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text, id="text"), *code]), path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A book of one chapter, ready to be rendered."""
    for name in ("posym_core/rope.py", "results/heads/all.json", "book/_static/book.css"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    for name in ("requirements.txt", "requirements-bare.txt", "requirements-test.txt", "pyproject.toml"):
        (tmp_path / name).write_text("")
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: book/scores\n")
    (tmp_path / "_config.yml").write_text("sphinx: {config: {html_context: {moved: {gone.html: index.html}}}}\n")
    (tmp_path / "CITATION.cff").write_text("authors: [{name: Ann}]\ndate-released: 2026-01-31\n")
    write_notebook(tmp_path / "book" / "scores.ipynb", "# Scores", "1 + 1")
    return tmp_path


@pytest.fixture
def rendered(project: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stands for execution and Sphinx; ``status`` is what Sphinx returns, ``right`` whether chapters ran."""
    chosen: dict[str, Any] = {"status": 0, "right": True}

    def execute(root: Path, chapters: list[Path]) -> bool:
        for chapter in chapters:
            target = build_book.executed(root, chapter)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(chapter, target)
        return chosen["right"]

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        pages = Path(command[-1]) / "_build" / "html"
        (pages / "_sources" / "book").mkdir(parents=True)
        (pages / "index.html").write_text("new")
        if isinstance(chosen["status"], BaseException):
            raise chosen["status"]
        return subprocess.CompletedProcess(command, chosen["status"])

    monkeypatch.setattr(build_book, "execute_changed", execute)
    monkeypatch.setattr(subprocess, "run", run)
    return chosen


@pytest.mark.parametrize("change", ["added", "renamed", "removed"])
def test_site_is_current_only_while_nothing_changes(project: Path, change: str, rendered: dict[str, Any]) -> None:
    assert not build_book.site_is_current(project)
    (project / "_build" / "html").mkdir(parents=True)
    assert not build_book.site_is_current(project)
    assert build_book.build(project) == 0
    assert build_book.site_is_current(project)
    (project / "posym_core" / "__pycache__").mkdir()
    (project / "posym_core" / "__pycache__" / "rope.pyc").write_text("compiled")
    assert build_book.site_is_current(project)
    file = project / "results" / "heads" / "all.json"
    if change == "added":
        file.with_name("more.json").write_text("")
    elif change == "renamed":
        file.rename(file.with_name("tails.json"))
    else:
        file.unlink()
    assert not build_book.site_is_current(project)


@pytest.mark.parametrize("fails", ["", "a chapter", "Sphinx", "interrupted"])
def test_only_a_whole_build_is_published(project: Path, rendered: dict[str, Any], fails: str) -> None:
    site = project / "_build" / "html"
    site.mkdir(parents=True)
    (site / "old.html").write_text("made from other files")
    rendered["right"] = fails != "a chapter"
    rendered["status"] = {"Sphinx": 1, "interrupted": KeyboardInterrupt()}.get(fails, 0)
    with contextlib.suppress(KeyboardInterrupt):
        assert (build_book.build(project) == 0) == (not fails)
    assert not (site / "old.html").exists()
    assert (site / "index.html").exists() == build_book.site_is_current(project) == (not fails)


def test_readers_download_chapters_without_outputs_but_see_them(project: Path, rendered: dict[str, Any]) -> None:
    chapter = project / "book" / "scores.ipynb"
    run = nbformat.read(chapter, as_version=4)
    run.cells[1].outputs = [nbformat.v4.new_output("stream", text="2")]
    nbformat.write(run, project / "run.ipynb")
    edited = nbformat.read(chapter, as_version=4)
    edited.cells[0].source = "# Scores\n\nOther words, the same code."
    nbformat.write(edited, chapter)
    merged = build_book.with_outputs(chapter, project / "run.ipynb")
    assert merged.cells[0].source.endswith("the same code.")
    assert merged.cells[1].outputs == run.cells[1].outputs
    assert build_book.build(project) == 0
    assert (project / "_build/html/_sources/book/scores.ipynb").read_bytes() == chapter.read_bytes()


def test_an_edited_chapter_runs_alone_and_a_changed_package_runs_all(project: Path) -> None:
    write_notebook(project / "book" / "heads.ipynb", "# Heads", "2 + 2")
    both = [project / "book" / name for name in ("heads.ipynb", "scores.ipynb")]
    for chapter in both:
        target = execute.executed(project, chapter)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(chapter, target)
    write_notebook(both[0], "# Heads, with other words", "2 + 2")
    assert [execute.is_current(project, chapter) for chapter in both] == [True, True]
    write_notebook(both[0], "# Heads", "2 + 3")
    assert [execute.is_current(project, chapter) for chapter in both] == [False, True]
    (project / "posym_core" / "rope.py").write_text("turn = 2")
    execute.outputs_folder.cache_clear()
    assert not execute.is_current(project, both[1])


def start_build(project: Path) -> subprocess.Popen[bytes]:
    """A process that executes the project's chapter, in a group of its own."""
    code = "import execute; from pathlib import Path; execute.IMPORTED.clear(); root = Path.cwd()\n"
    code += "raise SystemExit(not execute.execute_changed(root, [root / 'book' / 'scores.ipynb']))"
    tools = {"PYTHONPATH": str(Path(execute.__file__).parent)}
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, cwd=project, env=os.environ | tools, start_new_session=True)


def test_a_killed_build_leaves_no_process_and_no_half_written_chapter(project: Path) -> None:
    write_notebook(
        project / "book" / "scores.ipynb", "# Scores", "open('begun', 'w').close()\nimport time; time.sleep(60)"
    )
    build = start_build(project)
    until(lambda: (project / "book" / "begun").exists())
    build.kill()
    build.wait()
    until(lambda: not group_is_alive(build.pid))
    assert not [path for path in (project / "_build").rglob("*") if path.is_file()]


def until(done: Callable[[], bool], seconds: float = 240) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.1)


def group_is_alive(group: int) -> bool:
    """Whether a group has a process."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_damaged_outputs_are_made_again(project: Path) -> None:
    chapter = project / "book" / "scores.ipynb"
    kept = execute.executed(project, chapter)
    kept.parent.mkdir(parents=True)
    for damaged in ("[]", "{}", "half of a noteb", ""):
        kept.write_text(damaged)
        assert not execute.is_current(project, chapter)
    assert start_build(project).wait() == 0
    assert nbformat.read(kept, as_version=4).cells[1].outputs[0].data["text/plain"] == "2"


def test_what_may_sign_a_release_runs_nothing_of_it(root: Path) -> None:
    """The job that builds and tests reads alone; the one that writes takes its files and checks nothing out."""
    jobs = yaml.safe_load((root / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))["jobs"]
    assert jobs["build"]["permissions"] == {"contents": "read"}
    assert jobs["publish"]["needs"] == "build"
    used = {step["uses"].partition("@")[0] for step in jobs["publish"]["steps"] if "uses" in step}
    assert used == {"actions/download-artifact", "actions/attest-build-provenance"}
    (command,) = (step["run"] for step in jobs["publish"]["steps"] if "run" in step)
    assert command.startswith("gh release create ")
