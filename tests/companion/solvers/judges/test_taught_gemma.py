"""Verdicts on the taught model, from made-up runs with planted effects."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from invented import invent_random_weights, save_invented

from posym_companion.claims import load_claim
from posym_companion.experiments import SECOND
from posym_companion.language_models.binding_profile import random_weight_settings
from posym_companion.language_models.judges import binding_profile
from posym_companion.ledger.rows import make_row
from posym_companion.solvers import taught_profile
from posym_companion.solvers.judges import gemma_roles, taught_gemma
from posym_companion.solvers.judges.gemma_roles import scores_by_step
from posym_companion.solvers.judges.gemma_runs import MODEL, load_runs, restored_share
from posym_companion.solvers.taught_answers import TaughtAnswers
from posym_companion.solvers.taught_gemma import FACTS, WORDINGS, full_size
from posym_core.metrics import find_local_layers

CLAIMS = ("T-0G", "T-1G", "T-2G", "T-3G", "T-4G", "T-6G")
CARRIERS = ((5, 1), (11, 2), (11, 3), (17, 2))


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch):
    """What is invented here is far from every line: few draws tell, and the slowest planes turn over a prompt."""
    monkeypatch.setattr(taught_gemma, "TOKENS", 601)
    for module in (taught_gemma, gemma_roles, binding_profile):
        monkeypatch.setattr(module, "DRAWS", 60)


def invented(
    folder,
    *,
    as_claimed=True,
    solved=True,
    carriers=CARRIERS,
    own=1.0,
    rise=0.0,
    model=MODEL,
    controls=None,
):
    """Runs in which everything is as the claims have it, or nothing is.

    ``own`` is how often the third fact is named where it is taught, and ``rise`` the part of the idle heads' rise that
    the controls have, too. Another model has no local layers, and only those controls that are named.
    """
    generator = np.random.default_rng(0)
    sign = 1 if as_claimed else -1
    invent_random_weights(folder, as_claimed=as_claimed)
    for setting in full_size(model):
        if controls is not None and not (setting.plain or setting.name.endswith(controls)):
            continue
        prompts, snapshots = setting.prompts, len(setting.snapshots)
        carries = np.zeros((18, 4), dtype=bool)
        carries[tuple(zip(*carriers, strict=True))] = True
        early = np.where(np.arange(18) < 9, 1.0, -1.0)[:, None]
        positional = 0.5 + sign * (0.3 * early + 0.05 * generator.normal(size=(18, 4)))
        symbolic = 1 - sign * (positional - 0.5) - 0.5
        positional[carries], symbolic[carries] = (0.0, 1.0) if as_claimed else (1.0, 0.0)
        positional, symbolic = (
            np.broadcast_to(x, (snapshots, 3, prompts, 18, 4)).copy() for x in (positional, symbolic)
        )
        idle = np.zeros((18, 4), dtype=bool)
        idle[14] = True
        # Idle symbolic heads, which turn positional where the right thing is learned.
        positional[0, :, :, idle], symbolic[0, :, :, idle] = 0.3, 0.95
        bound = setting.right and setting.rule == "asked"
        part = 1.0 if as_claimed == bound else rise
        positional[1:, :, :, idle], symbolic[1:, :, :, idle] = 0.3 + 0.6 * part, 0.95 - 0.75 * part
        use = positional[-1, 0, 0] - symbolic[-1, 0, 0]
        at = np.clip((3.5 - 3.4 * sign * use).round().astype(int), 0, 7)
        # Fast planes stand first.
        energy = np.eye(8)[at]
        slow = sign * np.linspace(-4, 4, 8).clip(-1, 1)
        angles = np.where(np.isin(np.arange(18), (5, 11, 17)) & (model == MODEL), 0.01, 1.0)[
            :, None
        ] * 10.0 ** -np.linspace(0, 3, 128)
        restore = np.where(carries, 0.4, 0.0) if as_claimed else np.roll(np.where(carries, 0.4, 0.0), 1, axis=0)
        for quarter, planes in {"fastest": slice(32), "slowest": slice(96, 128)}.items():
            angles[:, planes] *= setting.stopped != quarter
        stopped = {"none": 1.0, "slowest": 1.0 if as_claimed else 3.0, "fastest": 3.0 if as_claimed else 1.0}
        noise = 0.01 * generator.normal(size=(snapshots, 3, prompts, 18, 4))
        noise[..., idle] = 0
        right = float(solved) if bound else own
        arrays = {
            "steps": np.array(setting.snapshots),
            "positional": positional + noise,
            "symbolic": symbolic - sign * noise,
            "null_positional": generator.uniform(size=positional.shape),
            "null_symbolic": generator.uniform(size=positional.shape),
            "symbolic_share": symbolic,
            "positional_share": positional,
            "entropy": positional,
            "spread": generator.uniform(size=positional.shape),
            "correct": np.full((snapshots, len(WORDINGS), len(FACTS), prompts), right),
            "angles": angles,
            "losses": np.full(16, stopped.get(setting.stopped, 1.0)),
            "band_energy_share": np.broadcast_to(energy, (snapshots, 3, 18, 4, 8)),
            "band_symbolic_share": np.broadcast_to(0.5 + 0.5 * slow, (snapshots, 3, 18, 4, 8)),
            "band_positional_share": np.broadcast_to(0.5 - 0.5 * slow, (snapshots, 3, 18, 4, 8)),
            "plane_symbolic": np.broadcast_to(np.repeat(0.5 + 0.5 * slow, 16), (2, 18, 4, 128)),
            "plane_positional": np.broadcast_to(np.repeat(0.5 - 0.5 * slow, 16), (2, 18, 4, 128)),
            "clean_whole": np.full((1, 4), 2.0),
            "other_whole": np.full((1, 4), -2.0),
            "answer_patched": np.broadcast_to(-2 + 4 * restore, (1, 4, 18, 4)),
        }  # fmt: skip
        if not as_claimed:
            arrays["band_symbolic_share"] = arrays["band_positional_share"] = np.full((snapshots, 3, 18, 4, 8), 0.5)
        save_invented(setting.name, arrays, folder, **asdict(setting))
    for setting in random_weight_settings(model):
        planes = {f"plane_{name}": np.full((1, 18, 4, 128), 0.5) for name in PLANES}
        save_invented(setting.name, planes, folder, **asdict(setting))


BOUND = "they do so because binding was learned, and not another rule"
TAUGHT = "they do so because something was learned"


def test_controls_that_rise_half_as_much_are_none(tmp_path):
    invented(tmp_path, rise=0.505)
    found = make_row(load_claim("T-0G"), tmp_path)
    assert {found.parts[part] for part in (BOUND, TAUGHT)} == {"0 of 3 seeds of one model"}
    taught = found.ours["their rise of s_POS - s_SYM, median (seed 1, step 16)"]
    assert found.ours["the same heads, the third fact (seed 1, step 16)"] == pytest.approx(0.505 * taught, abs=2e-3)
    assert "the same heads, wrong answers (seed 2, step 12)" in found.ours


# Ten heads of the last third of the layers.
MANY = tuple((layer, head) for layer in (12, 13, 15, 16, 17) for head in (1, 2))


@pytest.fixture(scope="module")
def claimed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("claimed")
    invented(folder)
    return folder


@pytest.fixture(scope="module")
def otherwise(tmp_path_factory):
    folder = tmp_path_factory.mktemp("otherwise")
    invented(folder, as_claimed=False)
    return folder


@pytest.mark.parametrize("name", CLAIMS)
def test_every_verdict_comes_out_both_ways(name, claimed, otherwise):
    judged = load_claim(name)
    found = make_row(judged, claimed)
    assert found.verdict == "reproduced in kind", (found.parts, found.numbers)
    assert make_row(judged, otherwise).verdict != "reproduced in kind"
    assert "taught_gemma/all_0" in found.evidence


def test_a_head_is_one_head_in_however_many_runs_it_carries(claimed):
    found = make_row(load_claim("T-0G"), claimed)
    assert found.parts["carriers are purely symbolic"] == f"{len(CARRIERS)} of {len(CARRIERS)} heads of one model"
    assert len(found.cases["purely symbolic"]) == 3 * len(CARRIERS)
    # Of four heads that restore as much, those in global layers are three; without the most there is none left.
    assert found.ours["share restored by global layers (seed 1)"] == pytest.approx(1.0)


def test_behaviour_and_use_are_held_against_random_weights(tmp_path):
    invented(tmp_path)
    part = "the correlation is above that of random weights"
    assert make_row(load_claim("T-4G"), tmp_path).parts[part] == "4 of 4 kinds of prompt"
    invent_random_weights(tmp_path, as_claimed=False)
    found = make_row(load_claim("T-4G"), tmp_path)
    assert found.parts[part] == "0 of 4 kinds of prompt"
    assert (found.verdict_of_model, found.first_rule_verdict) == ("partly", "reproduced in kind")


def behind_a_lead(folder, *, idle, rise):
    """The runs of ``folder`` once more on other prompts, where so many idle heads were symbolic and rise by so much."""
    before = {"positional": np.full((2, 18, 4), 0.8), "symbolic": np.full((2, 18, 4), 0.3), "correct": np.ones(2)}
    for layer, head in CARRIERS:
        before["positional"][:, layer, head], before["symbolic"][:, layer, head] = 0.0, 1.0
    before["positional"][:, 14, :idle], before["symbolic"][:, 14, :idle] = 0.3, 0.95
    for setting in taught_profile.full_size():
        if setting.profile.lead:
            save_invented(setting.profile.name, before, folder)
            after = {name: x.copy() for name, x in before.items()}
            after["positional"][:, 14, :idle] += rise[setting.lesson]
            planes = {f"plane_{name}": np.full((2, 18, 4, 128), 0.5) for name in PLANES}
            save_invented(setting.name, {**after, "plane_angle": np.ones((18, 128)), **NULL, **planes}, folder)
    (found,) = make_row(load_claim("T-0G"), folder).remedied
    return found


PLANES = ("positional", "symbolic", "positional_share", "symbolic_share", "energy_share")
NULL = {f"null_{name}": np.random.default_rng(0).random((2, 18, 4)) for name in ("positional", "symbolic")}


def test_idle_heads_are_those_of_the_other_prompts(tmp_path):
    invented(tmp_path)
    turned = "idle symbolic heads turn positional"
    found = behind_a_lead(tmp_path, idle=3, rise={"binding": 0.4, "third": 0.1, "wrong": 0.1})
    assert (found.remedy, found.verdict) == ("lead", "reproduced in kind")
    assert found.ours["idle heads, symbolic before (seed 1)"] == 3
    assert found.ours["their rise of s_POS - s_SYM, median (seed 1, step 16)"] == pytest.approx(0.4)
    assert found.evidence.count("taught_profile/0_likes_16_lead8") == 1
    found = behind_a_lead(tmp_path, idle=3, rise={"binding": -0.1, "third": 0.1, "wrong": 0.1})
    assert found.parts[turned] == "0 of 3 seeds of one model"
    # Where no idle head is symbolic, none can turn.
    found = behind_a_lead(tmp_path, idle=0, rise={"binding": 0.4, "third": 0.1, "wrong": 0.1})
    assert found.parts[turned] == found.parts[BOUND] == found.parts[TAUGHT] == "not testable"
    assert (found.verdict, make_row(load_claim("T-0G"), tmp_path).verdict) == ("partly", "reproduced in kind")


def test_roles_are_asked_within_depth_of_ten_heads_or_more(tmp_path, claimed):
    within = "s_SYM tells carriers from others, within depth"
    invented(tmp_path, carriers=MANY)
    found = make_row(load_claim("T-5G"), tmp_path)
    assert (found.verdict, found.first_rule_verdict) == ("reproduced in kind",) * 2
    assert found.ours["heads on the smaller side in a third of the depth"] == 10
    invented(tmp_path, carriers=MANY[1:])
    found = make_row(load_claim("T-5G"), tmp_path)
    assert (found.verdict, found.parts[within]) == ("partly", "not testable")
    assert found.parts["most symbolic heads carry it"] == "3 of 3 seeds of one model"
    # Ten heads in two thirds of the depth are enough for depth as a rival, not within one.
    invented(tmp_path, carriers=(*MANY[1:], (1, 1)))
    found = make_row(load_claim("T-5G"), tmp_path)
    assert found.parts[within] == "not testable"
    assert found.parts["s_SYM tells more than depth"] == "3 of 3 seeds of one model"
    # Four heads, the same in every seed, are one case.
    found = make_row(load_claim("T-5G"), claimed)
    tested = [part for part, held in found.parts.items() if held != "not testable"]
    assert tested == ["the task is solved", "most symbolic heads carry it"]
    assert "4 of 4 heads that carry it in any seed do so in every one" in found.note
    assert found.first_rule_verdict == "reproduced in kind"


def test_without_a_purely_symbolic_head_nothing_is_counted(otherwise):
    found = make_row(load_claim("T-5G"), otherwise)
    assert found.ours["purely symbolic heads that carry it (seed 0)"] == "0 of 0"
    assert found.parts["most symbolic heads carry it"] == "not testable"


def test_planes_that_hardly_turn_cannot_be_missed(tmp_path, monkeypatch):
    """An eighth of a turn is .785; the slowest quarter's fastest plane turns by it in about 145 tokens."""
    invented(tmp_path)
    slowest = 10.0 ** -np.linspace(0, 3, 128)[96]
    edge = int(2 * np.pi / 8 / slowest) + 1
    for tokens, held in ((edge, "not testable"), (edge + 1, "3 of 3 seeds of one model")):
        monkeypatch.setattr(taught_gemma, "TOKENS", tokens)
        found = make_row(load_claim("T-6G"), tmp_path)
        parts = dict(found.parts)
        assert parts.pop("it learns more slowly with the fastest stopped") == "3 of 3 seeds of one model"
        assert parts.pop("the task is solved") == "9 of 9 pairs of seed and wording"
        assert set(parts.values()) == {held}
        assert found.verdict == ("partly" if held == "not testable" else "reproduced in kind")
        assert found.first_rule_verdict == "reproduced in kind"
    assert f"over a prompt of {tokens} tokens" in found.note
    assert "the loss is 3.00 to 3.00 times as high before any teaching" in found.note
    assert "Accuracies are over 8 prompts a seed" in found.note


