import numpy as np
import pytest
import torch
from architectures import shared, tokens

from posym_companion.head_measurements import look
from posym_companion.language_models import plane_profile
from posym_companion.language_models.plane_profile import PlaneProfile, measure
from posym_core.metrics._exclusion_bound import exclusion
from posym_core.metrics._logit_matrix import cross_logits
from posym_profile.capture._capturing import capture
from posym_profile.planes._rotary_planes import find_planes
from posym_profile.prompts import Prompts, make_prompts
from posym_profile.scores._profiling import profile

SETTING = PlaneProfile(facts=24, prompts=2)


@pytest.fixture(scope="module")
def measured(packaged):
    return measure(*packaged, SETTING, progress=False)


def test_scores_are_those_of_blocks_that_end_beside_the_query(measured, packaged):
    model, tokenizer = packaged
    ids = make_prompts(tokenizer, "text", facts=24, count=2).input_ids
    for name, blocks in (("", 16), ("far_", 15)):
        whole = profile(model, ids, start=9, block_length=1, blocks=blocks, progress=False)
        np.testing.assert_allclose(measured[f"{name}positional"], whole.positional, atol=1e-3)
        np.testing.assert_allclose(measured[f"{name}symbolic"], whole.symbolic, atol=1e-3)


def test_only_what_a_window_shows_takes_part(monkeypatch):
    """A tiny model whose local layers see 16 of 44 tokens, against the matrix of the visible keys alone."""
    model, ids = shared("Gemma3"), tokens(1)
    prompts = Prompts(
        input_ids=ids, start=1, block_length=2, blocks=8, answer_ids=ids[:, :2], target=ids[:, 0] * 0, texts=["any"]
    )
    monkeypatch.setattr(plane_profile, "make_prompts", lambda *args, **options: prompts)
    found = measure(model, None, PlaneProfile(task="index", facts=8, prompts=1), progress=False)
    assert found["seen"].tolist() == [15, 15, 42]
    for layer, (call, planes) in enumerate(zip(capture(model, ids), find_planes(model, 44), strict=True)):
        first = max(1, int(call.visible[0, 0, -1].int().argmax()))
        keys = planes.arrange_keys(call.keys)[0, :, None, first:-1]
        query = planes.arrange_query(call.query[0, :, -1]).unflatten(0, (keys.shape[0], -1))
        C = cross_logits(query, keys, planes.angles, scale=call.scale, per_frequency=True)
        parts = exclusion(C)
        kept = parts.symbolic_share / (parts.symbolic_share + parts.interaction_share)
        np.testing.assert_allclose(found["kept"][layer], kept.flatten(0, 1), atol=2e-3)
        np.testing.assert_allclose(found["positional_share"][layer], parts.positional_share.flatten(0, 1), atol=2e-3)


def test_attention_to_facts_is_of_all_their_tokens(packaged):
    prompts = make_prompts(packaged[1], "binding", facts=3, count=2)
    found = look(packaged[0], prompts, ["facts_attention", "mass"], progress=False)
    torch.testing.assert_close(found["facts_attention"].double(), found["mass"].double(), rtol=1e-4, atol=1e-6)
