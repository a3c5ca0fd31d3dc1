"""The frequency experiment at toy size: what it measures, resumes and refuses; the curves read from it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from posym_companion.claims.success_by_frequency import measure_accuracy
from posym_companion.one_head import frequency_control as experiment
from posym_companion.one_head.frequency_control import FrequencyControlSettings
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


def test_result_holds_every_cell_with_its_shapes(tiny):
    for cell in experiment.cells(TINY):
        variants, planes = cell.angles.shape
        assert tiny[f"{cell.name}/hits"].shape == (2, variants, 8)
        assert tiny[f"{cell.name}/asked"].sum(1).tolist() == [700, 700]
        assert tiny[f"{cell.name}/query"].shape == (2, variants, cell.task.queries, 2 * planes)
        np.testing.assert_allclose(tiny[f"{cell.name}/shares"].sum(-1), 1, atol=1e-5)
    assert tiny["index_single_8/snapshot_query"].shape[0] == len(tiny["index_single_8/snapshot_steps"]) == 7
    assert tiny.settings["seeds"] == [0, 1]


def test_gates_off_and_on_are_the_ends(tiny):
    for name in ("index_all_8", "retrieval_all_8", "induction_all_8"):
        whole = measure_accuracy(tiny, name)[:, 0]
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
