"""What a layer trend could be instead: scores and attention as they are measured elsewhere."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from posym_companion.language_models.layer_doubts import DIMS, EXPERIMENT, KINDS, LayerDoubts, measure
from posym_companion.results import name_dims
from posym_profile import binding_prompts, profile


@pytest.mark.filterwarnings("ignore::posym_profile.scores._visibility.HiddenBlocksWarning")  # the tiny model's windows
def test_scores_are_those_of_profile_and_mass_is_the_attention_to_facts(tiny, tokenizer):
    setting = EXPERIMENT.shrink(LayerDoubts())
    found = measure(tiny, tokenizer, setting, progress=False)
    name_dims(DIMS, found)
    for place, said in enumerate(({}, None, {"lead": 8})):
        if said is not None:
            prompts = binding_prompts(tokenizer, facts=setting.facts, count=setting.prompts, **said)
            for weighting, tau in enumerate((1e-4, 1e9)):
                scores = profile(tiny, prompts.input_ids, **prompts.layout, tau=tau, visible_only=False)
                np.testing.assert_allclose(found["symbolic"][place, weighting], scores.symbolic, atol=2e-3)
    prompts = binding_prompts(tokenizer, facts=setting.facts, count=setting.prompts)
    eager = copy.deepcopy(tiny)
    eager.set_attn_implementation("eager")
    attention = eager(prompts.input_ids, output_attentions=True).attentions[0][:, :, -1]
    facts = slice(prompts.start, prompts.start + prompts.blocks * prompts.block_length)
    np.testing.assert_allclose(found["mass"][0, :, 0], attention[..., facts].sum(-1).detach(), atol=2e-3)
    assert found["kinds"].tolist() == list(KINDS)
