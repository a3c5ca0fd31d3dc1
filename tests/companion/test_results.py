import hashlib
import io
import json
import re
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from posym_companion import results
from posym_companion.several_hops.multihop import full_size
from posym_core import store
from posym_core.store import _sealing as sealing
from posym_core.store._sealing import seal

DIMS = {"scores": "layer head", "names x": "head"}


def save(name, arrays, folder, dims=DIMS):
    return results.save_result(name, arrays, dims=dims, settings={"seed": 3}, device="CPU", seconds=1.25, folder=folder)


@pytest.fixture
def saved(tmp_path):
    arrays = {"scores": torch.arange(6.0).reshape(2, 3), "names": np.array(["a", "bc"])}
    save("trial/demo", arrays, tmp_path)
    return tmp_path


def test_what_is_saved_is_read_with_its_provenance(saved):
    result = results.load_result("trial/demo", folder=saved)
    np.testing.assert_array_equal(result["scores"], np.arange(6.0).reshape(2, 3))
    assert list(result["names"]) == ["a", "bc"]
    assert result.dims == {"scores": ["layer", "head"], "names": ["head"]}
    assert result.settings == {"seed": 3}
    for field in ("code_version", "code_digest", "device", "date", "seconds", "versions", "checksum"):
        assert result.provenance[field]
    assert "Result trial/demo: posym_core" in result.describe()
    assert "seed 3" in result.describe()
    held = ", ".join(f"{name} {list(array.shape)}" for name, array in result.arrays.items())
    assert repr(result) == f"<{result.describe()}; {held}>"
    with pytest.raises(KeyError, match=r"holds no array 'score'; it holds .*names"):
        result["score"]


def altered(file, old, new):
    return lambda folder: (folder / file).write_bytes((folder / file).read_bytes().replace(old, new))


def resealed(change):
    """Write a description that was changed with a checksum that fits, as somebody would who means it."""

    def spoil(folder):
        description = json.loads((folder / "demo.json").read_text())
        del description["checksum"]
        change(description)
        (folder / "demo.json").write_bytes(seal(description))

    return spoil


def with_arrays(content):
    """Other content in place of the arrays, with a checksum that fits."""

    def spoil(folder):
        (folder / "demo.npz").write_bytes(content)
        resealed(lambda x: x["provenance"].update(checksum=hashlib.sha256(content).hexdigest()))(folder)

    return spoil


def one_huge_array():
    head, archive = io.BytesIO(), io.BytesIO()
    about = {"descr": "<f8", "fortran_order": False, "shape": (2**45,)}
    np.lib.format.write_array_header_1_0(head, about)  # pyright: ignore[reportArgumentType]
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("scores.npy", head.getvalue())
    return archive.getvalue()


