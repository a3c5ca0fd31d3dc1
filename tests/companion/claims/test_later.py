"""Claims of later papers on made-up results: every part holds on one and is missed on another."""

from __future__ import annotations

import numpy as np
import pytest
from invented import save_invented
from judged import count_parts, find_missed, judge_made_up, require_both_sides

from posym_companion.claims import later  # noqa: F401 - registers the claims
from posym_companion.experiments import SECOND
from posym_companion.later.later_claims import LaterClaims

EQUAL = "more than faster planes of equal energy"


def judge_retrieval(folder, *, slow=0.2, faster=0.8, model="", **changed):
    """L-3 of ten prompts by their recall without some planes."""
    recall = {"none": 1.0, "all planes": 0.1, "slowest 0.25": 0.1, "random 0.25": 0.9, "other heads": 1.0}
    recall |= {name.replace("_", " "): each for name, each in changed.items()}
    recall["slowest 0.25"] = recall.pop("slowest", recall["slowest 0.25"])
    parts = {name: each for name, each in recall.items() if name in ("none", "all planes", "slowest 0.25")}
    drawn = {"random 0.25": recall["random 0.25"], "other heads, slowest 0.25": recall["other heads"]}
    drawn |= {"slow planes of equal energy": slow, "faster planes of equal energy": faster}
    parts |= {f"{name}, {draw}": each for name, each in drawn.items() for draw in range(2)}
    right = np.array([np.arange(10) < round(10 * each) for each in parts.values()])
    arrays = {"conditions": np.array(list(parts)), "correct": right}
    save_invented(LaterClaims(part="retrieval", model=f"{model or 'gemma-3-270m'}-binds").name, arrays, folder)
    return judge_made_up("L-3", folder, f"{model}-binds" if model else "")


def test_slow_planes_are_needed(tmp_path):
    claimed = judge_retrieval(tmp_path)
    assert claimed.grade == "holds"
    nothing = judge_retrieval(tmp_path, slow=0.8, faster=0.2, slowest=1.0, all_planes=1.0)
    require_both_sides(claimed, nothing)
    assert nothing.grade == "absent or opposite"
    assert judge_retrieval(tmp_path, none=0.8).grade == "undecided"
    assert judge_retrieval(tmp_path, model=SECOND).grade == "holds"


@pytest.mark.parametrize(
    ("slow", "faster", "held", "grade"),
    [
        (0.2, 0.8, "1 of 1", "holds"),
        (0.8, 0.8, "0 of 1", "not attributable"),
        (0.8, 0.2, "0 of 1", "not attributable"),
        (0.9, 1.0, "0 of 0", "weaker"),
        (1.0, 0.8, "0 of 1", "not attributable"),
    ],
)
def test_slow_planes_are_held_against_faster_ones_of_equal_energy(tmp_path, slow, faster, held, grade):
    answer = judge_retrieval(tmp_path, slow=slow, faster=faster)
    assert (count_parts(answer)[EQUAL], answer.grade) == (held, grade)


def judge_influence(folder, *, untrained=(1.0, 0.1), trained=(1.0, 0.1), turned=0.0):
    """L-4 on profiles of 64 tokens: heights of the first eighth, and of the last one without its last token."""

    def draw(start, end):
        logs = np.zeros(64)
        logs[:8], logs[-8:-1], logs[-1] = start, end, 2.0
        return np.exp(logs)

    fresh = np.broadcast_to(draw(*untrained), (2, 3, 64))
    unrotated, after = fresh * np.exp(turned), np.broadcast_to(draw(*trained), (4, 64))
    arrays = {"rotated": fresh, "unrotated": unrotated, "trained": after}
    save_invented(LaterClaims(part="influence").name, arrays, folder)
    return judge_made_up("L-4", folder)


def test_both_ends_of_a_u(tmp_path):
    claimed = judge_influence(tmp_path)
    assert (claimed.grade, [*count_parts(claimed).values()]) == (
        "holds",
        [*["6 of 6"] * 2, *["3 of 3"] * 2, *["4 of 4"] * 2],
    )
    flat = judge_influence(tmp_path, untrained=(-0.1, -0.1), trained=(-0.1, -0.1), turned=0.2)
    require_both_sides(claimed, flat)
    assert flat.grade == "absent or opposite"
    end = judge_influence(tmp_path, untrained=(1.0, -0.1))
    assert (end.grade, find_missed(end)) == ("weaker", ["the end is above the middle, untrained"])
