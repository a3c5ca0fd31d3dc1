"""What must not pass unseen: chapters that raise, packages that changed, interrupted builds, code in files of data."""

import ast
import json
import shutil
import subprocess
from pathlib import Path

import build_book
import execute
import pytest

ROOT = Path(__file__).resolve().parent.parent
CHAPTER = """\
import sys
from pathlib import Path
sys.path.insert(0, str(Path("..").resolve()))
from benchmarks.units import UNIT
for path in sorted(Path("../results/heads").iterdir()):
    print("measured", path.read_text(), UNIT)"""


def write_chapter(project: Path, code: str) -> None:
    cells = [
        {"cell_type": "markdown", "id": "title", "metadata": {}, "source": ["# A chapter\n", "\n", "It says little."]},
        {
            "cell_type": "code", "id": "code", "metadata": {}, "source": code.splitlines(keepends=True), "outputs": [],
            "execution_count": None,
        },
    ]  # fmt: skip
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (project / "book" / "chapter.ipynb").write_text(json.dumps(notebook))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A book of one chapter with the settings of this one, one result, and a module that the chapter imports."""
    project = tmp_path_factory.mktemp("project")
    for name in ("_config.yml", "CITATION.cff"):
        shutil.copy(ROOT / name, project)
    shutil.copytree(ROOT / "tools", project / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "book" / "_static", project / "book" / "_static")
    shutil.copy(ROOT / "book" / "references.bib", project / "book")
    (project / "_toc.yml").write_text("format: jb-book\nroot: book/chapter\n")
    (project / "results" / "heads").mkdir(parents=True)
    (project / "results" / "heads" / "number.txt").write_text("1")
    (project / "benchmarks").mkdir()
    (project / "benchmarks" / "__init__.py").write_text("")
    (project / "benchmarks" / "units.py").write_text('UNIT = "m"')
    write_chapter(project, CHAPTER)
    return project


def shown(project: Path) -> str:
    return (project / "_build" / "html" / "book" / "chapter.html").read_text(encoding="utf-8")


def test_a_change_of_what_it_read_executes_a_chapter_again_and_a_failing_chapter_stops_the_build(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole life of a book, in one test because each step stands on the last; it is rendered at both ends."""
    count = CHAPTER + '\nwith open("../runs", "a") as file:\n    print(1, file=file)'
    chapter = project / "book" / "chapter.ipynb"
    write_chapter(project, count)
    assert build_book.build(project) == 0
    assert "measured 1 m" in shown(project)
    # Nothing changed, nothing is executed.
    assert build_book.build(project) == 0
    assert (project / "runs").read_text() == "1\n"
    # Words of a chapter execute nothing; a result executes it again, and so does a module of a package.
    chapter.write_text(chapter.read_text().replace("It says little.", "It says much."))
    assert build_book.build(project) == 0
    assert (project / "runs").read_text() == "1\n"
    assert "It says much." in shown(project)
    (project / "results/heads/number.txt").write_text("2")
    execute.outputs_folder.cache_clear()
    assert not build_book.site_is_current(project)
    assert build_book.build(project) == 0
    assert "measured 2 m" in execute.executed(project, chapter).read_text()
    assert (project / "runs").read_text() == "1\n" * 2

    capsys.readouterr()
    write_chapter(project, count + '\nraise ValueError("no such head")')
    assert build_book.build(project) != 0
    assert not list((project / "_build").glob("html*"))
    said = capsys.readouterr().err
    assert "book/chapter.ipynb failed" in said
    assert "no such head" in said
    # Neither does a second try take the failed chapter for a good one.
    assert build_book.build(project) != 0
    assert not list((project / "_build").glob("html*"))


def test_a_chapter_that_warns_fails(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_chapter(project, "import sys\nprint('careful', file=sys.stderr)")
    assert not execute.execute_changed(project, [project / "book" / "chapter.ipynb"])
    assert "book/chapter.ipynb failed: careful" in capsys.readouterr().err


def test_an_interrupted_build_leaves_nothing_half_written(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        half = Path(command[-1])
        half.mkdir(parents=True, exist_ok=True)
        (half / "index.html").write_text("half")
        raise KeyboardInterrupt

    write_chapter(project, "1 + 1")
    monkeypatch.setattr(subprocess, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        build_book.build(project)
    assert not list((project / "_build").glob("html*"))


# Modules that run what is in a file when they read it, and functions that do.
UNPICKLERS = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}
LOADERS = {"torch.load", "joblib.load", "numpy.load", "np.load", "pd.read_pickle", "eval", "exec", "compile"}


def sources(root: Path) -> dict[str, str]:
    """Python files of package, tools and benchmarks, and the code of the chapters."""
    found = {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for folder in ("posym_core", "posym_profile", "posym_figures", "posym_companion", "tools", "benchmarks")
        for path in (root / folder).rglob("*.py")
    }
    for path in (root / "book").rglob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        found[str(path.relative_to(root))] = "\n".join(
            "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"
        )
    return found


def unsafe(source: str) -> list[str]:
    """What in a source could run code that a file of data, or of a model, brings along."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            names = {module.partition(".")[0]} if module else {name.name.partition(".")[0] for name in node.names}
            found += sorted(names & UNPICKLERS)
        elif isinstance(node, ast.Call):
            called, options = (
                ast.unparse(node.func),
                {option.arg: ast.unparse(option.value) for option in node.keywords},
            )
            if called in LOADERS and options.get("allow_pickle", "True") != "False":
                found.append(called)
            if options.get("trust_remote_code", "False") != "False":
                found.append("trust_remote_code")
            if called.endswith("Model.from_pretrained") and options.get("use_safetensors") != "True":
                found.append(f"{called} without use_safetensors")
    return found


def test_no_file_of_data_brings_code_that_runs(root: Path) -> None:
    found = {name: unsafe(source) for name, source in sources(root).items()}
    assert len(found) > 80
    assert not {name: what for name, what in found.items() if what}
