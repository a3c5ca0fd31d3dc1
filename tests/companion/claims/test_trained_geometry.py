"""Claims about the geometry of trained heads on made-up queries and keys, and on made-up waves in a model."""

from __future__ import annotations

import numpy as np
import pytest
from invented import save_invented
from judged import find_missed, judge_made_up

from posym_companion.one_head import head_geometry

ANGLES, N = 10.0 ** (-np.arange(32) / 8), 32


def invent_toys(folder, *, shared=True, aimed=True, early=False):
    """Toys of which the fast ones solve Index, with queries and keys in one plane that look as claimed or not."""
    generator = np.random.default_rng(0)

    def stored(phase):
        phase = np.broadcast_to(phase, (5, 32, N))
        return np.stack([np.cos(phase), np.sin(phase)], axis=-1).astype(np.float16)

    anywhere, position = generator.uniform(0, 2 * np.pi, (5, 32, N)), np.arange(N) - N
    solved = np.arange(32) < 8
    aim = np.where((solved & aimed | early)[:, None], ANGLES[:, None] * position, anywhere)
    hits = np.where(solved, 1000, 100)
    arrays = {
        "angles": ANGLES,
        "index_single_32/query": stored(aim),
        "index_single_32/key": np.concatenate([stored(0.0 if shared else anywhere), stored(np.nan)], axis=2),
        "index_single_32/hits": np.tile(hits[:, None] // N, (5, 1, N)),
        "index_single_32/asked": np.full((5, N), 1000 // N),
    }
    save_invented("frequency_control/full", arrays, folder, lengths=[32])
    return judge_made_up("U25-8a", folder)


def invent_waves(folder, *, wavy=True, learned=True, followed=True):
    """A model's planes that carry the wave or not, also with random weights, and a query that follows or stays."""
    generator = np.random.default_rng(0)
    for setting in head_geometry.full_size():
        traced = 0.9 if setting.trained or not learned else 0.2
        any_speed, turning = (0.8, traced) if wavy else (0.2, 0.3 * traced)
        planes = {
            "r2_test": np.broadcast_to([any_speed, turning, 0.1, *[0.0] * 6], (6, 4, 9)),
            "head_positional_share": generator.uniform(size=(2, 6, 4)),
            "place_followed": np.full((3, 6, 4), 0.9 if followed else 0.1),
            "place_unmoved": np.full((3, 6, 4), 0.5),
            "dominant": np.broadcast_to(np.arange(3)[:, None, None], (3, 6, 4)),
        }
        save_invented(setting.name, planes, folder)
    return judge_made_up("U25-8b", folder)


KEYS, TURN, POINT = "keys share one direction", "queries turn with the target", "queries point at their target"


@pytest.mark.parametrize(
    ("change", "grade", "missed"),
    [
        ({}, "holds", []),
        ({"aimed": False}, "weaker", [TURN, POINT]),
        ({"shared": False}, "absent or opposite", [KEYS, TURN, POINT]),
        ({"early": True}, "not attributable", ["they do not where Index fails"]),
    ],
)
def test_toys_look_as_claimed_or_not(tmp_path, change, grade, missed):
    answer = invent_toys(tmp_path, **change)
    assert (answer.grade, find_missed(answer)) == (grade, missed)
    assert all(part.told for part in answer.parts)


@pytest.mark.parametrize(
    ("change", "grade", "missed"),
    [
        ({}, "holds", []),
        ({"wavy": False}, "weaker", ["the wave of Theorem 3"]),
        ({"learned": False}, "not attributable", ["more of the wave than with random weights"]),
        ({"followed": False}, "weaker", ["the query encodes the target"]),
        ({"wavy": False, "followed": False}, "absent or opposite", None),
    ],
)
def test_a_models_heads_trace_waves_or_not(tmp_path, change, grade, missed):
    answer = invent_waves(tmp_path, **change)
    assert answer.grade == grade
    assert missed is None or find_missed(answer) == missed
