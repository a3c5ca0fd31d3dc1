"""This book's claims about origins on made-up results: every part holds on one and is missed on another."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from invented import save_invented
from judged import count_parts, find_missed, judge_made_up, require_both_sides

from posym_companion.claims import what_moves
from posym_companion.claims.what_moves import READERS, find_followed, find_followed_logits, find_share
from posym_companion.experiments import SECOND
from posym_companion.language_models import origin_patching, origins
from posym_companion.language_models.origins import READS, VARIANCES
from posym_companion.results import Result, load_result
from posym_companion.solvers import reader_heads
from posym_profile.language_models import PACKAGED


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    """What is made up has next to no spread."""
    monkeypatch.setattr(what_moves, "RESAMPLES", 40)


# C-1

PROMPTS, LAYERS, HEADS = 3, 6, 2


def split(origin, symbol):
    """Variances whose symbolic part is 2, of 10, of which the prompts' means are none."""
    found = np.zeros((len(VARIANCES), PROMPTS, LAYERS, HEADS))
    noise = 0.01 * np.random.default_rng(0).uniform(-1, 1, size=(PROMPTS, LAYERS, HEADS))
    both = 1 - origin - noise - symbol
    for name, size in {"symbol": symbol, "origin": origin + noise, "symbol_origin": both, "place": 4}.items():
        found[VARIANCES.index(name)] = 2 * size
    # What differs between prompts is a part of the interaction and none of the symbolic part.
    found[VARIANCES.index("symbol_origin")] += 0.5
    found[VARIANCES.index("prompts")] = 0.5
    return found


def judge_shares(folder, *, lists=0.8, symbol=0.1, prose=0.02, born=0.3):
    """C-1 with these shares of origin on lists, in prose and with random weights, and of symbol on lists."""
    for setting in origins.full_size():
        share = prose if setting.wording == "prose" else lists if setting.draw is None else born
        parts = np.stack([split(share, symbol if share == lists else 0.1)] * len(READS))
        arrays = {"reads": np.array(READS), "variances": np.array(VARIANCES), "parts": parts}
        save_invented(setting.name, arrays, folder, **asdict(setting))
    return judge_made_up("C-1", folder)


def test_origin_is_most_of_the_symbolic_part(tmp_path):
    claimed = judge_shares(tmp_path)
    assert claimed.grade == "holds"
    assert claimed.headline.startswith("origin's share for whole facts .80 [.80, .80] (likes)")
    other = judge_shares(tmp_path, lists=0.45, symbol=0.5, prose=0.12, born=0.5)
    require_both_sides(claimed, other)
    assert other.grade == "absent or opposite"
    assert judge_shares(tmp_path, born=0.82).grade == "not attributable"


def test_shares_are_of_the_symbolic_part_and_rounding_has_none():
    arrays = {"reads": np.array(["block"]), "variances": np.array(VARIANCES), "parts": split(0.8, 0.15)[None]}
    found = Result(name="origins/x", arrays=arrays, dims={}, settings={}, provenance={})
    total = sum(find_share(found, part) for part in ("origin", "symbol", "symbol_origin"))
    np.testing.assert_allclose(total, 1)
    np.testing.assert_allclose(find_share(found, "symbol"), 0.15)
    for name in ("origin", "symbol", "symbol_origin", "prompts"):
        arrays["parts"][:, VARIANCES.index(name), :, 0] *= 1e-9
    assert np.isnan(find_share(found, "origin")[:, 0]).all()
    assert np.isfinite(find_share(found, "origin")[:, 1:]).all()


# C-3


def judge_patches(folder, *, attention=(0.8, 0.2), answer=(0.8, 0.2), other=0.0, random=0.0, size=1.0, one=None):
    """C-3 where exchanges of origins do so much of what whole keys do, in the plain and in the taught model.

    Args:
        one: how far one head goes that moves thirty times as much as all others.
    """
    generator = np.random.default_rng(0)
    for setting in origin_patching.full_size():
        which = int("binds" in setting.model)
        parts = {"none": 0.0, "whole": 1.0, "symbol": 0.1, "other origins": other, "random": random}
        arrays = {"asked": np.arange(24) % 16}
        for name, shape, origin in (("attention", (3, 4), attention[which]), ("log_probability", (), answer[which])):
            whole = size * generator.normal(size=(24, 2, *shape))
            followed = np.full(shape, origin)
            if shape and one is not None:
                whole[..., 0, 0] *= 30
                followed[0, 0] = one
            rows = [whole * (followed if x == "origin" else parts[x]) for x, _ in origin_patching.RUNS]
            first = np.stack(rows, 2) - 2
            arrays[name] = np.stack([first, np.full_like(first, -2.0)], -1)
        arrays["log_ratio"] = arrays["attention"][..., 0] - arrays["attention"][..., 1]
        save_invented(setting.name, arrays, folder, **asdict(setting))
    return judge_made_up("C-3", folder)


