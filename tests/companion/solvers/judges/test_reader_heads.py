"""The rule of C-6 on made-up runs: both sides of every line, NaN and one prompt."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from invented import save_invented

from posym_companion.experiments import SECOND
from posym_companion.ledger import ledger
from posym_companion.results import load_result
from posym_companion.solvers.judges import reader_heads
from posym_companion.solvers.judges.reader_heads import READERS, measure_followed_logits
from posym_companion.solvers.reader_heads import EXCHANGES, full_size

LAYERS = {SECOND: (30, 9), "gemma-3-270m": (18, 4)}


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    monkeypatch.setattr(reader_heads, "DRAWS", 40)


def invented(folder, *, prompts=6, right=True, scores=(0.0, 1.0), own=2.0, follows=0.7, control=0.0, only=None):
    """Runs in which heads read what they are said to; or, of the one named ``only``, do as the arguments have it."""
    generator = np.random.default_rng(0)
    for setting in full_size():
        if setting.alone:
            continue
        shape = LAYERS[setting.model]
        contrasts = 0.01 * generator.normal(size=(3, prompts, *shape))
        positional, symbolic = np.zeros((prompts, *shape)), np.ones((prompts, *shape))
        whole = generator.normal(size=(prompts, 2, *shape))
        rows = {name: np.zeros_like(whole) for name in EXCHANGES} | {"whole": whole}
        for factor, heads in READERS[setting.model].items():
            for head in heads:
                is_it = only is None or only == (setting.model, setting.taught, setting.wording, *head)
                at = (slice(None), *head)
                first, second = (0, 1) if factor == "symbol" else (1, 0)
                contrasts[first][at] += own if is_it else 2.0
                contrasts[second][at] += 1.0
                positional[at], symbolic[at] = scores if is_it else (0.0, 1.0)
                share = follows if is_it else 0.7
                rest = {"symbol": "origin", "origin": "symbol"}[factor]
                rows[factor][:, :, *head] = share * whole[:, :, *head]
                rows[rest][:, :, *head] = 0.3 * whole[:, :, *head]
                rows["other origins"][:, :, *head] = (control if is_it else 0.0) * whole[:, :, *head]
        arrays = {
            "contrasts": contrasts,
            "positional": positional,
            "symbolic": symbolic,
            "correct": right[setting.wording] if isinstance(right, dict) else np.full(prompts, right),
        }
        save_invented(setting.name, arrays, folder, **asdict(setting))
        alone = replace(setting, alone=True)
        save_invented(alone.name, {"log_ratio": np.stack([*rows.values()], 2)}, folder, **asdict(alone))
    (row,) = ledger("C-6", folder=folder)
    return row


def test_heads_that_read_what_they_are_said_to(tmp_path):
    row = invented(tmp_path)
    assert row.verdict == "reproduced in kind"
    cases = [part.partition(" c")[0] for part in row.parts.values()]
    assert cases == ["yes", "30 of 30", "18 of 18", "12 of 12", "18 of 18", "12 of 12", "12 of 12"]
    assert row.ours["logits that follow the origin (smollm2-135m, 23:2, run 0, likes)"]["value"] == pytest.approx(0.7)
    assert len(row.evidence) == 25


ONE = (SECOND, 1, "bought", 23, 7)


def test_one_head_that_does_not_is_one_case_less(tmp_path):
    as_asked, row = invented(tmp_path / "all").parts, invented(tmp_path, only=ONE, follows=0.3)
    changed = {part: cases for part, cases in row.parts.items() if cases != as_asked[part]}
    assert changed == {
        "readers of origins follow exchanged origins": "11 of 12 cases of a head, a run and a wording",
    }
    assert row.verdict == "partly"
    (missed,) = row.fails_in
    assert missed.startswith("smollm2-135m, 23:7, run 1, bought: following origins less symbols ")
    undefined = invented(tmp_path, only=ONE, own=np.nan)
    assert undefined.parts["origins stand out for readers of origins"].startswith("11 of 12")


def test_a_symbol_reader_has_lines_of_its_own(tmp_path):
    row = invented(tmp_path, only=("gemma-3-270m", 2, "likes", 11, 2), own=0.5, follows=0.1)
    assert row.parts["symbols stand out for readers of symbols"].startswith("17 of 18")
    assert row.parts["readers of symbols follow exchanged symbols"].startswith("17 of 18")
    assert row.parts["readers of origins follow exchanged origins"].startswith("12 of 12")


def test_a_slope_is_through_zero(tmp_path):
    """A literal loop over prompts and pairs."""
    invented(tmp_path)
    setting = next(one for one in full_size() if one.model == SECOND and one.alone)
    result = load_result(setting.name, folder=tmp_path)
    head = (23, 2)
    above = below = 0.0
    for prompt in range(6):
        for pair in range(2):
            logit = {name: float(result["log_ratio"][prompt, pair, at, *head]) for at, name in enumerate(EXCHANGES)}
            whole = logit["whole"] - logit["none"]
            above += (logit["origin"] - logit["none"]) * whole
            below += whole**2
    assert measure_followed_logits(result, "origin", head).value == pytest.approx(above / below, rel=1e-6)
    assert measure_followed_logits(result, "whole", head).value == pytest.approx(1)
