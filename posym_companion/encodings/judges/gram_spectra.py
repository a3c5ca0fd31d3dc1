"""Judge of the claim about spectral contraction: random matrices computed when asked, real ones from a stored result.

The rules were written after an exploratory run of the same spectra had been seen, which the row's note says. *The
theorem holds* if, for every random positive semidefinite matrix with every kernel tried and for every Gram matrix of
the model's queries and keys with the mean of its planes' kernels, the eigenvalues of the product are majorised by
those of the matrix, within the rounding that :mod:`posym_companion.encodings.spectra` states. That is all the claim
says, and what the verdict rests on. Beside it stand what it does not say: what an additive bias does, what a model's
own rotation does, which has a kernel for every plane, and what becomes of logits, which are no Gram matrix.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from posym_companion.encodings.gram_spectra import WAYS, GramSpectra
from posym_companion.encodings.spectra import (
    averaged_kernel,
    eigenvalues,
    kernel_product,
    majorisation,
    rope_kernels,
    toeplitz,
)
from posym_companion.finding import Cases, Measured, Number, count_cases
from posym_companion.results import load_result
from posym_core.metrics import mean_interval, rope_angles

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


def kernels_contract(folder: Path | None) -> Measured:
    """G26-1a: majorisation of random and of real Gram matrices under one kernel."""
    result = load_result(GramSpectra(model=MODEL).name, folder=folder)
    tried, held, biased = random_products()
    averaged = WAYS.index("averaged")
    real = np.concatenate([result[f"{kind}_holds"][averaged - 1].ravel() for kind in ("query", "key")])
    ours: dict[str, Number] = {
        "random products, majorised": Cases(held, tried),
        "Gram matrices of queries and keys times the averaged kernel, majorised": count_cases(real.ravel()),
        "random sums with an ALiBi bias, majorised": Cases(biased, len(SIZES) * DRAWS),
    }
    for kind in ("query", "key"):
        by_prompt = (result[kind][averaged][..., 0] / result[kind][0][..., 0]).mean((1, 2))
        ours[f"largest eigenvalue under the averaged kernel / without, {kind} Gram"] = mean_interval(by_prompt)
    return Measured(
        ours=ours,
        model=f"random matrices and {MODEL}",
        evidence=[result.name, SHOWN_IN],
        note="A theorem about a positive semidefinite matrix and one correlation kernel, shared by all planes. Of sums "
        f"with a bias {ours['random sums with an ALiBi bias, majorised']} are majorised.",
    )


def rotation_contracts(folder: Path | None) -> Measured:
    """G26-1b: spectra of real attention logits, and of Gram matrices, under the model's own rotation."""
    result = load_result(GramSpectra(model=MODEL).name, folder=folder)
    averaged, rotated = WAYS.index("averaged"), WAYS.index("rotated")
    ours: dict[str, Number] = {}
    for way, name in ((rotated, "own rotation"), (averaged, "averaged kernel")):
        holds = result["logits_holds"][way - 1]
        ours[f"logits weakly majorised in singular values, {name}"] = count_cases(holds.ravel())
    top = result["logits"][rotated][..., 0] / result["logits"][0][..., 0]
    ours["largest singular value of logits, rotated / without"] = mean_interval(top.mean((1, 2)))
    ours["share of logits whose largest singular value rises"] = mean_interval((top > 1).mean((1, 2)))
    grams = [result[f"{kind}_holds"][rotated - 1].ravel() for kind in ("query", "key")]
    ours["Gram matrices that the rotation leaves majorised"] = count_cases(np.concatenate(grams))
    rises = ours["share of logits whose largest singular value rises"]
    return Measured(
        ours=ours,
        model=MODEL,
        evidence=[result.name, SHOWN_IN],
        fails_in=[f"the largest singular value of logits rises in a share of {rises}"] if (top > 1).any() else [],
        note="Every plane of a real head has a kernel of its own, and logits are of queries with keys, no Gram "
        "matrix: the theorem covers neither. The nearest true statement is G26-1a. Intervals over prompts.",
    )
