import gc
import weakref

import pytest
import torch
from architectures import REFUSED, ROTARY, Swapped, build, shared, tokens
from refusals import refuse_each
from transformers.models.llama import modeling_llama

from posym_core import rope_angles
from posym_profile.capture._capturing import capture
from posym_profile.language_models._refusals import UnsupportedModelError
from posym_profile.planes._rotary_planes import find_planes
from posym_profile.scores._layer_heads import read_layer_heads
from posym_profile.scores._profiling import profile

# The model rounds its angles to float32, and the closed form does not.
LOGIT_ERROR = 2e-5
FITTED_ANGLE_ERROR = 1e-7


def cross_logits_of_layers(model, input_ids):
    planes = find_planes(model, input_ids.shape[-1])
    for call, found in zip(capture(model, input_ids), planes, strict=True):
        heads = read_layer_heads(call, found)
        C = heads.cross_logits().flatten(1, 2)
        yield C if call.softcap is None else call.softcap * torch.tanh(C / call.softcap)


@pytest.mark.parametrize("name", ROTARY)
def test_closed_form_is_what_the_model_does_with_contents_truly_moved(name):
    model, input_ids = shared(name), tokens()
    swapped = Swapped(model, input_ids)
    order = torch.arange(44)
    order[4:8], order[20:24] = order[20:24].clone(), order[4:8].clone()
    order[[0, 41, 30]] = order[[41, 30, 0]]
    moved = swapped.calls_in_order(order)
    for C, call, still in zip(cross_logits_of_layers(model, input_ids), moved, swapped.calls, strict=True):
        torch.testing.assert_close(C.diagonal(dim1=-2, dim2=-1), still.logits()[:, :, 0], atol=LOGIT_ERROR, rtol=0)
        torch.testing.assert_close(C[..., order, range(44)], call.logits()[:, :, 0], atol=LOGIT_ERROR, rtol=0)


