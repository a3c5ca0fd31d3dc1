"""All that is measured of heads in one pass, against what each measurement gives alone."""

from __future__ import annotations

import pytest
import torch
from architectures import shared, tokens

from posym_companion.solvers.prompt_scores import measure_head_scores, measure_plane_scores
from posym_profile.capture import capture
from posym_profile.interventions import edit_rope
from posym_profile.interventions._plane_interventions import freeze_rotation, select_slowest
from posym_profile.planes import find_planes
from posym_profile.prompts._drafts import Prompts
from posym_profile.scores import profile


@pytest.fixture(scope="module")
def prompts():
    ids = tokens(3, 42)
    return Prompts(
        input_ids=ids,
        start=1,
        block_length=4,
        blocks=9,
        answer_ids=ids[:, 4:40:4],
        target=torch.tensor([0, 5, 8]),
        texts=["", "", ""],
    )


def measured(prompts, *interventions, kind="Gemma3"):
    model = shared(kind)
    with edit_rope(model, *interventions, planes=find_planes(model, 42)) as operated:
        return measure_head_scores(operated, prompts), measure_plane_scores(operated, prompts, 2)


def test_scores_are_those_of_a_profile_and_attention_that_of_the_model(prompts):
    found, _ = measured(prompts)
    model = shared("Gemma3")
    alone = profile(model, prompts.input_ids, start=1, block_length=4, blocks=9, progress=False, visible_only=False)
    for name in ("positional", "symbolic", "entropy"):
        torch.testing.assert_close(torch.from_numpy(found[name]).float(), getattr(alone, name), atol=1e-3, rtol=1e-3)
    for layer, call in enumerate(capture(model, prompts.input_ids)):
        weights, logits = call.weights()[:, :, 0], call.logits()[:, :, 0, 1:37]
        blocks = weights[..., 1:37].unflatten(-1, (9, 4)).sum(-1)
        asked = torch.stack([row[:, target] for row, target in zip(blocks, prompts.target, strict=True)])
        for name, expected in (("facts_attention", blocks.sum(-1)), ("asked_attention", asked)):
            here = torch.from_numpy(found[name][:, layer]).float()
            torch.testing.assert_close(here, expected, atol=1e-3, rtol=1e-3)
        spread = torch.from_numpy(found["spread"][:, layer]).float()
        torch.testing.assert_close(spread, logits.std(-1, correction=0), atol=1e-3, rtol=2e-3)


def test_bands_are_made_of_planes(prompts):
    found, planes = measured(prompts)
    assert found["band_energy_share"].shape == (3, 4, 8)
    assert planes["plane_symbolic"].shape == (3, 4, 8)
    torch.testing.assert_close(torch.from_numpy(found["band_energy_share"]).float().sum(-1), torch.ones(3, 4),
                               atol=5e-3, rtol=0)  # fmt: skip
    shares = sum(torch.from_numpy(planes[f"plane_{name}_share"]) for name in ("positional", "symbolic", "interaction"))
    torch.testing.assert_close(shares.float(), torch.ones(3, 4, 8), atol=3e-3, rtol=0)


def test_the_operated_model_is_measured(prompts):
    found, planes = measured(prompts, freeze_rotation(select_slowest(1.0)), kind="Llama")
    assert (found["symbolic"] > 0.999).all()
    assert (found["positional_share"] < 1e-3).all()
    assert (planes["plane_symbolic_share"] > 0.999).all()
