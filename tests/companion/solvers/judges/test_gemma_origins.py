"""The judge of C-4 on made-up contrasts."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from invented import save_invented

from posym_companion.experiments import PACKAGED, SECOND
from posym_companion.language_models.origins import CROSSED, full_size
from posym_companion.ledger import ledger
from posym_companion.solvers.judges.gemma_runs import SEEDS
from posym_companion.solvers.taught_gemma import TaughtGemma

LAYERS, HEADS, PROMPTS = 4, 2, 5
CARRIERS = [(1, 0), (3, 1)]


def invented(folder, changed=None, *, right=True, carriers=CARRIERS, model=PACKAGED):
    for seed in SEEDS:
        patched = np.zeros((1, 2, LAYERS, HEADS))
        for layer, head in [*carriers, *([(2, 0)] if seed else [])]:  # one head carries in some seeds alone
            patched[..., layer, head] = 0.5
        arrays = {"answer_patched": patched, "other_whole": np.zeros((1, 2)), "clean_whole": np.ones((1, 2))}
        save_invented(TaughtGemma(model=model, seed=seed).name, arrays, folder, seed=seed)
    generator = np.random.default_rng(0)
    for setting in full_size(model):
        if not setting.asked:
            continue
        found = 0.01 * generator.normal(size=(len(CROSSED), 3, PROMPTS, LAYERS, HEADS))
        if "binds" in setting.model:
            for layer, head in CARRIERS:
                found[:, 0, :, layer, head] += 5
                found[:, 1, :, layer, head] += 1
        if changed:
            changed(setting, found)
        arrays = {
            "curves": np.array(list(CROSSED)),
            "contrasts": found,
            "correct": right[setting.wording] if isinstance(right, dict) else np.full(PROMPTS, right),
        }
        save_invented(setting.name, arrays, folder, **asdict(setting))
    return ledger("C-4", folder=folder)[0]


def test_another_family_is_asked_by_its_own_runs(tmp_path):
    invented(tmp_path)
    row = invented(tmp_path, change(f"{SECOND}-binds", "likes", 0, -0.5), model=SECOND)
    (other,) = row.families
    assert (row.verdict, row.verdict_of_model, other.verdict) == (
        "in kind, one family of two",
        "reproduced in kind",
        "partly",
    )
    assert other.parts["carriers read the symbol asked for"] == "3 of 4 heads on a wording"
    assert f"origins/{SECOND}-binds_likes_16" in other.evidence


def test_carriers_of_every_seed_are_asked_on_both_wordings(tmp_path):
    row = invented(tmp_path)
    assert row.verdict == "reproduced in kind"
    assert row.first_rule_verdict == "reproduced in kind"
    assert row.parts["carriers read the symbol asked for"] == "4 of 4 heads on a wording"
    assert "1:0, 3:1." in row.note
    assert row.ours["contrast of the symbol asked for (1:0, likes)"]["value"] == pytest.approx(5, abs=0.1)


def change(model, wording, factor, height, at=CARRIERS[0]):
    def changed(setting, found):
        if setting.model.endswith(model) and setting.wording == wording:
            found[:, factor, :, *at] = height + 0.01 * np.arange(PROMPTS)

    return changed


@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        # What is 5 is so beside an origin's, an untaught head's and one that carries nothing of a little more.
        (change("binds", "bought", 1, 5.2), {"more than its origin": "3 of 4 heads on a wording"}),
        (change("270m", "bought", 0, 5.2), {"more than before teaching": "3 of 4 heads on a wording"}),
        (
            change("binds", "bought", 0, 5.2, at=(0, 0)),
            {"more than heads that carry nothing": "2 of 4 heads on a wording"},
        ),
    ],
)
def test_one_head_that_does_not_is_one_case_less(tmp_path, changed, parts):
    row = invented(tmp_path, changed)
    assert {
        part: cases for part, cases in row.parts.items() if cases not in ("yes", "4 of 4 heads on a wording")
    } == parts
    assert all("bought: " in missed for missed in row.fails_in)
    assert (row.verdict_of_model, len(row.fails_in)) == ("partly", 4 - int(next(iter(parts.values()))[0]))


def test_half_of_the_prompts_right_in_one_wording_is_too_few(tmp_path):
    """A share over both wordings would be three quarters."""
    row = invented(tmp_path, right={"likes": np.arange(PROMPTS) > 1, "bought": np.arange(PROMPTS) >= 0})
    assert row.verdict == "reproduced in kind"
    row = invented(tmp_path, right={"likes": np.arange(PROMPTS) > 2, "bought": np.arange(PROMPTS) >= 0})
    assert row.verdict == "not testable"


def test_a_model_that_does_not_bind_or_has_no_carrier_tells_nothing(tmp_path):
    assert invented(tmp_path / "wrong", right=False).verdict == "not testable"
    row = invented(tmp_path / "none", carriers=[])
    assert row.parts["carriers read the symbol asked for"] == "not testable"
    assert row.parts["more than before teaching"] == "not testable"
    assert "carry the answer: none." in row.note
