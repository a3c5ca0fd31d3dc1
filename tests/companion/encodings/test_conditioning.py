import doctest

import numpy as np
import pytest
import torch

from posym_companion.encodings import conditioning
from posym_companion.encodings.conditioning import WAYS, descent_steps, train_head


def test_steps_are_those_of_descent_on_features():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(5, 9, generator=generator, dtype=torch.float64)
    target = torch.randn(5, generator=generator, dtype=torch.float64)
    values = np.linalg.eigvalsh((features @ features.T).numpy())
    weights, losses = torch.zeros(9, dtype=torch.float64), []
    for _ in range(5000):
        residual = features @ weights - target
        losses.append(float(residual.square().sum()))
        weights = weights - 2 / (values[0] + values[-1]) * features.T @ residual
    literal = next(step for step, loss in enumerate(losses) if loss <= 1e-4 * losses[0])
    assert descent_steps(features @ features.T, target) == literal
    assert not doctest.testmod(conditioning).failed
    with pytest.raises(ValueError, match="not reached in 3 steps; pass a larger most"):
        descent_steps(features @ features.T, target, most=3)


@pytest.mark.parametrize("way", WAYS)
def test_heads_learn_and_start_from_the_same_draws(way):
    run = train_head(way, seeds=2, samples=4, tokens=6, dim=4, steps=30)
    assert run.before.shape == run.after.shape == (2, 4)
    assert run.loss.shape == (2, 30)
    assert (run.loss[:, -1] < run.loss[:, 0]).all()
    again = train_head(way, seeds=2, samples=4, tokens=6, dim=4, steps=30)
    torch.testing.assert_close(run.loss, again.loss, rtol=0, atol=0)


def test_ways_differ_and_seeds_do_not_meet():
    runs = {way: train_head(way, seeds=3, samples=4, tokens=6, dim=4, steps=3) for way in WAYS}
    assert len({tuple(run.before[0].tolist()) for run in runs.values()}) == len(WAYS)
    generator = torch.Generator().manual_seed(1)
    outputs = torch.randn(2, 3, generator=generator, requires_grad=True)
    gram = conditioning._gradient_gram(outputs * torch.arange(1.0, 4.0), [outputs])
    torch.testing.assert_close(gram, torch.diag(torch.tensor([1.0, 4.0, 9.0])).expand(2, 3, 3))


def test_unknown_ways_are_refused():
    with pytest.raises(ValueError, match="way must be one of 'none', 'rope'"):
        train_head("times")
