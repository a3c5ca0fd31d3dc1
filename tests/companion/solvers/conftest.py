"""What tests of ranked heads share: a solver of few steps, and the rankings of a tiny model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from posym_companion.solvers import head_rankings
from posym_companion.solvers.head_rankings import HeadRankings
from posym_companion.solvers.ranked_models import SOLVERS, load_kept_solver


@pytest.fixture(scope="session")
def solver(tmp_path_factory):
    """The name of a ranked solver, its setting with few steps, and the trained model."""
    name = next(name for name in SOLVERS if name.startswith("1e4") and name.endswith("_4"))
    setting = replace(SOLVERS[name], training=replace(SOLVERS[name].training, steps=3, batch=4))
    return name, setting, load_kept_solver(setting, device="cpu", root=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def rankings(tiny, tokenizer):
    return head_rankings.measure(tiny, tokenizer, head_rankings.small(HeadRankings()), progress=False)
