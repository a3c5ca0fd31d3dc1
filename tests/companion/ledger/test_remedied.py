"""A claim's rule asked once more on other prompts: beside the first verdict, which stays what it is."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

import numpy as np
import pytest
from invented import invent_random_weights, save_invented

from posym_companion.claims import load_claim, read_entries
from posym_companion.experiments import SECOND
from posym_companion.language_models import plane_profile
from posym_companion.language_models.binding_profile import BindingProfile, full_size
from posym_companion.language_models.judges import binding_planes, binding_profile, random_weights
from posym_companion.language_models.judges import plane_profile as planes_judge
from posym_companion.ledger import ledger
from posym_companion.ledger.rows import make_row
from posym_companion.results import MissingResultError
from posym_companion.score_statistics import permute_layers
from posym_companion.solvers import taught_profile
from posym_companion.solvers.judges import taught_gemma
from posym_companion.verdicts import REMEDIES, Claim, Line, Measured, Rule

UNTAUGHT = ("U25-2", "U25-3", "U25-4a", "U25-4b", "U25-9")
TAUGHT = ("T-1G", "T-2G", "T-3G", "T-4G")


@pytest.fixture(scope="module", autouse=True)
def _few_draws():
    """What is invented here is far from every line: few draws tell."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (binding_profile, binding_planes, taught_gemma):
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
        return Measured(ours={"x": values[remedy]}, model="", evidence=[str(remedy)])

    return measure


def test_the_same_rule_decides_on_both_sides_of_its_line():
    values = {None: 0.9, "lead": 0.4, "varied": 0.6, "none": float("nan")}
    one = judged(measured(values), none="after a first look", lead="before the run", varied="before the run")
    found = make_row(one)
    assert found.verdict == "reproduced"
    verdicts = {x.remedy: x.verdict for x in found.remedied}
    assert verdicts == {"none": "not reproduced", "lead": "not reproduced", "varied": "reproduced"}
    lead = found.remedied[1]
    assert (lead.numbers, lead.parts, lead.evidence) == ({"x": 0.4}, {"it is above": "no"}, ["lead"])
    assert lead.rule_fixed == "before the run"
    assert "0.4 (x); more than 0.5 was asked" in lead.found


def test_a_missing_result_leaves_the_first_verdict_and_says_so():
    found = make_row(judged(measured({None: 0.9}), prose="after a first look"))
    assert found.verdict == "reproduced"
    (prose,) = found.remedied
    assert (prose.verdict, prose.note, prose.numbers) == ("not run here", "result is not there", {})


def test_all_verdicts_stand_in_one_sentence():
    found = make_row(judged(measured({None: 0.9, "lead": 0.4}), lead="before the run", prose="before the run"))
    said = "The same rule behind eight facts of the same frame: *not reproduced*; in prose: *not run here*."
    assert found.summary.endswith(said)
    assert "The same rule" not in make_row(judged(measured({None: 0.9}))).summary


def test_remedies_whose_results_were_seen_first_say_so():
    """Trials speak of layer trends behind other facts; of prose the results were there."""
    fixed = {name: load_claim(name).remedies for name in read_entries()}
    assert {when for each in fixed.values() for when in each.values()} <= {"before the run", "after a first look"}
    assert {fixed[name]["lead"] for name in ("U25-2", "T-0G", "T-1G")} == {"after a first look"}
    assert {fixed[name]["prose"] for name in (*UNTAUGHT, "U25-4c")} == {"after a first look"}


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


def prose(arrays):
    """The same as the profiles of planes have it."""
    return {
        **{name: arrays[name] for name in ("positional", "symbolic")},
        **{name: arrays[name][0] for name in ("plane_positional", "plane_symbolic")},
        **{f"{name}_share": arrays[f"plane_{name}_share"][0] for name in ("positional", "symbolic", "energy")},
        "angles": arrays["plane_angle"],
    }


