"""Claims on decoders that solve their task on made-up results: every part holds on one and is missed on another."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from invented import save_invented
from judged import count_parts, find_missed, judge_made_up, require_both_sides

from posym_companion.claims.task_solved import DECODERS, find_area_below, find_least_area
from posym_companion.results import load_result
from posym_companion.solvers.head_removal import AGAINST, JUDGED, HeadRemoval
from posym_companion.solvers.ranked_models import LANGUAGE_MODELS, SOLVERS
from posym_companion.solvers.solver_settings import BANDS, TaskSolvers

SEEDS, HEADS, PLANES = 5, 2, 16


def invent_untrained(folder, *, r=0.0, trend=(0.0, 0.0), use=0.0):
    """Scores before training, with correlation ``r`` over heads, and behaviour that goes so with the frequencies used.

    In the first draw both scores of early layers are so far above those of late ones.
    """
    first, free = np.random.default_rng(5).normal(size=(2, SEEDS * 2 * HEADS))
    first -= first.mean()
    free -= free.mean() + first * (free @ first) / (first @ first)
    both = np.stack([first / np.linalg.norm(first), free / np.linalg.norm(free)])
    rows = np.stack([both[0], r * both[0] + np.sqrt(1 - r**2) * both[1]], -1).reshape(SEEDS, 1, 2, HEADS, 2)
    drawn = np.broadcast_to(rows, (3, SEEDS, 2, 2, HEADS, 2)).copy()
    if any(trend):
        drawn[0] = 0.5
        drawn[0, :, :, 0] += trend
    save_invented("random_solvers/all", {f"{band}_2x2_8": drawn for band in BANDS}, folder)
    behaviour, free = (np.random.default_rng(x).permutation(np.linspace(-1, 1, SEEDS * 2 * HEADS)) for x in (6, 7))
    used = np.stack([behaviour, use * behaviour + (1 - use) * free], -1).reshape(SEEDS, 1, 2, HEADS, 2)
    used = np.broadcast_to(used, (3, SEEDS, 2, 2, HEADS, 2))
    save_invented("random_solvers/planes", {f"{band}_2x2_8_use": used for band in BANDS}, folder)


def invent_solver(folder, band="1e4", layers=2, *, binding=1.0, index=1.0, **arrays):
    """A result in which everything is as the papers would have it, but for what is given."""
    setting = TaskSolvers(band=band, layers=layers)
    noise = np.random.default_rng(BANDS.index(band) if band in [*BANDS] else 0).uniform(
        0, 0.02, (SEEDS, 2, layers, HEADS)
    )
    late = np.arange(layers)[:, None] >= layers // 2
    symbolic = np.where(late, 0.9, 0.2) + noise + np.array([0.05, -0.05])
    fast = np.where(late, 0.0, 1.0) + noise
    energy = np.zeros((SEEDS, 2, layers, HEADS, PLANES))
    energy[..., 0], energy[..., -1] = fast / 2, 1 - fast / 2
    carries = np.zeros((SEEDS, 2, layers, HEADS))
    carries[:, [0, 1], :, [0, 1]] = 1
    accuracy = np.broadcast_to([binding, index], (SEEDS, 2)).astype(float)
    made = {
        "angles": setting.angles.numpy(),
        "hits": np.round(np.broadcast_to(accuracy[..., None] * 100, (SEEDS, 2, 8))),
        "asked": np.full((SEEDS, 2, 8), 100),
        "scores": np.stack([1.1 - symbolic, symbolic, np.full_like(symbolic, 0.5), noise], -1),
        "null_scores": np.random.default_rng(0).uniform(size=(SEEDS, 2, layers, HEADS, 2)),
        "energy": energy,
        "patched": carries,
    }
    settings = {**dataclasses.asdict(setting), "seeds": list(setting.seeds)}
    return save_invented(setting.name, {**made, **arrays}, folder, **settings)


def judge_all_four(folder, **untrained):
    invent_untrained(folder, **untrained)
    return {name: judge_made_up(name, folder) for name in ("T-1", "T-2", "T-4", "T-5")}


def test_heads_as_the_papers_have_them_and_against_them(tmp_path):
    for band in ("1e4", "1e2"):
        good = invent_solver(tmp_path / "claimed", band)
        turned = {"scores": good["scores"][:, :, ::-1, ::-1], "null_scores": good["scores"][..., :2]}
        invent_solver(tmp_path / "turned", band, **turned)
        alike = good["scores"].copy()
        alike[..., 0] = alike[..., 1] + 0.01 * np.random.default_rng(3).normal(size=alike.shape[:-1])
        invent_solver(tmp_path / "alike", band, scores=alike)
    claimed = judge_all_four(tmp_path / "claimed")
    turned = judge_all_four(tmp_path / "turned", r=-1.0, use=1.0)
    alike = judge_all_four(tmp_path / "alike")
    # What random weights have as well is no merit of the training's.
    random = judge_all_four(tmp_path / "claimed", r=-1.0, trend=(0.72, -0.72), use=1.0)
    for name in ("T-1", "T-2", "T-4"):
        assert claimed[name].grade == "holds"
        require_both_sides(claimed[name], turned[name], alike[name], random[name])
        assert random[name].grade == "not attributable"
    assert [turned[name].grade for name in ("T-1", "T-4")] == ["absent or opposite"] * 2
    assert alike["T-2"].grade == "absent or opposite"


def test_binding_and_index_are_judged_apart(tmp_path):
    for band in ("1e4", "1e2"):
        scores = invent_solver(tmp_path, band)["scores"].copy()
        scores[:, 1, ..., 1] = scores[:, 1, ::-1, :, 1]
        invent_solver(tmp_path, band, scores=scores)
    rows = judge_all_four(tmp_path)
    assert find_missed(rows["T-1"]) == ["index: late layers are symbolic"]
    assert count_parts(rows["T-2"])["binding: r is negative"] == "2 of 2"
    assert count_parts(rows["T-2"])["index: r is negative"] == "0 of 2"


@pytest.mark.parametrize(("drawn", "held"), [(-0.99, 2), (-1.0, 0)])
def test_r_is_learned_only_below_every_draw_of_random_weights(tmp_path, drawn, held):
    for band in ("1e4", "1e2"):
        invent_solver(tmp_path, band)
    # All heads have r = -1 here, which is below the one and no more than a tie with the other.
    counts = count_parts(judge_all_four(tmp_path, r=drawn)["T-2"])
    assert counts["binding: r is below that of random weights"] == f"{held} of 2"


def judge_carriers(folder, chosen, symbolic):
    """T-5 where these heads, ``[layer, head]``, carry binding and the others index, and s_SYM is this on both."""
    for band in ("1e4", "1e2", "1e6"):
        good = invent_solver(folder, band)
        scores, patched = good["scores"].copy(), good["patched"].copy()
        noise = np.random.default_rng(1).uniform(0, 1e-3, (SEEDS, 1, *symbolic.shape))
        scores[..., 1], scores[..., 0] = symbolic + noise, 1 - symbolic - noise
        patched[:, 0], patched[:, 1] = chosen, 1 - chosen
        invent_solver(folder, band, scores=scores, patched=patched)
    invent_untrained(folder)
    return judge_made_up("T-5", folder)


def test_scores_that_tell_what_a_head_does(tmp_path):
    some = np.array([[0.0, 1.0], [1.0, 0.0]])
    claimed = judge_carriers(tmp_path / "claimed", some, np.where(some, 0.9, 0.2))
    assert claimed.grade == "holds"
    turned = judge_carriers(tmp_path / "turned", some, np.where(some, 0.2, 0.9))
    require_both_sides(claimed, turned)
    assert turned.grade == "absent or opposite"


def test_what_depth_alone_tells_is_not_the_scores_merit(tmp_path):
    """Late heads are symbolic and late heads carry binding; within a layer the scores know nothing of it."""
    answer = judge_carriers(tmp_path, np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[0.2, 0.2], [0.9, 0.9]]))
    asked = {one.name: one for one in answer.parts}
    assert asked["symbolic ranks carriers of binding, in the last layer"].told == 1
    assert asked["symbolic ranks carriers of binding, in the last layer"].held == 0
    assert asked["symbolic ranks carriers of binding, in earlier layers"].untold


def test_a_head_that_moves_a_fifth_carries(tmp_path):
    good = invent_solver(tmp_path)
    for share, told in ((0.2, 1), (0.199, 0)):
        invent_solver(tmp_path, patched=good["patched"] * share)
        answer = judge_made_up("T-5", tmp_path)
        assert answer.parts[0].told + len(answer.parts[0].untold) == 1
        few = [*answer.parts[0].untold.values()]
        assert few == ([] if told else ["0 heads on the smaller side"]) or told


def judge_bands(folder, **changed):
    """T-6 with every band at one and two layers, as the one-layer claims have it, but for what is changed."""
    for layers in (1, 2):
        for band in ("fast", "slow", "none"):
            right = {"binding": 1.0 if band == "slow" else 0.3, "index": 1.0 if band == "fast" else 0.3}
            invent_solver(folder, band, layers, **{**right, **changed.get(f"{band}_{layers}", {})})
    return judge_made_up("T-6", folder)


def test_frequency_beyond_one_layer(tmp_path):
    claimed = judge_bands(tmp_path)
    assert (claimed.grade, set(count_parts(claimed).values())) == ("holds", {"1 of 1"})
    changes = {
        "fast_2": {"index": 0.8, "binding": 0.7},
        "slow_2": {"index": 0.6, "binding": 0.8},
        "none_2": {"index": 1},
    }
    other = judge_bands(tmp_path, **changes)
    require_both_sides(claimed, other)
    assert other.grade == "absent or opposite"
    # One layer is U25-6's.
    assert judge_bands(tmp_path, slow_1={"index": 1.0}).grade == "holds"


# B-1

COUNTS, LISTS, QUESTIONS = [1, 2, 4], 4, 1600


def invent_removal(folder, model, *, levels, whole=1.0, spread=0.0, members=1, questions=1):
    """Removals in which accuracy is at the same level at every count, which differs by ``spread`` from list to list."""
    names = (*JUDGED, *AGAINST)
    level = np.array([levels.get(name, levels["other"]) for name in names])
    normal = np.random.default_rng(0).normal(size=(len(level), LISTS))
    moved = level[:, None] + spread * np.repeat(normal, QUESTIONS // LISTS, axis=1)
    rank = np.tile((np.arange(QUESTIONS // LISTS) + 0.5) / (QUESTIONS // LISTS), LISTS)
    arrays = {
        "order_names": np.array(names),
        "counts": np.array(COUNTS),
        "heads": np.array(8),
        "correct": np.broadcast_to((rank < moved)[:, None], (members, questions, len(names), len(COUNTS), QUESTIONS)),
        "ends": np.broadcast_to(np.stack([rank < whole, rank < 0.0]), (members, questions, 2, QUESTIONS)),
    }
    setting = HeadRemoval(model=model)
    save_invented(setting.name, arrays, folder, **dataclasses.asdict(setting))


def judge_removal(folder, score=0.2, against=0.8, *, copying=None, model="", **options):
    levels = {"other": against, **dict.fromkeys(JUDGED, score)}
    levels |= {} if copying is None else {"copying": copying}
    for name in list(SOLVERS)[:4] if model in DECODERS else LANGUAGE_MODELS[1:]:
        sizes = {"members": 5, "questions": 2} if model in DECODERS else {}
        invent_removal(folder, name, levels=levels, **sizes, **options)
    return judge_made_up("B-1", folder, model)


@pytest.mark.parametrize("model", ["", *DECODERS])
def test_an_order_must_beat_depth_and_copying(tmp_path, model):
    spread = {} if model else {"spread": 1e-3}
    claimed = judge_removal(tmp_path, model=model, **spread)
    assert claimed.grade == "holds"
    # Beyond depth alone is not beyond depth and copying.
    other = judge_removal(tmp_path, 0.4, copying=0.4, model=model, **spread)
    require_both_sides(claimed, other)
    assert other.grade == "absent or opposite"


def test_no_answers_or_no_room_tell_nothing(tmp_path):
    assert judge_removal(tmp_path, whole=0.52, spread=1e-3).grade == "undecided"
    assert judge_removal(tmp_path, copying=0.0).grade == "undecided"
    assert judge_removal(tmp_path, model=next(iter(DECODERS)), whole=0.85).grade == "undecided"


def test_areas_are_means_over_doublings(tmp_path):
    judge_removal(tmp_path, 0.5, 1.0)
    result = load_result(HeadRemoval(model=LANGUAGE_MODELS[1]).name, folder=tmp_path)
    x = np.log2(1 + np.array([0.0, 1, 2, 4, 8]))
    fine = np.interp(np.linspace(0, x[-1], 100_001), x, [1, 0.5, 0.5, 0.5, 0]).mean()
    assert find_area_below(result, "score").mean() == pytest.approx(fine, abs=1e-4)
    assert find_least_area(result) == pytest.approx(1 / (2 * x[-1]), abs=1e-9)
