"""Claims about toys that own chosen angles, and about bands of angles in a model, on made-up accuracies and losses."""

from __future__ import annotations

import numpy as np
import pytest
from invented import save_invented
from judged import find_missed, judge_made_up, require_both_sides

from posym_companion.claims import success_by_frequency
from posym_companion.claims.success_by_frequency import (
    measure_accuracy,
    measure_bend,
    measure_by_position,
    measure_interactions,
    take_best,
)
from posym_companion.language_models.frequency_surgery import FrequencySurgery

LENGTH = 32


def invent_toys(folder, *, control=True, bend=1, any_pair=False):
    """Toys whose accuracy follows the angle, or does not, and bends one way or the other."""
    angles = 10.0 ** (-np.arange(32) / 8)
    asked, place = np.full((5, LENGTH), 1000), np.linspace(-1, 1, LENGTH)
    fast = np.clip(1.2 - np.arange(32) / 20, 0.1, 1.0)
    moderate = np.clip(1.2 - np.abs(np.arange(32) - 14) / 12, 0.1, 1.0)
    levels = {
        "index_single": (fast if control else fast[::-1], bend),
        "retrieval_single": (fast[::-1] if control else fast, -bend),
        "induction_single": (0.5 * moderate if control else moderate, 0),
        "induction_pair": (np.full(32, 0.95) if any_pair else moderate if control else 0.5 * moderate, 0),
    }
    levels["induction_few"] = levels["induction_single"]
    arrays = {"angles": angles}
    for cell, (level, sign) in levels.items():
        curve = np.clip(level[:, None] * (1 + 0.1 * sign * (2 * place**2 - 1)), 0, 1)
        arrays[f"{cell}_32/hits"] = np.round(curve * 1000).astype(np.int16)[None].repeat(5, 0)
        arrays[f"{cell}_32/asked"] = asked
        arrays[f"{cell}_32/strength"] = np.full((5, 32), 4.0)
    save_invented("frequency_control/full", arrays, folder, lengths=[LENGTH], few_symbols=8)


def test_the_right_angles_learn_a_task_and_the_wrong_ones_do_not(tmp_path):
    for name, control in (("claimed", True), ("against", False)):
        invent_toys(tmp_path / name, control=control)
    invent_toys(tmp_path / "any", any_pair=True)
    claimed, *others = (judge_made_up("U25-6", tmp_path / name) for name in ("claimed", "against", "any"))
    require_both_sides(claimed, *others)
    # With the wrong pair of angles a task that is learned with none fails as well.
    assert [one.grade for one in (claimed, *others)] == ["holds", "weaker", "weaker"]
    single = next(part for part in claimed.parts if part.name == "Partial induction fails with one angle")
    assert list(single.numbers) == ["32 positions", "32 positions, 8 symbols"]


@pytest.mark.parametrize(("bend", "grade"), [(1, "holds"), (-1, "absent or opposite")])
def test_accuracy_bends_with_attention_or_the_other_way(tmp_path, monkeypatch, bend, grade):
    """Attention that has the accuracy's own shape predicts it; one of the other shape does not."""
    invent_toys(tmp_path, bend=bend)
    place = np.linspace(-1, 1, LENGTH)
    shape = {"index": 1 + bend * place**2, "retrieval": 1 - 0.5 * bend * place**2}
    monkeypatch.setattr(success_by_frequency, "compute_attention", lambda result, task, seed, k: shape[task])
    peaks = {task: lambda *_, x=x: np.asarray(x) for task, x in shape.items()}
    monkeypatch.setattr(success_by_frequency, "PEAKS", {task: lambda *a, f=f: Peak(f()) for task, f in peaks.items()})
    answer = judge_made_up("U25-7", tmp_path)
    assert answer.grade == grade
    names = ["Index is U-shaped", "Retrieval is inverse-U", "attention bends so"]
    assert find_missed(answer) == ([] if bend == 1 else names)


class Peak:
    """A curve as the theory returns it."""

    def __init__(self, curve):
        self.curve = curve

    def numpy(self):
        return self.curve


