"""Training on devices: our forward pass, recorded graphs, another device."""

from functools import partial

import other_device as stand_in
import pytest
import torch

from posym_companion.several_hops.gptj import AnswerLoss, compute_answer_logits, draw_dropout, make_gptj
from posym_companion.several_hops.multihop import NOISE, TRAINING, MultihopSettings
from posym_core.models._ensembles import make_generators, sample_streams
from posym_core.models._toys import ToyEnsemble
from posym_core.models._training import TrainingSettings, train
from posym_core.tasks._index_retrieval import RetrievalTask

TINY = MultihopSettings(
    hops=2, window=3, steps_back=2, layers=2, width=8, train=8 * 24, validation=16, test=20, batch=8, dropout=0.2,
    learning_rate=1e-2, warmup=3, checkpoint_every=12, look_every=6, look=16, turn=2.0, monitored=2, save_every=12,
)  # fmt: skip
TOY = RetrievalTask(length=4, symbols=5, attributes=2)
# A loss that some of four members fall below before the end.
FREEZING = TrainingSettings(steps=24, batch=8, warmup=4, record_every=6, stop_loss=0.695)


def draw_multihop(count, generators):
    batch = TINY.make_task().sample(count, generator=generators[0])
    return batch.tokens, batch.answer, int(torch.randint(2**62, (), generator=generators[1]))


def learn_multihop(device, **options):
    model = AnswerLoss(TINY.make_model().to(device))
    generators = [TINY.generator(TRAINING), TINY.generator(NOISE)]
    train(model, draw_multihop, generators=generators, settings=TINY.training, progress=False, **options)
    return model


def learn_toys(device, **options):
    model = ToyEnsemble(TOY, torch.tensor([[0.5], [0.01]]), seeds=(0, 1), width=8).to(device)
    generators = make_generators((0, 1), device, purpose=0)
    train(model, partial(sample_streams, TOY), generators=generators, settings=FREEZING, progress=False, **options)
    return model


def almost_same(first, second, tolerance=1e-6):
    """As where the learning rate lies in a tensor of float32."""
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=10 * tolerance, atol=tolerance)


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


@pytest.mark.gpu
@pytest.mark.parametrize("learn", [learn_multihop, learn_toys])
def test_a_graph_on_a_gpu_learns_what_plain_steps_learn(learn):
    plain, graphed = (learn(torch.device("cuda"), graph=graph) for graph in (False, True))
    almost_same(graphed, plain, 1e-3)  # Adam makes much of rounding where gradients are small
