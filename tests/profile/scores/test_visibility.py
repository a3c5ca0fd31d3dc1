"""Blocks that the last token does not see."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from architectures import shared, tokens

from posym_core.metrics import BlockLayout, score_swaps
from posym_profile import HiddenBlocksWarning, profile, top_heads
from posym_profile.capture import capture
from posym_profile.planes import find_planes
from posym_profile.scores import tabulate_heads
from posym_profile.scores._layer_heads import read_layer_heads
from posym_profile.scores._profiling import score_layer

SCORES = ("positional", "symbolic", "entropy")
# The last of 44 tokens sees 28 to 43 through a window of 16: of ten blocks from 2 on one is cut, and three are whole.
CUT = {"start": 2, "block_length": 4, "progress": False, "tau": 0.05}


def layers_of(name, input_ids):
    model = shared(name)
    calls, planes = capture(model, input_ids), find_planes(model, input_ids.shape[1])
    return [read_layer_heads(call, found) for call, found in zip(calls, planes, strict=True)]


def test_hidden_blocks_are_counted_and_warned_of_once():
    with pytest.warns(HiddenBlocksWarning) as caught:
        found = profile(shared("Mistral"), tokens(), **CUT)
    (said,) = (str(one.message) for one in caught)
    assert said.startswith("queries do not see all blocks whole in layers 0, 1, 2 (because of a sliding window")
    assert "pass visible_only=True to score visible blocks alone" in said
    assert caught[0].filename == __file__
    assert found.visible_blocks.values.tolist() == [[3, 3, 3]] * 2
    # Random weights: what looks positional with hidden blocks does not without them.
    sharp = {**CUT, "tau": 1e-4}
    blind, seeing = (profile(shared("Mistral"), tokens(), visible_only=way, **sharp) for way in (False, True))
    assert (blind.positional > 0.99).all()
    assert (seeing.positional < 0.99).any()


def test_what_is_seen_whole_is_neither_counted_nor_warned_of():
    found = profile(shared("Llama"), tokens(), **CUT)
    assert found.visible_blocks.values.tolist() == [[10, 10, 10]] * 2
    near = profile(shared("Mistral"), tokens(), **CUT | {"start": 28})
    assert near.visible_blocks.values.tolist() == [[3, 3, 3]] * 2


@pytest.mark.parametrize("name", ["Mistral", "Gemma2", "Gemma3", "gpt-oss", "Llama 4"])
@pytest.mark.parametrize("per_frequency", [False, True])
def test_visible_blocks_are_scored_as_if_there_were_no_others(name, per_frequency):
    """Gemma 2 has layers of both kinds with the same angles, which are scored together."""
    input_ids = tokens()
    found = profile(shared(name), input_ids, visible_only=True, per_frequency=per_frequency, **CUT)
    hidden = 0
    for layer, heads in enumerate(layers_of(name, input_ids)):
        seen = [place for place in range(10) if heads.visible[..., 2 + 4 * place : 6 + 4 * place].all()]
        assert found.visible_blocks[:, layer].values.tolist() == [len(seen)] * 2
        hidden += len(seen) < 10
        only = BlockLayout(start=2 + 4 * seen[0], block_length=4, blocks=len(seen), tau=0.05)
        alone = score_swaps(heads, only, per_frequency=per_frequency)
        for score in SCORES:
            expected = getattr(alone, score).flatten(1, 2)
            measured = found[f"plane_{score}" if per_frequency else score]
            np.testing.assert_allclose(measured[:, layer], expected, atol=1e-6, rtol=0)
    assert hidden


def test_blocks_that_nobody_sees_have_nothing_to_compare():
    with pytest.warns(
        HiddenBlocksWarning, match=r"whole in layers 0, 1 \(because of a sliding window, say\)\. What is"
    ):
        found = profile(shared("Gemma3"), tokens(1), start=0, block_length=4, blocks=6, progress=False)
    assert (found.positional[:, :2] == 0).all()
    assert (found.positional[:, 2] > 0).all()


@pytest.mark.parametrize(("start", "seen"), [(0, 0), (7, 1)])
def test_fewer_than_two_visible_blocks_have_no_scores(start, seen):
    options = {"start": start, "block_length": 12, "progress": False, "visible_only": True}
    found = profile(shared("Gemma3"), tokens(), **options)
    assert found.visible_blocks.values.tolist() == [[seen, seen, 3]] * 2
    for name in ("positional", "symbolic"):
        assert found[name][:, :2].isnull().all()
        assert found[name][:, 2].notnull().all()
    assert found.entropy.notnull().all()
    assert len(tabulate_heads(found)) == 3 * 4
    assert {layer for layer, _ in top_heads(found, 4, "symbolic", flat=True)} == {2}


def test_prompts_of_several_lengths_have_counts_of_their_own():
    together, mask = tokens(), torch.ones(2, 44)
    mask[0, :20] = 0
    with pytest.warns(HiddenBlocksWarning, match="whole in layers 0, 1 "):
        found = profile(shared("Gemma3"), together, mask, **CUT | {"start": 0, "block_length": 4})
    assert found.visible_blocks.values.tolist() == [[3, 3, 5], [3, 3, 10]]


def test_blocks_that_are_seen_here_and_there_are_not_cut_out():
    (heads, *_) = layers_of("Llama", tokens())
    visible = heads.visible.clone()
    visible[..., 10:14] = False
    with pytest.raises(ValueError, match=r"visible_only scores blocks that stand next to each other, but layer 0 sees "
                       r"blocks \[0, 1, 3, 4, 5, 6, 7, 8, 9\] of 10; pass visible_only=False"):  # fmt: skip
        score_layer(replace(heads, visible=visible), BlockLayout(start=2, block_length=4, blocks=10), visible_only=True)