def test_attention_without_the_accuracys_shape_explains_nothing(tmp_path, monkeypatch):
    invent_toys(tmp_path)
    line = np.linspace(0, 1, LENGTH)
    monkeypatch.setattr(success_by_frequency, "compute_attention", lambda *_: line)
    monkeypatch.setattr(success_by_frequency, "PEAKS", dict.fromkeys(("index", "retrieval"), lambda *_: Peak(line)))
    answer = judge_made_up("U25-7", tmp_path)
    assert answer.grade == "weaker"
    assert find_missed(answer)[1:] == ["attention predicts accuracy", "Theorem 7's head bends half as much"]


def test_the_bend_is_that_of_the_ends_above_the_middle():
    place = np.linspace(-1, 1, LENGTH)
    assert measure_bend(place**2) > 0 > measure_bend(1 - place**2)
    assert measure_bend(place) == pytest.approx(0)
    assert measure_bend(np.full(8, 0.7)) == 0


def test_every_position_counts_alike_however_often_it_was_asked():
    rates, asked = np.array([[[0.8, 0.5, 0.5, 0.4, 0.2, 0.5, 0.5, 0.4]]]), np.full((1, 8), 100)
    asked[:, 0] = 500
    result = {"cell/hits": np.round(rates * asked).astype(int), "cell/asked": asked}
    np.testing.assert_allclose(measure_by_position(result, "cell"), rates)  # pyright: ignore[reportArgumentType]
    np.testing.assert_allclose(measure_bend(rates), 0.3)
    assert measure_accuracy(result, "cell")[0, 0] == pytest.approx(0.58333, abs=1e-4)  # pyright: ignore
    result["cell/asked"] = np.where(np.arange(8) == 0, 0, asked)
    assert np.isnan(measure_by_position(result, "cell")[0, 0, 0])  # pyright: ignore[reportArgumentType]


def test_the_best_angle_is_one_for_all_seeds():
    """Each seed does best at another angle; no angle does well in all of them."""
    found = take_best(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.2, 0.3, 0.0]]))
    assert found.value == pytest.approx(1.3 / 4)
    assert found.low < 0.3


def invent_surgery(folder, fast, slow, broken=False):
    """A model whose tasks lose so much with the fastest and with the slowest planes, with noise between prompts."""
    noise = np.random.default_rng(0).normal(0, 0.1, (3, 2, 40))
    before = np.full((2, 40), -0.4) + noise[0]
    each = [before, *[before - np.array(fast)[:, None] + noise[1], before - np.array(slow)[:, None] + noise[2]] * 2]
    names = ["none", "still fastest 0.25", "still slowest 0.25", "removed fastest 0.25", "removed slowest 0.25"]
    loss = np.full((5, 6), 4.0)
    loss[4] *= 1.6 if broken else 1.1
    arrays = {"conditions": np.array(names), "log_probability": np.stack(each), "text_loss": loss}
    return save_invented(FrequencySurgery().name, arrays, folder, facts=4, model="made")


def test_bands_serve_their_tasks_or_the_other_ones(tmp_path):
    result = invent_surgery(tmp_path / "claimed", (1, 0.2), (0.1, 0.8))
    invent_surgery(tmp_path / "against", (0.2, 1), (0.8, 0.1), broken=True)
    invent_surgery(tmp_path / "neither", (0.5, 0.5), (0.3, 0.3))
    claimed, against, neither = (judge_made_up("U25-6S", tmp_path / x) for x in ("claimed", "against", "neither"))
    require_both_sides(claimed, against)
    assert [one.grade for one in (claimed, against, neither)] == ["holds", *["absent or opposite"] * 2]
    assert list(against.parts[0].untold.values()) == ["the loss on text rises from 4.0 to 6.4"] * 2
    nats = measure_interactions(result, "still")["nats"]
    assert nats.value == pytest.approx(1 - 0.2 - 0.1 + 0.8, abs=0.1)
