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


def test_of_the_second_family_each_remedy_is_judged(claimed):
    for found in claimed.values():
        (second,) = found.families
        assert {one.remedy for one in second.remedied} == set(REMEDIES)
        assert all(one.verdict != "not run here" for one in second.remedied), found.id
