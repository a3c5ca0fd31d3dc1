"""One hop by hand: programs against token-by-token walks, heads on every valid input, limits from both sides."""

import itertools
import math

import pytest
import torch
from refusals import refuse_each

from posym_companion.theory._number_letter_heads import (
    IndexHead,
    ReflexiveHead,
    RetrievalHead,
    is_hop_right,
    list_sequences,
)
from posym_companion.theory._number_letter_limits import (
    compute_index_discrepancy,
    compute_retrieval_discrepancy,
    find_index_beta,
    find_reflexive_beta,
    find_retrieval_beta,
    find_retrieval_limit,
)
from posym_core.tasks._number_letter import LetterTask, NumberTask
from posym_core.tasks._number_letter_programs import apply_index, apply_retrieval, is_valid, walk

ABOVE, BELOW = 1.001, 0.999
NUMBER = NumberTask(letters=2, window=2, steps=2, hops=2)
LETTER = LetterTask(alphabet=3, integers=1, hops=2)


def index_by_loop(row, task):
    names, out = task.token_names, []
    for place, token in enumerate(row):
        word = names[token]
        back = place - int(word) if word.isdigit() else -1
        out.append(row[back] if back >= 0 and not names[row[back]].isdigit() else token)
    return out


def retrieval_by_loop(row, task):
    """None where the answer is not defined."""
    names, out = task.token_names, []
    for place, token in enumerate(row):
        left, right = names[token][1:-1].split(",")
        found = [other for other in row[:place] if names[other][1:-1].split(",")[0] == right]
        if right.isdigit():
            out.append(token)
        else:
            out.append(found[0] if len(found) == 1 and left != right else None)
    return out


def head_at(kind, length, angle, factor):
    """A head with so many times the smallest temperature that suffices for all valid tokens."""
    if kind is IndexHead:
        return IndexHead(NUMBER, angle=angle, beta=factor * find_index_beta(length, angle))
    least = find_reflexive_beta(length, angle)
    if kind is RetrievalHead:
        least = max(least, find_retrieval_beta(length, LETTER.alphabet, angle))
    return kind(LETTER, angle=angle, beta=factor * least)


PROGRAMS = {IndexHead: apply_index, RetrievalHead: apply_retrieval, ReflexiveHead: lambda tokens, task: tokens}


def test_index_is_the_loop_on_every_sequence():
    tokens = list_sequences(NUMBER, 4)
    assert len(tokens) == 6**4
    assert apply_index(tokens, NUMBER).tolist() == [index_by_loop(row, NUMBER) for row in tokens.tolist()]


def test_retrieval_is_the_loop_on_every_sequence():
    tokens = list_sequences(LETTER, 3)
    found, valid = apply_retrieval(tokens, LETTER), is_valid(tokens, LETTER)
    expected = [retrieval_by_loop(row, LETTER) for row in tokens.tolist()]
    assert valid.tolist() == [[token is not None for token in row] for row in expected]
    for mine, row in zip(found.tolist(), expected, strict=True):
        assert all(token is None or mine[place] == token for place, token in enumerate(row))


@pytest.mark.parametrize(
    ("kind", "angles"),
    [(IndexHead, (0.3, 0.866, 2.5)), (RetrievalHead, (0.1, 0.3, 0.41)), (ReflexiveHead, (0.05, 1.0, 3.0))],
)
def test_heads_are_right_on_every_valid_token_just_above_the_smallest_beta_and_fail_below(kind, angles):
    task, length = (NUMBER, 5) if kind is IndexHead else (LETTER, 4)
    tokens = list_sequences(task, length)
    valid, expected = is_valid(tokens, task), PROGRAMS[kind](tokens, task)
    if kind is ReflexiveHead:
        valid = torch.ones_like(valid)
    assert valid.sum() > 1000
    for angle in angles:
        assert is_hop_right(head_at(kind, length, angle, ABOVE), tokens, expected)[valid].all()
        assert not is_hop_right(head_at(kind, length, angle, BELOW), tokens, expected)[valid].all()


def test_some_temperature_works_exactly_below_the_angle_limit():
    for symbols, length in itertools.product((2, 3, 5), (2, 3, 4, 7)):
        limit = find_retrieval_limit(length, symbols)
        assert math.isfinite(find_retrieval_beta(length, symbols, 0.999 * limit))
        beyond = torch.linspace(1.0001 * limit, math.pi, 60).tolist() if limit < math.pi else []
        assert all(find_retrieval_beta(length, symbols, angle) == math.inf for angle in beyond)
    assert find_index_beta(9, 2 * math.pi / 8) == math.inf
    assert math.isfinite(find_index_beta(8, 2 * math.pi / 8))
    assert find_reflexive_beta(3, math.pi) == math.inf
    assert find_reflexive_beta(9, 0.0) == math.inf


def margins(head, tokens, target):
    """Right logit minus the next, of the last tokens, from queries and keys."""
    logits = (head.keys(tokens) @ head.queries(tokens)[:, -1, :, None])[..., 0]
    right = logits.gather(1, target[:, None])
    return right[:, 0] - logits.scatter(1, target[:, None], -math.inf).amax(1)


@pytest.mark.parametrize("angle", [0.2, 0.866, 1.5, 3.0])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_index_discrepancies_are_those_of_all_inputs(n, angle):
    tokens = list_sequences(NUMBER, n + 1)
    tokens = tokens[is_valid(tokens, NUMBER)[:, -1]]
    steps = (tokens[:, -1] - NUMBER.letters + 1).clamp_min(0)
    found = margins(IndexHead(NUMBER, angle=angle, beta=1.0), tokens, n - steps)
    exact = compute_index_discrepancy(n, angle)
    assert float(found.min()) == pytest.approx(exact.least, abs=1e-12)
    assert float(found.max()) == pytest.approx(exact.greatest, abs=1e-12)


@pytest.mark.parametrize("angle", [0.02, 0.3, 0.9])
@pytest.mark.parametrize(("n", "alphabet"), [(1, 3), (2, 3), (3, 3), (2, 4), (1, 5)])
def test_retrieval_discrepancies_are_those_of_all_inputs(n, alphabet, angle):
    task = LetterTask(alphabet=alphabet, integers=1, hops=2)
    tokens = list_sequences(task, n + 1)
    tokens = tokens[is_valid(tokens, task)[:, -1] & (tokens[:, -1] >= alphabet)]
    names = [name[1:-1].split(",") for name in task.token_names]
    target = [
        [names[token][0] for token in row[:-1]].index(names[row[-1]][1]) for row in tokens.tolist()
    ]  # fmt: skip
    found = margins(RetrievalHead(task, angle=angle, beta=1.0), tokens, torch.tensor(target))
    exact = compute_retrieval_discrepancy(n, angle, alphabet)
    assert float(found.min()) == pytest.approx(exact.least, abs=1e-12)
    assert float(found.max()) == pytest.approx(exact.greatest, abs=1e-12)


test_refusals = refuse_each(
    (lambda: list_sequences(LetterTask(), 4), "4 tokens out of 128 make 268435456 sequences"),
    (lambda: walk(torch.tensor([[0]]), NUMBER, hops=3, layers=2), "2 layers make from 0 to 2 hops; got hops=3"),
)  # fmt: skip
