"""Scores of a cache of TransformerLens, as the library makes it, against the model's own attention."""

import pytest
import torch
from architectures import tokens
from saved_models import save_model
from transformers import AutoModelForCausalLM

from posym_profile.capture._capturing import capture
from posym_profile.language_models._refusals import UnsupportedModelError
from posym_profile.planes._rotary_planes import find_planes
from posym_profile.scores._activation_cache import _same, cached_cross_logits, cached_swap_scores
from posym_profile.scores._layer_measurement import map_layers
from posym_profile.scores._profiling import profile

TransformerBridge = pytest.importorskip("transformer_lens.model_bridge").TransformerBridge
BLOCKS = {"start": 3, "block_length": 4}
# Attention of TransformerLens is code of its own, rounded otherwise.
LOGIT_ERROR, SCORE_ERROR = 1e-4, 1e-4
# The scale is read off rounded logits, of other tokens.
BFLOAT16_ERROR = 2e-3


def booted(folder, name):
    path = str(save_model(folder, name))
    return TransformerBridge.boot_transformers(path, device="cpu"), AutoModelForCausalLM.from_pretrained(path)


@pytest.fixture(scope="module")
def gemma(tmp_path_factory):
    """Two of its three layers look through a window, and the third has angles of its own."""
    return booted(tmp_path_factory.mktemp("gemma"), "Gemma3")


def is_rotated(name):
    return "hook_rot" in name


@pytest.mark.parametrize("name", ["Llama", "Qwen3", "Cohere"])
def test_scores_are_those_of_the_model(name, tmp_path):
    bridge, model = booted(tmp_path, name)
    expected = profile(model, tokens(), tau=0.05, progress=False, **BLOCKS)
    for options in ({}, {"names_filter": is_rotated}):
        found = cached_swap_scores(bridge.run_with_cache(tokens(), **options)[1], tau=0.05, **BLOCKS)
        for key in vars(found):
            torch.testing.assert_close(getattr(found, key), getattr(expected, key), atol=SCORE_ERROR, rtol=0)


def test_windows_and_planes_are_those_of_the_model(gemma):
    bridge, model = gemma
    cache = bridge.run_with_cache(tokens())[1]
    options = BLOCKS | {"blocks": 5, "tau": 0.05, "per_frequency": True}
    expected = profile(model, tokens(), progress=False, visible_only=False, **options)
    found = cached_swap_scores(cache, **options)
    assert torch.equal(found.visible_blocks, expected.visible_blocks)
    assert found.symbolic.shape == (2, 3, 4, 8)
    torch.testing.assert_close(found.symbolic, expected.symbolic, atol=SCORE_ERROR, rtol=0)
    torch.testing.assert_close(found.positional, expected.positional, atol=SCORE_ERROR, rtol=0)


def test_cross_logits_are_those_of_the_model(gemma):
    bridge, model = gemma
    cache = bridge.run_with_cache(tokens())[1]
    expected = map_layers(model, tokens(), lambda heads: {"C": heads.cross_logits()}, progress=False)["C"]
    for layer, call in enumerate(capture(model, tokens())):
        found = cached_cross_logits(cache, layer)
        torch.testing.assert_close(found, expected[:, layer], atol=LOGIT_ERROR, rtol=0)
        torch.testing.assert_close(found.diagonal(dim1=-2, dim2=-1), call.logits()[:, :, 0], atol=LOGIT_ERROR, rtol=0)
        planes = cached_cross_logits(cache, layer, per_frequency=True)
        assert planes.shape == (2, 4, len(find_planes(model, 44)[layer].angles), 44, 44)
        torch.testing.assert_close(planes.sum(2), found, atol=LOGIT_ERROR, rtol=0)
    with pytest.raises(ValueError, match="layer must be one of 0 to 2; got 3"):
        cached_cross_logits(cache, 3)


def test_a_cache_of_one_prompt_may_lack_its_dimension(gemma):
    caches = [gemma[0].run_with_cache(tokens(1), remove_batch_dim=remove)[1] for remove in (True, False)]
    alone, batch = (cached_swap_scores(cache, **BLOCKS) for cache in caches)
    assert alone.symbolic.shape == (1, 3, 4)
    assert torch.equal(alone.symbolic, batch.symbolic)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("HunYuan", "are not what attention uses .it normalises them after the rotation"),
        ("DeepSeek-V3", "or they are the rotated part of latent attention.; posym_profile.profile"),
        ("GPT-NeoX", "GPTNeoXForCausalLM attends 3 times, and hook_rot_q is there 0 times; posym_profile.profile"),
        ("Gemma2", "attn_logit_softcapping cannot be read"),
    ],
)
def test_hooks_that_do_not_hold_what_attention_uses_are_refused(name, message, tmp_path):
    cache = booted(tmp_path, name)[0].run_with_cache(tokens())[1]
    with pytest.raises(UnsupportedModelError, match=message):
        cached_swap_scores(cache, **BLOCKS)


@pytest.mark.parametrize(
    ("names", "lacks"),
    [("blocks.0.attn.hook_rot_q", "blocks.0.attn.hook_rot_k"), ("hook_embed", "blocks.0.attn.hook_rot_q")],
)
def test_layers_that_were_not_cached_are_named(gemma, names, lacks):
    cache = gemma[0].run_with_cache(tokens(), names_filter=names)[1]
    with pytest.raises(ValueError, match=f"the cache lacks {lacks}; cache all layers of names that hold 'hook_rot'"):
        cached_swap_scores(cache, **BLOCKS)


def test_what_is_no_cache_of_a_bridge_is_refused(gemma):
    bridge, model = gemma
    cache = bridge.run_with_cache(tokens())[1]
    with pytest.raises(TypeError, match=r"must be an ActivationCache with its model, the second of what.*got dict"):
        cached_swap_scores(dict(cache), **BLOCKS)
    cache.model = model
    with pytest.raises(TypeError, match="that of a TransformerBridge; its model is a Gemma3ForCausalLM"):
        cached_swap_scores(cache, **BLOCKS)


def test_patterns_of_something_else_are_refused(gemma):
    mask = torch.ones(2, 44, dtype=torch.long)
    mask[1, :9] = 0
    padded = gemma[0].run_with_cache(tokens(), attention_mask=mask)[1]
    part = gemma[0].run_with_cache(tokens(), pos_slice=slice(0, 20))[1]
    for cache in (padded, part):
        with pytest.raises(
            ValueError, match=r"pattern is not the attention of these queries and keys \(padding, part of"
        ):
            cached_swap_scores(cache, **BLOCKS)


def test_numbers_are_the_same_up_to_a_ten_thousandth_of_the_largest():
    expected = torch.tensor([1.0, -2.0, 0.0])
    for off, same in ((0.0, True), (1.9e-4, True), (2.1e-4, False), (1.0, False), (torch.nan, False)):
        assert _same(expected + torch.tensor([off, 0, 0]), expected) == same
    assert not _same(expected[:2], expected)


def test_half_precision_is_that_of_the_model(tmp_path):
    path = str(save_model(tmp_path, "Llama"))
    bridge = TransformerBridge.boot_transformers(path, device="cpu", dtype=torch.bfloat16)
    found = cached_swap_scores(bridge.run_with_cache(tokens())[1], tau=0.05, **BLOCKS)
    expected = profile(bridge, tokens(), tau=0.05, progress=False, **BLOCKS)
    torch.testing.assert_close(found.symbolic, expected.symbolic, atol=BFLOAT16_ERROR, rtol=0)
