"""The judges of encodings on invented results, one for every verdict and every statement."""

from __future__ import annotations

import numpy as np
import pytest
from invented import save_invented

from posym_companion.encodings.encoding_study import RELEASED, EncodingStudy, has_no_meaning
from posym_companion.encodings.judges import encoding_study as judges
from posym_companion.encodings.judges.encoding_study import load_study
from posym_companion.ledger import ledger
from posym_core.store._resuming import ResultError

AS_REPORTED = {
    "distance": {"rope": 0.93, "sinusoidal": 0.9, "mla": 0.88, "nope": 0.05, "alibi": 0.06},
    "count": {"mla": 0.97, "nope": 0.78, "rope": 0.69, "sinusoidal": 0.6, "alibi": 0.3},
}


def invented(folder, task, setup, accuracy, *, most=0.0, following=0.0, layer=0, seeds=3, size="reduced"):
    cost = np.zeros((seeds, 2, 4))
    cost[:, layer, 1], cost[:, 1, 3] = most, following
    rise = np.arange(8.0).reshape(2, 4) + np.zeros((seeds, 1, 1))
    arrays = {
        "accuracy": accuracy + 0.001 * np.arange(seeds),
        "whole": np.full(seeds, accuracy),
        "ablated": accuracy - cost,
        "averaged": accuracy - cost / 2,
        "losses": np.ones((seeds, 60)),
        **{name: rise for name in judges.SCORED if name != "mean_frequency"},
        "mean_frequency": np.full_like(rise, np.nan),
    }
    name = EncodingStudy(task=task, setup=setup, size=size).name
    save_invented(name, arrays, folder)


def all_setups(folder, *, released=AS_REPORTED, equal=AS_REPORTED, **heads):
    for accuracies, setups in ((equal, {name: name for name in RELEASED}), (released, RELEASED)):
        for task, by_name in accuracies.items():
            for name, setup in setups.items():
                if not has_no_meaning(task, setup):
                    most = {("distance", "rope"): 0.6, ("distance", "rope-released"): 0.6}.get((task, setup), 0.05)
                    invented(folder, task, setup, by_name[name], most=most)
    invented(folder, "count", "rope-added", released["count"]["rope"])
    invented(folder, "distance", "rope-one-head", 0.9)
    invented(folder, "distance", "rope-one-head-longer", 0.9)
    for (task, setup), options in heads.get("heads", {}).items():
        invented(folder, task, setup, **options)


def changed(task, name, accuracy):
    return {**AS_REPORTED, task: {**AS_REPORTED[task], name: accuracy}}


def test_the_papers_order_is_reproduced_in_kind(tmp_path):
    all_setups(tmp_path)
    (finding,) = ledger("G26-2", folder=tmp_path)
    assert finding.verdict == "reproduced in kind"
    assert finding.parts == dict.fromkeys(judges.STATEMENTS, "yes")
    assert finding.ours["Distance, rope, equal"]["value"] == pytest.approx(0.931)
    assert "encoding_study/distance_mla-released" in finding.evidence
    names = AS_REPORTED["distance"]
    expected = np.corrcoef([[AS_REPORTED[task][name] for name in names] for task in ("distance", "count")])[0, 1]
    assert finding.ours["correlation of the two tasks over encodings, equal"]["value"] == pytest.approx(
        expected, rel=1e-3
    )


@pytest.mark.parametrize(
    ("task", "name", "accuracy", "statement"),
    [
        ("distance", "sinusoidal", 0.95, "rotary is best of four"),
        ("distance", "sinusoidal", 0.01, "absolute is second of four"),
        ("distance", "nope", 0.3, "NoPE and ALiBi fail"),
        ("distance", "alibi", 0.3, "NoPE and ALiBi fail"),
        ("count", "mla", 0.5, "latent attention beats rotary"),
        ("count", "nope", 0.5, "NoPE beats rotary"),
        ("count", "sinusoidal", 0.2, "ALiBi is worst"),
    ],
)
def test_one_statement_that_fails_is_named(tmp_path, task, name, accuracy, statement):
    all_setups(tmp_path, released=changed(task, name, accuracy), equal=changed(task, name, accuracy))
    (finding,) = ledger("G26-2", folder=tmp_path)
    assert (finding.verdict, finding.first_rule_verdict) == ("partly", "not reproduced")
    assert any(statement in part for part, held in finding.parts.items() if held == "no")
    assert any(statement in case for case in finding.fails_in)


def test_equal_setups_alone_decide_nothing(tmp_path):
    all_setups(tmp_path, equal=changed("distance", "nope", 0.5))
    (finding,) = ledger("G26-2", folder=tmp_path)
    assert finding.verdict == "reproduced in kind"
    assert finding.fails_in == ["equal: not that Distance: NoPE and ALiBi fail"]


def test_a_deposit_is_reproduced_in_kind_and_its_head_ranked(tmp_path):
    all_setups(tmp_path)
    (finding,) = ledger("G26-3", folder=tmp_path)
    assert (finding.verdict, finding.fails_in) == ("reproduced in kind", [])
    assert finding.ours["rotary: cost of the costliest head"]["value"] == pytest.approx(0.6)
    # Head 1 of 8 in ascending order of an invented pointer has rank 7.
    assert finding.ours["rotary: rank of the costliest head of 8 by positional"]["value"] == 7
    assert finding.ours["rotary: rank of the costliest head of 4 in the first layer by positional"]["value"] == 3
    assert not any("mean frequency" in name for name in finding.ours)


