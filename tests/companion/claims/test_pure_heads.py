"""Claims about Number and Letter on made-up runs: every part holds on one and is missed on another."""

from __future__ import annotations

import numpy as np
import pytest
from invented import save_invented
from judged import count_parts, find_missed, judge_made_up, require_both_sides

from posym_companion.claims import pure_heads
from posym_companion.claims.pure_heads import FORBIDDEN, POSITIONAL, SYMBOLIC, TABLE_1, TASKS
from posym_companion.several_hops.hop_kinds import SETS, list_sets
from posym_companion.several_hops.hop_variants import HopVariant
from posym_companion.several_hops.multihop import SEEDS

STEPS, LAYERS, HOPS = 1000, 12, 4
LOOKS = np.arange(0, STEPS + 1, 50)
KINDS = {"number": [1] * 4 + [-1] * 8, "letter": [-1] * 12}


def invent_run(folder, task, seed, *, learned=None, kinds=None, ids=None, final=0.98, first=0.12, pure_from=0.0):
    """A run whose hops jump from chance to ``final`` at steps ``learned``, with heads of given kinds.

    When the first hop is learned, the others rise to ``first``. Heads are pure once ``pure_from`` of the mean rise in
    accuracy has passed, and never before.
    """
    learned = np.array(learned or ((100, 300, 500, 700) if task == "number" else (400, 400, 450, 450)))
    kinds = np.array(kinds or KINDS[task])
    accuracy = np.where(LOOKS[:, None] >= learned, final, np.where(LOOKS[:, None] >= learned.min(), first, 0.12))
    rise = (accuracy[::2].mean(1) - 0.12) / (final - 0.12)
    pure = (rise >= pure_from)[:, None] & (np.arange(LAYERS) < np.round(rise * LAYERS)[:, None])
    shape = (len(rise), HOPS, HOPS, LAYERS, 1)
    # A path of so many hops has no more stations.
    missing = np.where(np.arange(HOPS) > np.arange(HOPS)[:, None], np.nan, 0.0)[:, :, None, None]

    def scores(kind):
        high = np.where(pure, np.where(kinds == kind, 0.99, 0.01), 0.8)
        return np.broadcast_to(high[:, None, None, :, None], shape) + missing

    profile = np.array(TABLE_1[task] if ids is None else ids, dtype=float)
    arrays = {
        "look_step": LOOKS,
        "look_accuracy": accuracy,
        "accuracy": accuracy[::2],
        "test_accuracy": np.full(HOPS, final),
        "positional": scores(1),
        "symbolic": scores(-1),
        "frequency": np.broadcast_to(profile[:, None], (len(rise), LAYERS, 1)),
    }
    return save_invented(f"multihop/{task}_{seed}", arrays, folder, seed=seed)


def judge_runs(folder, claim, **changed):
    """A claim on five runs of each task; options of a task are those of all its runs, or of seed 1 in a list."""
    for task in TASKS:
        for seed in SEEDS:
            options = changed.get(task, {})
            invent_run(folder, task, seed, **(options[seed == 1] if isinstance(options, list) else options))
    return judge_made_up(claim, folder)


def test_a_hop_is_learned_where_two_looks_in_a_row_say_so(tmp_path):
    run = invent_run(tmp_path, "number", 0)
    assert pure_heads.find_steps_learned(run).tolist() == [100, 300, 500, 700]
    looks = run["look_accuracy"]
    looks[3, 3] = 0.98  # a single lucky look
    assert pure_heads.find_steps_learned(run).tolist() == [100, 300, 500, 700]
    looks[5:7, 3] = 0.98
    assert pure_heads.find_steps_learned(run).tolist() == [100, 300, 500, 250]
    looks[:, 2] = 0.5
    assert np.isnan(pure_heads.find_steps_learned(run)[2])
    assert pure_heads.measure_spread(run) == 1.0


LATE = {"learned": (400, 400, 400, 600), "first": 0.8, "pure_from": 1.0}


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        ("U26-1", [{"number": {"learned": (450, 400, 400, 400)}, "letter": {"learned": (100, 200, 300, 400)}}]),
        (
            "U26-2",
            [
                {"number": {"kinds": [1, -1] * 6}, "letter": {"kinds": [1, 1, *[-1] * 10]}},
                {task: {**LATE} for task in TASKS},
                {task: {"kinds": [0] * 12} for task in TASKS},
            ],
        ),
        ("U26-3", [{"number": {"ids": [12] * 4 + [30] + [20] * 7}, "letter": {"ids": [60] * 2 + [20, 30] * 5}}]),
    ],
)
def test_every_part_holds_as_claimed_and_is_missed_otherwise(tmp_path, claim, changes):
    claimed = judge_runs(tmp_path / "claimed", claim)
    assert claimed.grade == "holds"
    others = [judge_runs(tmp_path / str(place), claim, **changed) for place, changed in enumerate(changes)]
    require_both_sides(claimed, *others)
    assert all(other.grade in ("weaker", "absent or opposite") for other in others)


