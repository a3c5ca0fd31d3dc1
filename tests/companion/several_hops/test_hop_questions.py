import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from architectures import build
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, pre_tokenizers
from tokenizers.decoders import Fuse
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from posym_companion.several_hops import hop_answers
from posym_companion.several_hops import hop_prompts as experiment
from posym_companion.several_hops.hop_questions import (
    HOP_TASKS,
    LENGTHS,
    draw_hop_questions,
    screen_accuracy,
    write_hop_text,
)


def solve(items):
    """The answer by following the one hop as people would."""
    *earlier, query = items
    if query.isdigit():
        return earlier[len(earlier) - int(query)]
    named = query[3]
    (found,) = {item for item in earlier if item[1] == named}
    return found


@given(st.sampled_from(HOP_TASKS), st.integers(0, 10**6))
def test_an_independent_reader_finds_the_answer_at_every_length(task, seed):
    for length, questions in draw_hop_questions(task, count=3, lengths=(4, 5, 12, 100, 300), seed=seed).items():
        for question in questions:
            assert len(question.items) == length
            assert solve(question.items) == question.answer
            window = question.items[: length // 2]
            assert question.candidates == tuple(dict.fromkeys(window))
            assert window.count(question.answer) == 1
            rest = question.items[length // 2 :]
            if task == "number":
                assert all(1 <= int(x) <= place for place, x in enumerate(rest, start=length // 2))
            else:
                assert all(x[3].isalpha() for x in rest)


@given(st.sampled_from(HOP_TASKS), st.integers(0, 10**6))
def test_longer_questions_contain_shorter_ones(task, seed):
    questions = draw_hop_questions(task, count=2, lengths=LENGTHS, seed=seed)
    for short, long in itertools.pairwise(LENGTHS):
        for less, more in zip(questions[short], questions[long], strict=True):
            assert less.answer == more.answer
            end = (short // 2, long // 2) if task == "number" else (short, long)
            remaining = iter(more.items[: end[1]])
            assert all(item in remaining for item in less.items[: end[0]])


def test_answers_stand_everywhere_alike():
    questions = draw_hop_questions("number", count=600, lengths=(12, 300), seed=1)
    places = {length: [q.items.index(q.answer) for q in questions[length]] for length in (12, 300)}
    assert set(np.bincount(places[300], minlength=150)) == {4}
    counts = np.bincount(places[12], minlength=6)
    # Binomial around 100 with a standard deviation of 9.
    assert (abs(counts - 100) < 37).all()


def test_unknown_tasks_and_short_sequences_are_refused():
    with pytest.raises(ValueError, match="task must be one of 'number', 'letter'; got 'word'"):
        draw_hop_questions("word", count=1)


def test_screening_keeps_what_the_shortest_length_solves():
    correct = np.array([[1, 0, 1, 0], [0, 1, 1, 1], [1, 1, np.nan, np.nan], [np.nan, 1, np.nan, 1]], dtype=float)
    np.testing.assert_array_equal(screen_accuracy(correct), [1, 0.5, 1, np.nan])
    np.testing.assert_array_equal(screen_accuracy(np.zeros((2, 3, 2))), np.full((2, 3), np.nan))
    both = np.stack([correct, 1 - correct])
    np.testing.assert_array_equal(screen_accuracy(both), [screen_accuracy(x) for x in both])


def characters():
    """A tokenizer with a token for every character, and for ``ab`` and ``a`` behind a space."""
    known = ["<unk>", "<s>", *"\n abcdefghijklmnopqrstuvwxyz0123456789,().:ASTEILW", " ab", " a"]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(known)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r" ab| a|[\s\S]"), "isolated")
    tokenizer.decoder = Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>")


@pytest.fixture(scope="module")
def tiny():
    return build("Gemma3"), characters()


def literal(model, tokenizer, question, text, end=""):
    """Log-probability of every candidate, each by a pass of its own over the whole text."""
    found = []
    start = [tokenizer.bos_token_id, *tokenizer(text, add_special_tokens=False)["input_ids"]]
    for word in question.candidates:
        ids = [tokenizer.bos_token_id, *tokenizer(f"{text} {word}{end}", add_special_tokens=False)["input_ids"]]
        logits = model(torch.tensor([ids]), use_cache=False).logits[0].double().log_softmax(-1)
        found.append(sum(logits[place - 1, ids[place]] for place in range(len(start), len(ids))))
    return torch.stack(found)


@pytest.mark.parametrize("task", HOP_TASKS)
@pytest.mark.parametrize("count", [1, 3])
def test_choices_agree_with_a_pass_for_every_candidate(tiny, task, count):
    model, tokenizer = tiny
    questions = draw_hop_questions(task, count=count, lengths=(12,), seed=2)[12]
    shown = draw_hop_questions(task, count=2, lengths=(6,), seed=7)[6]
    texts = [write_hop_text(task, question, shown) for question in questions]
    answers = hop_answers.answer_questions(model, tokenizer, questions, texts)
    for place, (question, text) in enumerate(zip(questions, texts, strict=True)):
        tokens = [tokenizer(f" {word}", add_special_tokens=False)["input_ids"] for word in question.candidates]
        begins = any(a is not b and b[: len(a)] == a for a in tokens for b in tokens)
        with torch.no_grad():
            expected = literal(model, tokenizer, question, text, "\n" if begins else "")
        expected = expected - expected.logsumexp(0)
        assert answers.log_probability[place].item() == pytest.approx(expected[question.target].item(), abs=1e-4)
        assert bool(answers.correct[place]) == (int(expected.argmax()) == question.target)
    assert answers.alternatives.tolist() == [len(question.candidates) for question in questions]
    assert answers.chance == pytest.approx(np.mean([1 / len(question.candidates) for question in questions]))


def test_a_candidate_that_begins_another_is_taken_with_the_end_of_its_line():
    tokenizer = characters()
    found = hop_answers.encode_candidates(tokenizer, ("c", "cd"), "Answer:")
    end = tokenizer("\n", add_special_tokens=False)["input_ids"]
    assert [ids[-1:] for ids in found] == [end, end]
    found = hop_answers.encode_candidates(tokenizer, ("a", "ab"), "Answer:")
    assert [len(ids) for ids in found] == [1, 1]


class Scripted:
    """A model that says given words whatever it reads."""

    def __init__(self, tokenizer, said):
        self.tokenizer, self.said, self.calls = tokenizer, said, 0
        self.generation_config = SimpleNamespace(eos_token_id=[0])

    def get_input_embeddings(self):
        return SimpleNamespace(weight=torch.zeros(1))

    def forward(self, ids, cache=None, use_cache=True):
        tokens = self.tokenizer(self.said, add_special_tokens=False)["input_ids"] + [0]
        logits = torch.zeros(*ids.shape, len(self.tokenizer))
        logits[..., tokens[self.calls]] = 9.0
        return SimpleNamespace(logits=logits, cache=None)

    def __call__(self, ids, **options):
        output = self.forward(ids, **options)
        self.calls += 1
        return output


@pytest.mark.parametrize(
    ("said", "right"),
    [
        (" bc", True),
        (" bc\n\nSequence", True),
        ("bc", True),
        ("\nbc\n", True),
        (" b", False),
        (" bc d", False),
        (" bcd", False),
        (" cb\nbc", False),
        ("", False),
    ],
)
def test_exact_answers_are_one_line(said, right):
    tokenizer = characters()
    model = Scripted(tokenizer, said)
    logits, cache = hop_answers.compute_last_logits(model, torch.tensor([[1]]), None)
    assert hop_answers._says(model, tokenizer, "bc", logits, cache, 5) is right


@pytest.mark.parametrize(("of_the_target", "right"), [(1.001, True), (1.0, False), (0.999, False), (math.nan, False)])
def test_a_choice_is_right_where_it_is_likelier_than_every_other_and_not_as_likely(
    tiny, monkeypatch, of_the_target, right
):
    model, tokenizer = tiny
    (question,) = draw_hop_questions("number", count=1, lengths=(8,))[8]
    likely = torch.ones(len(question.candidates))
    likely[question.target] = of_the_target
    monkeypatch.setattr(hop_answers, "_choose", lambda *_: likely)
    answers = hop_answers.answer_questions(model, tokenizer, [question], [write_hop_text("number", question)])
    assert answers.correct.tolist() == [right]


def test_chat_questions_are_put_in_the_template(tiny):
    model, tokenizer = tiny
    question = draw_hop_questions("number", count=1, lengths=(8,))[8]
    text = write_hop_text("number", question[0])
    with pytest.raises(ValueError, match="has no chat template; pass chat=False"):
        hop_answers.answer_questions(model, tokenizer, question, [text], chat=True)
    tokenizer = characters()
    tokenizer.chat_template = "{{ bos_token }}(i){{ messages[0]['content'] }}(a)"
    ids = hop_answers._prompt_tokens(tokenizer, text, True)
    assert tokenizer.decode(ids) == f"<s>(i){text}(a)"
    answers = hop_answers.answer_questions(model, tokenizer, question, [text], chat=True)
    assert torch.isfinite(answers.log_probability).all()
    with pytest.raises(ValueError, match="every question needs its text and there must be one; got 1 and 0"):
        hop_answers.answer_questions(model, tokenizer, question, [])


def test_the_experiment_keeps_accuracies_by_run(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("posym_companion.experiments.load_model", lambda name, device: tiny)
    (setting,) = experiment.full_size("tiny")
    setting = experiment.EXPERIMENT.shrink(setting)
    (result,) = experiment.EXPERIMENT.run([setting], device="cpu", folder=tmp_path, progress=False)
    assert result["accuracy"].shape == result["chance"].shape == (2, 2, 2)
    assert result["exact"].shape == (2, 2, 2, 3)
    assert np.isnan(result["choice"][:, 1, :, 2]).all()
    assert not np.isnan(result["choice"][:, 0]).any()
    np.testing.assert_allclose(result["choice_accuracy"], np.nanmean(result["choice"], axis=-1), rtol=1e-6)
    assert (result["chance"] >= 1 / 8).all()
