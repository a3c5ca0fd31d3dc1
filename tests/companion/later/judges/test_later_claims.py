"""Judges of later papers' claims on invented results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from invented import save_invented

from posym_companion.experiments import SECOND
from posym_companion.later.judges import later_claims
from posym_companion.later.later_claims import FIRST
from posym_companion.ledger import ledger
from posym_companion.results import MissingResultError

LAYERS, HEADS = 4, 4


def save(part, arrays, folder, model):
    name = f"later_claims/{part}" + ("" if model == FIRST[part] else f"_{model}")
    save_invented(name, arrays, folder, model=model, length=8)


def test_what_needs_a_model_that_binds_is_asked_of_the_taught_one():
    with pytest.raises(MissingResultError, match="retrieval_smollm2-135m-binds"):
        later_claims.slow_planes_of_carriers(Path("nowhere"), model=SECOND)
    with pytest.raises(MissingResultError, match=r"influence_smollm2-135m[^-]"):
        later_claims.u_shape_with_random_weights(Path("nowhere"), model=SECOND)


def retrieval(folder, *, slow=0.2, faster=0.8, others=1.0, quarter=0.1, model="gemma-3-270m-binds"):
    """Recall of ten prompts without some planes: of the slow ones of equal energy and so on."""
    parts = {
        "none": 1.0,
        "all planes": 0.1,
        "slowest 0.25": quarter,
        **{f"random 0.25, {draw}": 0.9 for draw in range(2)},
        **{f"other heads, slowest 0.25, {draw}": others for draw in range(2)},
        **{f"slow planes of equal energy, {draw}": slow for draw in range(2)},
        **{f"faster planes of equal energy, {draw}": faster for draw in range(2)},
    }
    right = np.array([np.arange(10) < round(10 * part) for part in parts.values()])
    restored = np.zeros((LAYERS, HEADS))
    restored[2, 1] = 0.5
    energy = np.full((LAYERS, HEADS, 8), 0.1 / 6)
    energy[..., 6:] = 0.45
    arrays = {
        "restored": restored,
        "energy": energy,
        "conditions": np.array(list(parts)),
        "correct": right,
        "log_probability": np.where(right, -0.1, -2.0),
    }
    save("retrieval", arrays, folder, model)
    return ledger("L-3", folder=folder)[0]


@pytest.mark.parametrize(
    ("slow", "faster", "held"),
    [(0.2, 0.8, "yes"), (0.8, 0.8, "no"), (0.8, 0.2, "no"), (0.9, 1.0, "not testable"), (1.0, 0.8, "no")],
)
def test_slow_planes_are_held_against_faster_ones_of_equal_energy(tmp_path, slow, faster, held):
    row = retrieval(tmp_path, slow=slow, faster=faster)
    assert row.parts["they are needed more than faster planes of equal energy"] == held
    assert row.verdict_of_model == ("reproduced in kind" if held == "yes" else "partly")
    larger = row.ours["recall lost without planes of equal energy, the larger"]
    assert larger == pytest.approx(1 - min(slow, faster))


def influence(folder, *, untrained=0.1, trained=0.1, model="gemma-3-270m"):
    """Profiles of 64 tokens, the first eighth and the last token high, the rest of the last eighth so far above."""

    def ends(height):
        logs = np.zeros(64)
        logs[:8], logs[-8:-1], logs[-1] = 1.0, height, 2.0
        return np.exp(logs)

    fresh = np.broadcast_to(ends(untrained), (2, 3, 64))
    arrays = {
        "kinds": np.array(["qwen2", "own"]),
        "rotated": fresh,
        "unrotated": fresh,
        "trained": np.broadcast_to(ends(trained), (4, 64)),
    }
    save("influence", arrays, folder, model)
    return ledger("L-4", folder=folder)[0]


@pytest.mark.parametrize(("untrained", "trained"), [(0.1, 0.1), (-0.1, 0.1), (0.1, -0.1)])
def test_the_end_of_a_u_is_judged_without_the_last_token(tmp_path, untrained, trained):
    row = influence(tmp_path, untrained=untrained, trained=trained)
    held = {name: said.startswith(("6 of 6", "4 of 4")) for name, said in row.parts.items()}
    assert held.pop("the end, without the last token, is above the middle, untrained") == (untrained > 0)
    assert held.pop("the end, without the last token, is above the middle, trained") == (trained > 0)
    assert all(held.values())
    assert row.ours["untrained models, draws of a Qwen-2 of eight layers"] == 3
    assert "3 draws of a Qwen-2 of eight layers and 3 draws of the model's own architecture" in row.note
