"""Training on devices: our forward pass, and another device."""

import other_device as stand_in
import pytest
import torch

from posym_companion.several_hops.gptj import AnswerLoss, compute_answer_logits, draw_dropout, make_gptj
from posym_companion.several_hops.multihop import NOISE, TRAINING, MultihopSettings
from posym_core.models import train

TINY = MultihopSettings(
    hops=2, window=3, steps_back=2, layers=2, width=8, train=8 * 24, validation=16, test=20, batch=8, dropout=0.2,
    learning_rate=1e-2, warmup=3, checkpoint_every=12, look_every=6, look=16, turn=2.0, monitored=2, save_every=12,
)  # fmt: skip


def draw_multihop(count, generators):
    batch = TINY.make_task().sample(count, generator=generators[0])
    return batch.tokens, batch.answer, int(torch.randint(2**62, (), generator=generators[1]))


def learn_multihop(device):
    model = AnswerLoss(TINY.make_model().to(device))
    generators = [TINY.generator(TRAINING), TINY.generator(NOISE)]
    train(model, draw_multihop, generators=generators, settings=TINY.training, progress=False)
    return model


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


def test_the_other_device_learns_what_the_cpu_learns():
    with stand_in.other_device() as device:
        there = [parameter.detach().cpu() for parameter in learn_multihop(device).parameters()]
    for one, other in zip(there, learn_multihop("cpu").parameters(), strict=True):
        torch.testing.assert_close(one, other.detach(), rtol=0, atol=0)
