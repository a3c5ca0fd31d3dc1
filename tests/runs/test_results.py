import json

import numpy as np
import pytest
import torch

from posym_core.runs import results


@pytest.fixture
def saved(tmp_path):
    arrays = {"scores": torch.arange(6.0).reshape(2, 3), "names": np.array(["a", "bc"])}
    results.save_result("demo", arrays, settings={"seed": 3}, device="CPU", seconds=1.25, folder=tmp_path)
    return tmp_path


def test_what_is_saved_is_read_with_its_provenance(saved):
    result = results.load_result("demo", folder=saved)
    np.testing.assert_array_equal(result["scores"], np.arange(6.0).reshape(2, 3))
    assert list(result["names"]) == ["a", "bc"]
    assert result.settings == {"seed": 3}
    for field in ("code_version", "code_digest", "device", "date", "seconds", "versions", "checksum"):
        assert result.provenance[field]
    assert "Result demo: posym_core" in result.describe()
    assert "seed 3" in result.describe()
    with pytest.raises(KeyError, match=r"holds no array 'score'; it holds .*names"):
        result["score"]


@pytest.mark.parametrize("damage", ["flip", "truncate"])
def test_altered_or_truncated_arrays_are_found(saved, damage):
    file = saved / "demo.npz"
    data = bytearray(file.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
    file.write_bytes(data if damage == "flip" else data[:-10])
    with pytest.raises(results.ResultError, match=r"demo.npz was altered or truncated.*git checkout"):
        results.load_result("demo", folder=saved)


@pytest.mark.parametrize(
    ("old", "new"), [('"seed": 3', '"seed": 4'), ('"device": "CPU"', '"device": "GPU"'), ('"format": 2', '"format": 1')]
)
def test_altered_descriptions_are_found(saved, old, new):
    file = saved / "demo.json"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(results.ResultError, match=r"demo.json was altered: its own checksum is not .*git checkout"):
        results.load_result("demo", folder=saved)


def test_descriptions_that_have_no_checksum_yet_are_read(saved):
    file = saved / "demo.json"
    description = json.loads(file.read_text())
    del description["checksum"]
    file.write_text(json.dumps(description))
    with pytest.raises(results.ResultError, match="its own checksum"):
        results.load_result("demo", folder=saved)
    file.write_text(json.dumps(description | {"format": 1}))
    assert results.load_result("demo", folder=saved).settings == {"seed": 3}
    file.write_text(json.dumps(description | {"format": 3}))
    with pytest.raises(results.ResultError, match=r"demo.json has format 3, this code reads \(1, 2\)"):
        results.load_result("demo", folder=saved)


def test_the_books_results_are_whole(root):
    """Every file in ``results`` belongs to a result, and every result can be read."""
    folder = root / "results"
    found = [results.load_result(file.stem, folder=folder) for file in sorted(folder.glob("*.json"))]
    attached = {name for result in found for name in result.provenance.get("attached", {})}
    for result in found:
        for name in result.provenance.get("attached", {}):
            results.attached_file(result, name, folder=folder)
    expected = {f"{result.name}{end}" for result in found for end in (".json", ".npz")} | attached
    assert {file.name for file in folder.iterdir() if not file.name.startswith(".")} == expected
    assert len(found) > 50


def test_missing_and_broken_descriptions_are_named(saved):
    with pytest.raises(results.ResultError, match=r"'other' is not there: other.json is missing"):
        results.load_result("other", folder=saved)
    (saved / "demo.json").write_text(json.dumps({"settings": {}}))
    with pytest.raises(results.ResultError, match=r"demo.json is not a whole description"):
        results.load_result("demo", folder=saved)
    (saved / "demo.npz").unlink()
    with pytest.raises(results.ResultError, match=r"demo.npz is missing"):
        results.load_result("demo", folder=saved)


def test_an_interrupted_write_leaves_what_was_there(saved, monkeypatch):
    before = {file.name: file.read_bytes() for file in saved.iterdir()}

    def broken(*_, **__):
        raise OSError("No space left on device")

    monkeypatch.setattr(results.np, "savez_compressed", broken)
    with pytest.raises(OSError, match="No space left"):
        results.save_result("demo", {"x": np.ones(2)}, settings={}, device="CPU", seconds=0, folder=saved)
    assert {file.name: file.read_bytes() for file in saved.iterdir()} == before


def test_refuses_what_cannot_be_stored_safely(tmp_path):
    with pytest.raises(ValueError, match="letters, digits"):
        results.save_result("../demo", {}, settings={}, device="CPU", seconds=0, folder=tmp_path)
    with pytest.raises(ValueError, match="array 'x' holds Python objects"):
        results.save_result("demo", {"x": np.array([None])}, settings={}, device="CPU", seconds=0, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_folder_is_configured_or_found_above(tmp_path, monkeypatch):
    monkeypatch.delenv("POSYM_RESULTS", raising=False)
    (tmp_path / "results").mkdir()
    (tmp_path / "book").mkdir()
    monkeypatch.chdir(tmp_path / "book")
    with pytest.raises(results.ResultError, match="set POSYM_RESULTS"):
        results.results_folder()
    (tmp_path / "pyproject.toml").touch()
    assert results.results_folder() == tmp_path / "results"
    monkeypatch.setenv("POSYM_RESULTS", "elsewhere")
    assert str(results.results_folder()) == "elsewhere"
