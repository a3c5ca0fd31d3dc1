"""Claims about encodings on made-up results: every part holds on one and is missed on another."""

from __future__ import annotations

import numpy as np
import pytest
from invented import save_invented
from judged import count_parts, find_missed, judge_made_up, require_both_sides

from posym_companion.claims import encodings
from posym_companion.claims.encodings import ADDING, OTHERS, find_study
from posym_companion.encodings.encoding_optimisation import EncodingOptimisation
from posym_companion.encodings.encoding_study import RELEASED, EncodingStudy, long_size
from posym_companion.encodings.gram_spectra import GramSpectra

# Spectra


def judge_spectra(folder, claim, *, gram=True, own=True, one=True, rotated=True):
    """A claim where one Gram matrix, or one matrix of logits, is majorised or not."""
    arrays = {f"{kind}_holds": np.full((2, 4, 3, 2), True) for kind in ("query", "key", "logits")}
    arrays["key_holds"][encodings.AVERAGED, 0, 0, 0] = gram
    arrays["query_holds"][encodings.ROTATED, 0, 0, 0] = rotated
    arrays["logits_holds"][encodings.AVERAGED, 0, 0, 0] = one
    arrays["logits_holds"][encodings.ROTATED, 0, 0, 0] = own
    save_invented(GramSpectra().name, arrays, folder)
    return judge_made_up(claim, folder)


def test_one_matrix_that_is_not_contracted_refutes(tmp_path, monkeypatch):
    theorem, logits = (judge_spectra(tmp_path, claim) for claim in ("G26-1a", "G26-1b"))
    assert (theorem.grade, logits.grade) == ("proved", "proved")
    assert "1000 of 1000 random, 48 of 48 of a model" in theorem.headline
    refuted = judge_spectra(tmp_path, "G26-1b", own=False, one=False, rotated=False)
    require_both_sides(logits, refuted)
    assert refuted.grade == "refuted as worded"
    assert find_missed(judge_spectra(tmp_path, "G26-1b", own=False)) == ["logits under the model's own rotation"]
    # Sums with a bias in place of products are not majorised.
    monkeypatch.setattr(encodings, "kernel_product", lambda gram, kernel: gram + kernel)
    require_both_sides(theorem, judge_spectra(tmp_path, "G26-1a", gram=False))


# Optimisation


def judge_stability(folder, *, rope_rate=0.2, rope_eigenvalue=1.0, others_rate=0.05, right=0.9):
    """RoPE with this stable rate and curvature, others with a curvature of 2 and this accuracy at the end."""
    rates = np.array([0.05, 0.1, 0.2, 0.4])
    for name in ("rope", *ADDING):
        rope = name == "rope"
        arrays = {
            "rates": rates,
            "peak": np.where(rates > (rope_rate if rope else others_rate), 1.2, 1.0)[None].repeat(3, 0),
            "eigenvalue": np.full((3, 2), rope_eigenvalue if rope else 2.0) * np.array([0.5, 2.0]),
            "accuracy": np.full((3, 2), 1.0 if rope else right),
        }
        save_invented(EncodingOptimisation(encoding=name).name, arrays, folder)
    return judge_made_up("G26-1c", folder)


def test_a_stable_rate_and_a_flat_loss(tmp_path):
    claimed = judge_stability(tmp_path)
    assert (claimed.grade, [*count_parts(claimed).values()]) == ("holds", ["4 of 4"] * 3)
    other = judge_stability(tmp_path, rope_rate=0.05, others_rate=0.4, rope_eigenvalue=3.0)
    require_both_sides(claimed, other)
    assert other.grade == "absent or opposite"
    assert find_missed(judge_stability(tmp_path, rope_eigenvalue=2.0)) == [
        "the loss is less curved through training",
        "the loss is less curved at the end",
    ]


@pytest.mark.parametrize(("rope", "others"), [(0.2, 0.1), (0.2, 0.4), (0.0, 0.05)])
def test_rates_a_notch_apart_decide_nothing(tmp_path, rope, others):
    assert judge_stability(tmp_path, rope_rate=rope, others_rate=others).grade == "undecided"


def test_what_has_not_learned_is_not_compared(tmp_path):
    answer = judge_stability(tmp_path, right=0.89)
    assert [*count_parts(answer).values()] == ["4 of 4", "0 of 0", "0 of 0"]
    assert answer.grade == "weaker"


# Order of encodings

AS_REPORTED = {
    "distance": {"rope": 0.93, "sinusoidal": 0.9, "mla": 0.88, "nope": 0.05, "alibi": 0.06},
    "count": {"mla": 0.97, "nope": 0.78, "rope": 0.69, "sinusoidal": 0.6, "alibi": 0.3},
}


def judge_orders(folder, changed=(), *, equal=False):
    """G26-2 with accuracies as reported but for those of (task, encoding), in models as released or in all."""
    for task, by_name in AS_REPORTED.items():
        for name, setup in RELEASED.items():
            for which in {setup, name}:
                is_it = which == setup or equal
                right = dict(changed).get((task, name), by_name[name]) if is_it else by_name[name]
                save_invented(find_study(task, which).name, {"accuracy": right + 0.001 * np.arange(3)}, folder)
    for size in ("long", "undropped"):
        save_invented(long_size("count", "rope", size=size).name, {"accuracy": np.full(3, 0.5)}, folder)
    return judge_made_up("G26-2", folder)


