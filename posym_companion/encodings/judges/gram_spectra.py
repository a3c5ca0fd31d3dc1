"""Judge of the claim about spectral contraction: random matrices computed when asked, real ones from a stored result.

The rules were written after an exploratory run of the same spectra had been seen, which the row's note says. *The
theorem holds* if, for every random positive semidefinite matrix with every kernel tried and for every Gram matrix of
the model's queries and keys with the mean of its planes' kernels, the eigenvalues of the product are majorised by
those of the matrix, within the rounding that :mod:`posym_companion.encodings.spectra` states. That is all the claim
says, and what the verdict rests on. Beside it stand what it does not say: what an additive bias does, what a model's
own rotation does, which has a kernel for every plane, and what becomes of logits, which are no Gram matrix.
"""

from __future__ import annotations

from collections.abc import Iterator

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
from posym_companion.judging import Look, Yielded, judge
from posym_companion.verdicts import Cases, count_cases
from posym_core.metrics import rope_angles

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


@judge(SHOWN_IN, model="gemma-3-270m", measured_on="random matrices and {model}")
def kernels_contract(look: Look) -> Iterator[Yielded]:
    """G26-1a: majorisation of random and of real Gram matrices under one kernel."""
    result = look.load(GramSpectra(model=look.model))
    tried, majorised, biased = random_products()
    yield "random products, majorised", "", Cases(majorised, tried)
    grams = [result[f"{kind}_holds"][WAYS.index("averaged") - 1].ravel() for kind in ("query", "key")]
    name = "Gram matrices of queries and keys times the averaged kernel, majorised"
    yield name, "", count_cases(np.concatenate(grams))
    look.note = (
        "A theorem about a positive semidefinite matrix and one correlation kernel, shared by all planes. Of sums "
        f"with a bias {Cases(biased, len(SIZES) * DRAWS)} are majorised."
    )


@judge(
    SHOWN_IN,
    model="gemma-3-270m",
    measured_on="{model}",
    note="Every plane of a real head has a kernel of its own, and logits are of queries with keys, no Gram matrix: the "
    "theorem covers neither. The nearest true statement is G26-1a.",
)
def rotation_contracts(look: Look) -> Iterator[Yielded]:
    """G26-1b: spectra of real attention logits, and of Gram matrices, under the model's own rotation."""
    result = look.load(GramSpectra(model=look.model))
    averaged, rotated = (WAYS.index(way) - 1 for way in ("averaged", "rotated"))
    for way, name in ((averaged, "averaged kernel"), (rotated, "own rotation")):
        majorised = count_cases(result["logits_holds"][way].ravel())
        yield f"logits weakly majorised in singular values, {name}", "", majorised
    grams = [result[f"{kind}_holds"][rotated].ravel() for kind in ("query", "key")]
    yield "Gram matrices that the rotation leaves majorised", "", count_cases(np.concatenate(grams))
