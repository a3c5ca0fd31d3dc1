"""Attention to the previous and the first token, induction and copying: what the field calls heads by."""

import numpy as np
import pytest
import torch
import xarray
from architectures import build, packaged, shared, tokens
from every_decoder import tiny_model
from refusals import refuse_each

from posym_profile.scores import _labels, measure_head_labels

NAMES = ("previous_token", "first_token", "induction", "copying")
SHOWN = tokens(3, 12)


def by_hand(model, shown):
    """The four labels word by word, from the attention matrices that transformers gives out."""
    ids = torch.cat([torch.ones(len(shown), 1, dtype=torch.int64), shown, shown], 1)
    with torch.no_grad():
        out = model(ids, output_attentions=True)
    said, number = out.logits.argmax(-1), ids.shape[1]
    layers = []
    for layer in out.attentions:
        heads = []
        for head in range(layer.shape[1]):
            sums = torch.zeros(4)
            for prompt, weights in enumerate(layer[:, head]):
                for token in range(1, number):
                    sums[0] += weights[token, token - 1] / (number - 1)
                    sums[1] += weights[token, 0] / (number - 1)
                for place in range(len(shown[0]) - 1):
                    token, follower = 1 + len(shown[0]) + place, 1 + place + 1
                    sums[2] += weights[token, follower] / (len(shown[0]) - 1)
                    right = said[prompt, token] == ids[prompt, token + 1] == ids[prompt, follower]
                    sums[3] += float(right and weights[token].argmax() == follower) / (len(shown[0]) - 1)
            heads.append(sums / len(shown))
        layers.append(torch.stack(heads))
    return torch.stack(layers)


@pytest.mark.parametrize("name", ["Llama", "Gemma3", "GPT-NeoX", "Cohere", "gpt-oss"])
def test_labels_are_those_of_the_attention_matrices_of_transformers(name):
    found = measure_head_labels(shared(name), SHOWN)
    expected = by_hand(shared(name, "eager"), SHOWN)
    for place, label in enumerate(NAMES):
        np.testing.assert_allclose(found[label], expected[..., place], atol=2e-5, rtol=0)


def test_no_layer_leaves_tokens_out_since_few_logits_are_asked():
    """The last layers of Gemma 4 may, when told how many."""
    model = tiny_model("gemma4_text")
    found = measure_head_labels(model, SHOWN)
    model.set_attn_implementation("eager")
    expected = by_hand(model, SHOWN)
    for place, label in enumerate(NAMES):
        np.testing.assert_allclose(found[label], expected[..., place], atol=2e-5, rtol=0)


def test_prompts_whose_logits_are_too_many_are_measured_in_turn(monkeypatch):
    model, passes = build("Llama"), []
    together = measure_head_labels(model, SHOWN)
    monkeypatch.setattr(_labels, "LOGITS", 2 * 25 * 97)
    model.model.embed_tokens.register_forward_hook(lambda _, args, __: passes.append(len(args[0])))
    xarray.testing.assert_allclose(measure_head_labels(model, SHOWN), together)
    assert passes == [2, 1]


def test_prompts_that_find_no_room_are_measured_in_turn():
    model, passes = build("Llama"), []
    together = measure_head_labels(model, SHOWN)

    def check(_, args):
        passes.append(len(args[0]))
        if len(args[0]) > 1:
            raise torch.OutOfMemoryError("no room")

    model.model.embed_tokens.register_forward_pre_hook(check)
    xarray.testing.assert_allclose(measure_head_labels(model, SHOWN), together)
    assert passes == [3, 1, 1, 1]


def test_a_model_that_repeats_has_heads_that_copy():
    """The packaged model puts out what it was shown, and its known heads are told from the others."""
    model, _ = packaged()
    found = measure_head_labels(model)
    assert {name: found[name].shape for name in NAMES} == dict.fromkeys(NAMES, (18, 4))
    for name in NAMES:
        assert ((found[name] >= 0) & (found[name] <= 1)).all()
    assert found.induction.max() > 0.5
    assert found.copying.max() > 0.5
    assert found.induction.median() < 0.1
    assert found.copying.values.argmax() in found.induction.values.ravel().argsort()[-5:]


def test_even_attention_has_the_labels_of_its_counts():
    model = build("Llama")
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight.zero_()
    found = measure_head_labels(model, SHOWN)
    seen = 1 / torch.arange(2, 26)
    np.testing.assert_allclose(found.previous_token, seen.mean().expand(3, 4), rtol=1e-5)
    np.testing.assert_allclose(found.first_token, seen.mean().expand(3, 4), rtol=1e-5)
    np.testing.assert_allclose(found.induction, seen[12:23].mean().expand(3, 4), rtol=1e-5)


def test_a_narrow_window_leaves_no_induction():
    found = measure_head_labels(shared("Mistral"), tokens(2, 20))
    assert (found.induction == 0).all()
    assert (found.copying == 0).all()


def test_random_tokens_differ_within_a_prompt_and_are_drawn_by_a_seed():
    model, seen = build("Llama"), []
    model.model.embed_tokens.register_forward_hook(lambda _, args, __: seen.append(args[0]))
    one, again, other = (measure_head_labels(model, seed=seed) for seed in (0, 0, 1))
    assert one.equals(again)
    assert not one.induction.equals(other.induction)
    assert len(seen) == 3  # passes
    ids = torch.cat(seen)
    assert ids.shape == (9, 101)
    assert (ids[:, 0] == 1).all()  # its mark of beginning
    assert torch.equal(ids[:, 1:51], ids[:, 51:])
    assert all(len(row[1:51].unique()) == 50 for row in ids)
    assert ((ids[:, 1:] >= 4) & (ids[:, 1:] < 93)).all()


test_what_does_not_fit_is_refused = refuse_each(
    (lambda: measure_head_labels(shared("Llama"), tokens="abc"),
     "input_ids must be a tensor of whole numbers, int64 or int32; got str", TypeError),
    (lambda: measure_head_labels(shared("Llama"), tokens=torch.full((1, 3), 97)),
     "tokens must be token ids from 0 to 96"),
)  # fmt: skip


def test_a_model_may_have_several_tokens_of_the_end():
    labels = measure_head_labels(build("Llama", eos_token_id=[95, 96]))
    assert labels