DESCRIPTION = "demo.json was altered: its own checksum is not .*git checkout"
DAMAGED = {
    "a bit of the arrays": (altered("demo.npz", b"PK\x05\x06", b"PK\x05\x07"), "demo.npz was altered or trunc.*git ch"),
    "an end": (lambda at: (at / "demo.npz").write_bytes((at / "demo.npz").read_bytes()[:-10]), "altered or truncated"),
    "a setting": (altered("demo.json", b'"seed": 3', b'"seed": 4'), DESCRIPTION),
    "a device": (altered("demo.json", b'"device": "CPU"', b'"device": "GPU"'), DESCRIPTION),
    "dims": (altered("demo.json", b'"layer"', b'"head"'), DESCRIPTION),
    "no sum": (altered("demo.json", b'"checksum"', b'"check"'), r"demo.json is not a whole .* \(KeyError\('checksum'"),
    "a stub": (lambda at: (at / "demo.json").write_text('{"settings": {}}'), "demo.json is not a whole description"),
    "no arrays": (lambda at: (at / "demo.npz").unlink(), "demo.npz is missing"),
    **{
        f"format {other}": (resealed(lambda x, other=other: x.update(format=other)),
                            f"demo.json has format {other}, this code reads 3")
        for other in (2, 4, None)  # of the past, of the future, and none
    },
    "another's name": (resealed(lambda x: x.update(setting="one")), "describes .* 'trial/one', not 'trial/demo'"),
    "no provenance": (resealed(lambda x: x.pop("provenance")), "demo.json is no description .*git checkout"),
    "a word for provenance": (resealed(lambda x: x.update(provenance="x")), "demo.json is no description of a result"),
    "a list of files": (resealed(lambda x: x["provenance"].update(attached=[5])), "demo.json is no description"),
    "a deep well": (lambda at: (at / "demo.json").write_text('{"a":' * 10**5), "demo.json is no description"),
    "a word for arrays": (with_arrays(b"arrays"), "demo.npz holds no arrays that can be read"),
    "a huge array": (with_arrays(one_huge_array()), "demo.npz holds no arrays that can be read"),
    "one array more": (resealed(lambda x: x["arrays"].pop("names")), r"not hold the arrays of .*, by \['names'\]"),
    **{
        f"attached {path}": (resealed(lambda x, path=path: x["provenance"].update(attached={path: ""})),
                             "which is no file beside it")
        for path in ("/etc/hosts", "../demo.npz", "..", "")
    },
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGED)
def test_what_was_altered_is_found_and_named(saved, damage):
    before = {file.name: file.read_bytes() for file in (saved / "trial").iterdir()}
    spoil, words = DAMAGED[damage]
    spoil(saved / "trial")
    assert before != {file.name: file.read_bytes() for file in (saved / "trial").iterdir()}
    with pytest.raises(results.ResultError, match=words):
        results.load_result("trial/demo", folder=saved)


def test_the_books_results_are_whole(root):
    """Every file in ``results`` belongs to a result, and every result can be read and knows its dimensions."""
    folder, expected = root / "results", set()
    settings = full_size()
    light = {setting.name for setting in settings if not setting.files_kept}
    found = [results.load_result(name, folder=folder) for name in results.list_results(folder=folder)]
    for result in found:
        expected |= {folder / f"{result.name}{end}" for end in (".json", ".npz")}
        for name in result.provenance.get("attached", {}):
            if result.name not in light:
                expected.add(results.find_attached_file(result, name, folder=folder))
        assert {key: len(dims) for key, dims in result.dims.items()} == {
            key: x.ndim for key, x in result.arrays.items()
        }
    kept = {file for file in folder.rglob("*") if file.is_file() and not file.parent.name.startswith(".")}
    kept -= {folder / f"{name}.safetensors" for name in light}
    assert kept == expected
    assert sum(file.stat().st_size for file in expected) < 55e6
    assert len(found) > 50


def test_those_that_are_there_are_found_by_name(saved):
    save("trial/more", {"x": np.ones(2)}, saved)
    save("other/demo", {"x": np.ones(2)}, saved)
    assert results.list_results(folder=saved) == ["other/demo", "trial/demo", "trial/more"]
    assert results.list_results("trial", folder=saved) == ["trial/demo", "trial/more"]
    with pytest.raises(results.MissingResultError, match=r"'trial/other' is not there: other.json is missing in"):
        results.load_result("trial/other", folder=saved)
    names = ["trial/demo", "trial/none"]
    assert [result.name for result in results.load_stored_results(names, saved, least=1)] == ["trial/demo"]
    with pytest.raises(results.MissingResultError, match="'trial/none' is not there"):
        results.load_stored_results(names, saved, least=2)
    (saved / "trial/demo.npz").write_bytes(b"")
    with pytest.raises(results.ResultError, match="altered or truncated"):
        results.load_stored_results(names, saved)


def test_an_interrupted_write_leaves_what_was_there(saved, monkeypatch):
    before = {file.name: file.read_bytes() for file in (saved / "trial").iterdir()}

    def broken(*_, **__):
        raise OSError("No space left on device")

    monkeypatch.setattr(results.np.lib.format, "write_array", broken)
    with pytest.raises(OSError, match="No space left"):
        save("trial/demo", {"x": np.ones(2)}, saved)
    assert {file.name: file.read_bytes() for file in (saved / "trial").iterdir()} == before


