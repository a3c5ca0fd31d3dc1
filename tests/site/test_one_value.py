"""A quantity that several pages name has one value, and the value is what the package computes."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from bs4 import BeautifulSoup
from scipy.optimize import brentq
from test_site import site  # noqa: F401

from posym_companion.ledger import NAMED_VALUES
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


def named_values(folder: Path) -> dict[str, dict[str, list[str]]]:
    """What pages show under each name: name -> text, sample included -> pages."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(folder.rglob("*.html")):
        text = path.read_text(encoding="utf-8")
        if "posym-named" not in text:
            continue
        for value in BeautifulSoup(text, "html.parser").select(".posym-named"):
            found[str(value["data-name"])][" ".join(value.get_text().split())].append(path.stem)
    return found


def faults(folder: Path) -> list[str]:
    """Names with two texts, names that are no quantity's, and values without a sample."""
    wrong = []
    for name, texts in named_values(folder).items():
        if name not in NAMED_VALUES:
            wrong.append(f"{name} is no quantity's name")
        if len(texts) > 1:
            wrong.append(f"{name} has {len(texts)} values: {'; '.join(f'{text} in {texts[text]}' for text in texts)}")
        wrong += [f"{name} has no sample: {text}" for text in texts if not re.search(r"\(\S[^()]*\)$", text)]
    return wrong


def test_the_built_pages_show_one_value_under_one_name(site: Path) -> None:  # noqa: F811
    assert faults(site) == []
    shared = [name for name, texts in named_values(site).items() if len(set().union(*texts.values())) > 1]
    assert len(shared) >= 5, "quantities that two pages show are printed by name"
