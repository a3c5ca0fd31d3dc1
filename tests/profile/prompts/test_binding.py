import math
from dataclasses import replace

import pytest
import torch
from architectures import build, packaged
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split, Whitespace
from transformers import PreTrainedTokenizerFast

from posym_profile.language_models._answers import choose_answers
from posym_profile.prompts import Draft, PromptTokens, binding_prompts, draft_prompts
from posym_profile.prompts._binding import TEMPLATES
from posym_profile.prompts._drafts import read_words

KINDS = ("names", "colours", "things", "cities")


def tokenizer_of(vocabulary, pre_tokenizer, **marks):
    made = Tokenizer(WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizer
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="?", **marks)


@pytest.fixture(scope="module")
def by_word():
    """A tokenizer that knows eight names, four of each other kind, and the words between."""
    frame = ["likes", "bought", "lives", "in", "What", "Where", "color", "does", "like", "live", "and", "so"]
    some = [word for kind in KINDS for word in read_words(kind)[: 8 if kind == "names" else 4]]
    return tokenizer_of(["?", "<s>", ".", ",", *frame, *dict.fromkeys(some)], Whitespace(), bos_token="<s>")


@pytest.mark.parametrize("template", TEMPLATES)
def test_blocks_are_the_facts_and_the_target_is_the_one_asked_about(by_word, template):
    prompts = binding_prompts(by_word, facts=4, count=6, template=template)
    wording = TEMPLATES[template]
    assert (prompts.start, prompts.blocks) == (1, 4)
    assert prompts.input_ids.dtype == prompts.answer_ids.dtype == prompts.target.dtype == torch.int64
    assert prompts.answer_ids.shape == (6, 4)
    for ids, answers, target, text in zip(
        prompts.input_ids, prompts.answer_ids, prompts.target, prompts.texts, strict=True
    ):
        assert ids[0] == by_word.bos_token_id
        inside = ids[prompts.start :][: prompts.blocks * prompts.block_length].unflatten(0, (4, -1))
        people = [by_word.decode(block[0]) for block in inside]
        given = [by_word.decode(answer) for answer in answers]
        verb, asked = wording.verb, people[target]
        facts = [wording.fact.format(name=n, verb=verb, attribute=a) for n, a in zip(people, given, strict=True)]
        assert text == "".join(facts) + wording.write_query(asked, verb, question=True)
        assert all(answer in block for answer, block in zip(answers, inside, strict=True))
        assert len(set(people)) == len(set(given)) == 4
        assert by_word(text).input_ids == ids[1:].tolist()


def test_every_fact_is_asked_about_equally_often(by_word):
    counts = torch.bincount(binding_prompts(by_word, facts=4, count=22).target, minlength=4)
    assert sorted(counts.tolist()) == [5, 5, 6, 6]


def test_attributes_repeat_equally_often_when_there_are_too_few(by_word):
    for answers in binding_prompts(by_word, facts=7, count=3).answer_ids:
        assert sorted(torch.unique(answers, return_counts=True)[1].tolist()) == [1, 2, 2, 2]


def test_a_tokenizer_without_a_mark_of_beginning_starts_with_the_first_fact(by_word):
    bare = tokenizer_of(by_word.get_vocab(), Whitespace())
    prompts = binding_prompts(bare, facts=2, count=2)
    assert prompts.start == 0
    assert prompts.input_ids.shape[1] + 1 == binding_prompts(by_word, facts=2, count=2).input_ids.shape[1]


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_packaged_tokenizer_has_words_for_256_facts(template):
    _, tokenizer = packaged()
    prompts = binding_prompts(tokenizer, facts=256, count=2, template=template)
    assert prompts.block_length == (5 if template == "lives" else 4)
    first = prompts.input_ids[:, 1:][:, : 256 * prompts.block_length].unflatten(1, (256, -1))
    assert all(len(names.unique()) == 256 for names in first[..., 0])
    assert tokenizer.decode(prompts.input_ids[0, 1:]) == prompts.texts[0]
    frames = first[..., 1 : prompts.block_length - 2]
    assert torch.equal(frames, frames[:1, :1].expand_as(frames))


