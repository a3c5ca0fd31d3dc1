"""The threshold of a plane, which several pages name, has one value, and it is what the package computes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch
from scipy.optimize import brentq

from posym_core.metrics import dirichlet_kernel

# The threshold of a plane as pages write it: as an angle over n, or as the value of theta times n.
VALUE = r"(2\.[6-9]\d*)"
OVER_N = rf"(?<![\d.]){VALUE}\s?/\s?n\b"
TIMES_N = rf"(?:theta|θ)\\?[,^*\s]*n\$?\s*(?:=|\\approx|is below(?: about)?)\s?\$?{VALUE}"
THRESHOLD = re.compile(f"{OVER_N}|{TIMES_N}")


def thresholds(text: str) -> list[str]:
    """Each value of the threshold that a text names."""
    return [first or second for first, second in THRESHOLD.findall(text)]


def test_the_threshold_of_a_plane_has_one_value(root: Path) -> None:
    keys = 10**5
    half = brentq(lambda x: float(dirichlet_kernel(torch.tensor([x / keys]).double(), keys)) ** 2 - 0.5, 1, 5)
    np.testing.assert_allclose(half, 2.7831, atol=1e-4)
    pages = [path for path in sorted((root / "book").rglob("*")) if path.suffix in (".ipynb", ".md")]
    named = {path: thresholds(path.read_text(encoding="utf-8").replace("\\\\", "\\")) for path in pages}
    assert sum(map(len, named.values())) >= 8
    assert not {path.name: found for path, found in named.items() if set(found) - {f"{half:.2f}"}}
