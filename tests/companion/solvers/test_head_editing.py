"""One head edited at a time: the same as a loop over planes says, and what is asked of answers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from posym_companion.results import name_dims
from posym_companion.solvers.head_editing import (
    DIMS,
    EDITS,
    EXPERIMENT,
    ROLES,
    HeadEditing,
    by_role,
    edits_of,
    measure,
)
from posym_companion.solvers.list_questions import questions_about
from posym_core.metrics._blocks import BlockLayout
from posym_profile import binding_prompts
from posym_profile.capture._capturing import capture
from posym_profile.interventions._plane_surgery import edit_rope
from posym_profile.planes._rotary_planes import find_planes

pytestmark = pytest.mark.filterwarnings("ignore::posym_profile.scores._visibility.HiddenBlocksWarning")


def by_hand(edit, swaps):
    """Angles after an edit, a plane at a time."""
    tokens = swaps.number * swaps.block_length

    def change(angle):
        slow = angle * tokens < 2.78
        if edit == "sped up":
            return 2.78 / swaps.block_length if slow and angle > 0 else angle
        return angle if slow else 0.0

    return change


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_turns_the_planes_of_one_head_and_no_others(tiny, tokenizer, edit):
    lists = binding_prompts(tokenizer, template="bought", facts=4, count=2, seed=5)
    swaps, planes = BlockLayout(**lists.layout), find_planes(tiny, lists.input_ids.shape[1])
    with edit_rope(tiny, edits_of(swaps)[edit]([(1, 2)]), planes=planes) as operated:
        for layer, heads in enumerate(operated.angles):
            for head, angles in enumerate(heads.tolist()):
                before = planes[layer].angles.tolist()
                new = [by_hand(edit, swaps)(x) for x in before] if (layer, head) == (1, 2) else before
                np.testing.assert_allclose(angles, new)
        assert all(kept.all() for kept in operated.kept)
        seen = capture(tiny, lists.input_ids)[1].weights()[0, 2, 0]
    assert (operated.angles[1][2] != planes[1].angles).any(), "the tiny model has planes to edit"

    # Queries and keys of layer 1 as they were, turned on plane by plane and token by token.
    call = capture(tiny, lists.input_ids)[1]
    change, count = by_hand(edit, swaps), lists.input_ids.shape[1]
    first, second = planes[1].order.chunk(2)
    group = 2 // (call.query.shape[1] // call.keys.shape[1])
    query, keys = call.query[0, 2, -1].double(), call.keys[0, group].double()
    logits = []
    for place in range(count):
        total = 0.0
        for plane, angle in enumerate(planes[1].angles.tolist()):
            i, j = int(first[plane]), int(second[plane])
            turn = (change(angle) - angle) * (place - (count - 1))
            key = complex(keys[place, i], keys[place, j]) * complex(np.cos(turn), np.sin(turn))
            total += (complex(query[i], query[j]) * key.conjugate()).real
        logits.append(total * call.scale)
    expected = torch.tensor(logits).masked_fill(~call.visible[0, 0, -1], -torch.inf).softmax(-1).numpy()
    np.testing.assert_allclose(seen.double().numpy(), expected, atol=1e-5)


def test_answers_are_those_of_whole_prompts(tiny, tokenizer, rankings):
    setting = EXPERIMENT.shrink(HeadEditing())
    found = measure(tiny, tokenizer, rankings, setting, progress=False)
    name_dims(DIMS, found)
    heads = rankings["predictors"].shape[-2:]
    assert found["answer"].shape == (2, *heads, 2, 2)
    assert found["log_probability"].shape == (2, *heads, 2, 2, len(ROLES))
    lists = binding_prompts(tokenizer, template="bought", facts=4, count=2, seed=setting.seed)
    swaps, planes = BlockLayout(**lists.layout), find_planes(tiny, lists.input_ids.shape[1])
    for edit, layer, head in (("sped up", 1, 3), ("stopped", 0, 0), ("stopped", 1, 2)):
        row = EDITS.index(edit), layer, head
        for number in range(2):
            names = lists.input_ids[number, lists.start :: lists.block_length][:4]
            for place, fact in enumerate(setting.asked):
                prompt = lists.input_ids[number].clone()
                question = prompt[lists.start + 4 * lists.block_length :]
                question[question == names[lists.target[number]]] = names[fact]
                with torch.no_grad(), edit_rope(tiny, edits_of(swaps)[edit]([(layer, head)]), planes=planes):
                    logits = tiny(prompt[None]).logits[0, -1, lists.answer_ids[number]]
                chances = logits.double().softmax(-1).tolist()
                (other,) = {0, 1, 2, 3} - {fact - 1, fact, fact + 1}
                expected = [chances[fact], chances[fact - 1], chances[fact + 1], chances[other]]
                logs = found["log_probability"][*row, number, place].astype(float)
                np.testing.assert_allclose(logs, np.log(expected), atol=2e-3)
                best = [fact, fact - 1, fact + 1, other].index(int(np.argmax(chances)))
                assert found["answer"][*row, number, place] == best
    assert (found["unedited"] != found["log_probability"].astype(np.float32)).any()


def test_roles_of_facts():
    logits = torch.tensor([[0.0, 1, 2, 3, 4], [9, 1, 2, 3, 4]])
    logs, best = by_role(logits, torch.tensor([3, 2]))
    chances = logits.double().softmax(-1).numpy()
    first = [chances[0, 3], chances[0, 2], chances[0, 4], chances[0, :2].mean()]
    other = [chances[1, 2], chances[1, 1], chances[1, 3], chances[1, [0, 4]].mean()]
    np.testing.assert_allclose(logs.exp().numpy(), [first, other], rtol=1e-5)
    assert best.tolist() == [2, 3]


def test_questions_are_about_single_facts(tokenizer):
    lists = binding_prompts(tokenizer, template="bought", facts=6, count=3, seed=1)
    found = questions_about(lists, [2, 0], [1, 4])
    assert found.asked.tolist() == [1, 4, 1, 4]
    assert found.told.shape[0] == 2
    for row, (number, fact) in enumerate([(2, 1), (2, 4), (0, 1), (0, 4)]):
        block = lists.input_ids[number, lists.start + fact * lists.block_length :][: lists.block_length]
        assert block[0] in found.questions[row]
        assert found.alternatives[row, fact] in block


@pytest.mark.parametrize("asked", [(0,), (3, 7)])
def test_facts_at_the_ends_have_one_neighbour(asked):
    with pytest.raises(ValueError, match=r"two neighbours and others beside them: from 1 to 6 of 8, .*; got \("):
        HeadEditing(asked=asked)
