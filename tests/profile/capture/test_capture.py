import re
import threading

import numpy as np
import pytest
import torch
import transformers
from architectures import ROTARY, build, shared, tokens
from every_decoder import tiny_config
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.models.llama import modeling_llama

from posym_profile.capture._capturing import capture, forward_with_hook, hook_attention
from posym_profile.language_models import UnsupportedModelError
from posym_profile.planes._rotary_planes import find_planes
from posym_profile.scores import origin_cube, profile

# The model's own float32 weights against ours, and one attention kernel against another.
WEIGHT_ERROR = 1e-5
BFLOAT16_ERROR = 0.05
BOTH_ROUTES = ["Llama", "Gemma3", "gpt-oss", "DeepSeek-V3", "GPT-J", "Falcon"]


def hooks_of(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def mapping_now():
    """What the shared mapping answers, and what stands in its local layer."""
    mapping = modeling_llama.ALL_ATTENTION_FUNCTIONS
    return dict(mapping), dict(mapping._local_mapping), dict(AttentionInterface._global_mapping)


@pytest.mark.parametrize("attention", ["eager", None])
@pytest.mark.parametrize("name", ROTARY)
def test_weights_are_the_eager_attention_of_the_model(name, attention):
    input_ids = tokens()
    with torch.no_grad():
        expected = shared(name, "eager")(input_ids, output_attentions=True, use_cache=False).attentions
    calls = capture(shared(name, attention), input_ids, rows=(-1, 5))
    assert [call.index for call in calls] == list(range(len(expected)))
    for call, weights in zip(calls, expected, strict=True):
        torch.testing.assert_close(call.weights(), weights[:, :, call.rows], atol=WEIGHT_ERROR, rtol=0)


@pytest.mark.parametrize("name", BOTH_ROUTES)
def test_output_is_the_same_to_the_last_bit(name):
    model, input_ids, seen = shared(name), tokens(), []
    with torch.no_grad():
        plain = model(input_ids, use_cache=False).logits
        for route in ("interface", "functions"):
            with hook_attention(model, seen.append, route=route, rows=None, verify=True):
                assert torch.equal(model(input_ids, use_cache=False).logits, plain)
    assert seen


def test_windows_sinks_and_caps_are_the_models_own():
    sees = [call.visible[0, 0, 0].sum() for call in capture(shared("Gemma3"), tokens())]
    assert sees == [16, 16, 44]
    capped, plain = capture(shared("Gemma2"), tokens())[0], capture(shared("Llama"), tokens())[0]
    assert (capped.softcap, plain.softcap) == (5.0, None)
    assert capped.logits().abs().max() < 5
    model = shared("gpt-oss")
    call = capture(model, tokens())[1]
    assert torch.equal(call.sinks, model.model.layers[1].self_attn.sinks)
    assert (call.weights().sum(-1) < 1).all()


@pytest.mark.parametrize("mask", [None, torch.ones(2, 44)])
def test_a_window_that_is_told_without_a_mask_is_as_wide_as_that_of_the_mask(mask):
    """As attention kernels that take a window, and a mask of padding alone, have it."""

    def windowed(module, query, key, value, attention_mask, scaling, sliding_window, **options):
        key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
        place = torch.arange(44)
        behind = place[:, None] - place
        logits = (query @ key.transpose(-1, -2) * scaling).masked_fill((behind < 0) | (behind >= sliding_window), -1e9)
        return (logits.softmax(-1) @ value).transpose(1, 2), None

    AttentionInterface.register("windowed", windowed)
    AttentionMaskInterface.register("windowed", lambda *_, attention_mask=None, **__: mask)
    seen = []
    try:
        model = build("Mistral", attention="windowed")
        forward_with_hook(model, tokens(), seen.append, rows=(-1, 5), verify=True)
    finally:
        for interface in (AttentionInterface, AttentionMaskInterface):
            del interface._global_mapping["windowed"]
    expected = capture(shared("Mistral"), tokens(), rows=(-1, 5))
    for call, masked in zip(seen, expected, strict=True):
        assert call.visible[:, 0].sum(-1).tolist() == [[16, 6]] * 2
        assert torch.equal(call.visible, masked.visible)


def test_vocabulary_logits_are_not_computed():
    model = build("Llama")
    model.lm_head.register_forward_pre_hook(lambda *_: pytest.fail("the vocabulary logits were computed"))
    assert len(capture(model, tokens())) == 3


def test_no_weights_of_all_tokens_by_all_tokens_are_formed():
    class Watch(TorchDispatchMode):
        square = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            output = func(*args, **(kwargs or {}))
            if isinstance(output, torch.Tensor) and output.is_floating_point():
                self.square += output.shape[-2:] == (44, 44)
            return output

    with Watch() as watch:
        capture(shared("Llama"), tokens())
    assert watch.square == 0
    # The watch does see such weights where there are any.
    with Watch() as watch:
        capture(shared("Llama", "eager"), tokens())
    assert watch.square > 0


@pytest.mark.parametrize("name", BOTH_ROUTES)
def test_nothing_is_left_after_an_exception(name):
    def fail(call):
        raise RuntimeError("while measuring")

    model, before = build(name), mapping_now()
    with pytest.raises(RuntimeError, match="while measuring"):
        forward_with_hook(model, tokens(), fail)
    assert mapping_now() == before
    assert hooks_of(model) == 0


@pytest.mark.parametrize("name", ["Llama", "GPT-J"])
def test_one_model_in_two_threads(name):
    """Profiles wait for each other, and passes of others see nothing of them."""
    model, input_ids, before = shared(name), tokens(1, 12), mapping_now()
    options = {"start": 1, "block_length": 2, "tau": 0.05, "progress": False}
    with torch.no_grad():
        plain, expected = model(input_ids).logits, profile(model, input_ids, **options).positional
    found, failed = [], []
    stop = threading.Event()

    def work():
        try:
            for _ in range(2):
                found.append(profile(model, input_ids, **options).positional.equals(expected))
        except Exception as error:
            failed.append(error)

    def run_beside():
        try:
            with torch.no_grad():
                while not stop.is_set():
                    found.append(torch.equal(model(input_ids).logits, plain))
        except Exception as error:
            failed.append(error)

    workers, beside = [threading.Thread(target=work) for _ in range(2)], threading.Thread(target=run_beside)
    for thread in (beside, *workers):
        thread.start()
    for thread in workers:
        thread.join()
    stop.set()
    beside.join()
    assert not failed
    assert len(found) > 4
    assert all(found)
    assert mapping_now() == before
    assert hooks_of(model) == 0


@pytest.mark.parametrize("name", ["Llama", "GPT-J", "Gemma3"])
def test_half_precision_is_captured_in_float32(name):
    input_ids = tokens()
    model = build(name, dtype=torch.bfloat16, attention="eager")
    with torch.no_grad():
        expected = model(input_ids, output_attentions=True, use_cache=False).attentions
    for call, weights in zip(capture(model, input_ids), expected, strict=True):
        assert call.keys.dtype == call.query.dtype == torch.float32
        torch.testing.assert_close(call.weights(), weights[:, :, -1:].float(), atol=BFLOAT16_ERROR, rtol=0)


@pytest.mark.parametrize("part", ["", "model.layers.1.mlp"])
def test_a_model_in_training_mode_is_refused(part):
    model = build("Llama", attention_dropout=0.5)
    model.get_submodule(part).training = True
    name = rf" \({part}\)" if part else ""
    for function in (capture, lambda *_: find_planes(model, 44)):
        with pytest.raises(ValueError, match=rf"LlamaForCausalLM{name} is in training mode.*call model.eval\(\)"):
            function(model, tokens())


def test_a_model_in_training_mode_that_drops_nothing_is_measured():
    for one, other in zip(capture(build("Llama").train(), tokens()), capture(shared("Llama"), tokens()), strict=True):
        assert torch.equal(one.weights(), other.weights())


@pytest.mark.parametrize(("kind", "changed"), [("gpt2", {}), ("falcon", {"alibi": True, "attention_dropout": 0.1})])
def test_a_model_that_is_refused_anyhow_is_not_sent_to_evaluation_first(kind, changed):
    config = tiny_config(transformers.CONFIG_MAPPING[kind])
    for name, value in changed.items():
        setattr(config, name, value)
    model, whys = transformers.AutoModelForCausalLM.from_config(config), {}
    for training in (False, True):
        with pytest.raises(UnsupportedModelError) as refused:
            find_planes(model.train(training), 44)
        whys[training] = re.search("has no rotary encoding|adds a bias to its logits", str(refused.value))[0]
    assert whys[True] == whys[False]


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
@pytest.mark.parametrize(("name", "layer"), [("Llama", "model.layers.1.self_attn"), ("GPT-J", "transformer.h.1.attn")])
def test_numbers_that_are_not_finite_are_refused_by_the_name_of_their_layer(name, layer, number):
    model, ids = build(name), tokens(1)
    model.get_submodule(layer).k_proj.weight.data[3, 5] = number
    said = rf"ForCausalLM: {layer} yields numbers that are not finite; load the weights again, or in another dtype$"
    for read in (capture, lambda *_: find_planes(model, 44)):
        with pytest.raises(ValueError, match=said):
            read(model, ids)
    # Of one token of the prompt alone, which the planes do not depend on.
    model, first = build(name), layer.replace("1", "0")
    model.get_input_embeddings().weight.data[ids[0, 7]] = number
    for read in (profile, origin_cube):
        with pytest.raises(ValueError, match=rf"ForCausalLM: {first} yields numbers that are not finite"):
            read(model, ids, start=1, block_length=4)


def test_weights_that_accelerate_brings_in_for_each_pass():
    accelerate = pytest.importorskip("accelerate")
    model = accelerate.cpu_offload(build("Llama"), execution_device=torch.device("cpu"))
    for one, other in zip(capture(model, tokens()), capture(shared("Llama"), tokens()), strict=True):
        assert torch.equal(one.keys, other.keys)
    assert find_planes(model, 44)[0].description == find_planes(shared("Llama"), 44)[0].description


@pytest.mark.parametrize("token", [-1, 97])
def test_tokens_that_the_model_does_not_know(token):
    ids = tokens()
    ids[1, 7] = token
    message = rf"input_ids must be token ids from 0 to 96, the model's vocabulary; got {token}.*own tokenizer"
    for function in (capture, lambda *args: profile(*args, start=1, block_length=4)):
        with pytest.raises(ValueError, match=message):
            function(shared("Llama"), ids)
    ids[1, 7] = 96
    capture(shared("Llama"), ids)


@pytest.mark.gpu
@pytest.mark.parametrize("name", BOTH_ROUTES)
def test_a_gpu_gives_what_the_cpu_gives(name):
    here, there = shared(name), build(name).cuda()
    assert next(there.parameters()).is_cuda
    for one, other in zip(capture(here, tokens()), capture(there, tokens()), strict=True):
        torch.testing.assert_close(one.weights(), other.weights().cpu(), atol=1e-4, rtol=0)
    options = {"start": 2, "block_length": 4, "tau": 0.1, "progress": False}
    one, other = profile(here, tokens(), **options), profile(there, tokens(), **options)
    np.testing.assert_allclose(one.positional, other.positional, atol=1e-3, rtol=0)
