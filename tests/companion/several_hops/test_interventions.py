"""Altered decoders: unaltered they are the model, altered they are what one gets by changing its weights."""

from __future__ import annotations

import pytest
import torch

from posym_companion.several_hops.gptj import average_outputs, compute_answer_logits, make_gptj, run_with_edits
from posym_core import rope_angles
from posym_core.tasks._number_letter import NumberTask

TASK = NumberTask(window=3, steps=4, letters=7, hops=3)


def tiny(heads=2, layers=3):
    model = make_gptj(vocabulary=TASK.vocabulary, layers=layers, heads=heads, width=16, dropout=0.0, positions=32,
                    angles=rope_angles(16 // heads, 100.0))  # fmt: skip
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(8)
    return model.eval()


@pytest.fixture(scope="module")
def tokens():
    return TASK.sample(5, generator=torch.Generator().manual_seed(0)).tokens


def test_what_is_seen_is_the_models_attention(tokens):
    model = tiny()
    seen = {}
    run_with_edits(model, tokens, seen=lambda layer, attention, output: seen.update({layer: attention}))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = model(tokens, output_attentions=True).attentions
    torch.testing.assert_close(torch.stack(list(seen.values())), torch.stack(expected), atol=2e-6, rtol=1e-5)


def test_a_head_put_to_silence_is_one_whose_columns_of_the_projection_are_zero(tokens):
    model = tiny()
    silent = run_with_edits(model, tokens, output={(1, 1): torch.zeros(8)})
    with torch.no_grad():
        model.transformer.h[1].attn.out_proj.weight[:, 8:] = 0
        torch.testing.assert_close(silent, compute_answer_logits(model, tokens), atol=2e-5, rtol=2e-5)


def test_uniform_attention_is_that_of_a_head_without_queries(tokens):
    model = tiny()
    length = tokens.shape[1]
    uniform = torch.ones(length, length).tril()
    uniform = (uniform / uniform.sum(1, keepdim=True)).expand(len(tokens), -1, -1)
    altered = run_with_edits(model, tokens, attention={(2, 0): uniform})
    with torch.no_grad():
        model.transformer.h[2].attn.q_proj.weight[:8] = 0
        torch.testing.assert_close(altered, compute_answer_logits(model, tokens), atol=2e-5, rtol=2e-5)


def test_the_mean_output_of_one_sequence_is_its_own(tokens):
    model = tiny()
    alone = tokens[:1]
    mean = average_outputs(model, alone)
    assert set(mean) == {(layer, head) for layer in range(3) for head in range(2)}
    assert mean[0, 0].shape == (tokens.shape[1], 8)
    torch.testing.assert_close(run_with_edits(model, alone, output=mean), run_with_edits(model, alone))
    # Over several sequences it tells them apart no more: what follows depends on the last token alone.
    mean = average_outputs(model, tokens)
    same_end = tokens.clone()
    same_end[:, -1] = tokens[0, -1]
    answers = run_with_edits(model, same_end, output=mean)
    torch.testing.assert_close(answers, answers[:1].expand_as(answers))
