"""Tasks for language models: what stands where, against a reader of the prompt's text; refusals."""

import re
from functools import partial

import pytest
import torch
from architectures import build, shared, tokens

from posym_profile.language_models._answers import choose_answers
from posym_profile.prompts import (
    PROMPT_TASKS,
    Prompts,
    index_prompts,
    induction_prompts,
    keyvalue_prompts,
    make_prompts,
    read_reference_text,
    text_prompts,
)


@pytest.fixture(scope="module")
def tokenizer(packaged):
    return packaged[1]


def named(prompts, tokenizer):
    """The right answers as words."""
    right = prompts.answer_ids.gather(1, prompts.target[:, None])
    return [tokenizer.decode(ids).strip() for ids in right.tolist()]


def read_index(text):
    return text.split(":")[1].split(",")[0].strip()


def read_keyvalue(text):
    *lines, asked = text.split("\n")
    return dict(line.strip().split(": ") for line in lines)[asked.strip(" :")]


def read_induction(text):
    listed, again = (part.split() for part in text.split("."))
    places = [i for i in range(len(listed)) if listed[i : i + len(again)] == again]
    assert len(places) == 1
    return listed[places[0] + len(again)]


@pytest.mark.parametrize(
    ("make", "reader"),
    [(index_prompts, read_index), (keyvalue_prompts, read_keyvalue), (induction_prompts, read_induction)],
)
@pytest.mark.parametrize("facts", [4, 11])
def test_a_reader_of_the_text_finds_the_answer(make, reader, facts, tokenizer):
    prompts = make(tokenizer, facts=facts, count=12, seed=3)
    assert [reader(text) for text in prompts.texts] == named(prompts, tokenizer)
    # Every place that can be asked for is asked for equally often.
    asked = prompts.target.bincount(minlength=facts)[int(make is induction_prompts) :]
    assert make is index_prompts or asked.max() - asked.min() <= 1
    assert prompts.answer_ids.shape == (12, facts)
    assert all(len(set(row)) == facts for row in prompts.answer_ids.tolist())


@pytest.mark.parametrize(("number", "place"), [(0, "first"), (1, "second"), (2, "third"), (3, "fourth")])
def test_index_asks_for_the_place_it_names(number, place, tokenizer):
    prompts = index_prompts(tokenizer, facts=6, count=4, place=place)
    listed = [re.findall(r" (\w+),", text.split(":")[1]) for text in prompts.texts]
    assert [row[number] for row in listed] == named(prompts, tokenizer)


@pytest.mark.parametrize("task", PROMPT_TASKS)
def test_blocks_cover_the_pieces_and_the_query_follows(task, tokenizer):
    prompts = make_prompts(tokenizer, task, facts=5, count=6, seed=1)
    assert isinstance(prompts, Prompts)
    length = prompts.block_length
    assert prompts.blocks == 5
    assert prompts.start + 5 * length < prompts.input_ids.shape[1]
    for ids, text in zip(prompts.input_ids.tolist(), prompts.texts, strict=True):
        blocks = [tokenizer.decode(ids[prompts.start + i * length :][:length]) for i in range(5)]
        assert "".join(blocks) in text
        assert text.endswith(tokenizer.decode(ids[-1:]))


@pytest.mark.parametrize("task", PROMPT_TASKS)
def test_same_seed_same_prompts_and_other_seed_others(task, tokenizer):
    first, again, other = (make_prompts(tokenizer, task, facts=4, count=8, seed=seed).input_ids for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert first.shape == other.shape
    assert not torch.equal(first, other)


def test_windows_of_text_are_the_text_and_do_not_overlap(tokenizer):
    prompts = text_prompts(tokenizer, facts=14, count=30)
    stream = tokenizer(read_reference_text(), add_special_tokens=False)["input_ids"]
    windows = {tuple(stream[i : i + 16]) for i in range(0, len(stream) - 15, 16)}
    right = prompts.answer_ids.gather(1, prompts.target[:, None])
    rows = torch.cat([prompts.input_ids[:, prompts.start :], right], dim=1).tolist()
    assert all(tuple(row) in windows for row in rows)
    assert len({tuple(row) for row in rows}) == 30
    assert all(len(set(row)) == 8 for row in prompts.answer_ids.tolist())


@pytest.mark.parametrize(("make", "options", "message"), [
    (index_prompts, {"facts": 1}, "facts must be a whole number of at least 2; got 1"),
    (index_prompts, {"facts": 2, "place": "third"}, "facts must be a whole number of at least 3; got 2"),
    (index_prompts, {"facts": 4, "place": "last"}, "place must be one of 'first'"),
    (keyvalue_prompts, {"facts": 4, "count": 0}, "count must be a whole number of at least 1; got 0"),
    (keyvalue_prompts, {"facts": 5000}, r"5000 different things are needed, but only \d+ are one token"),
    (text_prompts, {"facts": 10_000, "count": 50}, "or fewer"),
    (partial(make_prompts, task="poetry"), {"facts": 2}, "'text', or module:function .*; got 'poetry'"),
])  # fmt: skip
def test_what_cannot_be_made_is_refused(make, options, message, tokenizer):
    with pytest.raises(ValueError, match=message):
        make(tokenizer, **{"count": 2, **options})


IDS = tokens()
UNANSWERED = {"input_ids": IDS, "start": 1, "block_length": 4, "blocks": 9, "texts": ["", ""]}


def test_answers_that_are_none_of_the_alternatives_are_refused():
    prompts = Prompts(answer_ids=IDS[:, 5:9], target=torch.tensor([0, 4]), **UNANSWERED)
    with pytest.raises(ValueError, match="among a prompt's 4 alternatives, from 0 to 3; got 4 for prompt 1"):
        choose_answers(shared("Llama"), prompts)


def test_a_model_that_answers_nan_is_refused():
    """Of NaN no answer's logit is above all others', so that every answer looked wrong."""
    model, answers = build("Llama"), torch.tensor([[60, 61], [60, 61]])
    layout = UNANSWERED | {"target": torch.zeros(2, dtype=torch.int64)}
    with torch.no_grad():
        model.lm_head.weight[:50] = torch.nan
    assert choose_answers(model, Prompts(answer_ids=answers, **layout)).log_probability.isfinite().all()
    with pytest.raises(
        ValueError, match=r"^LlamaForCausalLM answers with logits that are not finite.*; load the model"
    ):
        choose_answers(model, Prompts(answer_ids=answers - 30, **layout))


def test_the_right_answer_may_be_any_and_keys_have_values_of_their_own(tokenizer):
    assert make_prompts(tokenizer, "text", facts=4, count=64).target.bincount(minlength=8).min() > 0
    values = make_prompts(tokenizer, "keyvalue", facts=4, count=8).answer_ids
    assert len({tuple(row) for row in values.tolist()}) > 4
