"""Which prompts are lists of one frame without any of its sentences in front."""

import contextlib

import pytest
import torch
from architectures import packaged, shared

from posym_profile import profile
from posym_profile.prompts import OriginWarning, Prompts, make_prompts
from posym_profile.prompts._drafts import are_bare_lists


def told(names, tokens=(), start=1, block_length=4, blocks=3):
    """Return a mark, facts of a name, a verb, a word of its own and a stop, and a question; some tokens changed."""
    ids = torch.tensor([[1, *(token for name in names for token in (name, 7, 60 + name, 8)), names[0], 7]])
    for place, token in tokens:
        ids[0, place] = token
    none = torch.zeros(1, 0, dtype=torch.int64)
    layout = {"start": start, "block_length": block_length, "blocks": blocks}
    return Prompts(input_ids=ids, **layout, answer_ids=none, target=none.sum(1), texts=[])


@pytest.mark.parametrize(("prompts", "bare"), [
    (told([10, 11, 12]), True),
    (told([20, 10, 11, 12], start=5), False),
    (told([20, 10, 11, 12], start=5, tokens=[(4, 9)]), True),  # another stop in the fact in front
    (told([20, 10, 11, 12], start=5, tokens=[(6, 9)]), False),  # a verb that differs leaves a stop: no frame
    (told([10, 11, 12], start=4, block_length=1), False),  # words without a frame
    (told([10, 10, 10]), True),
])  # fmt: skip
def test_a_list_is_bare_if_its_frame_does_not_stand_in_front(prompts, bare):
    assert are_bare_lists(prompts) == bare
    warned = pytest.warns(OriginWarning, match="how many such blocks came before") if bare else contextlib.nullcontext()
    with warned as seen:
        profile(shared("Llama"), prompts)
    assert not bare or seen[0].filename == __file__
    profile(shared("Llama"), prompts.input_ids, **prompts.layout)  # of token ids nothing is known


@pytest.mark.parametrize(("task", "bare"), [("binding-lives", True), ("keyvalue", True), ("binding-with-lead", False)])
def test_tasks_are_bare_lists_or_not(task, bare):
    prompts = make_prompts(packaged()[1], task, facts=6, count=3)
    assert are_bare_lists(prompts) == bare
    assert repr(prompts).startswith("Prompts(3 of ")
