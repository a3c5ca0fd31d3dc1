from dataclasses import replace

import numpy as np
import pytest
import torch

from posym_companion import experiments
from posym_companion.language_models import binding_profile, score_correlation
from posym_companion.language_models.judges.binding_profile import yield_correlations
from posym_companion.language_models.judges.random_weights import BesideRandomWeights
from posym_core.metrics._exclusion_bound import exclusion
from posym_core.metrics._stats import Estimate
from posym_profile.prompts import binding_prompts
from posym_profile.scores._layer_measurement import map_layers

SETTING = binding_profile.BindingProfile(facts=3, prompts=2)


def test_the_quoted_correlation_is_that_of_the_heads_means():
    draw = np.random.default_rng(0).random((4, 5, 6, 3))
    scores = dict(zip(("positional", "symbolic", "null_positional", "null_symbolic"), draw, strict=True))
    scores["symbolic"] = 1 - scores["positional"] + 0.3 * scores["symbolic"]
    found, null = score_correlation(scores)
    pairs = (("positional", "symbolic"), ("null_positional", "null_symbolic"))
    expected = [np.corrcoef(*(scores[name].mean(0).ravel() for name in pair))[0, 1] for pair in pairs]
    np.testing.assert_allclose([found.value, null], expected)
    assert found.high < 0


def test_a_correlation_stands_beside_the_null_model_s_and_every_draw_of_random_weights():
    r = Estimate(value=-0.5, low=-0.7, high=-0.4)
    birth = {("likes", 16): BesideRandomWeights(found=r, drawn=(-0.2, -0.3))}
    rows = yield_correlations({"likes": (r, -0.3)}, birth)
    found = {(quantity, where): value for quantity, where, value in rows}
    for quantity, where in (("null model's", "likes"), ("least of random weights", "likes, 16 facts")):
        less = found[f"Pearson r less the {quantity}", where]
        assert (less.value, less.low, less.high) == pytest.approx((-0.2, -0.4, -0.1))


def test_shares_are_of_the_facts_that_are_swapped(tiny, tokenizer):
    """What stands in front of them, the mark of beginning or a lead, takes no part, and neither does the question."""
    setting = replace(SETTING, keys="facts", lead=2)
    found = binding_profile.measure(tiny, tokenizer, setting, progress=False)
    prompts = binding_prompts(tokenizer, facts=3, count=2, lead=2)
    inside = slice(prompts.start, prompts.start + prompts.blocks * prompts.block_length)
    layers = []

    def one_layer(heads):
        layers.append(heads.frequency_shares(inside).symbolic_share)
        return {"variance": exclusion(heads.cross_logits(inside)).variance}

    expected = map_layers(tiny, prompts.input_ids, one_layer, progress=False)
    np.testing.assert_allclose(found["variance"], expected["variance"], rtol=1e-5)
    shares = torch.stack(layers, 1).nanmean(0).reshape(found["plane_symbolic_share"][0].shape)
    np.testing.assert_allclose(found["plane_symbolic_share"][0], shares, rtol=1e-4)
    whole = binding_profile.measure(tiny, tokenizer, replace(setting, keys="all"), progress=False)
    assert not np.allclose(whole["variance"], found["variance"], rtol=0.01)


def test_of_another_family_only_what_is_judged_is_kept(tiny, tokenizer):
    setting = replace(SETTING, keys="facts", kept="judged")
    found = binding_profile.measure(tiny, tokenizer, setting, progress=False)
    whole = binding_profile.measure(tiny, tokenizer, replace(setting, kept="all"), progress=False)
    assert {"variance", "bound", "slack", "positional_share"} <= set(whole) - set(found)
    for name, x in found.items():
        if name.startswith("plane_") and name != "plane_angle":
            assert (x.shape, x.dtype) == ((1, *whole[name].shape[1:]), np.float16)
            np.testing.assert_allclose(x[0], whole[name][0], atol=1e-3)
        elif not name.startswith("null"):
            np.testing.assert_array_equal(x, whole[name])
    longer = binding_profile.measure(tiny, tokenizer, replace(setting, facts=17, prompts=1), progress=False)
    assert [name for name in longer if name.startswith("plane")] == ["plane_angle"]


def test_a_draw_of_weights_is_another_model_of_which_planes_are_kept(tiny, tokenizer):
    assert len(binding_profile.random_weight_settings(experiments.SECOND)) == 9
    settings = [replace(one, facts=3, prompts=2) for one in binding_profile.random_weight_settings()[::3]]
    assert settings[1].name == "binding_profile/gemma-3-270m-random1_likes_3_facts"
    drawn = [binding_profile.measure(tiny, tokenizer, one, progress=False) for one in (*settings, settings[0])]
    own = binding_profile.measure(tiny, tokenizer, replace(settings[0], draw=None), progress=False)
    assert not np.array_equal(drawn[0]["plane_symbolic"], drawn[1]["plane_symbolic"])
    assert not np.array_equal(drawn[0]["plane_symbolic"], own["plane_symbolic"])
    np.testing.assert_array_equal(drawn[0]["plane_symbolic"], drawn[3]["plane_symbolic"])
    assert {(one.kept, one.keys) for one in settings} == {("judged", "facts")}
