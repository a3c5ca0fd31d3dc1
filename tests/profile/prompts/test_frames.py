"""Which prompts are lists of one frame, and how many of its sentences stand in front of the blocks."""

import pytest
import torch
from architectures import packaged

from posym_profile.prompts._prompt_tasks import make_prompts
from posym_profile.prompts._repeated_frames import find_frame

FACT = [7, 100, 8]


def told(names, before=(), verb=7):
    """A mark, facts in front and facts in blocks, each of a name, a verb, a word of its own and a stop; a question."""
    facts = [[name, verb, 100 + name, 8] for name in (*before, *names)]
    ids = [1, *(token for fact in facts for token in fact), names[0], verb]
    return {"input_ids": ids, "start": 1 + 4 * len(before), "block_length": 4, "blocks": len(names)}


@pytest.mark.parametrize("lead", [0, 1, 3])
def test_the_sentences_of_the_frame_in_front_are_counted(lead):
    frame = find_frame(**told([10, 11, 12], before=range(20, 20 + lead)))
    assert (frame.offsets, frame.lead, frame.repeats) == ((1, 3), lead, True)


def test_a_lead_ends_where_another_sentence_begins():
    prompt = told([10, 11, 12], before=(20, 21, 22))
    prompt["input_ids"][1 + 4 + 1] = 9  # another verb in the second of three
    assert find_frame(**prompt).lead == 1
    prompt["input_ids"][1 + 8 + 3] = 9  # another stop in the nearest
    assert find_frame(**prompt).lead == 0


def test_text_in_front_that_is_no_sentence_of_the_frame_is_no_lead():
    prompt = told([10, 11, 12])
    prompt |= {"input_ids": [*range(50, 59), *prompt["input_ids"]], "start": 10}
    assert (find_frame(**prompt).lead, find_frame(**prompt).repeats) == (0, True)


def test_one_verb_that_differs_leaves_a_stop_which_is_no_frame():
    prompt = told([10, 11, 12])
    prompt["input_ids"][6] = 9
    frame = find_frame(**prompt)
    assert (frame.offsets, frame.repeats) == ((3,), False)


def test_blocks_of_one_token_have_a_frame_only_if_all_are_the_same():
    words = find_frame([1, 5, 6, 7, 8], start=1, block_length=1, blocks=3)
    assert (words.offsets, words.lead, words.repeats) == ((), 0, False)
    same = find_frame([5, 5, 6, 6, 6, 8], start=2, block_length=1, blocks=3)
    assert (same.offsets, same.lead, same.repeats) == ((0,), 0, True)
    assert find_frame([6, 6, 6, 6, 6, 8], start=2, block_length=1, blocks=3).lead == 2


def test_blocks_that_are_the_same_in_all_tokens_are_a_frame():
    frame = find_frame(torch.tensor([1, *FACT * 5, 9]), start=4, block_length=3, blocks=4)
    assert (frame.offsets, frame.lead, frame.repeats) == ((0, 1, 2), 1, True)


@pytest.mark.parametrize(("task", "repeats", "lead"), [
    ("binding", True, 0),
    ("binding-lives", True, 0),
    ("keyvalue", True, 0),
    ("index", True, 0),
    ("binding-with-lead", True, 8),
    ("binding-varied", False, 0),
    ("induction", False, 0),
    ("text", False, 0),
])  # fmt: skip
def test_tasks_are_lists_or_not(task, repeats, lead):
    _, tokenizer = packaged()
    prompts = make_prompts(tokenizer, task, facts=6, count=3)
    blocks = prompts.layout
    for ids in prompts.input_ids.tolist():
        frame = find_frame(ids, **blocks)
        assert frame.repeats == repeats
        assert frame.lead == lead


def test_blocks_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="blocks cover 8 keys from start=1"):
        find_frame([1, 2, 3, 4], start=1, block_length=4, blocks=2)
