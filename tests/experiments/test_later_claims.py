"""Measurements for the claims of later papers, on tiny models with random weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from architectures import build, tokens

from posym_companion.experiments import later_claims
from posym_companion.experiments.later_claims import OUTCOMES, LaterClaims, full_size, measure, small
from posym_companion.findings import later_claims as judges
from posym_core.inspection.capture import watched_forward
from posym_core.inspection.heads import layer_heads
from posym_core.inspection.interventions import stopped
from posym_core.inspection.planes import find_planes
from posym_core.inspection.surgery import surgery
from posym_core.metrics.exclusion import exclusion
from posym_core.runs.results import named_dims


def heads_of(model, ids):
    seen = []
    watched_forward(model, ids, lambda call: seen.append(call))
    return [layer_heads(call, planes) for call, planes in zip(seen, find_planes(model, ids.shape[1]), strict=True)]


def test_every_part_is_measured_on_a_tiny_model(tiny, tokenizer, monkeypatch):
    monkeypatch.setattr(later_claims, "CARRIES", 0.0)  # a model that does not bind has no carriers
    for setting in map(small, full_size()):
        arrays = measure(tiny, tokenizer, setting, progress=False)
        named_dims(later_claims.DIMS, arrays)
        numbers = (x for name, x in arrays.items() if x.dtype.kind == "f" and "rotated" not in name)
        assert all(np.isfinite(x).all() for x in numbers)


def test_logits_at_distances_are_the_cross_logits_of_places():
    model, ids = build("Gemma3"), tokens(2)
    for heads in heads_of(model, ids):
        last = heads.keys.shape[-2] - 1
        inside = slice(3, last)
        distance = torch.arange(last - 3, 0, -1).double()
        found = later_claims.logits_at(heads, inside, distance, heads.angles)
        torch.testing.assert_close(found, heads.cross_logits()[..., 3:last, 3:last], rtol=1e-4, atol=1e-5)
        still = later_claims.logits_at(heads, inside, distance, 0 * heads.angles)
        torch.testing.assert_close(still, still[..., :1].expand_as(still), rtol=1e-4, atol=1e-5)


def test_content_explains_what_the_symbolic_share_says():
    C = torch.randn(3, 6, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(later_claims.by_content(C), exclusion(C).symbolic_share.double())
    assert float(later_claims.by_content(torch.arange(4.0)[:, None].expand(4, 9))) == pytest.approx(1)


def test_distances_are_all_or_a_sample_within_the_length():
    assert later_claims.distances(64, 0).tolist() == list(range(1, 65))
    far = later_claims.distances(32768, 0)
    assert len(far.unique()) == later_claims.PLACES
    assert far.min() >= 1
    assert 30000 < far.max() <= 32768
    assert bool((far.diff() > 0).all())


def test_squares_of_planes_add_up():
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    planes = later_claims.plane_squares(x)
    torch.testing.assert_close(planes.sum(-1), x.square().sum(-1))
    assert float(planes[0, 1]) == pytest.approx(float(x[0, 1] ** 2 + x[0, 5] ** 2))


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


def test_influence_under_uniform_attention_is_that_of_running_means():
    """Values and outputs alone: the state is a product of (1 + running mean), as the paper has it."""
    model, ids = build("Llama"), tokens(1)[:, :12]
    with torch.no_grad():
        for layer in model.base_model.layers:
            layer.self_attn.q_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    found = later_claims.influence(model, ids, torch.eye(model.get_input_embeddings().weight.shape[1]))[0]
    with surgery(model, stopped(), length=12):
        still = later_claims.influence(model, ids, torch.eye(model.get_input_embeddings().weight.shape[1]))[0]
    torch.testing.assert_close(found, still, rtol=1e-4, atol=1e-6)
    # The first tokens are in every mean, and the last alone is handed on as it is.
    assert found[0] > 2 * found[5]
    assert found[5] > found[10]
    assert found[11] > found[10]
    with torch.no_grad():
        for layer in model.base_model.layers:
            layer.self_attn.o_proj.weight.zero_()
    alone = later_claims.influence(model, ids, torch.eye(model.get_input_embeddings().weight.shape[1]))[0]
    assert alone[-1] > 0
    assert float(alone[:-1].max()) == 0


def test_rearranged_prompts_point_three_ways(tokenizer):
    setting = LaterClaims(part="binding", length=6, prompts=6)
    for clean, others, answers, place in later_claims.rearranged(tokenizer, setting):
        assert sorted(clean.tolist()) != sorted(others[1].tolist())
        blocks, other, absent = (x[1:][:24].view(6, 4) for x in (clean, *others))
        asked_name, new_name = clean[-2], others[0][-2]
        assert int((blocks[:, 0] == asked_name).nonzero()) == int((blocks[:, 2] == answers[0]).nonzero())
        assert int((other[:, 0] == new_name).nonzero()) == place
        assert blocks[place, 2] == answers[1]
        assert blocks[int((blocks[:, 0] == new_name).nonzero()), 2] == answers[2]
        assert other[place, 2] == answers[3]
        assert len(set(answers.tolist())) == 7
        assert absent[place, 2] == answers[-1]
        assert answers[-1] not in clean
        assert (others[0] != others[1]).sum() == 1
        assert sorted(other[:, 0].tolist()) == sorted(blocks[:, 0].tolist())


def test_a_patched_state_is_that_of_the_model_with_a_hook_and_no_cache(tiny, tokenizer):
    setting = LaterClaims(part="binding", length=4, prompts=3)
    clean, others, *_ = next(later_claims.rearranged(tokenizer, setting))
    with pytest.raises(ValueError, match="four different facts or more and an attribute"):
        next(later_claims.rearranged(tokenizer, replace(setting, prompts=1)))
    states = later_claims.last_states(tiny, others[0])
    found = later_claims.with_last_state(tiny, clean, states)
    layers = tiny.base_model.layers
    for number, layer in enumerate(layers):

        def change(module, args, output, number=number):
            hidden = (output[0] if isinstance(output, tuple) else output).clone()
            hidden[0, -1] = states[number]
            return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

        handle = layer.register_forward_hook(change)
        with torch.no_grad():
            expected = tiny(clean[None], use_cache=False).logits[0, -1]
        handle.remove()
        torch.testing.assert_close(found[number], expected, rtol=1e-3, atol=1e-4)
    with torch.no_grad():
        whole = tiny(others[0][None], use_cache=False).logits[0, -1]
        intact = tiny(clean[None], use_cache=False).logits[0, -1]
    torch.testing.assert_close(found[-1], whole, rtol=1e-3, atol=1e-4)
    own = later_claims.with_last_state(tiny, clean, later_claims.last_states(tiny, clean))
    torch.testing.assert_close(own, intact.expand_as(own), rtol=1e-3, atol=1e-4)


def test_outcomes_count_the_highest_answer():
    logits = torch.eye(8)[None]  # one control, eight layers, each saying another answer
    said = later_claims.outcomes(logits)
    assert said.shape == (1, 8, len(OUTCOMES))
    np.testing.assert_allclose(said[0, :4, :4], np.eye(4))
    np.testing.assert_allclose(said[0, 4:7, 4], 1 / 3)
    assert said[0, 7, 5] == 1


def test_operations_are_on_heads_that_carry_the_answer_and_as_many_others():
    restored = np.zeros((3, 4))
    restored[1, 2] = restored[2, 0] = 0.5
    planned = later_claims.operations(restored, 16, 2, torch.Generator().manual_seed(0))
    assert planned["none"] == ()
    for name, interventions in planned.items():
        for one in interventions:
            carriers = set(one.heads) == {(1, 2), (2, 0)}
            assert carriers != name.startswith("other heads")
            assert len(one.heads) == 2
    assert int((~planned["slowest 0.25"][0].change(torch.linspace(1, 0.1, 16))[1]).sum()) == 4
    with pytest.raises(ValueError, match=r"no head restores more than 0\.1"):
        later_claims.operations(restored * 0, 16, 1, torch.Generator())


def test_correlation_with_the_best_sum_is_that_of_least_squares():
    C = torch.randn(5, 1, 1, 7, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    C = C + 2 * torch.arange(7.0)[:, None]
    shares = exclusion(C).interaction_share
    expected = []
    for one in C[:, 0, 0].numpy():
        best = one.mean(1, keepdims=True) + one.mean(0, keepdims=True) - one.mean()
        expected.append(np.corrcoef(one.ravel(), best.ravel())[0, 1])
    assert float(judges.sum_correlation(shares.numpy())[0, 0]) == pytest.approx(np.mean(expected))


def test_ends_of_a_profile():
    profile = np.exp(np.r_[[2.0] * 2, [0.0] * 12, [1.0, 5.0]])
    ends = judges.influence_ends(profile[None])
    assert (float(ends.start[0]), float(ends.end[0]), float(ends.last[0])) == pytest.approx((2, 1, 5))
    with pytest.raises(ValueError, match="so 16 in all; got 15"):
        judges.influence_ends(profile[None, :15])


def test_parts_are_named():
    with pytest.raises(ValueError, match="part must be one of"):
        judges.part("none")