def test_origins_are_followed(tmp_path):
    claimed = judge_patches(tmp_path)
    assert claimed.grade == "holds"
    turned = judge_patches(tmp_path, attention=(0.2, 0.8), answer=(0.2, 0.8), other=0.9, random=0.9)
    require_both_sides(claimed, turned)
    assert turned.grade == "absent or opposite"
    assert judge_patches(tmp_path, other=0.8).grade == "not attributable"
    unmoved = judge_patches(tmp_path, size=0.05)
    assert count_parts(unmoved)["the answer follows the origin in the plain model"] == "0 of 0"


@pytest.mark.parametrize(("one", "others", "held"), [(0.1, 0.8, 2), (0.8, 0.1, 0)])
def test_attention_is_the_median_head_s_and_not_what_one_head_makes(tmp_path, one, others, held):
    answer = judge_patches(tmp_path, attention=(others, 0.2), one=one)
    assert count_parts(answer)["attention follows the origin in the plain model"] == f"{held} of 2"
    result = load_result(origin_patching.full_size()[0].name, folder=tmp_path)
    assert find_followed(result, "attention", "origin").value == pytest.approx(one, abs=0.02)
    assert find_followed(result, "attention", "whole", than="origin").value == pytest.approx(1 - one, abs=0.02)


# C-6

SIZES = {SECOND: (30, 9), PACKAGED: (18, 4)}


def judge_readers(folder, *, right=True, scores=(0.0, 1.0), own=2.0, follows=0.7, control=0.0, only=None):
    """C-6 where heads read what they are said to; or the one named ``only`` does as the arguments have it."""
    generator = np.random.default_rng(0)
    for setting in (one for one in reader_heads.full_size() if not one.alone):
        shape = SIZES[setting.model]
        contrasts = 0.01 * generator.normal(size=(3, 6, *shape))
        positional, symbolic = np.zeros((6, *shape)), np.ones((6, *shape))
        whole = generator.normal(size=(6, 2, *shape))
        rows = {name: np.zeros_like(whole) for name in reader_heads.EXCHANGES} | {"whole": whole}
        for factor, heads in READERS[setting.model].items():
            for head in heads:
                is_it = only is None or only == (setting.model, setting.taught, setting.wording, *head)
                at = (slice(None), *head)
                first, second = (0, 1) if factor == "symbol" else (1, 0)
                contrasts[first][at] += own if is_it else 2.0
                contrasts[second][at] += 1.0
                positional[at], symbolic[at] = scores if is_it else (0.0, 1.0)
                shares = {factor: follows if is_it else 0.7, "other origins": control if is_it else 0.0}
                for name, share in ({"symbol": 0.3, "origin": 0.3} | shares).items():
                    rows[name][:, :, *head] = share * whole[:, :, *head]
        arrays = {"contrasts": contrasts, "positional": positional, "symbolic": symbolic, "correct": np.full(6, right)}
        save_invented(setting.name, arrays, folder, **asdict(setting))
        alone = replace(setting, alone=True)
        save_invented(alone.name, {"log_ratio": np.stack([*rows.values()], 2)}, folder, **asdict(alone))
    return judge_made_up("C-6", folder)


def test_heads_that_read_what_they_are_said_to(tmp_path):
    claimed = judge_readers(tmp_path)
    assert (claimed.grade, len(claimed.evidence)) == ("holds", 24)
    assert count_parts(claimed)["readers of origins follow exchanged origins"] == "12 of 12"
    other = judge_readers(tmp_path, scores=(0.2, 0.95), own=0.5, follows=0.2, control=0.8)
    require_both_sides(claimed, other)
    assert other.grade == "absent or opposite"
    assert judge_readers(tmp_path, right=False).grade == "undecided"


def test_one_head_that_does_not_is_one_case_less(tmp_path):
    one = judge_readers(tmp_path, only=(SECOND, 1, "bought", 23, 7), follows=0.3)
    assert (one.grade, find_missed(one)) == ("weaker", ["readers of origins follow exchanged origins"])
    assert count_parts(one)["readers of origins follow exchanged origins"] == "11 of 12"


def test_a_slope_is_through_zero(tmp_path):
    """A literal loop over prompts and pairs."""
    judge_readers(tmp_path)
    setting = next(one for one in reader_heads.full_size() if one.model == SECOND and one.alone)
    rows = load_result(setting.name, folder=tmp_path)["log_ratio"][..., 23, 2].astype(float)
    above = below = 0.0
    for prompt in range(6):
        for pair in range(2):
            logit = dict(zip(reader_heads.EXCHANGES, rows[prompt, pair], strict=True))
            whole = logit["whole"] - logit["none"]
            above += (logit["origin"] - logit["symbol"]) * whole
            below += whole**2
    result = load_result(setting.name, folder=tmp_path)
    assert find_followed_logits(result, "origin", (23, 2), "symbol").value == pytest.approx(above / below, rel=1e-6)
