"""What heads do and what their removal costs, from made-up numbers of the stored models' heads."""

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
    ("pure", "other", "grade"),
    [
        (0.11, 0.0, "reproduced in kind"),
        (0.11, 0.2, "partly, 2 of 2, 2 controls missed"),
        (0.09, 0.2, "not reproduced"),
        (0.09, 0.0, "not reproduced"),
    ],
)
def test_pure_heads_are_critical_above_a_tenth_and_beside_others(tmp_path, monkeypatch, pure, other, grade):
    monkeypatch.setattr(hop_mechanism, "classify_heads", lambda run: np.where(PURE, 1, 0)[None, :, None])
    for setting in paper_size():
        silenced = np.broadcast_to(0.95 - np.where(PURE, pure, other)[:, None, None], (12, 1, 4))
        name = HopMechanism(model=setting.name).name
        save_invented(name, {"accuracy": np.full(4, 0.95), "silenced": silenced}, tmp_path, model=setting.name)
        save_invented(setting.name, {"nothing": np.zeros(1)}, tmp_path)
    (row,) = ledger("U26-10", folder=tmp_path)
    assert row.grade == grade
    assert row.numbers["Letter's pure heads are critical"] == f"{45 if pure > 0.1 else 0} of 45"
    control = row.parts["Letter's pure heads cost more than its others"]
    # Where no head is critical, costs are not compared.
    assert control == ("not testable" if max(pure, other) < 0.1 else f"{5 if pure > other else 0} of 5 models")
    assert row.ours["cost of pure heads less others' (letter, seed 2)"] == pytest.approx(pure - other, rel=1e-3)


def test_a_head_that_does_something_else_is_one_case_less(tmp_path, monkeypatch):
    monkeypatch.setattr(hop_mechanism, "classify_heads", lambda run: np.where(PURE, 1, -1)[None, :, None])
    for setting in paper_size():
        letter, hits = setting.task == "letter", np.zeros((12, 1, 7))
        hits[..., 3] = 0.9 if letter else np.where(PURE, 0.9, 0.1)[:, None]
        hits[..., 0] = 0.1 if letter else np.where(PURE, 0.1, 0.9)[:, None]
        if setting.seed == 1:
            hits[10, 0] = [0.5, 0, 0, 0.5, 0, 0, 0] if letter else np.eye(7)[3]
        silenced = np.full((12, 1, 4), 0.95)
        silenced[-1] = 0.4 if setting.seed else 0.5
        arrays = {"accuracy": np.full(4, 0.95), "silenced": silenced, "hits": hits}
        save_invented(HopMechanism(model=setting.name).name, arrays, tmp_path, model=setting.name)
        save_invented(setting.name, {"nothing": np.zeros(1)}, tmp_path)
    (row,) = ledger("U26-8", folder=tmp_path)
    assert list(row.parts.values()) == [
        "45 of 45 heads",
        "14 of 15 heads",
        "14 of 15 heads",
        "16 of 20 pairs of hop and seed",
    ]
    assert (
        row.fails_in[0] == "number, symbolic, seed 1, layer 10: its role agrees most False, tokens on which it agrees 0"
    )
