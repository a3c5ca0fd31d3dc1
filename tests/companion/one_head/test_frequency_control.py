"""The frequency experiment at toy size: what it measures, resumes and refuses; the curves read from it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from refusals import refuse_each

from posym_companion.one_head import frequency_control as experiment
from posym_companion.one_head.frequency_control import FrequencyControlSettings
from posym_companion.one_head.judges import frequency_control as curves
from posym_core.models._ensembles import make_generators, sample_streams
from posym_core.models._toys import ToyEnsemble
from posym_core.models._training import TrainingSettings
from posym_core.tasks._index_retrieval import IndexTask

TINY = FrequencyControlSettings(
    lengths=(8,),
    frequencies=(1, 3),
    dim=8,
    band=2,
    seeds=(0, 1),
    repetition=2,
    few_symbols=4,
    training=TrainingSettings(steps=6, batch=8),
    test_inputs=700,
    score_inputs=3,
    snapshot_frequencies=(1, 3),
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory, all_arrays_stored):
    (result,) = experiment.EXPERIMENT.run(
        [TINY], folder=tmp_path_factory.mktemp("results"), device="cpu", progress=False
    )
    return result


def test_cells_are_those_announced():
    full = experiment.cells(FrequencyControlSettings())
    names = [cell.name for cell in full]
    kinds = ("index_single", "retrieval_single", "induction_pair", "induction_single")
    assert names[:12] == [f"{kind}_{length}" for length in (32, 16, 64) for kind in kinds]
    assert names[12:] == ["induction_few_32", "index_all_32", "retrieval_all_32", "induction_all_32"]
    for cell in full:
        planes = {"single": 1, "few": 1, "pair": 2, "all": 32}[cell.name.split("_")[1]]
        assert cell.angles.shape == ((1, 32) if planes == 32 else (32, planes))
    assert full[2].angles[:, 0].abs().max() == 0
    assert torch.equal(full[2].angles[:, 1], full[0].angles[:, 0])


def test_result_holds_every_cell_with_its_shapes(tiny):
    for cell in experiment.cells(TINY):
        variants, planes = cell.angles.shape
        assert tiny[f"{cell.name}/hits"].shape == (2, variants, 8)
        assert tiny[f"{cell.name}/asked"].sum(1).tolist() == [700, 700]
        assert tiny[f"{cell.name}/scores"].shape == (2, variants, 3)
        assert tiny[f"{cell.name}/query"].shape == (2, variants, cell.task.queries, 2 * planes)
        assert tiny[f"{cell.name}/key"].shape == (2, variants, cell.task.part_vocabulary, 2 * planes)
        shares = tiny[f"{cell.name}/shares"]
        np.testing.assert_allclose(shares.sum(-1), 1, atol=1e-5)
    assert tiny["index_all_8/gated"].shape == (2, 2)
    assert tiny["index_all_8/fastest"].shape == (2, 3)
    assert tiny["index_single_8/snapshot_query"].shape[0] == len(tiny["index_single_8/snapshot_steps"]) == 7
    assert tiny.settings["seeds"] == [0, 1]


def test_gates_off_and_on_are_the_ends(tiny):
    for name in ("index_all_8", "retrieval_all_8", "induction_all_8"):
        whole = curves.accuracy(tiny, name)[:, 0]
        for order in ("fastest", "slowest"):
            np.testing.assert_allclose(tiny[f"{name}/{order}"][:, -1], whole)
        # of two bands, the second off is the first alone
        np.testing.assert_allclose(tiny[f"{name}/gated"], tiny[f"{name}/alone"][:, ::-1])


def test_hits_against_one_input_at_a_time():
    model = ToyEnsemble(IndexTask(length=8), torch.tensor([[1.0], [0.1]]), seeds=TINY.seeds)
    hits, asked = experiment.count_hits(model, TINY)
    generators = make_generators(TINY.seeds, purpose=experiment.TESTING)
    expected = np.zeros((2, 2, 8))
    for count in (512, 188):
        batch = sample_streams(model.task, count, generators)
        for seed in range(2):
            for variant in range(2):
                scores = model.member(seed, variant)(batch.tokens[seed : seed + 1])[0, 0]
                for score, answer, position in zip(scores, batch.answer[seed], batch.position[seed], strict=True):
                    expected[seed, variant, position] += int(score.argmax()) == int(answer)
    assert np.abs(hits - expected).sum() <= 2  # a tie may fall to either side
    assert asked.sum() == 1400


test_bad_settings_are_refused = refuse_each(
    (lambda: FrequencyControlSettings(frequencies=(0, 5)), r"frequency IDs run from 1 to 32 for dim=64; got \[0, 5\]"),
)


# Curves


def made(by_position, asked=100):
    """A result whose seeds answer with the given rates ``[seed, variant, position]``."""
    rates = np.asarray(by_position, dtype=float)
    counts = np.full((rates.shape[0], rates.shape[2]), asked)
    return {"cell/hits": np.round(rates * asked).astype(np.int16), "cell/asked": counts.astype(np.int16)}


def test_accuracy_and_u_index_of_known_rates():
    u = [0.9, 0.7, 0.2, 0.1, 0.1, 0.2, 0.7, 0.9]
    result = made([[u, u[::-1]], [[0.5] * 8, [0.0, 0, 0, 1, 1, 0, 0, 0]]])
    np.testing.assert_allclose(curves.accuracy(result, "cell"), [[0.475, 0.475], [0.5, 0.25]])
    np.testing.assert_allclose(curves.u_index(result, "cell"), [[0.8, 0.8], [0, -1]])
    np.testing.assert_allclose(curves.accuracy_by_position(result, "cell")[0, 0], u)


def test_every_position_counts_alike_however_often_it_was_asked():
    result = made([[[0.8, 0.5, 0.5, 0.4, 0.2, 0.5, 0.5, 0.4]]] * 2)
    result["cell/hits"][..., 0] *= 5
    result["cell/asked"][:, 0] *= 5
    np.testing.assert_allclose(curves.u_index(result, "cell"), 0.3)


def test_u_index_needs_every_position():
    result = made(np.full((2, 1, 8), 0.5))
    result["cell/asked"][:, 0] = 0
    with pytest.raises(ValueError, match="never puts the answer at some end"):
        curves.u_index(result, "cell")
    assert np.isnan(curves.accuracy_by_position(result, "cell")[0, 0, 0])


def test_the_best_angle_is_one_for_all_seeds():
    """Each seed does best at another angle; no angle does well in all of them."""
    accuracies = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.2, 0.3, 0.0]])
    found = curves.best_angle_accuracy(accuracies)
    assert found.value == pytest.approx(1.3 / 4)
    assert found.low < 0.3


def test_threshold_of_a_known_step():
    angles = np.exp(np.linspace(-6, 0, 25))
    falling = 1 / (1 + np.exp(20 * (np.log(angles) + 2.1)))
    assert curves.threshold(angles, falling) == pytest.approx(math.exp(-2.1), rel=0.02)
    assert curves.threshold(angles[::-1], falling[::-1]) == pytest.approx(math.exp(-2.1), rel=0.02)
    assert curves.threshold(angles, 1 - falling) == pytest.approx(math.exp(-2.1), rel=0.02)
    assert math.isnan(curves.threshold(angles, np.full(25, 0.5)))


def test_window_of_a_known_hump():
    angles = np.exp(np.linspace(-6, 0, 49))
    x = np.log(angles)
    hump = 0.2 + 0.8 / (1 + np.exp(20 * (np.abs(x + 3) - 1)))
    for order in (slice(None), slice(None, None, -1)):
        low, high = curves.window(angles[order], hump[order])
        assert low == pytest.approx(math.exp(-4), rel=0.02)
        assert high == pytest.approx(math.exp(-2), rel=0.02)
    slow, fast = curves.window(angles, 1 / (1 + np.exp(20 * (x + 3))))
    assert math.isnan(slow)
    assert fast == pytest.approx(math.exp(-3 - math.log(3) / 20), rel=0.03)  # level 0.75, between 1 and (0 + 1) / 2
    assert np.isnan(curves.window(angles, np.full(49, 0.4))).all()
