"""A conversion says nothing, in a notebook neither, and is made once."""

import os
from pathlib import Path

import pytest

from posym_profile.language_models import _packaged as packaged

ROOT = Path(__file__).resolve().parents[3]
CONVERT = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests" / "helpers")!r}]
from pathlib import Path
from tiny_packaged import NAME, tiny_packaged
from posym_profile.language_models import _packaged as packaged
packaged.MODELS[NAME] = tiny_packaged(Path(FILE))
packaged.convert_packaged(NAME, root=Path(CACHE));
"""


def test_a_conversion_in_a_notebook_shows_nothing_and_is_found_again(tmp_path, monkeypatch):
    pytest.importorskip("gguf")
    pytest.importorskip("ipywidgets")
    nbformat, client = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    from tiny_packaged import NAME, tiny_packaged

    file, cache = tmp_path / "model.gguf", tmp_path / "cache"
    monkeypatch.setitem(packaged.MODELS, NAME, tiny_packaged(file))
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    program = f"FILE, CACHE = {str(file)!r}, {str(cache)!r}\n{CONVERT}"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(program)])
    place = {"metadata": {"path": str(tmp_path)}}
    client.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=place).execute(env=dict(os.environ))
    assert notebook.cells[0].outputs == []
    (folder,) = cache.glob(f"{NAME}-*")
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {path.name for path in folder.iterdir()}
    assert packaged.convert_packaged(NAME, root=cache) == folder


def test_a_file_that_transformers_cannot_read_says_so_and_leaves_nothing(tmp_path, monkeypatch):
    pytest.importorskip("gguf")
    from tiny_packaged import NAME, tiny_packaged

    file, cache = tmp_path / "model.gguf", tmp_path / "cache"
    file.write_bytes(b"no model")
    monkeypatch.setitem(packaged.MODELS, NAME, tiny_packaged(file))
    with pytest.raises(RuntimeError, match=r"Q4_1.gguf was not converted: "):
        packaged.convert_packaged(NAME, root=cache)
    assert [path.name for path in cache.iterdir() if path.suffix != ".lock"] == []
