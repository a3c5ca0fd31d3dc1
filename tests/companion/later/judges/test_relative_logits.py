"""What the mask does to logits, and index without rotation, from made-up runs."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from invented import save_invented

from posym_companion.later.relative_logits import full_size
from posym_companion.ledger import ledger


def invented(folder, *, near=1.0, free=0.01, first=0.0, later=0.4, most=4, learned=1.0, born=0.3, asked=0.2, right=1.0):
    """Five layers; of the whole variance so much is not relative, of random weights ``born``. Five decoders a depth."""
    for setting in full_size():
        if setting.solver is not None:
            logits = np.zeros((2, 5, setting.solver.layers, 2, 8, 8))
            logits[..., -1, 0, :, :] = asked**0.5 * np.sin(np.arange(8)) / np.sin(np.arange(8)).std()
            own = np.eye(8) - 1 / 8
            logits[..., -1, 0, :, :] += (1 - asked) ** 0.5 * own / own.std()
            patched = np.zeros((5, setting.solver.layers, 2))
            patched[:, -1, 0] = 0.9
            arrays = {"accuracy": np.full(5, right), "patched": patched, "logits": logits, "logits_before": logits}
        else:
            whole, beyond = np.ones(5), np.full(5, later)
            beyond[0] = first
            beyond[most + 1 :] = 0.0
            if setting.kind == "no parameters":
                beyond = np.full(5, 0.25 if setting.masked else free)
            elif setting.draw is not None:
                whole, beyond = whole * 0.1 / learned, np.full(5, born)
            arrays = {"whole": whole, "relative": whole * (1 - beyond), "near_minus_far": near * np.ones(5)}
        save_invented(setting.name, arrays, folder, **asdict(setting))
    return ledger("L-8", "L-8b", folder=folder)


@pytest.mark.parametrize(
    ("values", "missed"),
    [
        ({}, []),
        ({"near": -1.0}, ["without parameters near keys are favoured"]),
        ({"free": 0.07}, ["the mask does it"]),
        ({"first": 0.06}, ["where keys know no place, logits are relative"]),
        ({"most": 2}, ["later layers of language models are not"]),
        ({"born": 0.41}, ["training amplifies it"]),
        # Logits of ten times the variance are louder, and amplify nothing.
        ({"learned": 0.05}, []),
    ],
)
def test_what_is_not_as_claimed_is_missed(tmp_path, values, missed):
    row, _ = invented(tmp_path, **values)
    lost = [part for part, said in row.parts.items() if said.startswith("0 of")]
    if values.get("most") == 2:
        lost = [part for part in lost if part != "training amplifies it"]  # the median of the later layers is lower
    assert lost == missed
    assert row.verdict == ("partly" if missed else "reproduced in kind")
    louder = row.cases["nats, less the most of random weights"].values()
    assert all((x > 0) == ("learned" not in values) for x in louder)
    if "most" not in values:
        assert "With no token left out the median of the later layers is 0.40 (gemma-3-270m) and" in row.note


@pytest.mark.parametrize(
    ("values", "verdict"),
    [({"asked": 0.51}, "reproduced in kind"), ({"asked": 0.49}, "not reproduced"), ({"right": 0.9}, "not testable")],
)
def test_index_is_the_same_whatever_is_asked_or_not(tmp_path, values, verdict):
    _, row = invented(tmp_path, **values)
    assert row.verdict == verdict
    if "asked" in values:
        assert list(row.cases["the same whatever is asked"].values()) == pytest.approx([values["asked"]] * 10, abs=1e-3)
