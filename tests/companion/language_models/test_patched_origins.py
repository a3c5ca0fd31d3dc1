"""What patched origins decide, from made-up runs: one case that fails, one head, nothing that varies."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from invented import save_invented

from posym_companion.language_models.judges import origin_patching
from posym_companion.language_models.judges.origin_patching import (
    find_greatest_head,
    measure_exchange,
    median_followed,
    share_followed,
)
from posym_companion.language_models.origin_patching import MIDDLE, PACKAGED, RUNS, full_size
from posym_companion.ledger import ledger
from posym_companion.results import load_result


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    """What is invented has next to no spread."""
    monkeypatch.setattr(origin_patching, "DRAWS", 40)


def invented(
    folder,
    *,
    attention=None,
    answer=None,
    control=0.0,
    random=0.0,
    size=1.0,
    prompts=24,
    model=PACKAGED,
    one=None,
    **wordings,
):
    """Runs in which exchanges of origins do so much of what whole keys do, of (plain, taught) models."""
    attention, answer = attention or (0.8, 0.2), answer or (0.8, 0.2)
    generator = np.random.default_rng(0)
    for setting in full_size(model):
        which = 0 if setting.model == model else 1
        parts = {"none": 0.0, "whole": 1.0, "symbol": 0.1, "other origins": control, "random": random}
        arrays = {"asked": np.arange(prompts) % 16}
        for name, shape, of in (("attention", (3, 4), attention), ("log_probability", (), answer)):
            origin = wordings.get(setting.wording, of)[which]
            whole = size * generator.normal(size=(prompts, 2, *shape))
            if shape and one is not None:
                # One head moves thirty times as much as all others, and follows so much by itself.
                whole[..., 0, 0] *= 30
            followed = np.full(shape, origin)
            if shape and one is not None:
                followed[0, 0] = one
            rows = [whole * (followed if exchange == "origin" else parts[exchange]) for exchange, _ in RUNS]
            first = np.stack(rows, 2) - 2
            arrays[name] = np.stack([first, np.full_like(first, -2.0)], -1)
        arrays["log_ratio"] = arrays["attention"][..., 0] - arrays["attention"][..., 1]
        save_invented(setting.name, arrays, folder, **asdict(setting))
    (row,) = ledger("C-3", folder=folder)
    return row


def test_what_is_as_claimed_and_a_wording_that_is_not(tmp_path):
    row = invented(tmp_path)
    assert (row.verdict, row.fails_in) == ("reproduced in kind", [])
    assert row.model == "gemma-3-270m, plain and taught to bind"
    assert row.ours["attention that follows origin (plain, likes)"]["value"] == pytest.approx(0.8, abs=2e-4)
    assert row.ours["answer that follows symbol (taught, bought)"]["value"] == pytest.approx(0.1, abs=2e-4)
    other = invented(tmp_path, likes=(0.2, 0.8))
    changed = {part: count.partition(" of")[0] for part, count in other.parts.items() if count != row.parts[part]}
    assert changed == {f"{what} follows the origin in the plain model": "1" for what in ("attention", "the answer")} | {
        f"{what} does not follow the origin in the taught model": "1" for what in ("attention", "the answer")
    }
    assert other.fails_in[0].startswith("plain, likes: attention that follows origin, median head 0.2 ")
    assert len(other.fails_in) == 4
    (missed,) = invented(tmp_path, answer=(0.8, 0.6), bought=(0.8, 0.2)).fails_in
    assert missed.startswith("taught, likes: answer that follows origin 0.6 ")


@pytest.mark.parametrize("control", ["control", "random"])
def test_a_control_that_does_as_much_is_missed_in_every_case(tmp_path, control):
    row = invented(tmp_path, **{control: 0.8})
    part = {
        "control": "in the plain model more than other facts' origins are",
        "random": "more than random directions are",
    }
    assert row.parts.pop(part[control]) == "0 of 4 cases of a wording and attention or answer"
    assert not any(count.startswith("0 of") for count in row.parts.values())


@pytest.mark.parametrize(("one", "others", "now"), [(0.1, 0.8, 2), (0.8, 0.1, 0)])
def test_attention_is_the_median_head_s_and_not_what_one_head_makes(tmp_path, one, others, now):
    row = invented(tmp_path, attention=(others, 0.2), one=one)
    assert row.parts["attention follows the origin in the plain model"] == f"{now} of 2 wordings"
    assert row.ours["attention that follows origin, median head (plain, likes)"]["value"] == pytest.approx(others)
    assert row.ours["attention that follows origin (plain, likes)"]["value"] == pytest.approx(one, abs=0.02)


def test_slopes_are_through_zero_and_of_the_same_layers(tmp_path):
    invented(tmp_path, attention=(0.75, 0.2))
    result = load_result(full_size()[0].name, folder=tmp_path)
    whole, part = (measure_exchange(result, "logits", exchange, MIDDLE) for exchange in ("whole", "origin"))
    assert whole.shape == (24, 2 * 3 * 4)
    assert share_followed(result, "logits", "origin", MIDDLE).value == pytest.approx(
        (whole * part).sum() / (whole**2).sum()
    )
    assert share_followed(result, "logits", "whole", MIDDLE).value == pytest.approx(1)
    assert share_followed(result, "logits", "origin", than="whole").value == pytest.approx(-0.25)


def test_heads_are_told_apart_and_the_largest_is_named(tmp_path):
    """One head moves ten times as much as the others and follows no origin; a head that never moves has no slope."""
    invented(tmp_path)
    setting = full_size()[0]
    result = load_result(full_size()[0].name, folder=tmp_path)
    arrays = dict(result.arrays)
    attention = arrays["attention"].copy()
    by = {exchange: run for run, (exchange, layers) in enumerate(RUNS) if layers == "all"}
    none, whole, origin = (attention[:, :, by[name]] for name in ("none", "whole", "origin"))
    whole[..., 1, 2, :] = none[..., 1, 2, :] + 10 * (whole - none)[..., 1, 2, :]
    origin[..., 1, 2, :] = none[..., 1, 2, :]
    whole[..., 0, 0, :] = none[..., 0, 0, :]
    save_invented(setting.name, {**arrays, "attention": attention}, tmp_path, **asdict(setting))
    result = load_result(setting.name, folder=tmp_path)
    head, part = find_greatest_head(result)
    assert head == "1:2"
    assert 0.85 < part < 0.95
    assert median_followed(result, "origin").value == pytest.approx(0.8, abs=1e-3)
    ours = ledger("C-3", folder=tmp_path)[0].ours
    assert ours[
        "part of the attention that whole keys move, of the head that moves most (plain, likes)"
    ] == pytest.approx(part, abs=1e-4)