@pytest.mark.parametrize(
    ("which", "options", "statement", "number"),
    [
        (("distance", "rope"), {"accuracy": 0.93, "most": 0.2}, "costs 30 points", "costliest head 0.20"),
        (("distance", "rope"), {"accuracy": 0.93, "most": 0.6, "following": 0.4}, "costs 30 points", "the next 0.40"),
        (("distance", "rope"), {"accuracy": 0.93, "most": 0.6, "layer": 1}, "costs 30 points", "first layer 0 of 3"),
        (("distance", "nope"), {"accuracy": 0.5, "most": 0.4}, "neither NoPE nor Count", "costliest head 0.40"),
        (("count", "rope"), {"accuracy": 0.7, "most": 0.4}, "neither NoPE nor Count", "costliest head 0.40"),
        (("distance", "rope-one-head"), {"accuracy": 0.7}, "one rotary head", "one rotary head a layer: accuracy 0.70"),
        (("distance", "mla"), {"accuracy": 0.9, "most": 0.4}, "latent attention", "costliest head 0.40"),
    ],
)
def test_a_deposit_with_a_statement_that_fails(tmp_path, which, options, statement, number):
    all_setups(tmp_path, heads={which: options})
    (finding,) = ledger("G26-3", folder=tmp_path)
    assert finding.verdict == "partly"
    assert any(statement in part for part, held in finding.parts.items() if held == "no")
    (said,) = finding.fails_in
    assert number in said


def trained_to_the_end(folder, changed=(), **options):
    accuracies = {"rope": 0.95, "mla": 0.9, "rope-one-head": 0.9, "nope": 0.3}
    for task, setup in judges.LONG:
        own = {"accuracy": 0.7 if task == "count" else accuracies[setup]}
        own |= {"most": 0.8, "following": 0.2} if (task, setup) == ("distance", "rope") else {"most": 0.1}
        invented(folder, task, setup, size="long", **own | (options if (task, setup) == changed else {}))
    return ledger("G26-3b", folder=folder)[0]


def test_a_deposit_by_mean_ablation(tmp_path):
    row = trained_to_the_end(tmp_path)
    assert row.verdict == "reproduced in kind"
    assert row.ours["rotary: cost of the costliest head, by its mean"]["value"] == pytest.approx(0.4)
    assert row.ours["distance, rope: cost of the costliest head by zero"]["value"] == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("which", "options", "part"),
    [
        (("distance", "rope"), {"most": 0.5, "following": 0.1}, "one costly head"),
        (("distance", "rope"), {"following": 0.3}, "the next is cheap"),
        (("distance", "rope"), {"layer": 1, "following": 0.0}, "in the first layer"),
        (("distance", "nope"), {"most": 0.5}, "no such head without positions"),
        (("count", "rope"), {"most": 0.5}, "no such head on Count"),
        (("distance", "rope-one-head"), {"accuracy": 0.8}, "one rotary head suffices"),
        (("distance", "mla"), {"most": 0.5}, "latent attention removes it"),
    ],
)
def test_a_deposit_by_mean_ablation_that_misses_a_line(tmp_path, which, options, part):
    row = trained_to_the_end(tmp_path, which, **options)
    assert row.verdict == "partly"
    assert [name for name, held in row.parts.items() if held == "no" or held.startswith("0 of 3")] == [part]


@pytest.mark.parametrize(
    ("which", "words", "classes"),
    [(("distance", "nope"), "without positions", 70), (("count", "rope"), "on Count", 101)],
)
def test_what_has_nothing_to_lose_is_not_tested(tmp_path, which, words, classes):
    """Rotary's costliest head costs .4, half of which a model must have above chance for a head to cost as much."""
    part = f"no such head {words}"
    edge = 1 / classes + 0.2
    for accuracy, held in ((edge - 0.003, "not testable"), (edge + 0.003, "yes")):
        row = trained_to_the_end(tmp_path, which, accuracy=accuracy, most=0.0)
        assert row.parts[part] == held
        assert row.verdict == ("partly" if held == "not testable" else "reproduced in kind")
        assert row.first_rule_verdict == "reproduced in kind"
        near = f"A model near chance has nothing to lose: {words} accuracy is"
        assert (near in row.note) == (held == "not testable")
    # A head cannot cost more than there is; nothing is not tested because it costs much.
    assert trained_to_the_end(tmp_path, which, accuracy=edge + 0.003, most=0.5).parts[part] == "no"


@pytest.mark.parametrize(
    ("accuracy", "without", "verdict", "first"),
    [
        (0.60, 0.60, "reproduced in kind", "reproduced in kind"),
        (0.592, 0.60, "not reproduced", "not reproduced"),
        (0.60, 0.592, "not testable", "reproduced in kind"),
        (0.592, None, "not testable", "not reproduced"),
    ],
)
def test_rotary_models_on_count(tmp_path, accuracy, without, verdict, first):
    for size, right in (("long", accuracy), ("undropped", without)):
        if right is not None:
            arrays = {"accuracy": right + 0.001 * np.arange(3), "error": np.full(3, 1.5), "losses": np.ones((3, 60))}
            save_invented(EncodingStudy(task="count", setup="rope", size=size).name, arrays, tmp_path)
    (row,) = ledger("G26-2b", folder=tmp_path)
    assert (row.verdict, row.first_rule_verdict) == (verdict, first)
    assert row.ours["chance"] == pytest.approx(1 / 101, rel=1e-3)
    assert "off by 1.5 on average" in row.note


def test_models_that_do_not_solve_distance_tell_nothing_of_a_deposit(tmp_path):
    assert trained_to_the_end(tmp_path, ("distance", "rope"), accuracy=0.85).verdict == "not testable"


def test_missing_results_are_said(tmp_path):
    with pytest.raises(ResultError, match="encoding_study/distance_rope"):
        load_study("distance", "rope", tmp_path)
