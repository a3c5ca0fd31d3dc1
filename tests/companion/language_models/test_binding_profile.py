from dataclasses import replace

import numpy as np
import torch

from posym_companion import experiments
from posym_companion.language_models import binding_profile
from posym_core.metrics._exclusion_bound import exclusion
from posym_profile.prompts import binding_prompts
from posym_profile.scores._layer_measurement import map_layers

SETTING = binding_profile.BindingProfile(facts=3, prompts=2)


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
    longer = binding_profile.measure(tiny, tokenizer, replace(setting, facts=64, prompts=1), progress=False)
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
