"""The judges of encodings on invented results, every statement and line missed once."""

from __future__ import annotations

import numpy as np
import pytest
from invented import save_invented

from posym_companion.encodings.encoding_study import RELEASED, EncodingStudy
from posym_companion.encodings.judges import encoding_study as judges
from posym_companion.ledger import ledger

AS_REPORTED = {
    "distance": {"rope": 0.93, "sinusoidal": 0.9, "mla": 0.88, "nope": 0.05, "alibi": 0.06},
    "count": {"mla": 0.97, "nope": 0.78, "rope": 0.69, "sinusoidal": 0.6, "alibi": 0.3},
}


def invented(folder, task, setup, accuracy, *, most=0.0, following=0.0, layer=0, seeds=3, size="reduced"):
    cost = np.zeros((seeds, 2, 4))
    cost[:, layer, 1], cost[:, 1, 3] = most, following
    arrays = {
        "accuracy": accuracy + 0.001 * np.arange(seeds),
        "whole": np.full(seeds, accuracy),
        "ablated": accuracy - cost,
        "averaged": accuracy - cost / 2,
    }
    name = EncodingStudy(task=task, setup=setup, size=size).name
    save_invented(name, arrays, folder)


def setups_as_released(folder, accuracies):
    for task, by_name in accuracies.items():
        for name, setup in RELEASED.items():
            invented(folder, task, judges.find_study(task, setup).setup, by_name[name])


def models_with_deposit(folder, changes, *, size="reduced", costs=(0.6, 0.0), elsewhere=0.05):
    for task, setup in (("distance", "rope"), ("distance", "rope-one-head"), *judges.OTHERS.values()):
        most, following = costs if (task, setup) == ("distance", "rope") else (elsewhere, 0.0)
        right = 0.7 if task == "count" else {"rope": 0.95, "nope": 0.3}.get(setup, 0.9)
        options = {"accuracy": right, "most": most, "following": following} | changes.get((task, setup), {})
        invented(folder, task, setup, size=size, **options)


@pytest.mark.parametrize(
    ("task", "name", "accuracy", "statement"),
    [
        ("distance", "rope", 0.93, None),  # as reported
        ("distance", "sinusoidal", 0.95, "Distance: rotary is best of four"),
        ("distance", "sinusoidal", 0.01, "Distance: absolute is second of four"),
        ("distance", "nope", 0.3, "Distance: NoPE and ALiBi fail"),
        ("distance", "alibi", 0.3, "Distance: NoPE and ALiBi fail"),
        ("count", "mla", 0.7, "Count: latent attention beats rotary"),
        ("count", "nope", 0.68, "Count: NoPE beats rotary"),
        ("count", "sinusoidal", 0.2, "Count: ALiBi is worst"),
    ],
)
def test_orders_of_encodings(tmp_path, task, name, accuracy, statement):
    changed = {**AS_REPORTED, task: {**AS_REPORTED[task], name: accuracy}}
    setups_as_released(tmp_path, changed)
    if name == "mla":  # in one of the seeds that both have
        arrays = {"accuracy": np.array([0.8, 0.69, 0.8, 0.1])}
        save_invented(EncodingStudy(task=task, setup=RELEASED[name]).name, arrays, tmp_path)
    (row,) = ledger("G26-2", folder=tmp_path)
    assert [part for part, answer in row.parts.items() if answer != "yes"] == ([statement] if statement else [])
    assert len(row.parts) == 6
    assert row.verdict == ("partly" if statement else "reproduced in kind")
    assert "encoding_study/distance_mla-released" in row.evidence


def test_orders_of_two_tasks_are_correlated_seed_by_seed():
    accuracies = {"a": ([0.1, 0.5], [0.9, 0.1]), "b": ([0.2, 0.6, 0.3], [0.7, 0.2]), "c": ([0.6, 0.9], [0.1, 0.6])}
    distance, count = ({name: {"accuracy": np.array(x[task])} for name, x in accuracies.items()} for task in (0, 1))
    expected = [
        np.corrcoef([0.1, 0.2, 0.6], [0.9, 0.7, 0.1])[0, 1],
        np.corrcoef([0.5, 0.6, 0.9], [0.1, 0.2, 0.6])[0, 1],
    ]
    assert judges.task_correlations(distance, {**count, "d": None}) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("which", "options", "statement"),
    [
        (("distance", "rope"), {}, None),
        (("distance", "rope"), {"most": 0.2}, "costs 30 points"),
        (("distance", "rope"), {"following": 0.4}, "costs 30 points"),
        (("distance", "rope"), {"layer": 1}, "costs 30 points"),
        (("distance", "nope"), {"accuracy": 0.5, "most": 0.4}, "neither NoPE nor Count"),
        (("count", "rope"), {"accuracy": 0.7, "most": 0.4}, "neither NoPE nor Count"),
        (("distance", "rope-one-head"), {"accuracy": 0.7}, "one rotary head"),
        (("distance", "mla"), {"most": 0.4}, "latent attention"),
    ],
)
def test_a_deposit(tmp_path, which, options, statement):
    models_with_deposit(tmp_path, {which: options})
    (row,) = ledger("G26-3", folder=tmp_path)
    missed = [part for part, answer in row.parts.items() if answer == "no"]
    assert (len(missed), row.verdict) == ((1, "partly") if statement else (0, "reproduced in kind"))
    assert all(statement in part for part in missed)
    costs = [options.get("most", 0.6) if which == ("distance", "rope") else 0.6, options.get("following", 0.0)]
    assert "The costliest head costs {:.2f} and the next {:.2f}".format(*costs) in row.note


def trained_to_the_end(folder, changed=("distance", "rope"), **options):
    models_with_deposit(folder, {changed: options}, size="long", costs=(0.8, 0.2), elsewhere=0.1)
    return ledger("G26-3b", folder=folder)[0]


def test_a_deposit_by_mean_ablation(tmp_path):
    row = trained_to_the_end(tmp_path)
    assert row.verdict == "reproduced in kind"
    assert row.ours["rotary: cost of the costliest head, by its mean"]["value"] == pytest.approx(0.4)
    assert row.ours["largest cost with latent attention over rotary's"] == pytest.approx(0.125)


@pytest.mark.parametrize(
    ("accuracy", "without", "verdict"),
    [(0.60, 0.60, "reproduced in kind"), (0.592, 0.60, "not reproduced"), (0.60, 0.592, "not testable")],
)
def test_rotary_models_on_count(tmp_path, accuracy, without, verdict):
    for size, right in (("long", accuracy), ("undropped", without)):
        arrays = {"accuracy": right + 0.001 * np.arange(3), "error": np.full(3, 1.5)}
        save_invented(EncodingStudy(task="count", setup="rope", size=size).name, arrays, tmp_path)
    (row,) = ledger("G26-2b", folder=tmp_path)
    assert row.verdict == verdict
    assert "off by 1.5 on average" in row.note


def test_an_encoding_that_is_as_fast_in_one_seed_is_one_case_less(tmp_path):
    for setup in ("rope", "nope", "sinusoidal", "learned", "alibi", "t5"):
        losses = np.full((3, 60), 1.0 if setup == "rope" else 2.0)
        losses[1] += 0.5
        losses[2] -= 0.5 if setup == "t5" else 0.0
        save_invented(EncodingStudy(task="distance", setup=setup).name, {"losses": losses}, tmp_path)
    (row,) = ledger("G26-4", folder=tmp_path)
    assert (row.verdict, list(row.parts.values())) == ("partly", ["4 of 5 encodings"])
    assert row.fails_in == ["t5: least loss of a seed over the largest of rotary heads 1"]
