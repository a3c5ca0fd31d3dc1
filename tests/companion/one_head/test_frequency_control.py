"""The frequency experiment at toy size: what it measures, resumes and refuses; the curves read from it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from refusals import refuse_each

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


test_bad_settings_are_refused = refuse_each(
    (lambda: FrequencyControlSettings(frequencies=(0, 5)), r"frequency IDs run from 1 to 32 for dim=64; got \[0, 5\]"),
)
