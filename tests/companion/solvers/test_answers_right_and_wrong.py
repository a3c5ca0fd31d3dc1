"""Right against wrong answers, from made-up runs with planted differences."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from invented import save_invented

from posym_companion.results import MissingResultError
from posym_companion.solvers.answers_right_and_wrong import answer_results, right_and_wrong
from posym_companion.solvers.solver_answers import full_size

SEEDS, PROMPTS = 5, 30


def invented(folder, *, shift=0.4, wrong=20):
    """Runs in which one head carries binding, and looks less at the right fact on wrong answers; no head does index."""
    generator = np.random.default_rng(0)
    for setting in full_size():
        noise = 0.1 * generator.normal(size=(3, SEEDS, 2, 2, PROMPTS, 2, 2))
        arrays = dict(zip(("positional", "symbolic", "asked_attention"), 0.5 + noise, strict=True))
        arrays["asked_attention"][:, 0, 1, :, 1, 0] -= shift
        for name in arrays:
            arrays[name][:, :, 1, wrong:] = np.nan
        patched = np.zeros((SEEDS, 2, 2, 2))
        patched[:, 0, 1, 0] = 1
        made = {**arrays, "patched": patched, "accuracy": np.full((SEEDS, 2), 0.99)}
        save_invented(setting.name, made, folder, **asdict(setting))


def test_a_planted_difference_is_found_and_no_other(tmp_path):
    invented(tmp_path)
    found = right_and_wrong(answer_results(tmp_path), "binding")
    looks = found["asked_attention"]
    assert looks.difference.low < 0.4 < looks.difference.high
    assert looks.right - looks.wrong == pytest.approx(looks.difference.value)
    assert looks.effect.low < 4 < looks.effect.high
    for name in ("positional", "symbolic"):
        assert not found[name].difference.excludes(0) or abs(found[name].difference.value) < 0.02
        assert abs(found[name].effect.value) < 0.2


def test_what_cannot_be_told_is_refused(tmp_path):
    with pytest.raises(MissingResultError):
        answer_results(tmp_path)
    invented(tmp_path)
    with pytest.raises(ValueError, match="no stored model has a head that carries index and answers of both kinds"):
        right_and_wrong(answer_results(tmp_path), "index")
    invented(tmp_path, wrong=0)
    with pytest.raises(ValueError, match="carries binding"):
        right_and_wrong(answer_results(tmp_path), "binding")
