"""Verdicts on the taught model, from made-up runs with planted effects."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from invented import save_invented

from posym_companion.experiments.taught_gemma import FACTS, WORDINGS, full_size
from posym_companion.findings import gemma_roles, taught_gemma
from posym_companion.findings.all_claims import row
from posym_companion.findings.gemma_runs import lean, restored, runs
from posym_core.metrics import local_layers

CLAIMS = ("FIRST_LOOK", "LAYER_TREND", "CORRELATION", "PLANES", "ALL_HEADS", "ROLES", "MISSING")
CARRIERS = ((5, 1), (11, 2), (11, 3), (17, 2))


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    """What is invented here is far from every line: few draws tell."""
    for module in (taught_gemma, gemma_roles):
        monkeypatch.setattr(module, "DRAWS", 60)


def invented(folder, *, as_claimed=True, solved=True):
    """Runs in which everything is as the claims have it, or nothing is."""
    generator = np.random.default_rng(0)
    sign = 1 if as_claimed else -1
    for setting in full_size():
        prompts, snapshots = setting.prompts, len(setting.snapshots)
        carries = np.zeros((18, 4), dtype=bool)
        carries[tuple(zip(*CARRIERS, strict=True))] = True
        early = np.where(np.arange(18) < 9, 1.0, -1.0)[:, None]
        positional = 0.5 + sign * (0.3 * early + 0.05 * generator.normal(size=(18, 4)))
        symbolic = 1 - sign * (positional - 0.5) - 0.5
        positional[carries], symbolic[carries] = (0.0, 1.0) if as_claimed else (1.0, 0.0)
        positional, symbolic = (
            np.broadcast_to(x, (snapshots, 3, prompts, 18, 4)).copy() for x in (positional, symbolic)
        )
        idle = np.zeros((18, 4), dtype=bool)
        idle[14] = True
        # Idle symbolic heads, which turn positional where the right thing is learned.
        positional[0, :, :, idle], symbolic[0, :, :, idle] = 0.3, 0.95
        turned = as_claimed == setting.right
        positional[-1, :, :, idle], symbolic[-1, :, :, idle] = (0.9, 0.2) if turned else (0.3, 0.95)
        use = positional[-1, 0, 0] - symbolic[-1, 0, 0]
        at = np.clip((3.5 - 3.4 * sign * use).round().astype(int), 0, 7)
        # Fast planes stand first.
        energy = np.eye(8)[at]
        slow = sign * np.linspace(-4, 4, 8).clip(-1, 1)
        angles = np.where(np.isin(np.arange(18), (5, 11, 17)), 0.01, 1.0)[:, None] * 10.0 ** -np.linspace(0, 3, 128)
        restore = np.where(carries, 0.4, 0.0) if as_claimed else np.roll(np.where(carries, 0.4, 0.0), 1, axis=0)
        stopped = {"none": 1.0, "slowest": 1.0 if as_claimed else 3.0, "fastest": 3.0 if as_claimed else 1.0}
        noise = 0.01 * generator.normal(size=(snapshots, 3, prompts, 18, 4))
        arrays = {
            "positional": positional + noise,
            "symbolic": symbolic - sign * noise,
            "null_positional": generator.uniform(size=positional.shape),
            "null_symbolic": generator.uniform(size=positional.shape),
            "symbolic_share": symbolic,
            "positional_share": positional,
            "entropy": positional,
            "spread": generator.uniform(size=positional.shape),
            "correct": np.full((snapshots, len(WORDINGS), len(FACTS), prompts), float(solved)),
            "angles": angles,
            "losses": np.full(16, stopped[setting.stopped]),
            "band_energy_share": np.broadcast_to(energy, (snapshots, 3, 18, 4, 8)),
            "band_symbolic_share": np.broadcast_to(0.5 + 0.5 * slow, (snapshots, 3, 18, 4, 8)),
            "band_positional_share": np.broadcast_to(0.5 - 0.5 * slow, (snapshots, 3, 18, 4, 8)),
            "plane_symbolic": np.broadcast_to(np.repeat(0.5 + 0.5 * slow, 16), (2, 18, 4, 128)),
            "plane_positional": np.broadcast_to(np.repeat(0.5 - 0.5 * slow, 16), (2, 18, 4, 128)),
            "clean_whole": np.full((1, 4), 2.0),
            "other_whole": np.full((1, 4), -2.0),
            "answer_patched": np.broadcast_to(-2 + 4 * restore, (1, 4, 18, 4)),
        }  # fmt: skip
        if not as_claimed:
            arrays["band_symbolic_share"] = arrays["band_positional_share"] = np.full((snapshots, 3, 18, 4, 8), 0.5)
        save_invented(setting.name, arrays, folder, **asdict(setting))


@pytest.fixture(scope="module")
def claimed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("claimed")
    invented(folder)
    return folder


@pytest.fixture(scope="module")
def otherwise(tmp_path_factory):
    folder = tmp_path_factory.mktemp("otherwise")
    invented(folder, as_claimed=False)
    return folder


@pytest.mark.parametrize("name", CLAIMS)
def test_every_verdict_comes_out_both_ways(name, claimed, otherwise):
    claim = getattr(taught_gemma, name)
    found = row(claim, claimed)
    assert found.verdict == "reproduced in kind", (found.parts, found.numbers)
    assert row(claim, otherwise).verdict != "reproduced in kind"
    assert "taught_gemma/all_0" in found.evidence


def test_a_model_that_does_not_solve_the_task_cannot_tell(tmp_path):
    invented(tmp_path, solved=False)
    assert row(taught_gemma.LAYER_TREND, tmp_path).verdict == "not testable"
    assert row(taught_gemma.LAYER_TREND, tmp_path / "nowhere").verdict == "not run here"


def test_right_answers_before_teaching_are_compared_within_a_wording(tmp_path):
    """Attention that goes with the answer, beside a wording that is easier and differs for all its prompts."""
    for setting in full_size():
        if not setting.plain:
            continue
        generator = np.random.default_rng(setting.seed)
        shape = (len(setting.snapshots), 3, setting.prompts)
        easier = np.array([0.2, 0.4, 0.8])[:, None]
        right = generator.uniform(size=shape[1:]) < easier
        correct = np.broadcast_to(right[:, None], (*shape[:2], 3, shape[2]))
        carries = np.zeros((18, 4), dtype=bool)
        carries[11, 2] = True
        looks = 0.3 * correct[:, :, 1] + easier + 0.02 * generator.normal(size=shape)
        arrays = {
            "correct": correct.astype(float),
            "asked_attention": looks[..., None, None] * carries,
            "positional": (easier + 0.02 * generator.normal(size=shape))[..., None, None] * carries,
            "symbolic": generator.uniform(size=shape)[..., None, None] * carries,
            "clean_whole": np.full((2, 4), 2.0),
            "other_whole": np.full((2, 4), -2.0),
            "answer_patched": np.broadcast_to(np.where(carries, 2.0, -2.0), (2, 4, 18, 4)),
        }
        save_invented(setting.name, arrays, tmp_path, **asdict(setting))
    found = gemma_roles.untaught_answers(tmp_path)
    looks, positional = found["asked_attention"], found["positional"]
    assert looks.difference.value == pytest.approx(0.3, abs=0.02)
    assert looks.effect.low > 10
    # The easy wording has more of both, on right and on wrong answers.
    assert looks.right - looks.wrong > 0.4
    assert positional.right - positional.wrong > 0.1
    assert abs(positional.difference.value) < 0.02
    assert not found["symbolic"].effect.excludes(0)


def test_what_is_read_off_a_run(claimed):
    result = runs(claimed)[0]
    assert local_layers(result["angles"]).tolist() == [x for x in range(18) if x not in (5, 11, 17)]
    share = restored(result)
    assert sorted(map(tuple, np.argwhere(share > 0.1).tolist())) == sorted(CARRIERS)
    np.testing.assert_allclose(share[5, 1], 0.4)
    assert lean(result, 0)[14].mean() < 0 < lean(result, -1)[14].mean()
