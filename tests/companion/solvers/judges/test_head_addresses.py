"""The rule of A-1 on made-up runs: both sides of every line, what cannot be judged, and a share by a literal loop."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from invented import save_invented

from posym_companion.experiments import SECOND
from posym_companion.ledger import ledger
from posym_companion.results import load_result
from posym_companion.solvers.head_addresses import HEADS, LESSONS, SITES, SOURCES, full_size
from posym_companion.solvers.judges import head_addresses

ADDRESS, BOTH, SHUFFLED = (list(SOURCES).index(name) for name in ("address", "both", "shuffled"))
NAMED = [[0, 0], [1, 0], [2, 1]]


@pytest.fixture(scope="module", autouse=True)
def _few_draws():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(head_addresses, "DRAWS", 40)
        yield


def invented(folder, *, right=1.0, only=None, **changes):
    """Runs in which heads hand on an address as the claim has it, but for those of ``only``, which do as told."""
    generator = np.random.default_rng(0)
    for setting in full_size():
        found = {"share": 0.6, "whole": 2.0, "others": 0.0, "shuffled": 0.0, "answer": 0.6}
        found["share"] = {"matrices": 0.0}.get(setting.model, 0.0 if setting.taught is None else 0.6)
        if only is not None and only(setting):
            found |= changes
        moved = 0.01 * generator.normal(size=(6, len(SITES), len(SOURCES), 2))
        moved[:, 0, ADDRESS] += found["share"] * found["whole"]
        moved[:, 0, BOTH] += found["whole"]
        moved[:, 0, SHUFFLED] += found["shuffled"]
        moved[:, 1, ADDRESS] += found["others"]
        odds = 0.01 * generator.normal(size=(6, len(SITES), len(SOURCES)))
        odds[:, 0, ADDRESS] += found["answer"] * 10
        odds[:, 0, BOTH] += 10
        heads = HEADS.get(setting.model)
        named = [[heads.layer, head] for head in heads.tested] + [*map(list, heads.readers)] if heads else NAMED
        chosen = np.broadcast_to([0.75, 0.25], (6, len(SITES), len(SOURCES), 2))
        later = np.stack([moved[:, 0], np.zeros_like(moved[:, 0])], 2)
        arrays = {"moved": moved, "moved_later": later, "odds": odds, "chosen": chosen}
        arrays |= {"correct": np.full(6, right), "named": np.array(named), "before": np.full((6, 2), -0.5)}
        save_invented(setting.name, arrays, folder, **asdict(setting))
    (row,) = ledger("A-1", folder=folder)
    return row


def is_one(setting):
    return (setting.model, setting.taught, setting.wording) == (SECOND, 1, "learned")


@pytest.fixture(scope="module")
def claimed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("claimed")
    return folder, invented(folder)


def test_heads_that_hand_on_an_address_as_the_claim_has_it(claimed):
    _, row = claimed
    assert row.verdict == "reproduced in kind"
    cases = [part.partition(" c")[0] for part in row.parts.values()]
    assert cases == ["yes", "12 of 12", "12 of 12", "12 of 12", "24 of 24", "6 of 6", "6 of 6", "44 of 44"]
    assert row.ours["mean address share, smollm2-135m"] == pytest.approx(0.6, abs=0.01)
    assert row.ours["mean moved by address, heads, taught gemma-3-270m"] == pytest.approx(1.2, abs=0.02)
    assert row.ours["mean asked place ahead before, taught smollm2-135m"] == 0.5
    where = "(smollm2-135m, run 1, learned)"
    assert row.ours[f"most that address moves any later head {where}"] == pytest.approx(1.2, abs=0.02)
    assert row.ours[f"answers with the other fact by address {where}"] == 0.25


SMOL, GEMMA = (f"later heads of {family} look where it says" for family in ("SmolLM2", "Gemma"))
TEACHING, CONTROL = "it comes with teaching", "other facts' order alone moves nothing"
ADDITIONS, MATRICES = "decoders taught by additions hand one on", "decoders taught by whole matrices do not"


@pytest.mark.parametrize(
    ("only", "changes", "expected"),
    [
        (is_one, {"share": 0.3}, {}),
        (is_one, {"share": 0.2}, {SMOL: "10 of 12", TEACHING: "22 of 22"}),
        (is_one, {"others": 1.3}, {SMOL: "10 of 12"}),
        (is_one, {"whole": 0.15}, {SMOL: "10 of 10"}),
        (is_one, {"answer": 0.2}, {"the answer goes by it": "11 of 12"}),
        (is_one, {"shuffled": -0.15}, {}),
        (is_one, {"shuffled": -0.25}, {CONTROL: "42 of 44"}),
        (lambda x: x.model in HEADS and x.model != SECOND, {"share": 0.0}, {GEMMA: "0 of 12", TEACHING: "12 of 12"}),
        (lambda x: x.model in HEADS and x.taught is None, {"share": 0.7}, {TEACHING: "0 of 24"}),
        (lambda x: x.model == LESSONS[0], {"share": 0.2}, {ADDITIONS: "0 of 6"}),
        (lambda x: x.model == LESSONS[1], {"share": 0.4}, {MATRICES: "0 of 6"}),
    ],
)
def test_each_line_has_two_sides(tmp_path, claimed, only, changes, expected):
    row, (_, as_claimed) = invented(tmp_path, only=only, **changes), claimed
    changed = {part: x.partition(" c")[0] for part, x in row.parts.items() if x != as_claimed.parts[part]}
    assert changed == expected


def test_models_that_do_not_answer_tell_nothing(tmp_path):
    assert invented(tmp_path, right=0.5).verdict == "not testable"
    assert invented(tmp_path, right=0.55).verdict == "reproduced in kind"


def test_a_share_is_of_sums_over_squares(claimed):
    folder, row = claimed
    setting = next(setting for setting in full_size() if is_one(setting))
    moved = load_result(setting.name, folder=folder)["moved"]
    alone = both = 0.0
    for square in range(6):
        alone += float(moved[square, 0, ADDRESS, 1])
        both += float(moved[square, 0, BOTH, 1])
    share = row.ours["address share (smollm2-135m, run 1, learned, 23:7)"]
    assert share["value"] == pytest.approx(alone / both, abs=1e-4)
