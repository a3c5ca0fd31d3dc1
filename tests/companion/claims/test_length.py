"""Claims about longer sequences on made-up curves, and the rule for language models on the paper's own numbers."""

from __future__ import annotations

import numpy as np
import pytest
from invented import save_invented
from judged import find_missed, judge_made_up, require_both_sides

from posym_companion.claims.length import find_reach
from posym_companion.several_hops.hop_prompts import HopPrompts
from posym_companion.several_hops.hop_questions import LENGTHS
from posym_companion.several_hops.multihop import SEEDS

TOKENS = np.array([17, 32, 64, 128, 256, 850, 1020])


def invent_reach(folder, task, seed, until, rest=0.1):
    accuracy = np.where(until >= TOKENS, 0.97, rest)[:, None].repeat(4, 1)
    return save_invented(f"hop_length/{task}_{seed}", {"lengths": TOKENS, "accuracy": accuracy}, folder, seed=seed)


def test_letter_reaches_further_than_number(tmp_path):
    for place, until in (("claimed", {}), ("other", {"number": 128, "letter": 64})):
        for task, rest in (("number", 17), ("letter", 850)):
            for seed in SEEDS:
                invent_reach(tmp_path / place, task, seed, until.get(task, rest) if seed == 1 else rest)
    claimed, other = (judge_made_up("U26-5", tmp_path / place) for place in ("claimed", "other"))
    require_both_sides(claimed, other)
    assert (claimed.grade, other.grade) == ("holds", "absent or opposite")
    assert len(claimed.evidence) == 10
    number, letter = (one.numbers for one in other.parts if "reaches" in one.name or "twice" in one.name)
    assert (number["2 hops"], letter["2 hops"]) == (64 - 128, pytest.approx(128 / 17, rel=1e-3))
    held = next(one for one in other.parts if one.name == "Letter holds at 850 tokens")
    assert held.numbers["2 hops"][0] == pytest.approx((4 * 0.97 + 0.1) / 5)


def test_a_curve_that_comes_back_ended_where_it_fell(tmp_path):
    result = invent_reach(tmp_path, "number", 0, until=64)
    result["accuracy"][1] = 0.5
    assert find_reach(result) == 17
    result["accuracy"][0] = 0.5
    assert find_reach(result) == 0


# Urrutia et al. (2026b), table 3: exact answers, one hop, reasoning off, mean of five runs; Number and Letter.
TABLE_3 = {
    "GPT 5.4": (
        (0.98, 0.87, 0.73, 0.45, 0.17, 0.14, 0.10, 0.08, 0.08, 0.06),
        (0.96, 0.98, 1.00, 0.99, 0.99, 0.98, 0.96, 0.85, 0.52, 0.40),
    ),
}
FADING = np.linspace(0.9, 0.1, len(LENGTHS))


def judge_courses(folder, number, letter, noise=0.01):
    """U26-6 on accuracies above chance by length."""
    above = np.stack([np.broadcast_to(x, len(LENGTHS)) for x in (number, letter)])[..., None]
    above = above + noise * np.random.default_rng(0).normal(size=(*above.shape[:-1], 5))
    arrays = {"lengths": np.array(LENGTHS), "choice_accuracy": above + 0.1, "chance": np.full(above.shape, 0.1)}
    save_invented(HopPrompts().name, arrays, folder)
    return judge_made_up("U26-6", folder)


@pytest.mark.parametrize("model", TABLE_3)
def test_the_papers_own_numbers_pass_the_rule(tmp_path, model):
    number, letter = TABLE_3[model]
    assert judge_courses(tmp_path, number, letter, noise=0).grade == "holds"
    assert judge_courses(tmp_path, letter, number, noise=0).grade == "absent or opposite"


def test_letter_that_stays_while_number_fades(tmp_path):
    claimed = judge_courses(tmp_path, FADING, 0.8)
    require_both_sides(claimed, judge_courses(tmp_path, 0.8, FADING))
    assert find_missed(judge_courses(tmp_path, 0.3, 0.8)) == ["the lead grows"]


@pytest.mark.parametrize("level", [0.01, 0.05, -0.1])
def test_a_model_that_solves_neither_decides_nothing(tmp_path, level):
    assert judge_courses(tmp_path, level, level).grade == "undecided"
