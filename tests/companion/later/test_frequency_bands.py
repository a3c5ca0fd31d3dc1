"""The frequency band: where keys are largest, what is done below it and beside it, and what the text then costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from architectures import build

from posym_companion.later import frequency_bands
from posym_companion.later.frequency_bands import Band, FrequencyBands, band_of, full_size, measure, operations, small
from posym_core.inspection.plane_surgery import surgery
from posym_core.inspection.planes import find_planes
from posym_core.runs.results import named_dims


def in_one_band(plane):
    """A decoder whose keys are large in one plane of every head."""
    model = build("Llama").requires_grad_(False)
    for layer in model.model.layers:
        weight = layer.self_attn.k_proj.weight
        heads = weight.view(-1, model.config.head_dim, weight.shape[1])
        heads[:, [plane, plane + model.config.head_dim // 2]] *= 100
    return model


@pytest.mark.parametrize("plane", [0, 2])
def test_the_band_is_where_keys_are_largest(plane):
    model = in_one_band(plane)
    ids = torch.arange(24).view(2, 12) % 7 + 3
    band = band_of(model, ids, find_planes(model, 12))
    assert (band.own == plane).all()
    assert (band.cut == plane + 1).all()
    assert (band.sizes.argmax(-1) == plane).all()


def test_planes_below_the_band_and_as_many_others_are_chosen():
    model = in_one_band(2)
    planes = find_planes(model, 12)
    count, layers, heads = len(planes[0].angles), len(planes), model.config.num_attention_heads
    band = Band(
        sizes=torch.ones(layers, count),
        own=torch.full((layers, heads), count - 2.0),
        cut=torch.full((layers,), count - 2),
    )
    planned = operations(band, planes, FrequencyBands(random=2), torch.Generator().manual_seed(0))
    assert list(planned)[:2] == ["none", "below stopped"]
    assert len(planned) == 8
    before = planes[0].angles
    changed = {}
    for name, interventions in planned.items():
        with surgery(model, *interventions, planes=planes) as operated:
            changed[name] = operated.angles[-1][0], operated.kept[-1][0]
    still = {name: (angles == 0).nonzero().flatten().tolist() for name, (angles, _) in changed.items()}
    assert still["below stopped"] == [count - 2, count - 1]
    assert still["above stopped"] == [count - 4, count - 3]
    assert still["below each head's own stopped"] == [count - 1]
    assert [len(still[f"random stopped, {draw}"]) for draw in range(2)] == [2, 2]
    angles, kept = changed["below zeroed"]
    assert torch.equal(angles, before)
    assert (~kept).nonzero().flatten().tolist() == [count - 2, count - 1]
    angles, kept = changed["below as fast as the band"]
    assert kept.all()
    assert (angles[-2:] == before[count - 3]).all()
    assert torch.equal(angles[:-2], before[:-2])


def test_every_setting_is_measured_on_a_tiny_model(tiny, tokenizer):
    for setting in map(small, full_size()):
        arrays = measure(tiny, tokenizer, setting, progress=False)
        named_dims(frequency_bands.DIMS, arrays)
        for name, x in arrays.items():
            assert x.dtype.kind != "f" or np.isfinite(x).all(), name
        if setting.lengths:
            assert (np.abs(arrays["moved"][0]) < 1e-6).all()  # nothing is done
            assert (arrays["moved"][1:] > -1e-6).all()


def test_the_loss_is_that_of_the_models_own_forward_pass(tiny, tokenizer):
    setting = replace(small(), lengths=(64,))
    arrays = measure(tiny, tokenizer, setting, progress=False)
    ids = frequency_bands._windows(tokenizer, setting, 64)
    logits = tiny(ids).logits[0, -33:-1].log_softmax(-1)
    expected = -logits.gather(-1, ids[0, -32:, None]).mean()
    assert arrays["loss"][0, 0, 0] == pytest.approx(float(expected), rel=1e-5)


def test_every_model_has_a_result_of_its_own():
    names = [setting.name for setting in full_size()]
    assert len(names) == len(set(names)) == 10
    assert "frequency_bands/smollm2-135m-random2" in names
    assert "frequency_bands/gemma-3-270m-binds" in names
