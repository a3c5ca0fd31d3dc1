"""Prompts of several lengths in one tensor: scored as without padding, or refused."""

import sys

import numpy as np
import pytest
import torch
from architectures import build, shared, tokens
from refusals import refuse_each

from posym_profile import profile
from posym_profile.capture import capture
from posym_profile.planes import find_planes
from posym_profile.scores import map_layers

OPTIONS = {"start": 2, "block_length": 3, "tau": 0.05, "progress": False}
# One pass over prompts against one a prompt: rounding of the products.
SCORE_ERROR = 1e-5


def padded(lengths, side="left", pad=0):
    """Prompts of these lengths, alone and in one tensor with its mask."""
    prompts = [tokens(1, length, seed)[0] for seed, length in enumerate(lengths)]
    longest = max(lengths)
    together, mask = torch.full((len(prompts), longest), pad), torch.zeros(len(prompts), longest, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        place = slice(longest - len(prompt), None) if side == "left" else slice(len(prompt))
        together[row, place], mask[row, place] = prompt, 1
    return prompts, together, mask


@pytest.mark.parametrize(
    ("name", "side"),
    [("Llama", "left"), ("Llama", "right"), ("Llama dynamic", "left"), ("Llama 4", "left"), ("GPT-J", "left")],
)
def test_padded_prompts_are_scored_as_without_padding(name, side):
    model = build(name) if "dynamic" in name else shared(name)
    prompts, together, mask = padded([20, 31, 31], side)
    found = profile(model, together, mask, visible_only=False, **OPTIONS)
    for row, prompt in enumerate(prompts):
        alone = profile(model, prompt, visible_only=False, **OPTIONS)
        for score in ("positional", "symbolic", "entropy"):
            np.testing.assert_allclose(found[score][row], alone[score][0], atol=SCORE_ERROR, rtol=0)
        np.testing.assert_array_equal(found.visible_blocks[row], alone.visible_blocks[0])


def test_a_mask_of_ones_changes_nothing():
    plain, masked = (profile(shared("Llama"), tokens(), mask, **OPTIONS) for mask in (None, torch.ones(2, 44)))
    assert plain.equals(masked)


def test_planes_are_asked_once_unless_they_depend_on_the_length(monkeypatch):
    asked, module = [], sys.modules[map_layers.__module__]
    monkeypatch.setattr(module, "find_planes", lambda *given: (asked.append(given[1]), find_planes(*given))[1])
    _, together, mask = padded([20, 22, 31])
    profile(shared("Llama"), together, mask, **OPTIONS)
    assert sorted(asked) == [20, 31]
    asked.clear()
    profile(build("Llama dynamic"), together, mask, **OPTIONS)
    assert sorted(asked) == [20, 22, 31]


def test_measurements_of_different_lengths_are_filled_up_with_nan():
    prompts, together, mask = padded([9, 12])
    seen = []

    def measure(heads):
        seen.append((heads.layer, heads.prompts, heads.keys.shape[-2]))
        return {"logits": heads.cross_logits().diagonal(dim1=-2, dim2=-1)}

    logits = map_layers(shared("Llama"), together, measure, attention_mask=mask, progress=False)["logits"]
    assert seen == [(layer, slice(row, row + 1), (9, 12)[row]) for row in range(2) for layer in range(3)]
    assert logits.shape == (2, 3, 4, 12)
    assert logits[0, ..., 9:].isnan().all()
    own = torch.stack([call.logits()[0, :, 0] for call in capture(shared("Llama"), prompts[0])])
    torch.testing.assert_close(logits[0, ..., :9], own, atol=SCORE_ERROR, rtol=0)


@pytest.mark.parametrize("side", ["left", "right"])
def test_pad_tokens_that_no_mask_tells_of_are_refused(side):
    _, together, mask = padded([20, 17], side)
    verb = {"left": "begins", "right": "ends"}[side]
    for function in (lambda: profile(shared("Llama"), together, **OPTIONS), lambda: capture(shared("Llama"), together)):
        with pytest.raises(ValueError, match=rf"prompt 1 {verb} with 3 pad tokens \(id 0\).*attention_mask \(1 for"):
            function()
    with pytest.raises(ValueError, match=f"prompt 1 {verb} with 3 pad tokens"):
        profile(shared("Llama"), together, torch.ones_like(mask), **OPTIONS)


def test_a_pad_token_that_also_begins_texts_may_stand_there_once():
    model = build("Llama", pad_token_id=1)
    once = tokens()
    once[:, 0] = 1
    assert profile(model, once, **OPTIONS).positional.shape == (2, 3, 4)
    twice = once.clone()
    twice[1, 1] = 1
    with pytest.raises(ValueError, match=r"prompt 1 begins with 2 pad tokens \(id 1\)"):
        profile(model, twice, **OPTIONS)


MASK = padded([20, 17])[2]
HOLE = MASK.clone()
HOLE[1, 9] = 0


def masked(mask):
    return lambda: profile(shared("Llama"), padded([20, 17])[1], mask, **OPTIONS)


NOT_FOR_IDS = r"attention_mask must be a tensor of shape \(2, 20\), as input_ids; got "
HIDES = r"must leave each prompt at least 3 tokens, and hide none between them, .* it leaves "
test_masks_that_do_not_fit = refuse_each(
    (masked(MASK.tolist()), f"{NOT_FOR_IDS}list"),
    (masked(MASK[:1]), rf"{NOT_FOR_IDS}\(1, 20\)"),
    (masked(MASK * 2), "must be 1 for tokens and 0 for padding"),
    (masked(MASK * 0), rf"{HIDES}\[0, 0\]"),
    (masked(HOLE), rf"{HIDES}\[20, 16\]"),
    (lambda: profile(shared("Llama"), *padded([20, 31])[1:], blocks=8, **OPTIONS), "24 keys from start=2, but only 17"),
)  # fmt: skip