def test_where_all_layers_turn_alike_all_are_global(tmp_path):
    invented(tmp_path, model=SECOND)
    found = taught_gemma.missing_bands(tmp_path, model=SECOND)
    assert (
        load_claim("T-6G").rule.parts(found.ours)["it learns as fast with them stopped"] == "2 of 2 seeds of one model"
    )
    turned = found.ours["radians that a stopped plane would turn over a prompt, slowest, at most"]
    assert f"at most {turned:.3g} radians" in found.note
    assert f"at most {turned:.3g} in global layers" in found.note
    assert found.model == f"{SECOND}, taught to bind"


def test_a_model_that_does_not_solve_the_task_cannot_tell(tmp_path):
    invented(tmp_path, solved=False)
    assert make_row(load_claim("T-1G"), tmp_path).verdict == "not testable"


@pytest.mark.parametrize(("right", "solved"), [(22, "9 of 9"), (21, "8 of 9")])
def test_answers_that_were_asked_afterwards_count_as_those_of_the_run(tmp_path, right, solved):
    """Right are 7 of 8 in the run; with 22 of 24 more they are more than nine tenths."""
    invented(tmp_path)
    results = load_runs(tmp_path)
    arrays = {name: results[1][name].copy() for name in results[1].arrays}
    arrays["correct"][-1, 2, :, 0] = 0
    save_invented(results[1].name, arrays, tmp_path, **results[1].settings)
    assert make_row(load_claim("T-1G"), tmp_path).ours["the task is solved"] == "8 of 9"
    afterwards = np.ones((len(WORDINGS), len(FACTS), 24))
    afterwards[2, FACTS.index(16), right:] = 0
    save_invented(TaughtAnswers(taught=1).name, {"correct": afterwards}, tmp_path)
    found = make_row(load_claim("T-1G"), tmp_path)
    assert found.ours["the task is solved"] == solved
    assert "taught_answers/1" in found.evidence


