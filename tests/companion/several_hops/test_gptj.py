"""Our forward pass of GPT-J beside that of transformers."""

import pytest
import torch

from posym_companion.several_hops.gptj import compute_answer_logits, draw_dropout, make_gptj


@pytest.mark.parametrize("heads", [1, 2])
def test_our_forward_pass_is_that_of_transformers_dropout_included(heads):
    model = make_gptj(vocabulary=30, layers=3, heads=heads, width=32, dropout=0.3, positions=20)
    model.set_attn_implementation("eager")
    tokens = torch.randint(30, (5, 17))
    factors = draw_dropout(model, tokens.shape, 7)
    assert 0.25 < float((factors == 0).double().mean()) < 0.35
    torch.manual_seed(7)
    theirs = model(tokens).logits[:, -1]
    ours = compute_answer_logits(model, tokens, factors=factors)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=5e-7)
    weights = torch.randn_like(ours)
    grads = [torch.autograd.grad((x * weights).sum(), list(model.parameters())) for x in (ours, theirs)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        torch.testing.assert_close(
            compute_answer_logits(model, tokens), model.eval()(tokens).logits[:, -1], rtol=0, atol=5e-7
        )
