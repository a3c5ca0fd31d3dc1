"""Parts of the rules on Number and Letter, seed by seed."""

import numpy as np
import pytest

from posym_companion.old_claims import load_claim
from posym_companion.results import load_result
from posym_companion.several_hops import seed_by_seed
from posym_companion.several_hops.judges import multihop


@pytest.fixture(scope="module")
def parts():
    return seed_by_seed()


def test_it_agrees_with_a_reading_of_the_results_by_hand(parts):
    runs = multihop.stored_runs("number")
    assert parts["U26-1"]["Number over a fifth of the training"] == [
        float(multihop.learning_spread(run) > 0.2) for run in runs
    ]
    pure = [np.mean([x != 0 for x in multihop.classify_heads(run)[-1].ravel()]) for run in runs]
    assert parts["U26-2"]["Number: pure at the end"] == [float(x >= 0.75) for x in pure]
    letters = [load_result(f"hop_length/letter_{seed}") for seed in multihop.SEEDS]
    far = [result["accuracy"][list(result["lengths"]).index(850)] for result in letters]
    assert parts["U26-5"]["Letter holds at 850 tokens"] == [float(np.mean(each > 0.9)) for each in far]


def test_a_line_is_put_to_every_seed_by_itself(parts):
    asked = 0
    for judged in map(load_claim, ("U26-1", "U26-2", "U26-3")):
        numbers = judged.measure(None).ours
        for line in judged.rule.lines:
            if not line.counts:
                assert line.kept(numbers) == pytest.approx(np.mean(parts[judged.id][line.part])), line.part
                asked += 1
    assert asked >= 10
