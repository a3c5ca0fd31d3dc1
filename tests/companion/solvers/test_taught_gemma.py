"""Teaching and watching, on a tiny Gemma with random weights and the real tokenizer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from architectures import build

from posym_companion.solvers import taught_gemma
from posym_companion.solvers.prompt_roles import answer_pairs, patched_heads, silenced_heads
from posym_companion.solvers.taught_gemma import (
    EXPERIMENT,
    TaughtGemma,
    draw_lesson,
    draw_untaught_prompts,
)
from posym_profile.interventions._head_patching import find_output_projections, record_head_outputs
from posym_profile.language_models._low_rank import add_lora, read_factors

SETTING = EXPERIMENT.shrink(TaughtGemma())


@pytest.fixture
def loads(tiny, tokenizer, monkeypatch):
    monkeypatch.setattr(taught_gemma, "load_experiment_model", lambda *a, **k: (tiny, tokenizer))


@pytest.fixture(scope="module")
def prompts(tokenizer):
    return draw_untaught_prompts(tokenizer, SETTING, "likes", 4, 3)


def last(model, ids):
    with torch.no_grad():
        return model(ids, use_cache=False).logits[:, -1]


def hooked(model, layer, head, outputs, place):
    """By hand: one head's columns in the input of one projection."""
    dim = outputs.shape[-1]

    def before(module, args):
        x = args[0].clone()
        x[:, place, head * dim : (head + 1) * dim] = outputs
        return (x, *args[1:])

    return find_output_projections(model)[layer].register_forward_pre_hook(before)


def test_a_run_holds_what_its_description_says_and_keeps_the_additions(tmp_path, loads, tiny, tokenizer):
    setting = replace(SETTING, rate=0.02)
    (result,) = EXPERIMENT.run([setting], folder=tmp_path, progress=False)
    assert result.name == "taught_gemma/all_0"
    assert result["steps"].tolist() == [0, 3]
    assert np.isfinite(result["correct"][1]).all()
    assert np.isfinite(result["symbolic"]).all()
    np.testing.assert_allclose(result["band_energy_share"].astype(float).sum(-1), 1, atol=5e-3)
    assert (result["asked_attention"] <= result["facts_attention"] + 1e-3).all()
    # What the last snapshot measured is what the kept file makes of the model.
    factors = read_factors(tmp_path / "taught_gemma" / "all_0.safetensors")
    copy = build("Gemma3", vocab_size=len(tokenizer))
    add_lora(copy, factors)
    found = patched_heads(
        copy,
        answer_pairs(draw_untaught_prompts(tokenizer, setting, "likes", 4, 2), torch.Generator().manual_seed(0)),
        2,
    )
    np.testing.assert_allclose(found["answer_patched"], result["answer_patched"][1], atol=1e-3)
    assert np.abs(result["clean_whole"][1] - result["clean_whole"][0]).max() > 1e-3
    assert not any(parameter.requires_grad for parameter in tiny.parameters())


def test_whole_matrices_are_taught_and_their_nearest_additions_kept(loads, tiny, tokenizer):
    before = {name: x.detach().clone() for name, x in tiny.named_parameters()}
    setting = replace(SETTING, whole=True, rate=0.01)
    rough, exact = (taught_gemma.teach(tiny, tokenizer, replace(setting, rank=rank)) for rank in (1, 64))
    assert all(torch.equal(x, before[name]) for name, x in tiny.named_parameters())
    np.testing.assert_array_equal(rough["losses"], exact["losses"])  # what is kept takes no part in learning
    factors = [name for name in exact if name.endswith((".up", ".down"))]
    assert {name.removesuffix(".down") for name in factors if name.endswith(".down")} == {
        name for name, _ in tiny.named_modules() if name.rpartition(".")[2] in taught_gemma.PROJECTIONS
    }
    assert all(not exact[name][0].any() for name in factors)
    for name in {name.rpartition(".")[0] for name in factors}:
        whole, part = (
            one[f"{name}.up"][1].astype(float) @ one[f"{name}.down"][1].astype(float) for one in (exact, rough)
        )
        sizes = np.linalg.svd(whole, compute_uv=False)
        np.testing.assert_allclose(np.linalg.norm(whole - part), np.sqrt((sizes[1:] ** 2).sum()), rtol=0.05, atol=1e-4)
        assert sizes[0] > 1e-3


def test_pairs_differ_in_the_answer_alone(prompts):
    pairs = answer_pairs(prompts, torch.Generator().manual_seed(0))
    changed = pairs.clean != pairs.other
    assert (changed.sum(1) == 1).all()
    assert torch.equal(pairs.clean[changed], pairs.answers[:, 0])
    assert torch.equal(pairs.other[changed], pairs.answers[:, 1])
    for row, target in enumerate(prompts.target.tolist()):
        assert pairs.answers[row, 0] == prompts.answer_ids[row, target]
        assert pairs.answers[row, 1] not in prompts.answer_ids[row]
        first = prompts.start + target * prompts.block_length
        assert changed[row, first : first + prompts.block_length].any()


def test_patching_is_what_hooks_by_hand_do(tiny, prompts):
    pairs = answer_pairs(prompts, torch.Generator().manual_seed(1))
    found = patched_heads(tiny, pairs, 2)
    for row, (layer, head) in enumerate([(0, 1), (2, 3)]):
        clean, other, answers = (x[row] for x in (pairs.clean, pairs.other, pairs.answers))
        said = record_head_outputs(tiny, clean[None]).outputs[0, layer, -1, head]
        hook = hooked(tiny, layer, head, said, -1)
        logits = last(tiny, other[None])[0]
        hook.remove()
        assert found["answer_patched"][row, layer, head] == pytest.approx(
            float(logits[answers[0]] - logits[answers[1]]), abs=2e-4
        )
        for name, ids in (("clean_whole", clean), ("other_whole", other)):
            logits = last(tiny, ids[None])[0]
            assert found[name][row] == pytest.approx(float(logits[answers[0]] - logits[answers[1]]), abs=2e-4)


def test_mean_ablation_is_what_hooks_by_hand_do(tiny, prompts):
    found = silenced_heads(tiny, prompts, 2)["lost"]
    said = record_head_outputs(tiny, prompts.input_ids).outputs
    for layer, head in ((0, 0), (1, 2)):
        mean = torch.stack([said[prompt, layer, -1, head] for prompt in range(3)]).mean(0)
        for row in range(2):
            before = last(tiny, prompts.input_ids[row : row + 1])[0]
            hook = hooked(tiny, layer, head, mean, -1)
            after = last(tiny, prompts.input_ids[row : row + 1])[0]
            hook.remove()
            right = prompts.target[row]
            said_right = [x[prompts.answer_ids[row]].log_softmax(0)[right] for x in (before, after)]
            assert found[row, layer, head] == pytest.approx(float(said_right[0] - said_right[1]), abs=2e-4)


def test_lessons_are_never_the_examination(tokenizer):
    seen = {
        tuple(ids.tolist()) for seed in range(3) for ids in draw_lesson(tokenizer, replace(SETTING, seed=seed), 0)[0]
    }
    assert len(seen) == 6
    questions = draw_untaught_prompts(tokenizer, SETTING, "likes", 4, 50).input_ids
    assert not seen & {tuple(ids.tolist()) for ids in questions}
