"""What the removal of pure heads decides, from made-up costs of the stored models' heads."""

from __future__ import annotations

import numpy as np
import pytest
from invented import save_invented

from posym_companion.ledger import ledger
from posym_companion.several_hops.hop_mechanism import HopMechanism
from posym_companion.several_hops.judges import hop_mechanism
from posym_companion.several_hops.multihop import paper_size

PURE = np.arange(12) < 9


@pytest.mark.parametrize(
    ("pure", "other", "verdict", "grade"),
    [
        (0.11, 0.0, "reproduced in kind", "reproduced in kind"),
        (0.11, 0.2, "partly", "partly, 2 of 2, 2 controls missed"),
        (0.09, 0.2, "not reproduced", "not reproduced"),
        (0.09, 0.0, "not reproduced", "not reproduced"),
    ],
)
def test_pure_heads_are_critical_above_a_tenth_and_beside_others(tmp_path, monkeypatch, pure, other, verdict, grade):
    monkeypatch.setattr(hop_mechanism, "classify_heads", lambda run: np.where(PURE, 1, 0)[None, :, None])
    for setting in paper_size():
        silenced = np.broadcast_to(0.95 - np.where(PURE, pure, other)[:, None, None], (12, 1, 4))
        name = HopMechanism(model=setting.name).name
        save_invented(name, {"accuracy": np.full(4, 0.95), "silenced": silenced}, tmp_path, model=setting.name)
        save_invented(setting.name, {"nothing": np.zeros(1)}, tmp_path)
    (row,) = ledger("U26-10", folder=tmp_path)
    assert (row.verdict, row.grade) == (verdict, grade)
    assert row.numbers["letter: pure heads that are critical"] == f"{45 if pure > 0.1 else 0} of 45"
    control = row.parts["Letter's pure heads cost more than its others"]
    # Where no head is critical, costs are not compared.
    assert control == ("not testable" if max(pure, other) < 0.1 else f"{5 if pure > other else 0} of 5 models")
    assert row.ours["letter: accuracy that a pure head costs, models that have both"]["value"] == pytest.approx(pure)