@pytest.mark.parametrize(
    ("task", "name", "accuracy", "statement"),
    [
        ("distance", "sinusoidal", 0.95, "Distance: RoPE is best"),
        ("distance", "alibi", 0.24, None),
        ("distance", "sinusoidal", 0.01, "Distance: absolute is second"),
        ("distance", "nope", 0.3, "Distance: NoPE and ALiBi fail"),
        ("distance", "alibi", 0.3, "Distance: NoPE and ALiBi fail"),
        ("count", "mla", 0.7, "Count: latent attention beats RoPE"),  # a lead within the noise of the test
        ("count", "nope", 0.68, "Count: NoPE beats RoPE"),
        ("count", "sinusoidal", 0.2, "Count: ALiBi is worst"),
    ],
)
def test_orders_of_encodings(tmp_path, task, name, accuracy, statement):
    answer = judge_orders(tmp_path, {(task, name): accuracy}, equal=True)
    assert find_missed(answer) == ([statement] if statement else [])
    assert len(answer.parts) == 7
    assert answer.parts[-1].told == 0  # RoPE alone was trained at the paper's lengths


def test_models_as_released_are_asked_apart(tmp_path):
    answer = judge_orders(tmp_path, {("distance", "alibi"): 0.3})
    assert count_parts(answer)["Distance: NoPE and ALiBi fail"] == "1 of 2"


# The deposit


def invent_study(folder, task, setup, accuracy, *, most=0.0, following=0.0, layer=0):
    cost = np.zeros((3, 2, 4))
    cost[:, layer, 1], cost[:, 1, 3] = most, following
    arrays = {"accuracy": accuracy + 0.001 * np.arange(3), "whole": np.full(3, accuracy), "averaged": accuracy - cost}
    save_invented(long_size(task, setup).name, arrays, folder)


def judge_deposit(folder, which=("distance", "rope"), **changed):
    """G26-3 with a deposit as claimed, but for one set-up."""
    for task, setup in (("distance", "rope"), ("distance", "rope-one-head"), *OTHERS.values()):
        rotary = (task, setup) == ("distance", "rope")
        right = 0.7 if task == "count" else {"rope": 0.95, "nope": 0.3}.get(setup, 0.9)
        options = {"accuracy": right, "most": 0.4 if rotary else 0.05, "following": 0.1 if rotary else 0.0}
        invent_study(folder, task, setup, **(options | (changed if (task, setup) == which else {})))
    return judge_made_up("G26-3", folder)


@pytest.mark.parametrize(
    ("which", "options", "part"),
    [
        (("distance", "rope"), {}, None),
        (("distance", "rope"), {"most": 0.29, "following": 0.05}, "the costliest head costs 30 points"),
        (("distance", "rope"), {"following": 0.2}, "the next head costs a third of it or less"),
        (("distance", "rope"), {"layer": 1}, "the costliest head is in the first layer"),
        (("distance", "nope"), {"accuracy": 0.5, "most": 0.3}, "no such head without positions"),
        (("count", "rope"), {"most": 0.3}, "no such head on Count"),
        (("distance", "rope-one-head"), {"accuracy": 0.7}, "one rotary head a layer reaches nine tenths"),
        (("distance", "mla"), {"most": 0.3}, "latent attention removes it"),
    ],
)
def test_a_deposit(tmp_path, which, options, part):
    answer = judge_deposit(tmp_path, which, **options)
    assert find_missed(answer) == ([part] if part else [])
    assert all(one.told for one in answer.parts)
    assert answer.grade == (("not attributable" if "no such" in part else "weaker") if part else "holds")


def test_a_model_near_chance_has_nothing_to_lose(tmp_path):
    answer = judge_deposit(tmp_path, ("distance", "nope"), accuracy=0.05)
    assert count_parts(answer)["no such head without positions"] == "0 of 0"
    assert answer.grade == "weaker"
    assert judge_deposit(tmp_path, ("distance", "rope"), accuracy=0.85).grade == "undecided"


def test_the_timing_of_coupling_is_undecided(tmp_path):
    assert judge_made_up("G26-5", tmp_path).grade == "undecided"


def test_an_encoding_that_is_as_fast_in_one_seed_is_one_case_less(tmp_path):
    for setup in ("rope", "nope", *ADDING):
        losses = np.full((3, 60), 1.0 if setup == "rope" else 2.0)
        losses[1] += 0.5
        losses[2] -= 0.5 if setup == "t5" else 0.0
        save_invented(EncodingStudy(task="distance", setup=setup).name, {"losses": losses}, tmp_path)
    answer = judge_made_up("G26-4", tmp_path)
    assert (answer.grade, [*count_parts(answer).values()]) == ("weaker", ["4 of 5"])
    assert [*answer.parts[0].missed] == ["t5"]
