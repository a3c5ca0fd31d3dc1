"""Judges of the claims about models that learn Number and Letter: every verdict on invented runs."""

from __future__ import annotations

import numpy as np
import pytest
from invented import save_invented

from posym_companion.experiments.multihop import SEEDS, MultihopSettings
from posym_companion.findings import multihop
from posym_companion.findings.finding import Finding
from posym_core.metrics.stats import Estimate
from posym_core.runs.results import ResultError

STEPS, LAYERS, HOPS = 1000, 12, 4
LOOKS = np.arange(0, STEPS + 1, 50)


def invented(
    folder, task, seed, *, learned=None, kinds=None, ids=None, final=0.98, first=0.12, pure_from=0.0, seconds=0.36
):
    """A run whose hops jump from chance to ``final`` at steps ``learned``, with heads of given kinds.

    When the first hop is learned, the others rise to ``first``.

    Heads are pure once ``pure_from`` of the mean rise in accuracy has passed, and never before.
    """
    learned = np.array(learned or ((100, 300, 500, 700) if task == "number" else (400, 400, 450, 450)))
    kinds = np.array(kinds or ([1] * 4 + [-1] * 8 if task == "number" else [-1] * 12))
    accuracy = np.where(LOOKS[:, None] >= learned, final, np.where(LOOKS[:, None] >= learned.min(), first, 0.12))
    at = slice(None, None, 2)
    rise = (accuracy[at].mean(1) - 0.12) / (final - 0.12)
    pure = (rise >= pure_from)[:, None] & (np.arange(LAYERS) < np.round(rise * LAYERS)[:, None])
    shape = (len(rise), HOPS, HOPS, LAYERS, 1)
    # A path of so many hops has no more stations.
    missing = np.where(np.arange(HOPS) > np.arange(HOPS)[:, None], np.nan, 0.0)[:, :, None, None]

    def scores(kind):
        high = np.where(pure, np.where(kinds == kind, 0.99, 0.01), 0.8)
        return np.broadcast_to(high[:, None, None, :, None], shape) + missing

    checkpoints = len(rise)
    profile = np.array(multihop.TABLE_1[task] if ids is None else ids, dtype=float)
    arrays = {
        "look_step": LOOKS,
        "look_accuracy": accuracy,
        "training_seconds": np.full(len(LOOKS), 10.0),
        "checkpoint_step": LOOKS[at],
        "accuracy": accuracy[at],
        "test_accuracy": np.full(HOPS, final) if np.isscalar(final) else np.array(final),
        "positional": scores(1),
        "symbolic": scores(-1),
        "frequency": np.broadcast_to(profile[:, None], (checkpoints, LAYERS, 1)),
        "use": np.zeros((checkpoints, LAYERS, 1, 64)),
        "monitor_seconds": np.full(checkpoints, seconds / checkpoints),
        "swaps": np.full(checkpoints, 10_000),
        "attention": np.zeros((checkpoints, HOPS, LAYERS, 1, 17, 17), dtype=np.uint8),
        "example_tokens": np.zeros((HOPS, 17), dtype=int),
    }
    name = MultihopSettings.full(task=task, seed=seed).name
    return save_invented(name, arrays, folder, seed=seed)


def judged(folder, judge, *, seeds=SEEDS, number=None, letter=None) -> Finding:
    """A judge on invented runs; options per task are a dictionary for all seeds or a list of one for each."""
    for task, options in (("number", number), ("letter", letter)):
        for place, seed in enumerate(seeds):
            invented(folder, task, seed, **((options[place] if isinstance(options, list) else options) or {}))
    return judge(folder)


def parts(finding: Finding) -> dict[str, bool]:
    pairs = [part.rsplit(": ", 1) for part in finding.note.split(". ")[0].split("; ")]
    return {part: held == "yes" for part, held in pairs}


JUDGES = (multihop.learned_hop_by_hop, multihop.pure_at_best, multihop.bands_by_layer, multihop.cost_of_watching)


