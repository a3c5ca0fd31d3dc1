"""A claim's rule asked once more on other prompts: beside the first verdict, which stays what it is."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from invented import invent_random_weights, save_invented

from posym_companion.experiments import SECOND
from posym_companion.language_models.binding_profile import full_size
from posym_companion.language_models.judges import binding_planes, binding_profile, random_weights
from posym_companion.language_models.judges import plane_profile as planes_judge
from posym_companion.ledger import ledger
from posym_companion.ledger.rows import make_row
from posym_companion.results import MissingResultError
from posym_companion.score_statistics import permute_layers
from posym_companion.verdicts import REMEDIES, Claim, Line, Measured, Numbers, Rule

UNTAUGHT = ("U25-2", "U25-3", "U25-4a", "U25-4b", "U25-9")


@pytest.fixture(scope="module", autouse=True)
def _few_draws():
    """What is invented here is far from every line: few draws tell."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (binding_profile, binding_planes):
            patch.setattr(module, "DRAWS", 60)
        patch.setattr(random_weights, "RESAMPLES", 60)
        patch.setattr(planes_judge, "permute_layers", lambda *a, draws: permute_layers(*a, draws=59))
        yield


def judged(measure, **remedies):
    rule = Rule(says="Above.", lines=(Line(part="it is above", of="x", above=0.5),))
    return Claim(id="X", short="", claim="", paper="", rule=rule, measure=measure, changes="", remedies=remedies)


def measured(values):
    """A measure of one number, which is missing where a remedy has none."""

    def measure(folder, remedy=None):
        if remedy not in values:
            raise MissingResultError("result is not there")
        numbers = Numbers()
        numbers.add("x", "", values[remedy])
        return Measured(ours=numbers, model="", evidence=[str(remedy)])

    return measure


def test_the_same_rule_decides_on_both_sides_of_its_line():
    values = {None: 0.9, "lead": 0.4, "none": 0.6}
    one = judged(measured(values), none="after a first look", lead="before the run")
    found = make_row(one)
    assert found.verdict == "reproduced"
    verdicts = {x.remedy: x.verdict for x in found.remedied}
    assert verdicts == {"none": "reproduced", "lead": "not reproduced"}
    lead = found.remedied[1]
    assert (lead.numbers, lead.parts, lead.evidence) == ({"x": 0.4}, {"it is above": "no"}, ["lead"])
    assert lead.rule_fixed == "before the run"
    assert "0.4 (x); more than 0.5 was asked" in lead.found


def test_a_missing_result_leaves_the_first_verdict_and_says_so():
    found = make_row(judged(measured({None: 0.9}), lead="after a first look"))
    assert found.verdict == "reproduced"
    (lead,) = found.remedied
    assert (lead.verdict, lead.note, lead.numbers) == ("not run here", "result is not there", {})


def test_all_verdicts_stand_in_one_sentence():
    found = make_row(judged(measured({None: 0.9, "lead": 0.4}), none="before the run", lead="before the run"))
    said = (
        "The same rule on fewer such prompts: *not run here*; behind eight facts of the same frame: *not reproduced*."
    )
    assert found.summary.endswith(said)
    assert "The same rule" not in make_row(judged(measured({None: 0.9}))).summary


def profile(seed, *, as_claimed=True, prompts=6):
    """A profile of 18 layers in which everything is as the claims have it, or the reverse."""
    generator = np.random.default_rng(seed)
    sign = 1.0 if as_claimed else -1.0
    early = np.where(np.arange(18) < 9, 1.0, -1.0)[:, None]
    lean = sign * (0.25 * early + 0.05 * generator.uniform(-1, 1, size=(18, 4)))
    positional = 0.5 + lean + 0.001 * generator.normal(size=(prompts, 18, 4))
    slow = np.repeat(np.linspace(-4, 4, 8).clip(-1, 1), 16)
    energy = np.eye(128)[(63.5 - 210 * sign * lean).round().astype(int)]
    planes = {
        "plane_positional": 0.5 - 0.5 * sign * slow,
        "plane_symbolic": 0.5 + 0.5 * sign * slow,
        "plane_positional_share": 0.5 - 0.5 * sign * slow,
        "plane_symbolic_share": 0.5 + 0.5 * sign * slow,
    }
    slower = np.isin(np.arange(18), [5, 11, 17])
    return {
        "positional": positional,
        "symbolic": 1 - positional if as_claimed else positional / 2,
        "null_positional": generator.uniform(size=(prompts, 18, 4)),
        "null_symbolic": generator.uniform(size=(prompts, 18, 4)),
        "correct": np.ones(prompts),
        "plane_angle": np.where(slower, 0.01, 1.0)[:, None] * 10.0 ** -np.linspace(0, 3, 128),
        "plane_energy_share": np.broadcast_to(energy, (2, 18, 4, 128)),
        **{name: np.broadcast_to(each, (2, 18, 4, 128)) for name, each in planes.items()},
    }


