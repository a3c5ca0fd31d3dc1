from dataclasses import replace

import numpy as np
import pytest
import torch

from posym_companion.one_head import head_geometry
from posym_companion.one_head.plane_geometry import coherence, crest
from posym_profile.prompts import make_prompts
from posym_profile.scores._layer_measurement import map_layers

SETTING = head_geometry.HeadGeometry(facts=4, prompts=4)


def test_numbers_are_those_of_the_literal_definition(tiny, tokenizer):
    found, angles, distance = head_geometry.measure_heads(tiny, tokenizer, SETTING, progress=False)
    arrays = head_geometry.summarize(found, angles, distance)
    prompts = make_prompts(tokenizer, SETTING.task, facts=4, count=4)
    captured = {}

    def keep(heads):
        captured[heads.layer] = heads
        return {"nothing": heads.query[..., 0]}

    map_layers(tiny, prompts.input_ids, keep, progress=False)
    last = prompts.input_ids.shape[1] - 1
    for layer, head, plane in ((0, 1, 0), (1, 0, 5), (2, 3, 2)):
        angle, even, arrows = captured[layer].angles[plane].item(), [], []
        for prompt in range(4):
            query = captured[layer].query[prompt, head // 2, head % 2].double()
            key = captured[layer].keys[prompt, head // 2, 0].double()
            q = complex(query[plane], query[plane + 8]) * np.exp(-1j * angle * last)
            keys = [
                complex(key[place, plane], key[place, plane + 8]) * np.exp(-1j * angle * place)
                for place in range(prompts.start, prompts.start + prompts.blocks * prompts.block_length)
            ]
            even.append(coherence(torch.tensor(keys)).item())
            arrows.append(q * np.conj(np.mean(keys)))
        assert arrays["coherence"][layer, head, plane] == pytest.approx(np.mean(even), abs=2e-3)
        expected = crest(torch.tensor((arrows[0] + arrows[2]) / 2), angle).item()
        assert arrays["crest"][layer, head, plane] == pytest.approx(expected, rel=1e-3)


def test_planes_of_equal_keys_are_waves_and_planes_of_noise_are_not():
    generator = torch.Generator().manual_seed(0)
    angles = torch.tensor([[1.0, 0.3, 0.01]], dtype=torch.float64)
    distance = torch.arange(24, 4, -1).double()
    wave = 2 * (angles[0][:, None] * (distance - 3)).cos().expand(8, 1, 2, 3, 20)
    noise = torch.randn(8, 1, 2, 3, 20, generator=generator)
    arrow = torch.polar(torch.full_like(angles[0], 2.0), -3 * angles[0])
    one = torch.full((8, 1, 2, 3), 0.5)
    found = {
        "head_positional_share": one[..., 0],
        **dict.fromkeys(("concentration", "coherence", "positional_share", "symbolic_share", "energy_share"), one),
        "arrow": torch.view_as_real(arrow.expand(8, 1, 2, 3)),
        "query": torch.zeros(2, 1, 2, 3, 2),
        "keys": torch.zeros(2, 1, 2, 3, 20, 2),
    }
    equal = head_geometry.summarize({**found, "logits": wave}, angles, distance)
    np.testing.assert_allclose(equal["r2_test"], 1, atol=1e-3)
    np.testing.assert_allclose(equal["crest"], 3, atol=1e-4)
    np.testing.assert_allclose(equal["wave"], [[[[2, 3]] * 2]] * 2, atol=1e-4)
    noisy = head_geometry.summarize({**found, "logits": noise}, angles, distance)
    assert (noisy["r2_test"] < 0.5).all()
    # The slow plane turns by less than half a turn over 20 keys.
    found["energy_share"] = one * torch.tensor([0.1, 0.2, 0.7])
    chosen = head_geometry.summarize({**found, "logits": wave}, angles, distance)["dominant"]
    assert chosen[:, 0, 0].tolist() == [2, 1, 2]


def test_other_places_are_compared_with_the_first_for_every_head(tiny, tokenizer):
    setting = replace(SETTING, task="index")
    shares = {name: np.ones((3, 4, 8), np.float16) for name in ("energy_share", "positional_share")}
    found = head_geometry.measure_places(tiny, tokenizer, setting, shares, progress=False)
    assert found["place_correct"].shape == (4, 4)
    for name in ("place_followed", "place_unmoved"):
        assert found[name].shape == (3, 3, 4)
        assert (np.abs(found[name][:, :2]) <= 1 + 1e-6).all()  # no plane of the last layer turns far enough
