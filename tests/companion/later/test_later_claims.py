"""Measurements for the claims of later papers, on tiny models with random weights."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from architectures import build, tokens

from posym_companion.later import later_claims
from posym_companion.later.later_claims import EXPERIMENT, full_size, measure
from posym_companion.results import name_dims


@pytest.fixture
def lenient(monkeypatch):
    """A model that does not bind has no carriers, and one Qwen-2 is made for all seeds."""
    monkeypatch.setattr(later_claims, "CARRIES", 0.0)
    qwen = functools.cache(later_claims.small_qwen)
    monkeypatch.setattr(later_claims, "small_qwen", lambda vocabulary, seed: qwen(vocabulary, 0))


@pytest.mark.usefixtures("lenient")
def test_both_claims_are_measured_on_tiny_models(tiny, tokenizer):
    for setting in map(EXPERIMENT.shrink, full_size()[:2]):
        arrays = measure(tiny, tokenizer, setting, progress=False)
        name_dims(later_claims.DIMS[setting.part], arrays)
        assert all(np.isfinite(x).all() for name, x in arrays.items() if x.dtype.kind == "f" and "rotated" not in name)
        if setting.part == "influence":  # of both kinds as many draws as there are
            drawn = np.isfinite(arrays["rotated"]).all(-1)
            assert dict(zip(arrays["kinds"].tolist(), drawn.sum(1).tolist(), strict=True)) == {"qwen2": 4, "own": 1}
            np.testing.assert_array_equal(drawn, np.isfinite(arrays["unrotated"]).all(-1))


def test_influence_is_the_norm_of_the_jacobian():
    model, ids = build("Qwen2"), tokens(1)[:, :10]
    embedding = model.get_input_embeddings()
    width = embedding.weight.shape[1]

    def state(x):
        return model.base_model(inputs_embeds=x, use_cache=False).last_hidden_state[0, -1]

    jacobian = torch.autograd.functional.jacobian(state, embedding(ids).detach())[:, 0]
    found = later_claims.influence(model, ids, torch.eye(width))
    torch.testing.assert_close(found[0], jacobian.square().sum((0, 2)).sqrt(), rtol=1e-4, atol=1e-6)
    # Directions that are drawn give the same on average, and a token behind the last has no say.
    drawn = later_claims.influence(model, ids, torch.randn(400, width, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(drawn / 20, found, rtol=0.1, atol=1e-6)


def test_operations_are_on_heads_that_carry_the_answer_and_as_many_others():
    restored = np.zeros((3, 4))
    restored[1, 2] = restored[2, 0] = 0.5
    energy = torch.rand(3, 4, 16, generator=torch.Generator().manual_seed(0))
    planned = later_claims.list_operations(restored, energy, 2, torch.Generator().manual_seed(0))
    assert planned["none"] == ()
    for name, interventions in planned.items():
        for one in interventions:
            carriers = set(one.heads) == {(1, 2), (2, 0)}
            if "of equal energy" in name:  # of each head planes of its own
                assert len(one.heads) == 1
                continue
            assert carriers != name.startswith("other heads")
            assert len(one.heads) == 2
    for speed in ("slow", "faster"):
        heads = [head for one in planned[f"{speed} planes of equal energy, 1"] for head in one.heads]
        assert heads == [(1, 2), (2, 0)]
    assert int((~planned["slowest 0.25"][0].change(torch.linspace(1, 0.1, 16))[1]).sum()) == 4
    with pytest.raises(ValueError, match=r"no head restores more than 0\.1"):
        later_claims.list_operations(restored * 0, energy, 1, torch.Generator())


@pytest.mark.parametrize("slowest", [0.9, 0.1])
def test_planes_of_equal_energy_are_all_of_the_poorer_side_and_as_much_of_the_richer(slowest):
    """Slow planes are 13 to 16; whichever side has more energy gives a part of it, another in each draw."""
    generator = torch.Generator().manual_seed(0)
    energy = torch.rand(16, generator=generator)
    energy[12:] *= slowest / energy[12:].sum()
    energy[:12] *= (1 - slowest) / energy[:12].sum()
    drawn = set()
    for _ in range(20):
        slow, faster = later_claims.equal_energy(energy, 0.25, generator)
        assert set(slow) <= {13, 14, 15, 16}
        assert set(faster) <= set(range(1, 13))
        whole, part = (faster, slow) if slowest > 0.5 else (slow, faster)
        assert whole == (list(range(1, 13)) if slowest > 0.5 else [13, 14, 15, 16])
        sums = [float(energy[[plane - 1 for plane in side]].sum()) for side in (whole, part)]
        assert sums[1] <= sums[0] + 1e-6
        drawn.add(tuple(part))
    if slowest < 0.5:  # of many small planes the sums are near
        assert sums[1] > 0.5 * sums[0]
        assert len(drawn) > 5
