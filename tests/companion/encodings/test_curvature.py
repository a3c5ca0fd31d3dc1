"""The largest eigenvalue of a Hessian: against a dense one, against known spectra, against differences of gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from posym_companion.encodings.curvature import hessian_product, sharpness


def network(dtype=torch.float64):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4)).to(dtype)
    inputs, answers = torch.randn(20, 3, dtype=dtype), torch.randint(4, (20,))
    return model, lambda: nn.functional.cross_entropy(model(inputs), answers)


def dense(model, loss):
    """The Hessian entry by entry: the gradient of every entry of the gradient."""
    parameters = list(model.parameters())
    gradient = torch.cat([x.flatten() for x in torch.autograd.grad(loss(), parameters, create_graph=True)])
    rows = [torch.autograd.grad(entry, parameters, retain_graph=True) for entry in gradient]
    return torch.stack([torch.cat([x.flatten() for x in row]) for row in rows])


def test_a_dense_hessian_has_the_same_largest_eigenvalue_and_products():
    model, loss = network()
    hessian, parameters = dense(model, loss), list(model.parameters())
    found = sharpness(loss(), parameters, tolerance=1e-10)
    assert found.value == pytest.approx(np.linalg.eigvalsh(hessian.numpy())[-1], rel=1e-8)
    assert found.residual < 1e-6
    vector = torch.randn(len(hessian), dtype=torch.float64)
    torch.testing.assert_close(hessian_product(loss(), parameters)(vector), hessian @ vector)


@pytest.mark.parametrize("largest", [7.0, -0.5])
def test_a_known_spectrum_is_found_also_where_another_eigenvalue_is_larger_in_size(largest):
    generator = torch.Generator().manual_seed(1)
    axes = torch.linalg.qr(torch.randn(30, 30, generator=generator, dtype=torch.float64)).Q
    values = torch.linspace(-40, largest, 30, dtype=torch.float64)
    matrix, x = axes * values @ axes.T, nn.Parameter(torch.randn(30, generator=generator, dtype=torch.float64))
    assert sharpness(x @ matrix @ x / 2, [x], tolerance=1e-10).value == pytest.approx(largest, rel=1e-8)


def test_a_linear_loss_does_not_bend():
    x = nn.Parameter(torch.ones(3))
    assert hessian_product((2 * x).sum(), [x])(torch.ones(3)).tolist() == [0, 0, 0]


def test_the_residual_is_how_far_a_vector_is_from_an_eigenvector(monkeypatch):
    found = np.array([2.5]), np.full((2, 1), 0.5**0.5)
    monkeypatch.setattr("scipy.sparse.linalg.eigsh", lambda *_, **__: found)
    x = nn.Parameter(torch.zeros(2, dtype=torch.float64))
    assert sharpness((torch.tensor([4.0, 1.0]) * x**2).sum() / 2, [x]).residual == pytest.approx(1.5)