def test_one_seed_that_is_not_as_claimed_is_one_case_less(tmp_path):
    answer = judge_runs(tmp_path, "U26-1", number=[{}, {"learned": (300, 100, 500, 700)}])
    assert (answer.grade, find_missed(answer)) == ("weaker", ["Number learns hops in the order 1 to 4"])
    assert count_parts(answer)["Number learns hops in the order 1 to 4"] == "4 of 5"


def test_models_that_do_not_learn_tell_nothing(tmp_path):
    assert judge_runs(tmp_path, "U26-1", letter={"final": 0.85}).grade == "undecided"


def invent_mechanism(folder, *, cost=0.0, role=0.9, decides=0.6):
    """Runs with pure heads that agree so far with their role, cost so much, and a last layer of Letter that decides."""
    for task in TASKS:
        for seed in SEEDS:
            run = invent_run(folder, task, seed)
            hits = np.full((LAYERS, 1, 7), 0.1)
            for layer, kind in enumerate(pure_heads.classify_heads(run)[-1, :, 0]):
                hits[layer, 0, pure_heads.ROLES[task, int(kind)][1]] = role
            silenced = np.full((LAYERS, 1, 4), 0.95 - cost)
            silenced[-1] -= decides if task == "letter" else 0
            arrays = {"accuracy": np.full(4, 0.95), "silenced": silenced, "hits": hits}
            save_invented(f"hop_mechanism/{task}_{seed}", arrays, folder)


def test_roles_of_heads(tmp_path):
    invent_mechanism(tmp_path / "claimed")
    claimed = judge_made_up("U26-8", tmp_path / "claimed")
    assert claimed.grade == "holds"
    assert [*count_parts(claimed).values()] == ["20 of 20", "40 of 40", "60 of 60", "20 of 20"]
    invent_mechanism(tmp_path / "other", role=0.4, decides=0.4)
    other = judge_made_up("U26-8", tmp_path / "other")
    require_both_sides(claimed, other)
    assert other.grade == "absent or opposite"


def test_one_pure_head_is_critical_above_a_tenth(tmp_path):
    invent_mechanism(tmp_path / "claimed", cost=0.11)
    invent_mechanism(tmp_path / "other", cost=0.09, decides=0.0)
    claimed, other = (judge_made_up("U26-10b", tmp_path / place) for place in ("claimed", "other"))
    require_both_sides(claimed, other)
    assert (claimed.grade, other.grade) == ("holds", "absent or opposite")
    assert count_parts(other) == {
        "Number's pure heads are critical": "0 of 60",
        "Letter's pure heads are critical": "0 of 60",
    }


# Removals of whole kinds

MIXED = {"number": [1, 1, 1, 0, 0, -1, -1, -1, -1, 0, 0, 0], "letter": [0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, 0]}
DRAWS, SEQUENCES = 8, 400


def save_removals(folder, task, seed, kinds, right):
    """What is right ``[set, sequence]`` without each set of layers, whether they are zeroed or averaged."""
    kind, hops = np.array(kinds), np.arange(SEQUENCES) % 4 + 1
    arrays = {"kind": kind, "removed": list_sets(kind, DRAWS), "right": np.stack([right] * 2), "hops": hops}
    save_invented(f"hop_kinds/{task}_{seed}", arrays, folder, draws=DRAWS)


def invent_removals(folder, needed, *, seeds=SEEDS, kinds=MIXED, odd=None):
    """Models that are right while a layer of every kind that they need is left, else in a third of the sequences.

    Args:
        folder: of results.
        needed: by task the kinds; 2 stands for the first three layers, whatever their kind.
        seeds: that have been run.
        kinds: of the layers, by task.
        odd: by task the kinds that the model of seed 1 needs.
    """
    third = np.arange(SEQUENCES) % 3 == 0
    for task in TASKS:
        kind = np.array(kinds[task])
        sets = list_sets(kind, DRAWS)
        for seed in seeds:
            wants = odd[task] if odd and seed == 1 else needed[task]
            needs = [np.arange(LAYERS) < 3 if want == 2 else kind == want for want in wants]
            fails = (
                np.any([sets[:, each].all(1) & each.any() for each in needs], 0) if needs else np.zeros(len(sets), bool)
            )
            save_removals(folder, task, seed, kind, np.where(fails[:, None], third, True))


def invent_variants(folder, **changed):
    solved = {("number", "plain"): 0.99, ("letter", "plain"): 0.99}
    solved |= {(task, change): 0.99 if holds else 0.2 for _, task, change, holds in FORBIDDEN}
    for (task, change), accuracy in solved.items():
        right = changed.get(f"{task}_{change}", accuracy)
        save_invented(HopVariant(task=task, change=change).name, {"test_accuracy": np.full((3, 2), right)}, folder)


BOTH = {"number": (POSITIONAL, SYMBOLIC), "letter": (SYMBOLIC,)}


def judge_removals(folder, needed=BOTH, claim="U26-9", *, variants=None, **options):
    invent_variants(folder, **(variants or {}))
    invent_removals(folder, needed, **options)
    return judge_made_up(claim, folder)


