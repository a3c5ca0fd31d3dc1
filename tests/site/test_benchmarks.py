"""The table of ratios: stored whole or not at all, and quoted by the README as it is stored. Times are not tested."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest
import torch

from benchmarks import __main__ as benchmarks
from benchmarks.timing import best, peak_memory


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Rows in place of measurements."""
    rows = {part: [f"| {part} | 2.0 times faster |"] for part in benchmarks.PARTS}
    for part in rows:
        module = types.SimpleNamespace(rows=lambda part=part: iter(rows[part]))
        monkeypatch.setitem(sys.modules, f"benchmarks.{part}", module)
    return rows


def test_the_readme_quotes_three_rows_of_the_stored_table(root: Path) -> None:
    stored = benchmarks.STORED.read_text(encoding="utf-8").partition("\n\n")[2].splitlines()
    readme = (root / "README.md").read_text(encoding="utf-8")
    quoted = readme[readme.index("| measured | ratio |") :].partition("\n\n")[0].splitlines()
    assert quoted[:2] == stored[:2] == ["| measured | ratio |", "| --- | --- |"]
    assert len(quoted) == 5
    assert set(quoted) <= set(stored)


def test_all_timed_parts_are_run_in_order_and_kept(
    parts: dict[str, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmarks.main(["--save"], tmp_path / "RESULTS.md")
    printed = capsys.readouterr().out
    assert printed.splitlines()[2:] == [
        "| measured | ratio |",
        "| --- | --- |",
        *(row for part in benchmarks.TIMED for row in parts[part]),
    ]
    assert (tmp_path / "RESULTS.md").read_text(encoding="utf-8") == printed


def test_a_run_that_fails_leaves_the_stored_table(
    parts: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> object:
        raise RuntimeError("no model")

    monkeypatch.setitem(sys.modules, "benchmarks.multihop", types.SimpleNamespace(rows=fail))
    (tmp_path / "RESULTS.md").write_text("before")
    with pytest.raises(RuntimeError, match="no model"):
        benchmarks.main(["--save"], tmp_path / "RESULTS.md")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["scored"], "unknown part scored; choose from scores"), (["scores", "--save"], "leave out")],
)
def test_refuses_what_it_cannot_do(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        benchmarks.main(arguments, tmp_path / "RESULTS.md")
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_what_runs_on_the_cpu_is_measured_there_also_beside_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def unasked(*_: object) -> None:
        raise AssertionError("asked about a GPU")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name in ("reset_peak_memory_stats", "memory_allocated", "max_memory_allocated", "synchronize"):
        monkeypatch.setattr(torch.cuda, name, unasked)
    held = []
    assert peak_memory(lambda: held.append(bytearray(b"1" * 2**26)), torch.device("cpu")) > 2**25
    assert best(lambda: None, repeats=1) >= 0
