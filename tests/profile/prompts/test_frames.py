"""Which prompts are lists of one frame without any of its sentences in front."""

import pytest
import torch
from architectures import packaged

from posym_profile.prompts import Prompts, make_prompts
from posym_profile.prompts._drafts import are_bare_lists


def told(names, before=(), **changes):
    """A mark, facts in front and facts in blocks, each of a name, a verb, a word of its own and a stop; a question."""
    facts = [[name, 7, 100 + name, 8] for name in (*before, *names)]
    ids = torch.tensor([[1, *(token for fact in facts for token in fact), names[0], 7]])
    for place, token in changes.get("tokens", {}).items():
        ids[0, place] = token
    start = changes.get("start", 1 + 4 * len(before))
    answers, target = torch.zeros(1, 0, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    given = {"block_length": changes.get("block_length", 4), "blocks": changes.get("blocks", len(names)), "texts": []}
    return Prompts(input_ids=ids, start=start, answer_ids=answers, target=target, **given)


@pytest.mark.parametrize(("prompts", "bare"), [
    (told([10, 11, 12]), True),
    (told([10, 11, 12], before=[20]), False),
    (told([10, 11, 12], before=[20], tokens={4: 9}), True),  # another stop in the fact in front
    (told([10, 11, 12], before=[20], tokens={1 + 4 + 1: 9}), False),  # a verb that differs leaves a stop: no frame
    (told([10, 11, 12], start=4, block_length=1, blocks=3), False),  # words without a frame
    (told([10, 10, 10]), True),
])  # fmt: skip
def test_a_list_is_bare_if_its_frame_does_not_stand_in_front(prompts, bare):
    assert are_bare_lists(prompts) == bare


@pytest.mark.parametrize(("task", "bare"), [
    ("binding", True),
    ("binding-lives", True),
    ("keyvalue", True),
    ("index", True),
    ("binding-with-lead", False),
    ("binding-varied", False),
    ("induction", False),
    ("text", False),
])  # fmt: skip
def test_tasks_are_bare_lists_or_not(task, bare):
    assert are_bare_lists(make_prompts(packaged()[1], task, facts=6, count=3)) == bare
