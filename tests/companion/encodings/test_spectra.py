import itertools
import math

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuse_each

from posym_companion.encodings import spectra
from posym_core.metrics._rope import rope_angles

SIZES = st.integers(1, 7)
SEEDS = st.integers(0, 10**6)


def random_gram(n, seed, *, kind="real", rank=None):
    generator = torch.Generator().manual_seed(seed)
    dtype = torch.complex128 if kind == "complex" else torch.float64
    x = torch.randn(n, rank or n, generator=generator, dtype=dtype)
    return x @ x.mH


def random_correlation(n, seed, *, kind="real", rank=None):
    gram = random_gram(n, seed, kind=kind, rank=rank)
    scale = gram.diagonal().real.rsqrt()
    return gram * scale[:, None] * scale


@given(SIZES, SEEDS, st.sampled_from(["real", "complex"]), st.integers(1, 3))
def test_products_with_correlation_matrices_are_majorised(n, seed, kind, rank):
    gram = random_gram(n, seed, kind=kind)
    kernel = random_correlation(n, seed + 1, kind=kind, rank=rank)
    product = spectra.kernel_product(gram, kernel)
    torch.testing.assert_close(product, gram * kernel)
    before, after = spectra.eigenvalues(gram), spectra.eigenvalues(product)
    found = spectra.majorisation(after, before)
    assert found.holds, (found.excess, found.tolerance)
    # What follows from majorisation.
    slack = 1e-9 * before[0]
    assert after[0] <= before[0] + slack
    assert after[-1] >= before[-1] - slack
    assert after.square().sum() <= before.square().sum() * (1 + 1e-9)


@given(SIZES, SEEDS, st.floats(-10, 10))
def test_one_frequency_changes_no_eigenvalue(n, seed, angle):
    gram = random_gram(n, seed, kind="complex")
    (kernel,) = spectra.rope_kernels(torch.tensor([angle], dtype=torch.float64), n)
    torch.testing.assert_close(
        spectra.eigenvalues(spectra.kernel_product(gram, kernel)), spectra.eigenvalues(gram), rtol=1e-9, atol=1e-9
    )


@given(st.integers(1, 6), SEEDS)
def test_majorisation_agrees_with_sums_over_all_subsets(n, seed):
    generator = torch.Generator().manual_seed(seed)
    first, second = torch.rand(2, n, generator=generator, dtype=torch.float64).round(decimals=1)
    second[-1] += first.sum() - second.sum()
    worst = -math.inf
    for k in range(1, n + 1):
        sums = [max(sum(chosen) for chosen in itertools.combinations(x.tolist(), k)) for x in (first, second)]
        worst = max(worst, sums[0] - sums[1])
    found = spectra.majorisation(first, second)
    assert found.excess.item() == pytest.approx(worst, abs=1e-12)
    assert bool(found.holds) == (worst <= 1e-9)


@given(st.integers(1, 6), SEEDS)
def test_singular_values_are_weakly_majorised(n, seed):
    logits = torch.randn(n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    kernel = random_correlation(n, seed + 1, rank=2)
    after, before = spectra.singular_values(logits * kernel), spectra.singular_values(logits)
    assert spectra.majorisation(after, before, weak=True).holds
    np.testing.assert_allclose(before, scipy.linalg.svdvals(logits.numpy()), rtol=1e-10)


def test_kernels_are_what_their_formulas_say():
    angles, positions = torch.tensor([0.3, 1.1]), torch.tensor([0.0, 2.0, 5.0])
    kernels, mean = spectra.rope_kernels(angles, positions), spectra.averaged_kernel(angles, positions)
    weighted = spectra.averaged_kernel(angles, positions, torch.tensor([3.0, 1.0]))
    for a, b in itertools.product(range(3), repeat=2):
        offset = float(positions[a] - positions[b])
        terms = [np.exp(1j * float(angle) * offset) for angle in angles]
        np.testing.assert_allclose(kernels[:, a, b], terms, rtol=1e-12)
        assert mean[a, b].item() == pytest.approx(np.mean(terms).real)
        assert weighted[a, b].item() == pytest.approx((0.75 * terms[0] + 0.25 * terms[1]).real)
    many = spectra.rope_kernels(rope_angles(8), 6)
    for kernel in many:
        np.testing.assert_allclose(kernel, scipy.linalg.toeplitz(kernel[:, 0], kernel[0]), rtol=1e-12)
        assert int(torch.linalg.matrix_rank(kernel)) == 1
    torch.testing.assert_close(many.mean(0).real, spectra.averaged_kernel(rope_angles(8), 6))
    assert (spectra.eigenvalues(spectra.averaged_kernel(rope_angles(8), 6)) > -1e-12).all()


test_what_does_not_fit_is_refused = refuse_each(
    (lambda: spectra.kernel_product(torch.eye(2), 2 * torch.eye(2)), "ones on its diagonal; this one is off by 1"),
)  # fmt: skip
