"""Whether attention bends as the paper says, from the stored toys with attention of another shape."""

from __future__ import annotations

import numpy as np
import pytest

from posym_companion.ledger import ledger
from posym_companion.one_head.judges import frequency_attention as judge

PLACE = np.linspace(-1, 1, judge.LENGTH)


def test_bend_is_that_of_the_ends_above_the_middle():
    assert judge.bend(PLACE**2) > 0 > judge.bend(1 - PLACE**2)
    assert judge.bend(PLACE) == pytest.approx(0)


@pytest.mark.parametrize(("curve", "bent"), [(PLACE**2, "index"), (1 - PLACE**2, "retrieval")])
def test_attention_of_one_shape_bends_as_claimed_for_one_task_only(monkeypatch, curve, bent):
    """U-shaped is what Index asks for and Retrieval does not, and the reverse."""
    monkeypatch.setattr(judge, "attention_to_target", lambda *_: curve)
    (row,) = ledger("U25-10")
    for task in ("index", "retrieval"):
        assert row.parts[f"{task.capitalize()}: attention bends as claimed"] == ("yes" if task == bent else "no")
