"""How far heads reach and how long a list is answered: the same as asking one question at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from posym_companion.solvers.answer_lengths import (
    DIMS,
    AnswerLengths,
    asked_behind,
    full_size,
    measure,
    reach_of,
    small,
)
from posym_companion.solvers.ranked_models import SOLVERS, kept_solver
from posym_companion.solvers.task_solvers import TESTING, asked
from posym_core import binding_prompts
from posym_core.models.answers import choice_accuracy
from posym_core.models.decoders import DecoderEnsemble
from posym_core.runs.results import named_dims

pytestmark = pytest.mark.filterwarnings("ignore::posym_core.inspection.visibility.HiddenBlocksWarning")


def test_reach_is_that_of_the_planes_with_half_of_the_energy():
    angles = torch.tensor([1.0, 0.1, 0.01, 0.0])
    energy = torch.tensor([[8, 1, 1, 0], [0, 2, 8, 0], [1.0, 3, 3, 3], [0, 0, 1, 9]])
    np.testing.assert_allclose(reach_of(energy, angles), [2.78, 278.0, 278.0, np.inf])
    # The order of the planes does not matter.
    order = torch.tensor([2, 0, 3, 1])
    np.testing.assert_array_equal(reach_of(energy[:, order], angles[order]), reach_of(energy, angles))


def test_a_language_model_answers_as_it_does_one_question_at_a_time(tiny, tokenizer):
    setting = replace(small(), questions=5)
    found = measure(tiny, tokenizer, setting, progress=False)
    named_dims(DIMS, found)
    assert found["correct"].shape == (1, 2, 5)
    assert found["attention"].shape == found["reach"].shape
    assert (found["reach"] > 0).all()
    for place, (facts, chosen) in enumerate(((4, [0, 1, 2, 2, 3]), (8, [0, 2, 4, 5, 7]))):
        lists = binding_prompts(tokenizer, template="bought", facts=facts, count=1, seed=701)
        ids, names = lists.input_ids[0], lists.input_ids[0][lists.start :: lists.block_length][:facts]
        for number, fact in enumerate(chosen):
            row = ids.clone()
            question = row[lists.start + facts * lists.block_length :]
            question[question == names[lists.target[0]]] = names[fact]
            one = replace(lists, input_ids=row[None], target=torch.tensor([fact]))
            assert found["correct"][0, place, number] == choice_accuracy(tiny, one).correct[0]


def test_decoders_are_asked_behind_more_facts_than_they_were_trained_on(tmp_path):
    (setting,) = (small(each) for each in full_size() if each.model.startswith("1e4"))
    solver = SOLVERS[setting.model]
    solver = replace(solver, training=replace(solver.training, steps=3, batch=4))
    model = kept_solver(solver, device="cpu", root=tmp_path)
    before = model.task
    found = measure(model, None, setting, progress=False)
    named_dims(DIMS, found)
    assert model.task == before
    assert found["correct"].shape == (len(solver.seeds), 2, 4)
    assert found["attention"].shape == (len(solver.seeds), solver.layers, solver.heads)
    assert (found["attention"] <= 1).all()
    # A member alone says the same as among others.
    batch = asked(longer := asked_behind(model, 8), "binding", 4, TESTING)
    alone = DecoderEnsemble(longer.task, model.angles, seeds=solver.seeds[1:], heads=solver.heads)
    alone.load_state_dict({name: x[1:] if x.shape[:1] == (2,) else x for name, x in longer.state_dict().items()})
    with torch.no_grad():
        torch.testing.assert_close(alone(batch.tokens[1:]), longer(batch.tokens)[1:])


def test_small_decoders_are_asked_of_no_more_facts_than_they_have_names():
    for setting in full_size():
        if setting.model in SOLVERS:
            assert max(setting.facts) <= SOLVERS[setting.model].task.names
    assert AnswerLengths().name == "answer_lengths/gemma-3-270m-binds"
