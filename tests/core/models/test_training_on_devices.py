"""Training on devices: our forward pass, several seeds side by side, runs that go on."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from refusals import refuse_each

from posym_companion.several_hops.gptj import compute_answer_logits, draw_dropout, make_gptj
from posym_companion.several_hops.multihop import MultihopSettings, Watch, train_model, train_together

TINY = MultihopSettings(
    hops=2, window=3, steps_back=2, layers=2, width=8, train=8 * 24, validation=16, test=20, batch=8, dropout=0.2,
    learning_rate=1e-2, warmup=3, checkpoint_every=12, look_every=6, look=16, turn=2.0, monitored=2, save_every=12,
)  # fmt: skip
TIMES = {"training_seconds", "monitor_seconds"}


def settings(*seeds, **options):
    return [replace(TINY, seed=seed, **options) for seed in seeds]


@pytest.mark.parametrize("heads", [1, 2])
def test_our_forward_pass_is_that_of_transformers_dropout_included(heads):
    model = make_gptj(vocabulary=30, layers=3, heads=heads, width=32, dropout=0.3, positions=20)
    tokens = torch.randint(30, (5, 17))
    factors = draw_dropout(model, tokens.shape, 7)
    assert 0.25 < float((factors == 0).double().mean()) < 0.35
    torch.manual_seed(7)
    theirs = model(tokens).logits[:, -1]
    ours = compute_answer_logits(model, tokens, factors=factors)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=5e-7)
    weights = torch.randn_like(ours)
    grads = [torch.autograd.grad((x * weights).sum(), list(model.parameters())) for x in (ours, theirs)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        torch.testing.assert_close(
            compute_answer_logits(model, tokens), model.eval()(tokens).logits[:, -1], rtol=0, atol=5e-7
        )


def assert_alike(found, expected, rtol=1e-5):
    for one, other in zip(found.model.parameters(), expected.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-3)  # kept in half precision
    assert set(found.arrays) == set(expected.arrays)
    for name in ("loss", "loss_step", "look_step", "checkpoint_step", "example_tokens"):
        np.testing.assert_allclose(found.arrays[name], expected.arrays[name], rtol=rtol, err_msg=name)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("task", ["number", "letter"])
def test_seeds_side_by_side_are_those_one_after_another(task, device):
    seeds = settings(0, 3, 4, task=task)
    together = train_together(seeds, device=device, progress=False)
    for one, found in zip(seeds, together, strict=True):
        assert_alike(found, train_model(one, device=device, progress=False), rtol=1e-5 if device == "cpu" else 1e-3)


class Killed(Exception):
    pass


def test_a_killed_run_of_several_goes_on(tmp_path, monkeypatch):
    learn, look = partial(train_together, settings(0, 1, turn=0.05), device="cpu", progress=False), Watch.__call__
    checkpoint = tmp_path / "training.safetensors"

    def die(watch, step, model):
        if step == 18:
            raise Killed
        return look(watch, step, model)

    with monkeypatch.context() as patch:
        patch.setattr(Watch, "__call__", die)
        with pytest.raises(Killed):
            learn(checkpoint=checkpoint)
    for one, other in zip(learn(checkpoint=checkpoint), learn(), strict=True):
        for mine, its in zip(one.model.parameters(), other.model.parameters(), strict=True):
            torch.testing.assert_close(mine, its, rtol=0, atol=0)
        for name in set(other.arrays) - TIMES:
            np.testing.assert_array_equal(one.arrays[name], other.arrays[name], err_msg=name)
    with pytest.raises(ValueError, match="made with other identity"):
        train_together(settings(0, 2, turn=0.05), device="cpu", progress=False, checkpoint=checkpoint)


test_what_cannot_learn_side_by_side_is_refused = refuse_each(
    (lambda: train_together([TINY, replace(TINY, task="letter", seed=1)], device="cpu"), "apart from multihop/number_"),
    (lambda: train_together(settings(0, 1, extra=2), device="cpu"), "extra=2 draws another length for each model; tra"),
)  # fmt: skip
