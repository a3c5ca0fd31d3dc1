"""A profile where a look at a number is dear: none but flags, one transfer a pass, and few calls up to the softmax."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from architectures import build, shared, tokens
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoModelForCausalLM

import posym_core
from benchmarks.operations import counted, scoring
from posym_profile.capture._capturing import forward
from posym_profile.planes import find_planes
from posym_profile.scores import _layer_measurement as layer_measurement
from posym_profile.scores import _profiling as profiling
from posym_profile.scores import profile

BLOCKS = {"start": 2, "block_length": 4, "progress": False}
SCORES = ("positional", "symbolic", "entropy")
# The token ids before the pass, and the flags behind it.
LOOKS = 2
# Beside the pass: some twenty operations of capture a layer, and those of one scoring.
MOST_OPERATIONS = 450


def number_free_profile(name, **options):
    """Of a model of shapes alone; its planes were found before."""
    planes = find_planes(shared(name), 44)
    with FakeTensorMode() as shapes, scoring("device"):
        parts = ("order", "angles", "gain")
        planes = [replace(x, **{part: shapes.from_tensor(getattr(x, part)) for part in parts}) for x in planes]
        ids = torch.empty(3, 44, dtype=torch.int64)
        model = AutoModelForCausalLM.from_config(shared(name).config).eval()
        return profile(model, ids, planes=planes, **BLOCKS, **options)


@pytest.mark.parametrize("per_frequency", [False, True])
@pytest.mark.parametrize("name", ["Llama", "Gemma2", "Gemma3"])
def test_no_number_is_read_of_a_model_that_has_none(name, per_frequency):
    found = number_free_profile(name, per_frequency=per_frequency)
    assert found.positional.shape == found.entropy.shape == ((3, 3, 4, 8) if per_frequency else (3, 3, 4))
    assert found.visible_blocks.shape == (3, 3)


@pytest.mark.parametrize("name", ["Llama", "Gemma3", "gpt-oss"])
def test_flags_alone_are_read_and_operations_are_few(name):
    model, ids = shared(name), tokens(2)
    planes = find_planes(model, 44)
    run = lambda: profile(model, ids, planes=planes, visible_only=False, **BLOCKS)  # noqa: E731
    plain, found = counted(lambda: forward(model, ids), "device"), counted(run, "device")
    assert found.reads == plain.reads + LOOKS
    assert found.dispatched <= plain.dispatched + MOST_OPERATIONS


@pytest.mark.parametrize("options", [{}, {"per_frequency": True}, {"visible_only": True}, {"batch_size": 2}])
@pytest.mark.parametrize("name", ["Llama", "Gemma2", "Gemma3", "gpt-oss", "DeepSeek-V3", "GPT-J"])
def test_scores_are_those_of_a_cpu(name, options):
    """Layers with angles of their own are scored as one there, and one by one here."""
    found = []
    for way in ("cpu", "device"):
        with scoring(way):
            found.append(profile(shared(name), tokens(3), tau=0.05, **BLOCKS, **{"visible_only": False} | options))
    for score in SCORES:
        torch.testing.assert_close(*(getattr(one, score) for one in found), rtol=0, atol=1e-6, equal_nan=True)
    assert torch.equal(*(one.visible_blocks for one in found))


def test_what_is_measured_is_moved_once_a_pass(other_device, monkeypatch):
    model, moved = build("Gemma3").to(other_device), []
    planes, to_cpu = find_planes(model, 44), torch.Tensor.cpu
    # Layers are measured one by one.
    monkeypatch.setattr(profiling, "NUMBERS_HELD", 0)
    monkeypatch.setattr(torch.Tensor, "cpu", lambda x: moved.append(x.device.type) or to_cpu(x))
    options = {"planes": planes, "batch_size": 2, "visible_only": False}
    found = profile(model, tokens(4), **options, **BLOCKS)
    assert [where for where in moved if where != "cpu"] == [other_device.type] * 2
    monkeypatch.setattr(layer_measurement, "NUMBERS_KEPT", 0)
    moved.clear()
    by_layer = profile(model, tokens(4), **options, **BLOCKS)
    assert [where for where in moved if where != "cpu"] == [other_device.type] * 6
    for name in (*SCORES, "visible_blocks"):
        assert torch.equal(getattr(found, name), getattr(by_layer, name))


def test_results_keep_their_types_and_shapes_on_their_way(other_device):
    numbers = [torch.arange(6).view(2, 3), torch.tensor(True), torch.rand(2, 1), torch.rand(3).double(), torch.rand(0)]
    for one, other in zip(layer_measurement.move_to_cpu([x.to(other_device) for x in numbers]), numbers, strict=True):
        assert one.device.type == "cpu"
        assert torch.equal(one, other)


def test_weights_that_are_no_numbers_are_refused_in_the_words_of_a_cpu():
    model, words = build("Llama"), []
    planes = find_planes(model, 44)
    model.model.layers[1].self_attn.q_proj.weight.data[:] = float("nan")
    for way in ("cpu", "device"):
        with scoring(way), pytest.raises(ValueError, match="query must be finite") as refused:
            profile(model, tokens(), planes=planes, **BLOCKS)
        words.append(str(refused.value))
    assert re.search(r"query must be finite; \d+ of its \d+ entries are NaN or infinite", words[1])


@pytest.mark.parametrize("way", ["cpu", "device"])
def test_ids_that_the_model_does_not_know_are_refused_before_the_pass(way):
    ids, model = tokens(), shared("Llama")
    ids[1, 3] = 97
    passed = model.register_forward_pre_hook(lambda *_: pytest.fail("the model was run"))
    try:
        with scoring(way), pytest.raises(ValueError, match=r"input_ids must be token ids from 0 to 96, .*; got 97"):
            profile(model, ids, **BLOCKS)
    finally:
        passed.remove()


HERE = str(Path(posym_core.__file__).parents[1] / "posym_")
MOST_CALLS = 8


@pytest.mark.parametrize("way", ["cpu", "device"])
def test_few_calls_lead_from_a_profile_to_the_softmax(way):
    """One record, and functions of the project that are on the way at each exponential, ``profile`` among them."""
    model, ids, ways = shared("Llama"), tokens(2), []
    planes = find_planes(model, 44)

    def note(frame, event, called):
        if event == "c_call" and getattr(called, "__name__", "") == "exp":
            way = []
            while frame is not None:
                # From Python 3.12 on, comprehensions are no calls.
                if frame.f_code.co_filename.startswith(HERE) and not frame.f_code.co_name.startswith("<"):
                    way.append(frame.f_code.co_qualname)
                frame = frame.f_back
            ways.append(way[::-1])

    with scoring(way):
        sys.setprofile(note)
        try:
            profile(model, ids, planes=planes, **BLOCKS)
        finally:
            sys.setprofile(None)
    assert ways
    for found in ways:
        assert found[0] == "profile"
        assert len(found) <= MOST_CALLS, " ".join(found)