def test_where_all_layers_are_global_or_a_control_was_not_run_nothing_is_asked_of_them(tmp_path):
    """The second family: one frequency in all layers, and controls as far as they were run."""
    invented(tmp_path, model=SECOND, controls=("third_1",))
    (found,) = (one for one in make_row(load_claim("T-0G"), tmp_path / "other").families or ())
    assert found.verdict == "not run here"
    measured = gemma_roles.first_look(tmp_path, model=SECOND)
    parts = load_claim("T-0G").rule.parts(measured.ours)
    assert parts["most of it is in global layers"] == parts[TAUGHT] == "not testable"
    assert parts[BOUND] == "1 of 1 seeds of one model"
    assert parts["idle symbolic heads turn positional"] == "3 of 3 seeds of one model"
    assert "taught_gemma/smollm2-135m-third_1" in measured.evidence


def test_right_answers_before_teaching_are_compared_within_a_wording(tmp_path):
    """Attention that goes with the answer, beside a wording that is easier and differs for all its prompts."""
    for setting in full_size():
        if not setting.plain:
            continue
        generator = np.random.default_rng(setting.seed)
        shape = (len(setting.snapshots), 3, setting.prompts)
        easier = np.array([0.2, 0.4, 0.8])[:, None]
        right = generator.uniform(size=shape[1:]) < easier
        correct = np.broadcast_to(right[:, None], (*shape[:2], 3, shape[2]))
        carries = np.zeros((18, 4), dtype=bool)
        carries[11, 2] = True
        looks = 0.3 * correct[:, :, 1] + easier + 0.02 * generator.normal(size=shape)
        arrays = {
            "correct": correct.astype(float),
            "asked_attention": looks[..., None, None] * carries,
            "positional": (easier + 0.02 * generator.normal(size=shape))[..., None, None] * carries,
            "symbolic": generator.uniform(size=shape)[..., None, None] * carries,
            "clean_whole": np.full((2, 4), 2.0),
            "other_whole": np.full((2, 4), -2.0),
            "answer_patched": np.broadcast_to(np.where(carries, 2.0, -2.0), (2, 4, 18, 4)),
        }
        save_invented(setting.name, arrays, tmp_path, **asdict(setting))
    found = gemma_roles.untaught_answers(tmp_path)
    looks, positional = found["asked_attention"], found["positional"]
    assert looks.difference.value == pytest.approx(0.3, abs=0.02)
    assert looks.effect.low > 10
    # The easy wording has more of both, on right and on wrong answers.
    assert looks.right - looks.wrong > 0.4
    assert positional.right - positional.wrong > 0.1
    assert abs(positional.difference.value) < 0.02
    assert not found["symbolic"].effect.excludes(0)


def test_what_is_read_off_a_run(claimed):
    result = load_runs(claimed)[0]
    assert find_local_layers(result["angles"]).tolist() == [x for x in range(18) if x not in (5, 11, 17)]
    share = restored_share(result)
    assert sorted(map(tuple, np.argwhere(share > 0.1).tolist())) == sorted(CARRIERS)
    np.testing.assert_allclose(share[5, 1], 0.4)
    (positional, symbolic), *_, last = scores_by_step(result).values()
    assert (positional - symbolic)[14].mean() < 0 < (last[0] - last[1])[14].mean()