@pytest.mark.parametrize(("options", "message"), [
    ({"facts": 9}, "9 different names are needed, but only 8 are one token for this tokenizer; pass fewer facts or"),
    ({"facts": 1}, "facts must be a whole number of at least 2; got 1"),
    ({"facts": 2.5}, "facts must be a whole number of at least 2; got 2.5"),
    ({"count": 0}, "count must be a whole number of at least 1; got 0"),
    ({"template": "eats"}, "template must be one of 'likes', 'bought', 'lives'; got 'eats'"),
    ({"facts": 6, "lead": 3}, "9 different names are needed, but only 8 are one token"),
    ({"vary_frame": True}, "2 different verbs_now are needed, but only 1 are one token"),
    ({"lead": -1}, "lead must be a whole number of at least 0; got -1"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(by_word, options, message):
    with pytest.raises(ValueError, match=message):
        binding_prompts(by_word, **({"facts": 4, "count": 2} | options))
    assert binding_prompts(by_word, facts=6, count=1, lead=2).start == 9


def test_facts_of_unequal_length_are_refused(by_word):
    # The first name swallows the word behind it.
    first = read_words("names")[0]
    clumsy = tokenizer_of(
        [*by_word.get_vocab(), f"{first} likes"], Split(Regex(rf"{first} likes|\w+|\."), "removed", invert=True)
    )
    with pytest.raises(ValueError, match=r"every fact must be the same \d tokens wherever it stands.*another template"):
        binding_prompts(clumsy, facts=8, count=4)


def test_choices_are_made_among_the_named_alternatives(by_word):
    model = build("Llama", vocab_size=len(by_word))
    prompts = binding_prompts(by_word, facts=7, count=5)
    found = choose_answers(model, prompts, batch_size=2)
    for prompt in range(5):
        with torch.no_grad():
            logits = model(prompts.input_ids[prompt : prompt + 1]).logits[0, -1].double()
        right = int(prompts.answer_ids[prompt, prompts.target[prompt]])
        named = sorted(set(prompts.answer_ids[prompt].tolist()))
        assert found.alternatives[prompt] == len(named) == 4
        assert bool(found.correct[prompt]) == (max(named, key=lambda token: float(logits[token])) == right)
        expected = float(logits[right]) - math.log(sum(math.exp(float(logits[token])) for token in named))
        assert float(found.log_probability[prompt]) == pytest.approx(expected, abs=1e-5)
    assert found.accuracy == float(found.correct.double().mean())
    assert found.chance == 0.25


def test_a_tie_is_not_right(by_word):
    model = build("Llama", vocab_size=len(by_word))
    torch.nn.init.zeros_(model.lm_head.weight)
    prompts = binding_prompts(by_word, facts=4, count=3)
    assert choose_answers(model, prompts).accuracy == 0
    torch.testing.assert_close(
        choose_answers(model, replace(prompts)).log_probability, torch.full((3,), -math.log(4), dtype=torch.float64)
    )


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("vary_frame", [False, True])
def test_a_lead_stands_in_front_and_is_never_asked_about(template, vary_frame):
    tokenizer = packaged()[1]
    options = {"facts": 5, "count": 4, "seed": 2, "template": template}
    plain = binding_prompts(tokenizer, **options)
    led = binding_prompts(tokenizer, **options, lead=3, vary_frame=vary_frame)
    length, inside = led.block_length, 5 * led.block_length
    assert (led.block_length, led.blocks) == (plain.block_length, plain.blocks)
    assert led.start == plain.start + 3 * length
    assert torch.equal(led.target, plain.target)
    assert torch.equal(led.answer_ids, plain.answer_ids)
    if not vary_frame:
        assert torch.equal(led.input_ids[:, led.start :], plain.input_ids[:, plain.start :])
    for ids, own in zip(led.input_ids, plain.input_ids, strict=True):
        front = ids[plain.start : led.start].view(3, length)
        blocks = ids[led.start : led.start + inside].view(5, length)
        assert torch.equal(blocks[:, 0], own[plain.start : plain.start + inside].view(5, length)[:, 0])
        assert len({*front[:, 0].tolist(), *blocks[:, 0].tolist()}) == 8  # names
        assert len({*front[:, -2].tolist(), *blocks[:, -2].tolist()}) == 8  # attributes


def test_a_varied_frame_has_a_verb_a_fact_and_asks_with_it():
    tokenizer = packaged()[1]
    prompts = binding_prompts(tokenizer, facts=6, count=3, lead=2, vary_frame=True)
    blocks = prompts.input_ids[:, prompts.start :][:, : 6 * 4].unflatten(1, (6, 4))
    for found, ids, target in zip(blocks, prompts.input_ids, prompts.target, strict=True):
        assert len(set(found[:, 1].tolist())) == 6
        assert ids[-2:].tolist() == found[target, :2].tolist()
        assert set(tokenizer.decode(found[:, 1]).split()) <= set(read_words("verbs_now"))


def test_drafts_of_ones_own_become_prompts_or_are_refused(by_word):
    tokens = PromptTokens(by_word)
    colours = tokens.select_single(read_words("colours"))
    (first, red), (second, blue) = list(colours.items())[:2]
    names = list(tokens.select_single(read_words("names")))[:2]
    told = [f" {names[0]} likes {first}.", f" {names[1]} likes {second}."]
    draft = Draft(before=" and so", blocks=told, after=f" {names[1]} likes", answers=[red, blue], target=1)
    prompts = draft_prompts(tokens, [draft, replace(draft, before=" so and", target=0)])
    assert (prompts.layout, prompts.target.tolist()) == ({"start": 3, "block_length": 4, "blocks": 2}, [1, 0])
    assert prompts.texts[0] == " and so" + "".join(told) + f" {names[1]} likes"
    with pytest.raises(ValueError, match=r"there must be a draft, .* blocks and answers; got 0 drafts with \[\]; make"):
        draft_prompts(tokens, [])
    for changed, message in (
        ({"blocks": told * 2}, r"equally many blocks and answers; got 2 drafts with \[\(2, 2\), \(4, 2\)\]; make"),
        ({"after": " and so so"}, r"must be equally long, but this tokenizer makes \[13, 14\] tokens"),
    ):
        with pytest.raises(ValueError, match=message):
            draft_prompts(tokens, [draft, replace(draft, **changed)])
