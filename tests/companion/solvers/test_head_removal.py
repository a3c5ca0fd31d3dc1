"""Heads removed along an order: the same as removing them one set at a time, and nothing that was not ranked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from posym_companion.results import name_dims, save_result
from posym_companion.solvers import head_rankings, head_removal
from posym_companion.solvers.head_rankings import HeadRankings
from posym_companion.solvers.head_removal import (
    DIMS,
    ORDERS_OF,
    HeadRemoval,
    load_ranked_model,
    measure,
    small,
)
from posym_companion.solvers.head_roles import record_members_outputs
from posym_companion.solvers.task_solvers import ANSWERING, TESTING, draw_questions
from posym_core.models._head_edits import replace_heads
from posym_profile import binding_prompts
from posym_profile.interventions._head_patching import ablate_heads
from posym_profile.language_models._answers import choose_answers

pytestmark = pytest.mark.filterwarnings("ignore::posym_profile.scores._visibility.HiddenBlocksWarning")


def every_question(lists, which):
    """Each list once for each of its facts, with the name of that fact in place of the one that was asked for."""
    rows = []
    for number in which:
        ids, length = lists.input_ids[number], lists.block_length
        names = ids[lists.start :: length][:4]
        for fact in range(4):
            row = ids.clone()
            question = row[lists.start + 4 * length :]
            question[question == names[lists.target[number]]] = names[fact]
            rows.append(row)
    answers = lists.answer_ids[torch.as_tensor(which)].repeat_interleave(4, 0)
    target = torch.arange(4).repeat(len(which))
    return replace(lists, input_ids=torch.stack(rows), answer_ids=answers, target=target, texts=[""] * len(rows))


@pytest.mark.parametrize("what", ["remove", "keep"])
def test_language_models_answer_as_they_do_without_the_heads(tiny, tokenizer, rankings, what):
    setting = small(HeadRemoval(what=what))
    found = measure(tiny, tokenizer, rankings, setting, progress=False)
    name_dims(DIMS, found)
    assert found["order_names"].tolist() == list(ORDERS_OF[what])
    assert found["correct"].shape == (1, 1, len(ORDERS_OF[what]), len(found["counts"]), 8)
    kinds = {"template": "bought", "facts": 4}
    lists, others = (binding_prompts(tokenizer, count=n, seed=seed, **kinds) for n, seed in ((2, 900), (4, 901)))
    prompts = every_question(lists, range(2))
    names = rankings["order_names"].tolist()
    heads = rankings["predictors"].shape[-2:]
    for order in ("score", "early first"):
        for place, count in enumerate(found["counts"]):
            sequence = rankings["orders"][0, 0, names.index(order)].tolist()
            gone = sequence[count:] if what == "keep" else sequence[:count]
            places = [divmod(one, heads[1]) for one in gone]
            with ablate_heads(tiny, places, mean_over=others):
                expected = choose_answers(tiny, prompts).correct.numpy()
            np.testing.assert_array_equal(found["correct"][0, 0, ORDERS_OF[what].index(order), place], expected)
    whole = choose_answers(tiny, prompts).correct.numpy()
    np.testing.assert_array_equal(found["ends"][0, 0, 0], whole)
    assert found["heads"] == np.prod(heads)


def test_members_of_an_ensemble_lose_their_own_heads(solver):
    name, _, model = solver
    ranked = head_rankings.measure(model, None, replace(HeadRankings(model=name), prompts=4, squares=1), progress=False)
    setting = HeadRemoval(model=name, prompts=12)
    found = measure(model, None, ranked, setting, progress=False)
    name_dims(DIMS, found)
    assert found["correct"].shape == (2, 2, len(ORDERS_OF["remove"]), 3, 12)
    assert found["counts"].tolist() == [1, 2, 4]
    place = ranked["order_names"].tolist().index("score")
    for kind, question in enumerate(("binding", "index")):
        batch, other = (draw_questions(model, question, 12, purpose) for purpose in (TESTING, ANSWERING))
        means = [read.double().mean((2, 4)) for read in record_members_outputs(model, other)]
        for seed in (0, 1):
            gone = [divmod(int(x), 4) for x in ranked["orders"][seed, kind, place, :2]]
            new = {(layer, head): means[layer][seed, 0, head] for layer, head in gone}
            said = model(batch.tokens, edit=replace_heads(new)).argmax(-1)[seed, 0, :, 0]
            right = (said == batch.answer[seed, :, 0]).numpy()
            np.testing.assert_array_equal(found["correct"][seed, kind, 0, 1], right)


def test_only_heads_that_were_ranked_are_removed(solver, tmp_path, monkeypatch):
    name, _, model = solver
    digest = np.array(head_removal.weights_digest(model))
    arrays = {"digest": digest}
    save_result(
        HeadRankings(model=name).name,
        arrays,
        dims={"digest": ""},
        settings={},
        device="CPU",
        seconds=1,
        folder=tmp_path,
    )
    monkeypatch.setattr(head_removal.ranked_models, "load_ranked", lambda *a, **k: (model, None))
    assert load_ranked_model(name, folder=tmp_path)[0] is model
    other = model.member(0, 0)
    monkeypatch.setattr(head_removal.ranked_models, "load_ranked", lambda *a, **k: (other, None))
    with pytest.raises(ValueError, match=r"of the same weights; .* Run head_rankings again"):
        load_ranked_model(name, folder=tmp_path)
