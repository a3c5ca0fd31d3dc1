"""What heads can be: every answer against its witness, and the facts behind the answers."""

import mpmath
import pytest
import torch

from posym_companion.encodings.abilities import QUESTIONS, ability, ability_table
from posym_companion.encodings.known_heads import KNOWN_HEADS
from posym_companion.encodings.witnesses import PLACES, SHAPE, closest_symbolic
from posym_core import exclusion, rope_angles, rotate, swap_scores
from posym_core.encodings import ENCODINGS, RoPE
from posym_core.metrics._permutations import score_cross_logits

# Squares of rounding errors of float64, with room.
EXACT = 1e-26
COVERED = [name for name, known in KNOWN_HEADS.items() if known.witness]


def test_table_is_whole():
    table = ability_table()
    assert [(row.encoding, row.question) for row in table] == [(n, q) for n in ENCODINGS for q in QUESTIONS]
    assert set(ENCODINGS) - set(COVERED) == {"carope", "selective-rope", "path", "urpe"}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", COVERED)
def test_possible_is_exact_and_impossible_is_not(name, question):
    answer = ability(name, question)
    assert answer.reason
    assert answer.spread < 1e-13
    total = answer.positional_share + answer.symbolic_share + answer.interaction_share
    assert total == pytest.approx(1)
    if answer.possible:
        assert answer.shortfall < EXACT
        if question == "positional":
            assert answer.positional_score > 0.99
        if question == "symbolic":
            assert answer.symbolic_score > 0.99
        if question == "additive":
            assert min(answer.positional_share, answer.symbolic_share) > 0.05
    elif question != "additive" or name != "nope":
        assert answer.shortfall > 1e-12
    else:
        assert answer.positional_share < EXACT  # no interaction, but no position either


def test_no_head_of_rope_is_more_symbolic_than_the_closest():
    generator = torch.Generator().manual_seed(0)
    angles = rope_angles(4)
    encoding = RoPE(type(SHAPE)(heads=1, dim=4))
    bound = closest_symbolic(angles, 9)[0]
    query = torch.randn(200, 1, 4, generator=generator, dtype=torch.float64)
    keys = torch.randn(200, 1, 9, 4, generator=generator, dtype=torch.float64)
    keys[::2] *= torch.tensor([0, 1, 0, 1])  # the slow plane alone comes closer
    found = exclusion(encoding.cross_logits(query, keys))
    missing = found.positional_share + found.interaction_share
    assert missing.min() >= bound
    assert missing.min() < 0.1
    attained = ability("rope", "symbolic").shortfall
    assert attained == pytest.approx(closest_symbolic(angles, PLACES)[0], rel=1e-6)


@pytest.mark.parametrize(("angles", "places"), [([0.3, 0.1, 0.03, 0.01], 24), ([0.1, 0.05, 0.02], 24), (None, 16)])
def test_what_slow_planes_miss_is_what_60_digits_say(angles, places):
    """Curves of slow planes are nearly parallel; none of them may be dropped."""
    turned = rope_angles(12) if angles is None else torch.tensor(angles, dtype=torch.float64)
    with mpmath.workdps(60):
        phases = [[mpmath.mpf(angle) * place for angle in turned.tolist()] for place in range(places)]
        curves = mpmath.matrix([[f(phase) for phase in row for f in (mpmath.cos, mpmath.sin)] for row in phases])
        constant = mpmath.matrix([1] * places)
        residual = constant - curves * mpmath.lu_solve(curves.T * curves, curves.T * constant)
        expected = float((residual.T * residual)[0] / places)
    assert closest_symbolic(turned, places)[0] == pytest.approx(expected, rel=1e-6, abs=EXACT)


def test_scores_of_cross_logits_are_the_scores_of_the_head():
    generator = torch.Generator().manual_seed(3)
    encoding = RoPE(type(SHAPE)(heads=3, dim=8))
    query, key = torch.randn(2, 3, 9, 8, generator=generator, dtype=torch.float64)
    angles = rope_angles(8)
    at_home = rotate(key, torch.arange(9), angles)
    asked = rotate(query[:, -1], 8, angles)
    for tau, eps in ((1e-4, 1e-8), (0.1, 0.0)):
        expected = swap_scores(asked, at_home, angles, scale=8**-0.5, tau=tau, eps=eps)
        own = 8**-0.5 * (asked * at_home[:, -1]).sum(-1, keepdim=True)
        found = score_cross_logits(encoding.cross_logits(query[:, -1], key[:, :-1]), outside=own, tau=tau, eps=eps)
        torch.testing.assert_close(found.positional, expected.positional, rtol=0, atol=1e-9)
        torch.testing.assert_close(found.symbolic, expected.symbolic, rtol=0, atol=1e-9)
