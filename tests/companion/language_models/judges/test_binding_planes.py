"""The rules of U25-4a and b on made-up planes: one wording that does not lean, and random weights that do."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from invented import save_invented

from posym_companion.language_models import binding_profile
from posym_companion.language_models.judges import binding_planes
from posym_companion.ledger import ledger

LAYERS, HEADS, PLANES = 4, 2, 32
# Of eight bands from fast to slow: what leans to symbols by scores and by shares.
AS_CLAIMED = (-0.2, -0.2, -0.2, -0.2, 0.0, 0.0, 0.2, 0.2), (-0.6, -0.6, -0.6, -0.6, 0.0, 0.0, 0.6, 0.6)
NOTHING = (0.0,) * 8, (0.0,) * 8


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    monkeypatch.setattr(binding_planes, "DRAWS", 40)


def planes(scores, shares):
    """Arrays whose bands lean so far."""
    found = {"plane_angle": np.ones((LAYERS, PLANES))}
    for what, lean in (("", scores), ("_share", shares)):
        by_plane = np.broadcast_to(np.repeat(lean, PLANES // 8), (1, LAYERS, HEADS, PLANES))
        found[f"plane_symbolic{what}"], found[f"plane_positional{what}"] = 0.5 + by_plane / 2, 0.5 - by_plane / 2
    return found


def changed(lean, bands, value):
    """The same with another value in some bands."""
    return tuple(value if band in bands else x for band, x in enumerate(lean))


def invented(folder, own=AS_CLAIMED, drawn=NOTHING, only=None):
    """Rows U25-4a and b of planes that lean so, in one wording or all, and of random weights."""
    for setting in binding_profile.plain_settings(lengths=(16,)):
        lean = own if only in (None, setting.template) else AS_CLAIMED
        save_invented(setting.name, planes(*lean), folder, **asdict(setting))
    for setting in binding_profile.random_weight_settings():
        lean = drawn if (setting.draw, setting.template) == (1, "bought") else NOTHING
        save_invented(setting.name, planes(*lean), folder, **asdict(setting))
    return ledger("U25-4a", "U25-4b", folder=folder)


def test_planes_as_claimed(tmp_path):
    slow, fast = invented(tmp_path)
    assert (slow.verdict_of_model, fast.verdict_of_model) == ("reproduced in kind", "reproduced in kind")
    assert slow.parts["by variance shares"] == "3 of 3 wordings"
    assert fast.parts["by variance shares"] == "12 of 12 pairs of band and wording"


@pytest.mark.parametrize(
    ("row", "measure", "bands", "held"),
    [(0, 0, (6, 7), "2 of 3"), (0, 1, (6, 7), "2 of 3"), (1, 0, (3,), "11 of 12"), (1, 1, (0,), "11 of 12")],
)
def test_a_band_of_one_wording_that_leans_to_nothing_is_one_case_less(tmp_path, row, measure, bands, held):
    own = list(AS_CLAIMED)
    own[measure] = changed(own[measure], bands, 0.0)
    found = invented(tmp_path, own=own, only="lives")[row]
    assert found.parts[("by softmax scores", "by variance shares")[measure]].startswith(held)
    assert all(case.startswith("lives") for case in found.fails_in)


@pytest.mark.parametrize(
    ("row", "measure", "bands", "value", "asked"),
    [
        (0, 0, (6, 7), 0.099, True),
        (0, 0, (6, 7), 0.101, False),
        (0, 1, (6, 7), 0.499, True),
        (0, 1, (6, 7), 0.501, False),
        (1, 0, (2,), -0.099, True),
        (1, 0, (2,), -0.101, False),
        (1, 1, (2,), -0.499, True),
        (1, 1, (2,), -0.501, False),
    ],
)
def test_what_one_draw_of_random_weights_meets_is_not_asked(tmp_path, row, measure, bands, value, asked):
    drawn = list(NOTHING)
    drawn[measure] = changed(drawn[measure], bands, value)
    found = invented(tmp_path, drawn=drawn)[row]
    part = ("by softmax scores", "by variance shares")[measure]
    assert (found.parts[part] != "not testable") == asked
    assert found.verdict_of_model == ("reproduced in kind" if asked else "partly")
