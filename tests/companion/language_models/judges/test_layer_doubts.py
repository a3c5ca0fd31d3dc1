"""What a layer trend could be instead: medians that are known."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from invented import save_invented

from posym_companion.language_models.judges.layer_doubts import thirds_by_doubt
from posym_companion.language_models.layer_doubts import DIMS, EXPERIMENT, KINDS, LayerDoubts, measure
from posym_companion.language_models.random_weights import DRAWS, RandomWeights
from posym_companion.results import MissingResultError, name_dims
from posym_profile import binding_prompts, profile

LAYERS, HEADS = 6, 5


def heads(*thirds):
    """The same for all prompts and heads, by thirds of the layers."""
    return np.broadcast_to(np.repeat(thirds, LAYERS // 3)[None, :, None], (3, LAYERS, HEADS)).copy()


@pytest.fixture
def folder(tmp_path):
    mass = np.stack([heads(0.05, 0.5, 0.8)] * 3)
    positional = np.stack(
        [np.stack([heads(0.5, 0.6, 0.7) + 0.1 * kind, heads(0.4, 0.5, 0.6) + 0.1 * kind]) for kind in range(3)]
    )
    # One head of the second third attends to the facts, unlike the others, and scores otherwise.
    mass[:, :, 2:4, 1:], positional[:, :, :, 2:4, 0] = 0.01, 0.9
    arrays = {"positional": positional, "symbolic": 1 - positional, "mass": mass}
    save_invented(LayerDoubts().name, arrays, tmp_path)
    for draw in DRAWS:
        both = np.stack([heads(0.1, 0.2, 0.3), heads(0.4, 0.5, 0.6)])
        save_invented(RandomWeights(draw=draw).name, {"positional": both, "symbolic": 1 - both}, tmp_path)
    return tmp_path


def test_every_doubt_has_its_own_medians(folder):
    found = thirds_by_doubt(folder=folder)
    np.testing.assert_allclose(found["attention"]["attention"], [0.05, 0.01, 0.8])
    np.testing.assert_allclose(found["as they come"]["s_POS"], [0.5, 0.6, 0.7])
    np.testing.assert_allclose(found["without the mark of beginning"]["s_SYM"], [0.4, 0.3, 0.2])
    np.testing.assert_allclose(found["behind 8 facts of the same frame"]["s_POS"], [0.7, 0.8, 0.9])
    np.testing.assert_allclose(found["all pairs of facts weighed alike"]["s_POS"], [0.4, 0.5, 0.6])
    np.testing.assert_allclose(found["random weights, draw 3"]["s_POS"], [0.1, 0.2, 0.3])
    attend = found["heads with a tenth of their attention on facts"]["s_POS"]
    np.testing.assert_allclose(attend, [np.nan, 0.9, 0.7])


def test_a_model_that_was_not_measured_has_none(folder):
    with pytest.raises(MissingResultError, match="smollm2"):
        thirds_by_doubt("smollm2-135m", folder=folder)


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
