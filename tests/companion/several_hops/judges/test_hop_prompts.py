import numpy as np
import pytest
from invented import save_invented

from posym_companion.old_claims import load_claim
from posym_companion.ledger import ledger
from posym_companion.several_hops.hop_prompts import HopPrompts
from posym_companion.several_hops.hop_questions import HOP_TASKS, LENGTHS
from posym_companion.several_hops.judges.hop_prompts import TABLE_3, list_numbers

SHAPE = (len(LENGTHS), 5)
FADING = np.linspace(0.9, 0.1, len(LENGTHS))[:, None]


def judged(folder, number, letter):
    """U26-6 on made-up accuracies above chance, ``[length, run]`` or what broadcasts to it."""
    noise = 0.01 * np.random.default_rng(0).normal(size=(2, *SHAPE))
    above = np.stack([np.broadcast_to(number, SHAPE), np.broadcast_to(letter, SHAPE)]) + noise
    chance = np.full((2, *SHAPE), 0.1)
    arrays = {
        "lengths": np.array(LENGTHS),
        "choice_accuracy": above + chance,
        "chance": chance,
    }
    name = HopPrompts().name
    save_invented(name, arrays, folder)
    return ledger("U26-6", folder=folder)[0]


@pytest.mark.parametrize("model", TABLE_3)
def test_the_papers_own_numbers_pass_the_rule(model):
    as_one_run = np.array([TABLE_3[model][task] for task in HOP_TASKS])[..., None]
    judged = load_claim("U26-6").rule
    assert judged.verdict(list_numbers(as_one_run, LENGTHS)) == "reproduced in kind"
    assert judged.verdict(list_numbers(as_one_run[::-1], LENGTHS)) == "not reproduced"


def test_letter_that_stays_while_number_fades_is_reproduced(tmp_path):
    finding = judged(tmp_path, FADING, 0.8)
    assert finding.verdict == "reproduced in kind"
    assert finding.numbers["tasks solved above chance up to 32 items"] == 2
    assert finding.ours["letter minus number from 48 items on, choice minus chance"]["interval"][0] > 0


@pytest.mark.parametrize(
    ("number", "letter"),
    [(0.8, FADING), (FADING, FADING), (0.3, 0.8), (0.8, 0.0)],
    ids=["the other way", "both fade", "a lead that does not grow", "number alone"],
)
def test_other_courses_are_not_reproduced(tmp_path, number, letter):
    row = judged(tmp_path, number, letter)
    assert row.verdict in ("not reproduced", "partly")
    assert "no" in row.parts.values()


@pytest.mark.parametrize("level", [0.01, 0.05, -0.1])
def test_a_model_that_solves_neither_decides_nothing(tmp_path, level):
    finding = judged(tmp_path, level, level)
    assert finding.verdict == "not testable"
    assert finding.command == "posym run hop_prompts --model NAME"
    assert finding.note.startswith(f"Accuracy minus chance up to 32 items is number {level:.2f} [")
