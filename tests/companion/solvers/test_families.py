"""Small models of three architectures: what makes them their family's, their loss by hand, profiles, training."""

from __future__ import annotations

import pytest
import torch

from posym_companion.solvers.families import FAMILIES, FactsLoss, answers_right, family_model
from posym_core.models._training import CosineSettings, train
from posym_core.tasks._facts import FactsTask
from posym_profile import profile

TASK = FactsTask(facts=4, names=6, attributes=5)


def small(family, **options):
    return family_model(family, TASK, **{"layers": 2, "heads": 2, "width": 16, "window": 4, **options})


def prompts(count=3, seed=0):
    return TASK.sample(count, torch.Generator().manual_seed(seed))


def test_what_makes_a_family():
    names = {family: {name for name, _ in small(family).named_parameters()} for family in FAMILIES}
    assert any(name.endswith("q_proj.bias") for name in names["qwen2"])
    assert not any(name.endswith("bias") for name in names["llama"] | names["gemma2"])
    assert any("pre_feedforward_layernorm" in name for name in names["gemma2"])
    config = small("gemma2").config
    assert config.attn_logit_softcapping
    assert config.layer_types == ["sliding_attention", "full_attention"]
    assert config.sliding_window == 4


@pytest.mark.parametrize("family", FAMILIES)
def test_loss_and_answers_by_hand(family):
    model, batch = small(family), prompts()
    logits = model(batch.tokens).logits.log_softmax(-1)
    expected, right = [], []
    for row, tokens in enumerate(batch.tokens.tolist()):
        for question in range(batch.answer.shape[1]):
            place = TASK.context + 2 * question
            answer = TASK.first_attribute + int(batch.answer[row, question])
            assert place + 1 == len(tokens) or tokens[place + 1] == answer
            expected.append(-logits[row, place, answer])
            right.append(float(int(logits[row, place].argmax()) == answer))
    torch.testing.assert_close(FactsLoss(model, TASK).losses(batch), torch.stack(expected).mean())
    assert answers_right(model.eval(), TASK, batch).flatten().tolist() == right
    with pytest.raises(ValueError, match=r"model.eval\(\)"):
        answers_right(model.train(), TASK, batch)


@pytest.mark.parametrize("family", FAMILIES)
def test_profile_reads_them_and_training_lowers_their_loss(family):
    model = small(family)
    settings = CosineSettings(steps=30, batch=16, learning_rate=1e-2, warmup=5, record_every=10)
    draw = lambda count, generators: TASK.sample(count, generators[0])  # noqa: E731
    generators = [torch.Generator().manual_seed(0)]
    history = train(FactsLoss(model, TASK), draw, generators=generators, settings=settings, progress=False)
    assert history.losses[-1] < history.losses[0]
    batch = TASK.ask("binding", 4, torch.Generator().manual_seed(1))
    found = profile(model.eval(), batch.tokens, start=1, block_length=2, blocks=4, progress=False, visible_only=False)
    assert found.positional.shape == (4, 2, 2)


def test_the_seed_decides_the_weights_and_nothing_else():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    one, same, other = small("llama", seed=1), small("llama", seed=1), small("llama", seed=2)
    assert torch.equal(before, torch.random.get_rng_state())
    for a, b in zip(one.parameters(), same.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(one.lm_head.weight, other.lm_head.weight)


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match="llama, qwen2, gemma2; got 'gpt'"):
        small("gpt")
    with pytest.raises(ValueError, match="even number of dimensions each; width=16"):
        small("llama", heads=3)
