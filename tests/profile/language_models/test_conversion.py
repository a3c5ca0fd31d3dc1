"""A conversion says nothing, and one that is killed leaves nothing half-made."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from posym_core.store._cache import UNFINISHED, find_damage
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
# The first of the files that a conversion writes is there, and then no other comes.
STOPPED = """
import time
from transformers import PreTrainedTokenizerFast
save = PreTrainedTokenizerFast.save_pretrained
def stop(self, folder):
    save(self, folder)
    print("begun", flush=True)
    time.sleep(600)
PreTrainedTokenizerFast.save_pretrained = stop
"""


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The tiny model in place of a packaged one: its name, its cache, and a program that converts it there."""
    pytest.importorskip("gguf")
    from tiny_packaged import NAME, tiny_packaged

    file, cache = tmp_path / "model.gguf", tmp_path / "cache"
    monkeypatch.setitem(packaged.MODELS, NAME, tiny_packaged(file))
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    return NAME, cache, f"FILE, CACHE = {str(file)!r}, {str(cache)!r}\n{CONVERT}"


def names(cache: Path) -> list[str]:
    """What lies in a cache, without locks."""
    return sorted(path.name for path in cache.iterdir() if path.suffix != ".lock")


def kill_midway(program: str) -> None:
    """Run a program that converts, and kill it when it has written the first files."""
    with subprocess.Popen([sys.executable, "-c", STOPPED + program], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.kill()


def test_a_conversion_in_a_notebook_shows_nothing(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, client = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipywidgets")
    name, cache, program = tiny
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(program)])
    place = {"metadata": {"path": str(cache.parent)}}
    client.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=place).execute(env=dict(os.environ))
    assert notebook.cells[0].outputs == []
    (folder,) = cache.glob(f"{name}-*")
    assert packaged.convert_packaged(name, root=cache) == folder


def test_bars_of_others_are_shown_again_after_a_conversion(tiny: Any, capfd: pytest.CaptureFixture[str]) -> None:
    from tqdm import tqdm

    name, cache, _ = tiny
    packaged.convert_packaged(name, root=cache)
    assert capfd.readouterr() == ("", "")
    list(tqdm(range(2), desc="others", disable=False))
    assert "others" in capfd.readouterr().err


def test_after_a_kill_the_next_load_converts_anew_and_nothing_is_left(tiny: Any) -> None:
    name, cache, program = tiny
    kill_midway(program)
    (half,) = names(cache)  # whoever looks for a converted model does not take it for one
    assert half.startswith(".")
    assert half.endswith(UNFINISHED)
    assert "tokenizer.json" in names(cache / half)
    folder = packaged.convert_packaged(name, root=cache)
    assert names(cache) == [folder.name]
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(names(folder))
    manifest = (folder / "posym-manifest.json").read_bytes()
    assert packaged.convert_packaged(name, root=cache) == folder
    assert (folder / "posym-manifest.json").read_bytes() == manifest


def test_what_a_kill_left_goes_also_when_the_next_load_is_by_another_version(
    tiny: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, cache, program = tiny
    kill_midway(program)
    monkeypatch.setattr(packaged, "CONVERSION", "next")
    folder = packaged.convert_packaged(name, root=cache)
    assert names(cache) == [folder.name]
    assert find_damage(folder, {}) == "it was made from something else"


def test_what_another_process_is_making_is_left_alone(tiny: Any) -> None:
    from filelock import FileLock

    name, cache, _ = tiny
    other = cache / f".{name}-0123456789abcdef{UNFINISHED}"
    other.mkdir(parents=True)
    with FileLock(other.with_suffix(".lock")):
        folder = packaged.convert_packaged(name, root=cache)
    assert names(cache) == [other.name, folder.name]
