"""Trained models as pages run them: what is shown first is what the model does."""

from __future__ import annotations

import torch

from posym_companion.results import load_result
from posym_companion.several_hops import hop_model, multihop
from posym_companion.several_hops.gptj import run_with_edits


def test_the_first_state_is_the_model_on_its_example() -> None:
    model, settings = multihop.load_weights("multihop/letter_0", device="cpu")
    shown = hop_model(model, settings)
    assert (shown.label, shown.source) == ("Letter", "multihop/letter_0")
    tokens = load_result("multihop/letter_0")["example_tokens"][settings.hops - 1]
    assert (shown.example == tokens).all()
    assert shown.attention.shape == (settings.layers, len(tokens), len(tokens))
    assert torch.allclose(shown.attention.sum(-1), torch.ones(()), atol=1e-5)
    assert torch.equal(shown.logits, run_with_edits(model, torch.tensor(tokens)[None])[0])