@pytest.mark.parametrize("judge", JUDGES)
def test_one_seed_of_a_task_is_no_evidence(tmp_path, judge):
    invented(tmp_path, "letter", 0)
    invented(tmp_path, "letter", 1)
    invented(tmp_path, "number", 0)
    with pytest.raises(ResultError, match="multihop/number_2' is not there"):
        judge(tmp_path)
    invented(tmp_path, "number", 2)
    assert "2 seeds of number" in judge(tmp_path).note or judge is multihop.cost_of_watching


def test_an_altered_run_is_no_missing_run(tmp_path):
    invented(tmp_path, "number", 0)
    file = tmp_path / "multihop/number_0.npz"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ResultError, match="altered or truncated"):
        multihop.stored_runs("number", tmp_path)


def test_a_hop_is_learned_where_two_looks_in_a_row_say_so(tmp_path):
    run = invented(tmp_path, "number", 0)
    assert multihop.learned_at(run).tolist() == [100, 300, 500, 700]
    once = run["look_accuracy"].copy()
    once[3, 3] = 0.98  # a single lucky look
    run = type(run)(name="x", arrays={**run.arrays, "look_accuracy": once}, settings={}, provenance={})
    assert multihop.learned_at(run).tolist() == [100, 300, 500, 700]
    once[5:7, 3] = 0.98
    assert multihop.learned_at(run).tolist() == [100, 300, 500, 250]
    once[:, 2] = 0.5
    assert np.isnan(multihop.learned_at(run)[2])
    assert multihop.spread(run) == 1.0


def test_hop_by_hop(tmp_path):
    finding = judged(tmp_path / "claimed", multihop.learned_hop_by_hop)
    assert finding.verdict == "reproduced"
    step = finding.ours["number: step at which hop 3 is learned"]
    assert isinstance(step, Estimate)
    assert (step.low, step.value, step.high) == (500, 500, 500)
    assert finding.ours["number: share of the training between first and last"] == Estimate(
        value=0.6, low=0.6, high=0.6
    )
    changes = {
        "Number in the order 1 to 4": {"number": [{}, {}, {"learned": (300, 100, 500, 700)}]},
        "Number spread over a fifth of the training": {
            "number": {"learned": (100, 150, 200, 250)},
            "letter": {"learned": (400, 400, 400, 400)},
        },
        "Letter within a tenth of it": {"letter": [{}, {"learned": (100, 200, 300, 400)}, {}]},
        "every hop is learned": {"letter": {"final": 0.85}},
    }
    for part, change in changes.items():
        finding = judged(tmp_path / part, multihop.learned_hop_by_hop, **change)
        assert finding.verdict == ("reproduced in kind" if "a fifth" in part else "not reproduced")
        assert [name for name, held in parts(finding).items() if not held] == [part]


def test_hop_by_hop_in_kind_needs_three_times_the_share(tmp_path):
    close = {"number": {"learned": (100, 150, 200, 250)}, "letter": {"learned": (400, 400, 400, 500)}}
    finding = judged(tmp_path, multihop.learned_hop_by_hop, **close)
    assert finding.verdict == "not reproduced"
    assert "The weaker rule, added after seed 0: Number's share at least 3 times Letter's: no." in finding.note


def test_a_hop_that_is_never_learned_is_said_so(tmp_path):
    never = {"learned": (100, 300, 500, 2000)}
    finding = judged(tmp_path, multihop.learned_hop_by_hop, number=[never, {}, {}])
    assert finding.ours["number: step at which hop 4 is learned"] == "never in 1 of 3 seeds"
    assert finding.verdict == "not reproduced"