def invented(folder, *, as_claimed=True):
    invent_random_weights(folder, as_claimed=as_claimed)
    settings = [setting for setting in (*full_size(), *full_size(SECOND)) if setting.keys == "facts"]
    for seed, setting in enumerate((*settings, *taught_profile.full_size())):
        arrays = profile(seed, as_claimed=as_claimed)
        if isinstance(setting, BindingProfile) and setting.draw is not None:
            # Planes of random weights lean to nothing.
            arrays |= {name: 0 * x + 0.5 for name, x in arrays.items() if name in LEANING}
        save_invented(setting.name, arrays, folder, **asdict(setting))
    for seed, setting in enumerate((*plane_profile.full_size(), *plane_profile.full_size(SECOND))):
        if setting.task == "text":
            save_invented(setting.name, prose(profile(seed, as_claimed=as_claimed)), folder, **asdict(setting))
    return {found.id: found for found in ledger(*UNTAUGHT, *TAUGHT, folder=folder)}


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
            whole = "partly" if (name, remedy) in (("U25-3", "prose"), ("U25-9", "prose")) else "reproduced in kind"
            assert one.verdict == whole, (name, remedy, one.parts)
    for name, found in otherwise.items():
        for remedy, one in by_remedy(found).items():
            assert one.verdict in ("partly", "not reproduced"), (name, remedy, one.parts)
            assert one.parts != by_remedy(claimed[name])[remedy].parts


def test_every_verdict_of_the_second_family_comes_out_both_ways(claimed, otherwise):
    for as_claimed, rows in ((True, claimed), (False, otherwise)):
        for found in (rows[name] for name in UNTAUGHT):
            assert found.families is not None
            (second,) = found.families
            assert (second.verdict == "reproduced in kind") == as_claimed, (found.id, second.parts)
            assert {one.remedy for one in second.remedied} == set(REMEDIES)
            assert all(one.verdict != "not run here" for one in second.remedied), found.id
            assert all(SECOND in name for name in second.evidence if name.count("/") == 1)
            # Nothing was invented on the claim's own prompts of the first.
            assert found.verdict == found.verdict_of_model == "not run here"


def test_numbers_are_of_the_remedy_s_own_prompts(claimed):
    rows = {name: by_remedy(found) for name, found in claimed.items()}
    early = "early layers are positional, over all layers"
    kinds = {remedy: one.parts[early] for remedy, one in rows["U25-2"].items()}
    assert kinds == {
        "none": "6 of 6 kinds of prompt",
        "lead": "6 of 6 kinds of prompt",
        "varied": "3 of 3 kinds of prompt",
        "prose": "8 of 8 kinds of prompt",
    }
    assert "median s_POS, last third of layers (bought, 64 facts)" in rows["U25-2"]["lead"].ours
    assert "median s_SYM, last third of layers (text, 512 tokens)" in rows["U25-2"]["prose"].ours
    assert "s_POS early - late (seed 2, lives, all layers)" in rows["T-1G"]["varied"].ours
    assert rows["U25-2"]["lead"].evidence[0] == "binding_profile/gemma-3-270m_likes_16_lead8_facts"
    assert rows["T-1G"]["lead"].evidence[0] == "taught_profile/0_likes_16_lead8"
    for name in ("U25-2", "U25-3", "U25-9", "T-2G", "T-4G"):
        assert "random_weights/gemma-3-270m-random2_bought_16_lead8" in rows[name]["lead"].evidence


def test_in_prose_there_is_no_null_model_and_no_random_weights(claimed):
    assert by_remedy(claimed["U25-3"])["prose"].parts == {
        "r is negative": "8 of 8 kinds of prompt",
        "r is below the null model's": "not testable",
        "r is below that of random weights": "not testable",
    }


def test_prompts_with_a_remedy_are_no_profile_of_a_family(tmp_path):
    arrays = profile(0)
    for number, model in enumerate(["google/gemma-2-2b-it", "Qwen/Qwen2-1.5B", "meta-llama/Llama-3.2-1B"]):
        settings = {"model": model, "template": "likes", "facts": 16, "seed": 0}
        for keys in ("all", "facts"):
            save_invented(f"binding_profile/{number}_{keys}", arrays, tmp_path, **settings, keys=keys)
    (found,) = ledger("U25-5", folder=tmp_path)
    assert found.evidence == [f"binding_profile/{number}_all" for number in range(3)]


def test_a_taught_model_that_is_wrong_behind_a_lead_cannot_tell(tmp_path):
    for seed, setting in enumerate(taught_profile.list_variant_settings("lead")):
        save_invented(setting.name, profile(seed) | {"correct": np.zeros(6)}, tmp_path, **asdict(setting))
    (found,) = ledger("T-1G", folder=tmp_path)
    verdicts = {one.remedy: one.verdict for one in found.remedied}
    assert verdicts == {"lead": "not testable", "varied": "not run here"}


def test_a_second_verdict_is_json(claimed):
    again = json.loads(json.dumps(asdict(claimed["U25-4a"])))["remedied"]
    assert [one["remedy"] for one in again] == list(REMEDIES)
    assert all(re.fullmatch("reproduced in kind", one["verdict"]) for one in again)
