"""Surgery against rebuilt models, against a rotary module that does nothing, and against a literal loop."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from architectures import ROTARY, build, shared, tokens
from refusals import refuse_each

from posym_core.metrics import BlockLayout
from posym_profile.capture._capturing import capture
from posym_profile.interventions._plane_interventions import (
    change_base,
    freeze_rotation,
    remove_planes,
    select_all,
    select_by_angle,
    select_by_id,
    select_fastest,
    select_slowest,
)
from posym_profile.interventions._plane_surgery import edit_rope
from posym_profile.language_models import UnsupportedModelError, run_with_cache
from posym_profile.planes._rotary_planes import find_planes
from posym_profile.scores import map_layers
from posym_profile.scores._profiling import profile, score_layer

LENGTH = 24
# The model's own float32 phases and products against ours.
LOGIT_ERROR = 2e-4
GROUPED = ["Llama", "Gemma3", "GLM", "gpt-oss", "DeepSeek-V3"]


def logits_of(model, input_ids):
    with torch.no_grad():
        return model(input_ids, use_cache=False).logits


# What attends by calls of torch of its own, and not through the interface.
OWN_CALLS = ["GPT-J", "CodeGen", "GPT-NeoX-Japanese", "Falcon", "Falcon grouped"]
EDITED = [name for name in ROTARY if name not in OWN_CALLS]


def planes_of(name, known={}):  # noqa: B006  (asked once for all tests)
    if name not in known:
        known[name] = find_planes(shared(name), LENGTH)
    return known[name]


def traces(model):
    """What surgery could leave behind."""
    hooks = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
    groups = [m.num_key_value_groups for m in model.modules() if hasattr(m, "num_key_value_groups")]
    return hooks, groups


@pytest.mark.parametrize("name", EDITED)
def test_no_intervention_leaves_every_bit_and_ablating_all_planes_makes_attention_uniform(name):
    model, input_ids = shared(name), tokens(2, LENGTH)
    planes = planes_of(name)
    # Dynamic angles remember the longest prompt that was read until a short one resets them, as surgery's look does.
    logits_of(model, input_ids[:, :4])
    plain = logits_of(model, input_ids)
    with edit_rope(model, planes=planes):
        assert torch.equal(logits_of(model, input_ids), plain)
    with edit_rope(model, freeze_rotation(select_fastest(0)), change_base(times=1.0), planes=planes_of(name)):
        assert torch.equal(logits_of(model, input_ids), plain)
    with edit_rope(model, remove_planes(), planes=planes_of(name)):
        calls = capture(model, input_ids)
        assert not torch.equal(logits_of(model, input_ids), plain)
    for call in calls:
        assert (call.logits() == 0).all()
        row, seen = call.weights()[0, 0, 0], call.visible[0, 0, 0]
        torch.testing.assert_close(row[seen], row[seen].mean().expand(int(seen.sum())))


class Unrotated(torch.nn.Module):
    """A rotary module whose angles are all 0."""

    def __init__(self, rotary):
        super().__init__()
        self.rotary = rotary

    def forward(self, *args, **options):
        found = self.rotary(*args, **options)
        if isinstance(found, torch.Tensor):
            return torch.complex(found.abs(), 0 * found.real)
        cos, sin = found
        # An attention factor is part of both.
        return (cos.square() + sin.square()).sqrt(), 0 * sin


@pytest.mark.parametrize("attention", [None, "eager"])
@pytest.mark.parametrize("name", ["Llama", "Llama YaRN", "Gemma3", "Phi", "Cohere", "GLM", "gpt-oss", "DeepSeek-V3"])
def test_all_angles_at_zero_are_a_model_without_positions(name, attention):
    model, input_ids = build(name, attention=attention), tokens(2, LENGTH)
    plain = logits_of(model, input_ids)
    with edit_rope(model, freeze_rotation(), planes=planes_of(name)):
        found = logits_of(model, input_ids)
    model.model.rotary_emb = Unrotated(model.model.rotary_emb)
    expected = logits_of(model, input_ids)
    torch.testing.assert_close(found, expected, atol=LOGIT_ERROR, rtol=0)
    assert (plain - expected).abs().max() > 100 * LOGIT_ERROR


@pytest.mark.parametrize("name", ["Llama", "Phi", "GPT-NeoX", "Cohere", "Llama linear"])
def test_another_base_is_the_model_built_with_it(name):
    input_ids, options = tokens(2, LENGTH), dict(ROTARY[name][1].get("rope_parameters", {"rope_type": "default"}))
    other = build(name, rope_parameters=options | {"rope_theta": 300.0})
    expected = logits_of(other, input_ids)
    with edit_rope(
        shared(name),
        change_base(times=300.0 / shared(name).config.rope_parameters["rope_theta"]),
        planes=planes_of(name),
    ):
        torch.testing.assert_close(logits_of(shared(name), input_ids), expected, atol=LOGIT_ERROR, rtol=0)
    assert (logits_of(shared(name), input_ids) - expected).abs().max() > 100 * LOGIT_ERROR


@pytest.mark.parametrize("name", GROUPED)
def test_an_intervention_in_one_head_touches_that_head(name):
    model, input_ids = shared(name), tokens(2, LENGTH)
    before = capture(model, input_ids, rows=None)
    for intervention in (freeze_rotation(heads=[(1, 1)]), remove_planes(select_slowest(0.5), heads=[(1, 1)])):
        with edit_rope(model, intervention, planes=planes_of(name)):
            after = capture(model, input_ids, rows=None)
        torch.testing.assert_close(after[0].logits(), before[0].logits())
        for head in (0, 2, 3):
            torch.testing.assert_close(after[1].logits()[:, head], before[1].logits()[:, head], atol=1e-5, rtol=1e-5)
        for call, head in ((1, 1), (2, slice(None))):
            plain, changed = before[call].logits()[:, head], after[call].logits()[:, head]
            assert (changed - plain).abs().max() > 1e-4 * plain.abs().max()
        plain, changed = before[1].logits()[:, 1], after[1].logits()[:, 1]
        assert (changed - plain).abs().max() > 0.05 * plain.abs().max()


@pytest.mark.parametrize("name", GROUPED)
def test_all_heads_one_by_one_are_the_whole_layer(name):
    model, input_ids = shared(name), tokens(2, LENGTH)
    with edit_rope(model, freeze_rotation(select_slowest(0.5), layers=[1]), planes=planes_of(name)):
        together = logits_of(model, input_ids)
    one_by_one = [freeze_rotation(select_slowest(0.5), heads=[(1, head)]) for head in range(4)]
    with edit_rope(model, *one_by_one, planes=planes_of(name)):
        torch.testing.assert_close(logits_of(model, input_ids), together, atol=LOGIT_ERROR, rtol=0)
    # Another intervention that changes nothing for the output makes heads differ: the other way through the code.
    halves = [freeze_rotation(select_slowest(0.5), heads=[(1, head) for head in heads]) for heads in ((0, 2), (1, 3))]
    with edit_rope(model, *halves, planes=planes_of(name)):
        torch.testing.assert_close(logits_of(model, input_ids), together, atol=LOGIT_ERROR, rtol=0)


@pytest.mark.parametrize("name", ["Llama", "Gemma3", "Phi"])
def test_logits_are_those_of_a_literal_loop(name):
    """Turn each plane back by its position, forward by the new angle, and add up the planes that are kept."""
    model, input_ids, planes = shared(name), tokens(1, 9), planes_of(name)[0]
    (plain, *_) = capture(model, input_ids, rows=None)
    interventions = [
        freeze_rotation(select_by_id([1]), heads=[(0, 2)]),
        remove_planes(select_by_id([2]), heads=[(0, 2)]),
        change_base(0.005, heads=[(0, 2)]),
    ]
    with edit_rope(model, *interventions, planes=planes_of(name)) as operated:
        (found, *_) = capture(model, input_ids, rows=None)
    angles, kept = operated.angles[0][2].tolist(), operated.kept[0][2].tolist()
    assert not kept[1]
    assert angles[0] == 0
    first, second = planes.order.chunk(2)
    key_head = 2 * plain.keys.shape[1] // 4
    for at in (3, 8):
        for to in (0, 2, 3):
            total = 0.0
            for f, (i, j) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
                if not kept[f]:
                    continue
                q = complex(*(float(plain.query[0, 2, at, n]) if n < plain.query.shape[-1] else 0.0 for n in (i, j)))
                k = complex(
                    *(float(plain.keys[0, key_head, to, n]) if n < plain.keys.shape[-1] else 0.0 for n in (i, j))
                )
                old, new = float(planes.angles[f]), angles[f]
                q *= complex(math.cos(at * (new - old)), math.sin(at * (new - old)))
                k *= complex(math.cos(to * (new - old)), math.sin(to * (new - old)))
                total += (q.conjugate() * k).real
            assert float(found.logits()[0, 2, at, to]) == pytest.approx(total * plain.scale, abs=1e-4)


@pytest.mark.parametrize("name", ["Llama", "Gemma3", "GLM", "HunYuan"])
def test_scores_after_an_intervention_are_those_of_a_model_with_such_planes(name):
    # Within the sliding window, beyond which places differ even for a head without positions.
    model, input_ids, planes = shared(name), tokens(2, 16), planes_of(name)
    options = {"start": 2, "block_length": 4, "blocks": 3, "tau": 0.1}
    with edit_rope(model, freeze_rotation(), planes=planes) as operated:
        whole = operated.profile(input_ids, **options)
        measure = functools.partial(score_layer, swaps=BlockLayout(**options))
        expected = map_layers(model, input_ids, measure, planes=[replace(p, angles=0 * p.angles) for p in planes])
    np.testing.assert_allclose(whole.positional, expected["positional"], atol=1e-4, rtol=0)
    # Heads without positions are symbolic: a block takes its attention along.
    assert (whole.symbolic > 1 - 1e-3).all()
    plain = profile(model, input_ids, **options)
    assert (plain.symbolic < 0.99).any()
    with edit_rope(model, freeze_rotation(heads=[(0, 1), (2, 3)]), planes=planes) as operated:
        single = operated.profile(input_ids, **options)
    np.testing.assert_allclose(single.positional[:, 0, [0, 2, 3]], plain.positional[:, 0, [0, 2, 3]], atol=1e-4, rtol=0)
    assert (single.symbolic[:, 0, 1] > 1 - 1e-3).all()
    assert (single.symbolic[:, 2, 3] > 1 - 1e-3).all()
    with edit_rope(model, remove_planes(layers=[1]), planes=planes) as operated:
        flat = operated.profile(input_ids, **options)
    np.testing.assert_allclose(flat.entropy[:, 1], 1, rtol=1e-5)


def test_asking_for_planes_under_surgery_finds_the_new_ones_or_refuses():
    model, planes = shared("Llama"), planes_of("Llama")
    with edit_rope(model, change_base(0.005), planes=planes) as operated:
        torch.testing.assert_close(find_planes(model, LENGTH)[0].angles, operated.angles[0][0], atol=1e-4, rtol=1e-3)
    # Stopped planes are taken for slow ones of the model's frequencies, which its keys then deny.
    with (
        edit_rope(model, freeze_rotation(select_slowest(0.5)), planes=planes),
        pytest.raises(UnsupportedModelError, match="planes"),
    ):
        find_planes(model, LENGTH)


@pytest.mark.parametrize("name", ["Llama", "Gemma3", "gpt-oss"])
def test_generation_with_a_cache_agrees_with_whole_passes(name):
    model, input_ids = shared(name), tokens(2, 12)
    with edit_rope(
        model,
        freeze_rotation(select_fastest(0.5), heads=[(0, 1)]),
        change_base(0.05, layers=[1]),
        planes=planes_of(name),
    ):
        whole = logits_of(model, input_ids)
        with torch.no_grad():
            _, cache = run_with_cache(model, input_ids[:, :9])
            rest = run_with_cache(model, input_ids[:, 9:], cache)[0].logits
    torch.testing.assert_close(rest, whole[:, 9:], atol=LOGIT_ERROR, rtol=0)


def test_the_model_is_restored_even_after_an_exception():
    model, input_ids = build("Llama"), tokens(2, LENGTH)
    plain, before = logits_of(model, input_ids), traces(model)

    def fail(*_):
        raise RuntimeError("in the middle")

    hook = model.model.layers[1].self_attn.o_proj.register_forward_hook(fail)
    with (
        pytest.raises(RuntimeError, match="in the middle"),
        edit_rope(model, freeze_rotation(heads=[(0, 1), (1, 0), (1, 3)]), planes=planes_of("Llama")),
    ):
        logits_of(model, input_ids)
    hook.remove()
    assert traces(model) == before
    assert torch.equal(logits_of(model, input_ids), plain)


def test_choices_of_planes():
    angles = torch.tensor([1.0, 0.1, 0.01, 0.001, 0.0])
    assert select_all(angles).tolist() == [True] * 5
    assert select_fastest(0.5)(angles).tolist() == [True, True, False, False, False]
    assert select_slowest(0.25)(angles).tolist() == [False, False, False, True, False]
    assert select_by_angle(0.01, 1.0)(angles).tolist() == [False, True, True, False, False]
    assert select_by_angle(0, 0.01)(angles).tolist() == [False, False, False, True, True]
    assert select_by_id([1, 4])(angles).tolist() == [True, False, False, True, False]
    new, kept = change_base(times=16.0).change(angles)
    torch.testing.assert_close(new, torch.tensor([1.0, 0.1 / 2, 0.01 / 4, 0.001 / 8, 0.0]))
    assert kept.all()


test_interventions_that_make_no_sense = refuse_each(
    (lambda: select_fastest(1.5), "share of the planes lies between 0 and 1; got 1.5"),
    (lambda: select_by_angle(2, 1), "0 <= slow < fast; got slow=2, fast=1"),
    (lambda: select_by_id([9])(torch.ones(4)), "frequency IDs run from 1 to 4 in this layer; got 9 to 9"),
    (lambda: change_base(-1.0), "positive finite number; got -1.0"),
    (lambda: freeze_rotation(layers=[0], heads=[(0, 0)]), "got both. Pass layers= or heads="),
)  # fmt: skip


@pytest.mark.parametrize(("interventions", "options", "message"), [
    ([freeze_rotation(layers=[7])], {}, "layers 0 to 2 of 4 heads, counted from 0; got head 0 of layer 7"),
    ([freeze_rotation(heads=[(0, 4)])], {}, "layers 0 to 2 of 4 heads, counted from 0; got head 4 of layer 0"),
    ([freeze_rotation()], {"planes": None}, "pass length=, or planes="),
    ([freeze_rotation()], {"planes": []}, "makes 3 attention calls, but planes were given for 0"),
])  # fmt: skip
def test_surgery_that_cannot_be_done(interventions, options, message):
    with (
        pytest.raises(ValueError, match=message),
        edit_rope(shared("Llama"), *interventions, **{"planes": planes_of("Llama")} | options),
    ):
        pass


def test_layers_that_cannot_be_edited_apart_are_refused():
    alike = build("Llama")
    alike.model.layers[1].self_attn = alike.model.layers[0].self_attn
    for model in (alike, shared("Falcon"), shared("GPT-NeoX-Japanese")):
        with (
            pytest.raises(UnsupportedModelError, match="share one attention module, or that do not attend through"),
            edit_rope(model, length=LENGTH),
        ):
            pass


def test_a_frequency_keeps_its_number_when_faster_planes_are_frozen():
    frozen = freeze_rotation(select_by_id([1])).change(torch.tensor([1.0, 0.1, 0.01, 0.001]))[0]
    assert select_by_id([4])(frozen).tolist() == [False, False, False, True]
