"""Facts in both orders, in words that no lesson had, and what is counted of the answers."""

from __future__ import annotations

import importlib.util
import itertools

import numpy as np
import pytest
import torch

from posym_companion.results import Result
from posym_companion.solvers import binding_direction
from posym_companion.solvers.binding_direction import (
    FACTS,
    ORDERS,
    SAYINGS,
    draw_both_orders,
    full_size,
    named_facts,
)
from posym_companion.solvers.judges.binding_direction import answers
from posym_profile.language_models._answers import choose_answers
from posym_profile.language_models._loading import load_model, load_tokenizer
from posym_profile.language_models._packaged import MODELS
from posym_profile.language_models._taught import TAUGHT
from posym_profile.prompts._drafts import read_words

TAUGHT_WITH = {word for kind in ("names", "colours", "things", "cities") for word in read_words(kind)}


def test_no_name_or_attribute_was_in_a_lesson():
    kinds = ("other_names", "surnames", *(wording.attributes for wording in SAYINGS.values()))
    assert not TAUGHT_WITH & {word for kind in kinds for word in read_words(kind)}


@pytest.mark.parametrize("wording", SAYINGS)
def test_both_orders_say_the_same_and_end_in_the_same_question(tokenizer, wording):
    forward, backward = (draw_both_orders(tokenizer, order, wording, 8, count=4, seed=1) for order in ORDERS)
    for name in ("target", "answer_ids"):
        assert torch.equal(getattr(forward, name), getattr(backward, name))
    for first, second in zip(forward.texts, backward.texts, strict=True):
        assert first.rpartition(".")[2] == second.rpartition(".")[2]
        assert first != second
    for prompts, place in ((forward, 1), (backward, 0)):
        rows = prompts.input_ids[:, prompts.start :][:, : 8 * prompts.block_length].unflatten(1, (8, -1))
        attribute = (rows == prompts.answer_ids[..., None]).int()
        assert (attribute.sum(-1) == 1).all()
        # The name, which is what differs between facts and is no attribute, stands before it or behind it.
        differs = (rows != rows[:, :1]).any(1).any(0).nonzero().flatten().tolist()
        assert differs.index(int(attribute[0, 0].argmax())) == place


@pytest.mark.parametrize("model", ["gemma-3-270m", "smollm2-135m"])
def test_every_packaged_models_tokenizer_leaves_the_words_whole_that_it_is_asked_about(model):
    if importlib.util.find_spec(MODELS[model].module) is None:
        pytest.skip(f"{MODELS[model].package} is not installed")
    (setting, *_), tokenizer = full_size(model), load_tokenizer(model)
    for order, wording in itertools.product(ORDERS, setting.wordings):
        prompts = draw_both_orders(tokenizer, order, wording, max(FACTS), count=1, seed=0, people=setting.names)
        assert prompts.blocks == max(FACTS)


@pytest.mark.parametrize("name", TAUGHT)
def test_a_taught_model_answers_at_every_place_in_words_that_no_lesson_had(name):
    """Every fact of a list is asked about once; with the attribute first, few answers of the shorter are right."""
    base = TAUGHT[name].base
    if importlib.util.find_spec(MODELS[base].module) is None:
        pytest.skip(f"{MODELS[base].package} is not installed")
    model, tokenizer = load_model(name, device="cpu")
    setting = full_size(base)[0]
    first, second = FACTS
    for place, (order, facts) in enumerate(((ORDERS[1], first), (ORDERS[0], first), (ORDERS[0], second))):
        wording = setting.wordings[place // 2]
        prompts = draw_both_orders(tokenizer, order, wording, facts, count=facts, seed=1, people=setting.names)
        assert sorted(prompts.target.tolist()) == list(range(facts))
        right = (named_facts(model, prompts) == prompts.target.numpy()).mean()
        assert right > 0.85 if order == ORDERS[0] else right < 0.5, (facts, wording)


def test_the_named_fact_is_right_where_choices_say_so(tiny, tokenizer):
    prompts = draw_both_orders(tokenizer, ORDERS[1], "owns", 8, count=20, seed=0)
    right = torch.from_numpy(named_facts(tiny, prompts)) == prompts.target
    assert torch.equal(right, choose_answers(tiny, prompts).correct)


def test_the_next_fact_counts_only_where_there_is_one():
    target = np.zeros((2, 3, 2, 4), int)
    target[1, 2, 0] = [0, 7, 7, 3]
    chosen = target.copy()
    chosen[1, 2, 0] = [1, 7, 0, 4]
    result = Result(name="a/b", arrays={"chosen": chosen, "target": target, "facts": np.array([8, 16])}, dims={},
                    settings={}, provenance={})  # fmt: skip
    right, following = answers(result)[ORDERS[1], "is", 8]
    assert right.tolist() == [False, True, False, False]
    assert following.tolist() == [True, True]


def test_the_loaded_folder_is_where_the_additions_are_looked_for(monkeypatch, tmp_path):
    monkeypatch.setattr(binding_direction, "load_experiment_model", lambda name, device: (name, device))
    assert binding_direction.load_taught("a", device="cpu", folder=tmp_path) == ("a", "cpu", tmp_path)
