"""The scripts behind the make targets: what is kept and what is made anew, the environment, and the lock."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import build_book
import execute
import nbformat
import pytest
import yaml
from moved import MOVED, write_moved


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
    (tmp_path / "_config.yml").write_text("title: Heads\nrepository: {url: https://github.com/owner/heads}\n")
    (tmp_path / "CITATION.cff").write_text("authors: [{name: Ann}]\ndate-released: 2026-01-31\n")
    write_notebook(tmp_path / "book" / "scores.ipynb", "# Scores", "1 + 1")
    return tmp_path


@pytest.fixture
def rendered(project: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stands for execution and Sphinx; ``status`` is what Sphinx returns, ``wrong`` what chapters did wrong."""
    chosen: dict[str, Any] = {"status": 0, "wrong": {}}

    def execute(root: Path, chapters: list[Path]) -> dict[Path, str]:
        for chapter in chapters:
            target = build_book.executed(root, chapter)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(chapter, target)
        return {root / name: wrong for name, wrong in chosen["wrong"].items()}

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        pages = Path(command[-1])
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


@pytest.mark.parametrize(
    ("status", "wrong"), [(0, {}), (1, {}), (0, {"book/scores.ipynb": "it raises"}), (KeyboardInterrupt(), {})]
)
def test_only_a_whole_build_is_published(
    project: Path, rendered: dict[str, Any], status: Any, wrong: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    site = project / "_build" / "html"
    site.mkdir(parents=True)
    (site / "old.html").write_text("made from other files")
    rendered |= {"status": status, "wrong": wrong}
    whole = status == 0 and not wrong
    if isinstance(status, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            build_book.build(project)
    else:
        assert (build_book.build(project) == 0) == whole
    assert not (site / "old.html").exists()
    assert not (project / "_build" / "html.new").exists()
    assert (site / "index.html").exists() == build_book.site_is_current(project) == whole
    assert capsys.readouterr().err == ("book/scores.ipynb failed: it raises\n" if wrong else "")


def test_a_site_that_cannot_be_finished_is_not_published(
    project: Path, rendered: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def finish(*_: object) -> None:
        raise ValueError("MathJax cannot read 1 formulas")

    monkeypatch.setattr(build_book, "finish", finish)
    with pytest.raises(ValueError, match="cannot read 1 formulas"):
        build_book.build(project)
    assert not any((project / "_build").glob("html*"))


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
    execute.executed(project, both[1]).write_text("half of a noteb")
    assert not execute.is_current(project, both[1])
    shutil.copy(both[1], execute.executed(project, both[1]))
    (project / "posym_core" / "rope.py").write_text("turn = 2")
    execute.outputs_folder.cache_clear()
    assert not execute.is_current(project, both[1])


PYTHON = """\
#!/bin/bash
case "$*" in
  --version) echo "Python 3.12.1" ;;
  "-m venv "*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; echo venv >> done ;;
  "-m pip "*) echo "${*:3}" >> done; ! [ -e broken ] ;;
  *) ! [ -e old ] ;;
esac
"""


@pytest.fixture
def make_environment(project: Path, root: Path) -> Callable[..., tuple[list[str], str]]:
    """Run ``make env`` with a Python that only tells what it is asked: its commands, and what make says."""
    shutil.copy(root / "Makefile", project)
    (project / "python").write_text(PYTHON)
    (project / "python").chmod(0o755)

    def run(target: str = "env") -> tuple[list[str], str]:
        (project / "done").unlink(missing_ok=True)
        command = ["make", target, f"PYTHON={project / 'python'}", "VENV=.venv"]
        made = subprocess.run(command, cwd=project, capture_output=True, text=True)
        commands = (project / "done").read_text().splitlines() if (project / "done").exists() else []
        return commands, made.stderr

    return run


def test_interrupted_installation_is_taken_up_again(
    project: Path, make_environment: Callable[..., tuple[list[str], str]]
) -> None:
    (project / "broken").touch()
    assert len(make_environment()[0]) == 2  # the folder, and what failed
    assert make_environment()[0] == ["install --quiet --requirement requirements.txt"]
    (project / "broken").unlink()
    assert len(make_environment()[0]) == 2  # the lock, and what is installed bare
    assert make_environment() == ([], "")
    assert make_environment("testenv")[0] == ["install --quiet --requirement requirements-test.txt"]
    assert make_environment("testenv") == ([], "")


def test_an_old_python_is_refused(project: Path, make_environment: Callable[..., tuple[list[str], str]]) -> None:
    (project / "old").touch()
    commands, said = make_environment()
    assert commands == []
    assert "Python 3.11 or newer is needed; pass PYTHON=" in said


def test_the_lowest_versions_are_the_bottoms_of_the_ranges(root: Path) -> None:
    """As the workflow prints them."""
    jobs = yaml.safe_load((root / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))["jobs"]
    (line,) = (
        x for step in jobs["lowest"]["steps"] for x in step.get("run", "").splitlines() if "lowest.txt" in x[-10:]
    )
    printed = subprocess.run(["bash", "-c", line.partition(" > ")[0]], cwd=root, capture_output=True, text=True).stdout
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ranges = [*project["dependencies"], *project["optional-dependencies"]["lm"]]
    assert printed.splitlines() == [re.sub(r">=([^,]+).*", r"==\1", text) for text in ranges]
    assert "transformers==5.23\n" in printed


def test_what_may_sign_a_release_runs_nothing_of_it(root: Path) -> None:
    """The job that builds and tests reads alone; the one that writes takes its files and checks nothing out."""
    jobs = yaml.safe_load((root / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))["jobs"]
    assert jobs["build"]["permissions"] == {"contents": "read"}
    assert jobs["publish"]["needs"] == "build"
    used = {step["uses"].partition("@")[0] for step in jobs["publish"]["steps"] if "uses" in step}
    assert used == {"actions/download-artifact", "actions/attest-build-provenance"}
    (command,) = (step["run"] for step in jobs["publish"]["steps"] if "run" in step)
    assert command.startswith("gh release create ")


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


@pytest.mark.parametrize(
    ("output", "wrong"),
    [
        (nbformat.v4.new_output("stream", name="stderr", text="a warning"), "it writes to stderr: a warning"),
        (
            nbformat.v4.new_output("display_data", {"text/plain": "Loading:   0%|          | 0/272 [00:00<?, ?it/s]"}),
            "it shows a progress bar: Loading:   0%|          | 0/272 [00:00<?, ?it/s]",
        ),
        (
            nbformat.v4.new_output("stream", name="stdout", text="\rsteps: 50%|████    | 5/10 [00:01<00:01, 4.2it/s]"),
            "it shows a progress bar: steps: 50%|████    | 5/10 [00:01<00:01, 4.2it/s]",
        ),
        (nbformat.v4.new_output("display_data", {"text/plain": "| 50%|3/4 | 1/2 |"}), None),
    ],
)
def test_a_chapter_shows_no_warning_and_no_progress_bar(output: Any, wrong: str | None) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(outputs=[output])])
    assert execute.unwanted(notebook) == wrong


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_a_page_that_moved_leads_to_a_heading_that_is_there(root: Path, tmp_path: Path, old: str, new: str) -> None:
    page, _, anchor = new.partition("#")
    text = build_book.pages(root)[page.removesuffix(".html")].read_text(encoding="utf-8")
    titles = re.findall(r'^ *"?## (.+?)(?:\\n)?"?,?$', text, re.MULTILINE)
    assert anchor in {re.sub(r"\W+", "-", title.lower()) for title in titles}
    write_moved(tmp_path)
    assert f'href="{os.path.relpath(new, Path(old).parent)}"' in (tmp_path / old).read_text(encoding="utf-8")