@pytest.mark.parametrize(("name", "description", "rotated"), [
    ("Llama", "halves, 16 of 16 dimensions rotated", 8),
    ("StableLM", "halves, 4 of 16 dimensions rotated", 2),
    ("GPT-J", "neighbours, 8 of 16 dimensions rotated, fitted", 4),
    ("GLM", "neighbours, 8 of 16 dimensions rotated", 4),
    ("DeepSeek-V2", "neighbours, 8 of 24 dimensions rotated from dimension 16", 4),
    ("HunYuan", "halves, 16 of 16 dimensions rotated, a norm with weights follows", 8),
])  # fmt: skip
def test_layouts_are_recognised(name, description, rotated):
    for planes in find_planes(shared(name), 44):
        assert planes.description.startswith(description)
        assert planes.rotated == rotated
        dim = len(planes.order)
        assert sorted(planes.order.tolist()) == list(range(dim))
        expected = torch.cat([rope_angles(2 * rotated), torch.zeros(dim // 2 - rotated, dtype=torch.float64)])
        torch.testing.assert_close(planes.angles, expected, atol=FITTED_ANGLE_ERROR, rtol=0)
        assert (planes.gain != 1).any() == (name == "HunYuan")


def test_angles_are_the_models_own_frequencies_to_the_last_bit():
    model = shared("Llama 3")
    for planes in find_planes(model, 44):
        assert torch.equal(planes.angles, model.model.rotary_emb.inv_freq.double())


def test_each_layer_has_its_own_angles():
    near, _, far = find_planes(shared("Gemma3"), 44)
    torch.testing.assert_close(near.angles, rope_angles(16), atol=FITTED_ANGLE_ERROR, rtol=0)
    torch.testing.assert_close(far.angles, rope_angles(16, 1e6) / 8, atol=FITTED_ANGLE_ERROR, rtol=0)
    *_, without = find_planes(shared("Cohere2 with NoPE layers"), 44)
    assert (without.rotated, without.description) == (0, "no rotation")
    assert torch.equal(without.angles, torch.zeros(8, dtype=torch.float64))


@pytest.mark.parametrize(("name", "length"), [("Llama dynamic", 24), ("Phi3 longrope", 32)])
def test_angles_that_depend_on_the_length_are_asked_at_the_length(name, length):
    model = build(name)
    short, long = (find_planes(model, tokens_)[0].angles for tokens_ in (length, length + 20))
    torch.testing.assert_close(short, rope_angles(16), atol=FITTED_ANGLE_ERROR, rtol=0)
    assert (long[1:] < 0.95 * short[1:]).all()


def test_planes_too_slow_to_be_seen_take_the_models_frequencies():
    model = build("Llama", rope_parameters={"rope_type": "default", "rope_theta": 1e16})
    for planes in find_planes(model, 44):
        assert "planes too slow to be seen" in planes.description
        torch.testing.assert_close(planes.angles, rope_angles(16, 1e16), atol=0, rtol=1e-6)
        assert planes.order.tolist() == list(range(16))


def test_an_odd_number_of_unrotated_dimensions_gets_one_of_zeros():
    model, input_ids = build("GPT-J", n_embd=68), tokens()
    (planes, *_) = find_planes(model, 44)
    assert len(planes.order) == 18
    call = capture(model, input_ids)[0]
    heads = read_layer_heads(call, planes)
    assert heads.keys.shape[-1] == 18
    logits = heads.cross_logits().diagonal(dim1=-2, dim2=-1).flatten(1, 2)
    torch.testing.assert_close(logits, call.logits()[:, :, 0], atol=LOGIT_ERROR, rtol=0)


@pytest.mark.parametrize("name", REFUSED)
def test_models_without_rotations_are_refused_by_name(name):
    """What is no rotation alone can be captured, and has no planes."""
    model, reason = build(name), REFUSED[name][2]
    asked = [lambda: profile(model, tokens(), start=1, block_length=4, progress=False)]
    asked += [] if reason == "no rotary encoding" else [lambda: capture(model, tokens())]
    for ask in asked:
        with pytest.raises(UnsupportedModelError, match=reason) as refusal:
            ask()
        assert type(model).__name__ in str(refusal.value)
    assert all(not module._forward_pre_hooks for module in model.modules())


def test_planes_that_turn_the_other_way_are_read_from_their_second_dimension(monkeypatch):
    rotate = modeling_llama.apply_rotary_pos_emb
    monkeypatch.setattr(
        modeling_llama, "apply_rotary_pos_emb", lambda query, key, cos, sin, **options: rotate(query, key, cos, -sin)
    )
    model, input_ids = build("Llama"), tokens()
    for planes in find_planes(model, 44):
        assert planes.order.tolist() == [*range(8, 16), *range(8)]
    order = torch.arange(44).roll(5)
    order[order == 43], order[43] = order[43].clone(), 43
    moved = Swapped(model, input_ids).calls_in_order(order)
    for C, call in zip(cross_logits_of_layers(model, input_ids), moved, strict=True):
        torch.testing.assert_close(C[..., order, range(44)], call.logits()[:, :, 0], atol=LOGIT_ERROR, rtol=0)


def test_keys_that_depend_on_positions_otherwise_are_refused(monkeypatch):
    def stretched(query, key, cos, sin, **options):
        return query, key * (2 + cos)

    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", stretched)
    with pytest.raises(
        UnsupportedModelError, match=r"LlamaForCausalLM, model.layers.0.self_attn: .*not as rotations of planes"
    ):
        find_planes(build("Llama"), 44)


VECTORS = "vectors of positions that are added to embeddings are contents to attention"
test_refusals = refuse_each(
    *((lambda length=length: find_planes(shared("Llama"), length),
       rf"length must be .* at least 1 \(tokens of the prompts in question\); got {length}$")
      for length in (-5, 0, 3.5, None)),
    (lambda: find_planes(build("GPT-J", n_positions=20), 20),
     "table of 20 entries, too few to measure rotations; .* than 24", UnsupportedModelError),
    # Keys of GPT-2 do depend on positions, through its embeddings.
    (lambda: find_planes(build("GPT-2"), 44),
     rf"^GPT2LMHeadModel has no rotary encoding: .* turn the keys \({VECTORS}\); use a decoder", UnsupportedModelError),
)  # fmt: skip


def test_positions_never_leave_a_table():
    """On a GPU one look-up out of range would end the process, so none may be tried, even to see it fail."""
    found = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            index = args[1][0] if func is torch.ops.aten.index.Tensor else None
            if index is not None and index.dtype == torch.int64:
                found.append((int(index.min()), int(index.max()), len(args[0])))
            return func(*args, **(kwargs or {}))

    with Watch():
        find_planes(shared("GPT-J"), 44)
    assert found
    assert all(low >= 0 and high < size for low, high, size in found)


def change_base(model):
    model.model.rotary_emb.inv_freq.mul_(0.5)


def change_weights(model):
    with torch.no_grad():
        model.model.layers[0].self_attn.k_norm.weight.mul_(torch.linspace(0.5, 2, 16))


def change_settings(model):
    model.config.rms_norm_eps = 1e-5


def add_hook(model):
    model.model.layers[0].register_forward_pre_hook(lambda module, args: None)


def replace_buffer(model):
    model.model.rotary_emb.inv_freq = model.model.rotary_emb.inv_freq.clone()


@pytest.mark.parametrize("change", [change_base, change_weights, change_settings, add_hook, replace_buffer])
def test_planes_are_kept_until_the_model_changes(change):
    model = build("Qwen3")
    (first, *_), (other, *_) = find_planes(model, 40), find_planes(model, 50)
    assert find_planes(model, 40)[0] is first
    assert find_planes(model, 50)[0] is other
    change(model)
    (again, *_) = find_planes(model, 40)
    assert again is not first
    if change is change_base:
        torch.testing.assert_close(again.angles, first.angles / 2)


def test_kept_planes_keep_no_model():
    model = build("Llama")
    find_planes(model, 40)
    seen = weakref.ref(model)
    del model
    gc.collect()
    assert seen() is None
