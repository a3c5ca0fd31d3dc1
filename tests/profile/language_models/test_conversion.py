"""A conversion of a file that is no model ends in one error and leaves nothing behind."""

import pytest

from posym_profile.language_models import _packaged as packaged


def test_a_file_that_transformers_cannot_read_says_so_and_leaves_nothing(tmp_path, monkeypatch):
    pytest.importorskip("gguf")
    from tiny_packaged import NAME, tiny_packaged

    file, cache = tmp_path / "model.gguf", tmp_path / "cache"
    file.write_bytes(b"no model")
    monkeypatch.setitem(packaged.MODELS, NAME, tiny_packaged(file))
    with pytest.raises(RuntimeError, match=r"Q4_1.gguf was not converted: "):
        packaged.convert_packaged(NAME, root=cache)
    assert [path.name for path in cache.iterdir() if path.suffix != ".lock"] == []