def test_pure_heads(tmp_path):
    finding = judged(tmp_path / "claimed", multihop.pure_at_best)
    assert finding.verdict == "reproduced"
    assert finding.ours["number: kinds by layer, seed by seed"] == "; ".join(["PPPPSSSSSSSS"] * 3)
    mixed = [1, -1] * 6
    changes = {
        "Number ends positional, then symbolic": {"number": [{}, {"kinds": mixed}, {}]},
        "Letter ends symbolic throughout": {"letter": {"kinds": [1, 1, *[-1] * 10]}},
    }
    for part, change in changes.items():
        finding = judged(tmp_path / part, multihop.pure_at_best, **change)
        assert finding.verdict == "not reproduced"
        assert [name for name, held in parts(finding).items() if not held] == [part]
    finding = judged(tmp_path / "one out of order", multihop.pure_at_best, letter={"kinds": [1, *[-1] * 11]})
    assert finding.verdict == "reproduced"
    finding = judged(tmp_path / "never pure", multihop.pure_at_best, letter={"pure_from": 2.0})
    failed = [name for name, held in parts(finding).items() if not held]
    assert len(failed) == 3
    assert all("Letter" in part for part in failed)
    # Pure at 99 % of the maximal accuracy and not at 95 %: in Letter the last hop comes late and is small.
    late = {"learned": (400, 400, 400, 600), "first": 0.8, "pure_from": 1.0}
    finding = judged(tmp_path / "late", multihop.pure_at_best, letter=late)
    assert not parts(finding)["Letter's heads are pure where accuracy is first maximal"]
    assert finding.verdict == "reproduced in kind"
    # Half of the heads are neither, at the end as well.
    finding = judged(tmp_path / "half", multihop.pure_at_best, number={"kinds": [1] * 3 + [-1] * 3 + [0] * 6})
    assert not parts(finding)["Number's heads are pure where accuracy is first maximal"]
    assert not parts(finding)["Number ends positional, then symbolic"]


def test_stations_are_judged_one_by_one(tmp_path):
    run = invented(tmp_path, "number", 0, kinds=[1] * 3 + [-1] * 3 + [0] * 6)
    assert multihop.pure_by_station(run) == 0.5
    turning = {name: run[name].copy() for name in ("positional", "symbolic")}
    for name, low in (("positional", 0.01), ("symbolic", 0.99)):
        turning[name][-1, :, 1:, 0] = low  # positional for the query, symbolic for all other stations
        turning[name][-1] += run[name][-1] * 0  # stations that are not there stay undefined
    run = type(run)(name="x", arrays={**run.arrays, **turning}, settings={}, provenance={})
    assert multihop.kinds(run)[-1, 0, 0] == 0
    assert multihop.pure_by_station(run) == 0.5


def test_bands(tmp_path):
    finding = judged(tmp_path / "claimed", multihop.bands_by_layer)
    assert finding.verdict == "reproduced"
    assert finding.ours["number: mean distance to Table 1"] == Estimate(value=0, low=0, high=0)
    shifted = {"ids": np.array(multihop.TABLE_1["letter"]) + 8}
    finding = judged(tmp_path / "shifted", multihop.bands_by_layer, letter=shifted)
    assert finding.verdict == "reproduced in kind"
    assert "on average: no" in finding.note
    changes = {
        "Number's first layers are fast and its last ones slow": {"number": {"ids": [12] * 5 + [39] * 7}},
        "its profile is Table 1's": {"number": {"ids": [1, 1, 1, 1, 60, *[26] * 7]}},
        "Letter's layers are slower than even use": {"letter": {"ids": [18, 32, *[31] * 10]}},
    }
    for part, change in changes.items():
        finding = judged(tmp_path / part, multihop.bands_by_layer, **change)
        assert finding.verdict == "not reproduced"
        assert [name for name, held in parts(finding).items() if not held] == [part]


def test_cost_is_scaled_to_the_papers_store(tmp_path):
    finding = judged(tmp_path / "cheap", multihop.cost_of_watching)
    assert finding.verdict == "not reproduced"
    assert "The cost is not needed" in finding.note
    # 0.36 seconds for 11 checkpoints of 10,000 swaps of 17 x 17 numbers of 4 bytes.
    hours = finding.ours["hours for as many swaps as the paper's 1 TB holds"]
    assert isinstance(hours, Estimate)
    assert hours.value == pytest.approx(0.0001 * 1e12 / (11 * 10_000 * 17 * 17 * 4))
    both = {"seconds": 36.0}
    finding = judged(tmp_path / "both", multihop.cost_of_watching, number=both, letter=both)
    assert finding.verdict == "reproduced"
    assert "The cost is confirmed" in finding.note


def test_two_heads_a_layer_count_each():
    assert multihop.out_of_order(np.array([[1, 1], [1, -1], [-1, 0]])) == 1
    assert multihop.out_of_order(np.array([[-1], [1]])) == 1
    assert multihop.written(np.array([[1, 0], [-1, 1]])) == "P.SP"
