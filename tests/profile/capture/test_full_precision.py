"""Models in every floating-point type: the planes are those of their weights in float32, and guards hold."""

import copy
import itertools

import pytest
import torch
from architectures import build, tokens
from every_decoder import tiny_model
from transformers.models.llama import modeling_llama

from posym_core import rope_angles
from posym_profile.capture import capture
from posym_profile.capture._full_precision import compute_in_float32
from posym_profile.language_models import UnsupportedModelError
from posym_profile.planes import find_planes

HALF = [torch.bfloat16, torch.float16]
# Released geometries: tests elsewhere have heads of 16.
RELEASED = {
    "Llama": {"head_dim": 64},
    "HunYuan": {"head_dim": 128, "hidden_size": 256},
    "Gemma3": {"head_dim": 128, "hidden_size": 256},
    "gpt-oss": {"head_dim": 64},
    "DeepSeek-V3": {"qk_rope_head_dim": 64, "head_dim": 64, "qk_nope_head_dim": 128},
    "CodeGen": {"n_embd": 256, "rotary_dim": 64},
}
ROUNDED = 1e-5


def released(name, dtype, **options):
    """A model with released heads and, where norms have weights behind the rotation, weights far from 1."""
    model = build(name, **(RELEASED.get(name, {}) | options))
    for key, parameter in model.named_parameters():
        if "layernorm" in key and name == "HunYuan" and parameter.shape[0] == RELEASED[name]["head_dim"]:
            spread = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
            parameter.data = (0.5 * spread).exp()
    return model.to(dtype)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", ["Llama", "HunYuan", "Gemma3", "gpt-oss", "DeepSeek-V3"])
def test_half_precision_is_computed_in_float32(name, dtype):
    model, ids = released(name, dtype), tokens()
    before = {key: parameter.dtype for key, parameter in model.named_parameters()}
    with torch.no_grad():
        with compute_in_float32(model):
            found = model(ids, use_cache=False).logits
        rough = model(ids, use_cache=False).logits
        exact = copy.deepcopy(model).float()(ids, use_cache=False).logits
    assert {key: parameter.dtype for key, parameter in model.named_parameters()} == before
    assert (found.dtype, rough.dtype) == (torch.float32, dtype)
    torch.testing.assert_close(found, exact, atol=ROUNDED * float(exact.abs().max()), rtol=0)
    assert (rough - exact).abs().max() > 10 * (found - exact).abs().max()


@pytest.mark.parametrize(("name", "dtype"), [
    *itertools.product(["Llama", "HunYuan"], [*HALF, torch.float64]),
    *zip(["gpt-oss", "DeepSeek-V3", "Falcon"], [*HALF, torch.float64], strict=True),
])  # fmt: skip
def test_planes_are_those_of_the_same_weights_in_float32(name, dtype):
    model = released(name, dtype)
    for found, expected in zip(find_planes(model, 44), find_planes(copy.deepcopy(model).float(), 44), strict=True):
        assert torch.equal(found.order, expected.order)
        torch.testing.assert_close(found.angles, expected.angles, atol=1e-9, rtol=1e-6)
        torch.testing.assert_close(found.gain, expected.gain, atol=0, rtol=1e-4)


@pytest.mark.parametrize(("kind", "dtype"), [("bamba", torch.bfloat16), ("recurrent_gemma", torch.float16)])
def test_hybrids_in_half_precision(kind, dtype):
    """Convolutions compare types of their operands themselves."""
    model = tiny_model(kind).to(dtype)
    for found, expected in zip(find_planes(model, 44), find_planes(copy.deepcopy(model).float(), 44), strict=True):
        assert torch.equal(found.order, expected.order)
        torch.testing.assert_close(found.angles, expected.angles, atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", ["GPT-J", "CodeGen"])
def test_sines_from_a_table_in_half_precision(name, dtype):
    model = build(name, n_embd=256, rotary_dim=64, dtype=dtype, attention="eager")
    for planes in find_planes(model, 44):
        assert planes.rotated == 32
        torch.testing.assert_close(planes.angles, rope_angles(64), atol=1e-4, rtol=0)
    with torch.no_grad():
        eager = model(tokens(), output_attentions=True, use_cache=False).attentions
    for call, own in zip(capture(model, tokens()), eager, strict=True):
        torch.testing.assert_close(call.weights()[:, :, 0], own[:, :, -1].float(), atol=0.03, rtol=0)


def alibi(module, query, key, value, mask, **options):
    distance = torch.arange(key.shape[2])[None, :] - torch.arange(key.shape[2])[:, None]
    bias = 0.1 * distance.to(query.dtype).masked_fill(distance > 0, torch.finfo(query.dtype).min)
    return HONEST(module, query, key, value, bias.expand(len(query), 1, -1, -1), **options)


def flipped(module, query, key, value, mask, **options):
    return HONEST(module, query, key.flip(-2), value, mask, **options)


HONEST = modeling_llama.ALL_ATTENTION_FUNCTIONS["sdpa"]


@pytest.mark.parametrize("dtype", [*HALF, torch.float32, torch.float64])
@pytest.mark.parametrize("function", [alibi, flipped])
def test_attention_that_does_otherwise_inside_is_refused(function, dtype):
    mapping = modeling_llama.ALL_ATTENTION_FUNCTIONS
    mapping["sdpa"] = function
    try:
        with pytest.raises(UnsupportedModelError, match="attends otherwise than by a softmax over its keys"):
            find_planes(build("Llama", dtype=dtype), 44)
    finally:
        del mapping["sdpa"]


@pytest.mark.parametrize("dtype", [*HALF, torch.float32, torch.float64])
def test_keys_that_drift_are_refused(dtype, monkeypatch):
    rotate = modeling_llama.apply_rotary_pos_emb

    def drifting(query, key, cos, sin, **options):
        query, key = rotate(query, key, cos, sin, **options)
        return query, key + 0.01 * sin[:, None]

    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", drifting)
    with pytest.raises(UnsupportedModelError, match="attention call 0: keys "):
        find_planes(build("Llama", dtype=dtype), 44)