def test_number_needs_both_kinds_and_letter_one(tmp_path):
    claimed = judge_removals(tmp_path / "claimed")
    assert (claimed.grade, find_missed(claimed)) == ("holds", [])
    flipped = {"number_nope": 0.95, "number_slow": 0.95, "letter_nope": 0.5, "letter_fast": 0.95}
    none = judge_removals(
        tmp_path / "none",
        {"number": (), "letter": (POSITIONAL,)},
        kinds={**MIXED, "letter": MIXED["number"]},
        variants=flipped,
    )
    assert none.grade == "absent or opposite"
    asked = {one.name for one in claimed.parts if one.asks == "direction"}
    assert asked == set(find_missed(none))


def test_seeds_that_disagree_make_it_depend_on_the_model(tmp_path):
    answer = judge_removals(tmp_path, odd={"number": (POSITIONAL,), "letter": (SYMBOLIC,)})
    assert answer.grade == "depends on the model"
    assert count_parts(answer)["Number needs its symbolic heads"] == "4 of 5"


@pytest.mark.parametrize("claim", ["U26-9", "U26-10a"])
def test_parts_whose_seeds_are_missing_cannot_be_told(tmp_path, claim):
    answer = judge_removals(tmp_path, claim=claim, seeds=(0, 1, 2))
    untold = [said for one in answer.parts for said in one.untold.values()]
    assert {"not run: number_3, number_4", "not run: letter_3, letter_4"} == set(untold)
    assert answer.grade == {"U26-9": "weaker", "U26-10a": "undecided"}[claim]


def test_depth_is_told_from_kind(tmp_path):
    """Layers that matter for their depth alone: as many neighbours of them cost as much as those of the kind."""
    kinds = {"number": [0, 1, 1, 1, -1, -1, -1, -1, -1, 0, 0, 0], "letter": MIXED["letter"]}
    sets = list_sets(np.array(kinds["number"]), DRAWS)
    answer = judge_removals(tmp_path, kinds=kinds)
    assert find_missed(answer) == []
    third = np.arange(SEQUENCES) % 3 == 0
    for seed in SEEDS:
        # Two runs of three neighbours are worse than the positional layers.
        worse = sets[:, [0, 1, 2]].all(1) | sets[:, [2, 3, 4]].all(1)
        right = np.where(worse[:, None], False, np.where(sets[:, 1:4].all(1)[:, None], third, True))
        save_removals(tmp_path, "number", seed, kinds["number"], right)
    answer = judge_made_up("U26-9", tmp_path)
    assert "Number needs its positional heads: as much as the worst neighbouring layers" in find_missed(answer)


def test_any_few_layers_are_told_from_a_kind(tmp_path):
    """Where any three layers cost as much, random ones do."""
    judge_removals(tmp_path)
    for task in TASKS:
        sets = list_sets(np.array(MIXED[task]), DRAWS)
        right = np.where((sets.sum(1) >= 3)[:, None], np.arange(SEQUENCES) % 3 == 0, True)
        for seed in SEEDS:
            save_removals(tmp_path, task, seed, MIXED[task], right)
    missed = find_missed(judge_made_up("U26-9", tmp_path))
    assert [name for name in missed if name.endswith("more than as many random layers")] != []
    both = judge_made_up("U26-10a", tmp_path)
    assert [one.name for one in both.parts if one.held == 0] == [
        one.name for one in both.parts if one.asks == "control"
    ]
    assert both.grade == "not attributable"


def test_controls_have_as_many_layers_as_the_kind(tmp_path):
    invent_removals(tmp_path, BOTH)
    result = pure_heads.load_runs(pure_heads.Look(tmp_path), "hop_kinds", "number")[0]
    for kind in (POSITIONAL, SYMBOLIC):
        random, neighbours = pure_heads.find_controls(result, kind)
        size = int((result["kind"] == kind).sum())
        assert (result["removed"][[*random, *neighbours]].sum(1) == size).all()
        assert len(random) == DRAWS
        starts = result["removed"][neighbours].argmax(1)
        assert starts.tolist() == list(range(LAYERS - size + 1))
        assert (np.diff(result["removed"][neighbours], axis=1) != 0).sum(1).max() <= 2
        np.testing.assert_array_equal(result["removed"][SETS.index(pure_heads.KINDS[kind])], result["kind"] == kind)


def test_pure_heads_are_critical_together(tmp_path):
    claimed = judge_removals(tmp_path / "claimed", claim="U26-10a")
    assert (claimed.grade, find_missed(claimed)) == ("holds", [])
    none = judge_removals(tmp_path / "none", {"number": (), "letter": ()}, "U26-10a")
    require_both_sides(claimed, none)
    assert none.grade == "absent or opposite"


def test_every_number_of_hops_counts_alike(tmp_path):
    hops = np.repeat([1, 2], [300, 100])
    arrays = {
        "kind": np.zeros(2),
        "removed": np.zeros((1, 2), bool),
        "right": np.stack([(hops == 1)[None]] * 2),
        "hops": hops,
    }
    result = save_invented("hop_kinds/x_0", arrays, tmp_path)
    assert pure_heads.measure_without(result, "none").value == pytest.approx(0.5)