def test_a_second_writer_waits_until_the_first_has_written_a_whole_result(saved, monkeypatch):
    write, written = sealing.write_atomically, []

    def slowly(path, content):
        write(path, content)
        written.append(path.name)
        time.sleep(0.1)

    monkeypatch.setattr(sealing, "write_atomically", slowly)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda x: save("trial/demo", {"x": np.full(2, x)}, saved), (1.0, 2.0)))
    assert written == ["demo.npz", "demo.json"] * 2


@pytest.mark.parametrize("written", [1, 2])
def test_a_run_that_is_killed_while_it_writes_leaves_no_result(tmp_path, monkeypatch, written):
    """Arrays or attached files may be there then; what says that there is a result is not."""
    write, left = sealing.write_atomically, iter(range(written))

    def killed(path, content):
        if next(left, None) is None:
            raise KeyboardInterrupt
        write(path, content)

    monkeypatch.setattr(sealing, "write_atomically", killed)
    beside = {"attached": {".txt": b"more"}, "settings": {}, "device": "CPU", "seconds": 1.0, "folder": tmp_path}
    with pytest.raises(KeyboardInterrupt):
        results.save_result("trial/demo", {"scores": np.ones((2, 3))}, dims=DIMS, **beside)
    assert results.list_results(folder=tmp_path) == []
    assert len(list((tmp_path / "trial").iterdir())) == written


ODD = ("demo", "../demo", "trial/de mo", "trial/demo/1", "trial/d\u00e9mo", "trial/demo\n", "/demo")
UNSAFE = [
    *((name, {}, re.escape(f"in letters, digits, '_' and '-'; got {name!r}")) for name in ODD),
    ("trial/demo", {"x": np.array([None])}, "array 'x' holds Python objects"),
    ("trial/demo", {"x": np.ones(2), "y": np.ones(2)}, "array 'y' has no named .*; add it to dims, which names scores"),
    ("trial/demo", {"x": np.ones((2, 2))}, r"dims of array 'x' are \[head\], but it has shape \(2, 2\)"),
]


@pytest.mark.parametrize(("name", "arrays", "words"), UNSAFE)
def test_refuses_what_cannot_be_stored_safely(tmp_path, name, arrays, words):
    with pytest.raises(ValueError, match=words):
        save(name, arrays, tmp_path)
    assert not list(tmp_path.iterdir())


def test_folder_is_configured_or_found_above(tmp_path, monkeypatch):
    monkeypatch.delenv("POSYM_RESULTS", raising=False)
    (tmp_path / "results").mkdir()
    (tmp_path / "book").mkdir()
    monkeypatch.chdir(tmp_path / "book")
    with pytest.raises(results.MissingResultError, match="set POSYM_RESULTS"):
        results.find_results_folder()
    (tmp_path / "pyproject.toml").touch()
    assert results.find_results_folder() == tmp_path / "results"
    monkeypatch.setenv("POSYM_RESULTS", "elsewhere")
    assert str(results.find_results_folder()) == "elsewhere"


def test_a_part_whose_arrays_run_along_their_columns_is_read_back(tmp_path):
    grid = np.arange(6.0).reshape(2, 3)
    columns = {"array": np.asfortranarray(grid), "stack": np.stack([grid.T, grid.T]), "tensor": torch.tensor(grid).T}
    store.write_part(tmp_path / "one.part.safetensors", columns)
    found, _ = store.read_part(tmp_path / "one.part.safetensors")
    for name, values in columns.items():
        np.testing.assert_array_equal(found[name].numpy(), np.asarray(values))


def test_what_is_asked_for_now_and_was_not_then_differs():
    """Unfinished work of before something could be asked for is not gone on with once it is."""
    asked = {"settings": {"size": 1, "cube": True}, "data": "b"}
    said = 'settings (cube: null there, true now) and other data (null there, "b" now)'
    assert store.describe_difference({"settings": {"size": 1}}, asked) == said
