"""Judge of the claim about spectral contraction: random matrices computed when asked, real ones from a stored result.

The rules were written after an exploratory run of the same spectra had been seen, which the row's note says. *The
theorem holds* if, for every random positive semidefinite matrix with every kernel tried and for every Gram matrix of
the model's queries and keys with the mean of its planes' kernels, the eigenvalues of the product are majorised by
those of the matrix, within the rounding that :mod:`posym_core.metrics.spectra` states. That is all the claim says, and
what the verdict rests on. Beside it stand what it does not say: what an additive bias does, what a model's own rotation
does, which has a kernel for every plane, and what becomes of logits, which are no Gram matrix.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from posym_companion.experiments.gram_spectra import WAYS, GramSpectra
from posym_companion.findings.finding import Finding
from posym_core.metrics.rope import rope_angles
from posym_core.metrics.spectra import (
    averaged_kernel,
    eigenvalues,
    kernel_product,
    majorisation,
    rope_kernels,
    toeplitz,
)
from posym_core.metrics.stats import Estimate, mean_interval
from posym_core.runs.results import load_result

MODEL = "gemma-3-270m"
SHOWN_IN = "book/encodings/times_and_plus.ipynb"
SIZES, DRAWS = (2, 3, 5, 8, 16), 40


def random_products(seed: int = 0) -> tuple[int, int, int]:
    """Random products tried, those whose spectrum was majorised, and biased sums whose spectrum was."""
    generator = torch.Generator().manual_seed(seed)
    tried = held = biased = 0
    for n in SIZES:
        bias = toeplitz(-0.5 * torch.arange(n))
        kernels = [averaged_kernel(rope_angles(8), n), *rope_kernels(rope_angles(8), n)]
        for draw in range(DRAWS):
            dtype = torch.complex128 if draw % 2 else torch.float64
            factor = torch.randn(n, 1 + draw % n, generator=generator, dtype=dtype)
            gram = factor @ factor.mH
            before = eigenvalues(gram)
            for kernel in kernels:
                tried += 1
                held += bool(majorisation(eigenvalues(kernel_product(gram, kernel)), before).holds)
            biased += bool(majorisation(eigenvalues(gram + bias), before).holds)
    return tried, held, biased


def kernels_contract(folder: Path | None) -> Finding:
    """G26-1: majorisation for random and for real Gram matrices, and what lies beyond the theorem."""
    result = load_result(GramSpectra(model=MODEL).name, folder=folder)
    tried, held, biased = random_products()
    averaged, rotated = WAYS.index("averaged"), WAYS.index("rotated")
    real = np.concatenate([result[f"{kind}_holds"][averaged - 1].ravel() for kind in ("query", "key")])
    ours: dict[str, float | int | str | Estimate] = {
        "random products, majorised": f"{held} of {tried}",
        "random sums with an ALiBi bias, majorised": f"{biased} of {len(SIZES) * DRAWS}",
        "Gram matrices of queries and keys times the averaged kernel, majorised": f"{real.sum()} of {real.size}",
    }
    for kind in ("query", "key"):
        top = result[kind][..., 0]
        for way, name in ((averaged, "averaged kernel"), (rotated, "own rotation")):
            by_prompt = (top[way] / top[0]).mean((1, 2))
            ours[f"largest eigenvalue under the {name} / without, {kind} Gram"] = mean_interval(by_prompt)
        own = result[f"{kind}_holds"][rotated - 1]
        ours[f"{kind} Gram matrices that the model's own rotation leaves majorised"] = f"{own.sum()} of {own.size}"
    for way, name in ((averaged, "averaged kernel"), (rotated, "own rotation")):
        weak = result["logits_holds"][way - 1]
        ours[f"logits weakly majorised in singular values, {name}"] = f"{weak.sum()} of {weak.size}"
    return Finding(
        ours=ours,
        model=f"random matrices and {MODEL}",
        evidence=[result.name, SHOWN_IN],
        verdict="reproduced" if held == tried and real.all() else "not reproduced",
        note="The rule was written after an exploratory run had been seen. "
        "A theorem about one kernel, shared by all planes. A single frequency leaves the spectrum as it is; "
        "rotation with a kernel for every plane, and logits of queries with keys, are not covered.",
    )