LEANING = {f"plane_{name}" for name in ("positional", "symbolic", "positional_share", "symbolic_share")}


def invented(folder, *, as_claimed=True):
    invent_random_weights(folder, as_claimed=as_claimed)
    settings = [setting for setting in (*full_size(), *full_size(SECOND)) if setting.keys == "facts"]
    for seed, setting in enumerate(settings):
        arrays = profile(seed, as_claimed=as_claimed)
        if setting.draw is not None:
            # Planes of random weights lean to nothing.
            arrays |= {name: 0 * x + 0.5 for name, x in arrays.items() if name in LEANING}
        save_invented(setting.name, arrays, folder, **asdict(setting))
    return {found.id: found for found in ledger(*UNTAUGHT, folder=folder)}


@pytest.fixture(scope="module")
def claimed(tmp_path_factory):
    return invented(tmp_path_factory.mktemp("claimed"))


@pytest.fixture(scope="module")
def otherwise(tmp_path_factory):
    return invented(tmp_path_factory.mktemp("otherwise"), as_claimed=False)


def by_remedy(row):
    return {one.remedy: one for one in row.remedied}


def test_every_second_verdict_comes_out_both_ways(claimed, otherwise):
    for name, found in claimed.items():
        for remedy, one in by_remedy(found).items():
            assert one.verdict == "reproduced in kind", (name, remedy, one.parts)
    for name, found in otherwise.items():
        for remedy, one in by_remedy(found).items():
            assert one.verdict in ("partly", "not reproduced"), (name, remedy, one.parts)
            assert one.parts != by_remedy(claimed[name])[remedy].parts


def test_numbers_are_of_the_remedy_s_own_prompts(claimed):
    rows = {name: by_remedy(found) for name, found in claimed.items()}
    early = "early layers are positional, over all layers"
    kinds = {remedy: one.parts[early] for remedy, one in rows["U25-2"].items()}
    assert kinds == {"none": "6 of 6 kinds of prompt", "lead": "6 of 6 kinds of prompt"}
    assert "median s_POS, last third of layers (bought, 64 facts)" in rows["U25-2"]["lead"].ours
    assert rows["U25-2"]["lead"].evidence[0] == "binding_profile/gemma-3-270m_likes_16_lead8_facts"
    for name in ("U25-3", "U25-9"):
        assert "random_weights/gemma-3-270m-random2_bought_16_lead8" in rows[name]["lead"].evidence


def test_of_the_second_family_each_remedy_is_judged(claimed):
    for found in claimed.values():
        (second,) = found.families
        assert {one.remedy for one in second.remedied} == set(REMEDIES)
        assert all(one.verdict != "not run here" for one in second.remedied), found.id


def test_prompts_with_a_remedy_are_no_profile_of_a_family(tmp_path):
    arrays = profile(0)
    for number, model in enumerate(["google/gemma-2-2b-it", "Qwen/Qwen2-1.5B", "meta-llama/Llama-3.2-1B"]):
        settings = {"model": model, "template": "likes", "facts": 16, "seed": 0}
        for keys in ("all", "facts"):
            save_invented(f"binding_profile/{number}_{keys}", arrays, tmp_path, **settings, keys=keys)
    (found,) = ledger("U25-5", folder=tmp_path)
    assert found.evidence == [f"binding_profile/{number}_all" for number in range(3)]
