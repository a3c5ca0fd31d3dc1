"""Judges of later papers' claims on invented results: the unit of a claim, and what chose may not judge."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from invented import save_invented

from posym_companion.experiments import SECOND
from posym_companion.later.binding import OUTCOMES
from posym_companion.later.judges import later_claims
from posym_companion.later.judges.later_claims import chance_of_fewer
from posym_companion.later.order import BASES, LENGTHS
from posym_companion.ledger import ledger
from posym_companion.results import MissingResultError

LAYERS, HEADS, PROMPTS, PAIRS = 4, 4, 6, 48


def save(part, arrays, folder, model="gemma-3-270m"):
    first = later_claims.FIRST.get(part, "gemma-3-270m")
    name = f"later_claims/{part}" + ("" if model == first else f"_{model}")
    save_invented(name, arrays, folder, model=model, length=8)


def order(folder, *, inversions, far=None, symbolic=None, model="gemma-3-270m"):
    """Order in heads ``[layer, head]`` of four layers, of which two see all, alike in all prompts but for a jitter."""
    shape = inversions.shape
    jitter = 1e-3 * np.random.default_rng(0).normal(size=(len(BASES), len(LENGTHS), PROMPTS, *shape))
    rise = np.array([0.0, 0.0, 0.0, 1.0])[:, None, None, None]
    far = np.full(shape, 0.5) if far is None else far
    lean = np.full(shape, 0.5) if symbolic is None else np.where(symbolic, 0.9, 0.1)
    arrays = {
        "contents": jitter + 0.2 + rise * (inversions - 0.2),
        "far": jitter + 0.2 + rise * (far - 0.2),
        "symbolic": np.broadcast_to(lean, (PROMPTS, *shape)),
        "positional": np.broadcast_to(1 - lean, (PROMPTS, *shape)),
        "sees": np.array([512, 32768, 512, 32768]),
    }
    save("order", arrays, folder, model)


def test_order_is_judged_head_by_head(tmp_path):
    """One head of eight prefers the far place in every prompt: prompts agree, heads do not."""
    one = np.full((LAYERS, HEADS), 0.19)
    one[1, 0] = 1.0
    order(tmp_path, inversions=np.full((LAYERS, HEADS), 0.5), far=one)
    (row,) = ledger("L-1a", folder=tmp_path)
    assert row.parts["inversions grow with length"] == "yes"
    assert row.parts["the preference for far grows with length"] == "no"
    assert row.ours["rise of far preferred"]["interval"][0] > 0
    assert row.ours["rise of far preferred, over heads"]["value"] == pytest.approx(0.09, abs=0.01)
    assert "8 heads of the global layers" in row.note
    assert "0.20, 0.20, 0.20, 0.29 of the cases at 64, 512, 4096, 32768 tokens" in row.note


@pytest.mark.parametrize(("low", "held"), [(4, "yes"), (2, "yes"), (1, "not testable")])
def test_symbolic_heads_are_compared_with_heads_drawn_at_random(tmp_path, low, held):
    """Of eight heads two choices of four, one of 28 pairs and one of eight heads: the last is p = .125."""
    symbolic = np.zeros((LAYERS, HEADS), dtype=bool)
    symbolic[1, :low] = True
    inversions = np.where(symbolic, 0.1, 0.5) + 0.01 * np.arange(HEADS)
    order(tmp_path, inversions=inversions, symbolic=symbolic)
    (row,) = ledger("L-1c", folder=tmp_path)
    assert row.parts["fewer inversions than in other heads"] == held
    assert row.parts["the order is not lost"] == ("yes" if low > 1 else "not testable")
    assert row.ours[later_claims.LEAST] == row.ours[later_claims.CHANCE]
    expected = {4: 1 / 70, 2: 1 / 28, 1: 1 / 8}[low]
    assert row.ours[later_claims.CHANCE] == pytest.approx(expected, rel=1e-3)
    assert row.ours["fewer than in the others"]["interval"][0] > 0
    assert row.first_rule_verdict == "reproduced in kind"
    assert row.parts["on the other models too"] == "not testable"


def test_a_model_in_which_symbolic_heads_lose_order_is_named(tmp_path):
    symbolic = np.zeros((LAYERS, HEADS), dtype=bool)
    symbolic[1] = True
    good = np.where(symbolic, 0.1, 0.5)
    order(tmp_path, inversions=good, symbolic=symbolic)
    order(tmp_path, inversions=good, symbolic=symbolic, model="qwen2")
    (row,) = ledger("L-1c", folder=tmp_path)
    assert (row.verdict, row.fails_in) == ("reproduced in kind", [])
    order(tmp_path, inversions=0.6 - good, symbolic=symbolic, model="llama")
    (row,) = ledger("L-1c", folder=tmp_path)
    assert row.verdict == "partly"
    assert row.parts["on the other models too"] == "1 of 2 models"
    assert [(one.called, one.verdict, one.parts["the order is not lost"]) for one in row.others[:2]] == [
        ("small Llama", "partly", "no"),  # on the other models it does hold
        ("small Qwen2", "partly", "yes"),
    ]


def test_a_model_of_too_few_heads_is_no_other_model(tmp_path):
    """Of four heads, two can be chosen in six ways: no p is below .05, and what it misses is its number of heads."""
    symbolic = np.zeros((LAYERS, HEADS), dtype=bool)
    symbolic[1] = True
    good = np.where(symbolic, 0.1, 0.5)
    order(tmp_path, inversions=good, symbolic=symbolic)
    order(tmp_path, inversions=(0.6 - good)[:, :2], symbolic=symbolic[:, :2], model="llama")
    (row,) = ledger("L-1c", folder=tmp_path)
    assert row.others[0].verdict == "not testable"
    assert row.parts["on the other models too"] == "not testable"
    assert row.fails_in == []


def test_heads_that_all_lean_one_way_are_not_compared(tmp_path):
    order(tmp_path, inversions=np.full((LAYERS, HEADS), 0.1), symbolic=np.ones((LAYERS, HEADS), dtype=bool))
    (row,) = ledger("L-1c", folder=tmp_path)
    assert row.parts["fewer inversions than in other heads"] == "not testable"


def test_the_exact_chance_counts_ties_and_refuses_what_is_undefined():
    values = np.array([0.3, 0.1, 0.2, 0.2, 0.5])
    chosen = np.array([False, True, True, False, False])
    pairs = list(itertools.combinations(values, 2))
    assert chance_of_fewer(values, chosen) == np.mean([sum(pair) <= 0.3 + 1e-9 for pair in pairs]) == 0.2
    assert chance_of_fewer(np.full(5, 0.1), chosen) == 1
    with pytest.raises(ValueError, match="values must be finite; 1 of 5 are not"):
        chance_of_fewer(np.where(chosen, np.nan, values)[[0, 0, 0, 0, 1]], chosen)
    for none in (np.zeros(5, dtype=bool), np.ones(5, dtype=bool)):
        with pytest.raises(ValueError, match=f"some heads must be chosen and some not; got {none.sum()} of 5"):
            chance_of_fewer(values, none)


def test_where_heads_can_be_chosen_in_too_many_ways_some_are_drawn(monkeypatch):
    """Of ten heads two can be chosen in 45 ways; the two lowest have p = 1/45, by draws about that."""
    values, chosen = np.arange(10.0), np.arange(10) < 2
    assert chance_of_fewer(values, chosen) == pytest.approx(1 / 45)
    monkeypatch.setattr(later_claims, "CHOICES", 40)
    assert chance_of_fewer(values, chosen) == chance_of_fewer(values, chosen)
    assert 1 / 41 <= chance_of_fewer(values, chosen) < 0.15
    # Those chosen count among the draws, so that p is never zero.
    assert chance_of_fewer(np.arange(300.0), np.arange(300) < 100) == pytest.approx(1 / 41)


def test_what_needs_a_model_that_binds_is_asked_of_the_taught_one():
    with pytest.raises(MissingResultError, match="binding_smollm2-135m-binds"):
        later_claims.load_part("binding", Path("nowhere"), model=SECOND)
    with pytest.raises(MissingResultError, match=r"order_smollm2-135m[^-]"):
        later_claims.load_part("order", Path("nowhere"), model=SECOND)


def binding(folder, *, even=1, odd=1, by="place", ends=1.0, odd_ends=None):
    """At layer 1 ``by`` decides these parts of the even and of the odd pairs; at layer 2 all odd pairs and no other."""
    said = np.zeros((2, 3, PAIRS, len(OUTCOMES)))
    place = np.arange(PAIRS) // 2 % 8
    drawn = np.arange(PAIRS) // 2 / (PAIRS // 2)
    middle = np.where(np.arange(PAIRS) % 2 == 0, ends, ends if odd_ends is None else odd_ends)
    share = np.where(np.arange(PAIRS) % 2 == 0, even, odd) * np.where(np.isin(place, (0, 7)), 1.0, middle)
    said[0, 1, :, OUTCOMES.index(by)] = drawn < share
    said[0, 2, 1::2, OUTCOMES.index(by)] = 1
    save("binding", {"said": said, "place": place}, folder, model="gemma-3-270m-binds")
    return ledger("L-6", folder=folder)[0]


def test_the_layer_is_judged_on_pairs_that_did_not_choose_it(tmp_path):
    row = binding(tmp_path, even=1, odd=0)
    assert row.ours["layer, place"] == 1
    assert row.ours["answers decided by the place"]["value"] == 0
    assert row.parts["place decides"] == "no"
    row = binding(tmp_path, even=0.5, odd=1)
    assert row.ours["answers decided by the place"]["value"] == 1
    assert row.parts["place decides"] == "yes"


def test_the_middle_is_asked_where_the_place_decides(tmp_path):
    middle = "place decides less in the middle"
    row = binding(tmp_path, even=1, odd=1, ends=0.3)
    assert (row.parts["place decides"], row.parts[middle]) == ("yes", "yes")
    # On the pairs that chose the layer the ends win, on the others the place decides nothing.
    row = binding(tmp_path, even=1, odd=0, ends=0.0)
    assert (row.parts["place decides"], row.parts[middle]) == ("no", "not testable")
    assert "the place decides 6 of 48 pairs at place 0 and 7, 6 of them among those that chose the layer" in row.note
    row = binding(tmp_path, even=1, odd=1, ends=1.0)
    assert row.parts[middle] == "no"
    # Where only the pairs that chose the layer have the ends ahead, the others judge.
    row = binding(tmp_path, even=1, odd=1, ends=0.0, odd_ends=1.0)
    assert row.ours["place decides at the ends, minus in the middle"]["interval"][0] > 0
    assert (row.parts["place decides"], row.parts[middle], row.first_rule_verdict) == ("yes", "no", "partly")


def retrieval(folder, *, slow=0.2, faster=0.8, others=1.0, quarter=0.1, model="gemma-3-270m-binds"):
    """Recall of ten prompts without some planes: of the slow ones of equal energy and so on."""
    parts = {
        "none": 1.0,
        "all planes": 0.1,
        "slowest 0.25": quarter,
        **{f"random 0.25, {draw}": 0.9 for draw in range(2)},
        **{f"other heads, slowest 0.25, {draw}": others for draw in range(2)},
        **{f"slow planes of equal energy, {draw}": slow for draw in range(2)},
        **{f"faster planes of equal energy, {draw}": faster for draw in range(2)},
    }
    right = np.array([np.arange(10) < round(10 * part) for part in parts.values()])
    restored = np.zeros((LAYERS, HEADS))
    restored[2, 1] = 0.5
    energy = np.full((LAYERS, HEADS, 8), 0.1 / 6)
    energy[..., 6:] = 0.45
    arrays = {
        "restored": restored,
        "energy": energy,
        "conditions": np.array(list(parts)),
        "correct": right,
        "log_probability": np.where(right, -0.1, -2.0),
    }
    save("retrieval", arrays, folder, model)
    return ledger("L-3", folder=folder)[0]


@pytest.mark.parametrize(
    ("slow", "faster", "held"),
    [(0.2, 0.8, "yes"), (0.8, 0.8, "no"), (0.8, 0.2, "no"), (0.9, 1.0, "not testable"), (1.0, 0.8, "no")],
)
def test_slow_planes_are_held_against_faster_ones_of_equal_energy(tmp_path, slow, faster, held):
    row = retrieval(tmp_path, slow=slow, faster=faster)
    assert row.parts["they are needed more than faster planes of equal energy"] == held
    assert row.verdict_of_model == ("reproduced in kind" if held == "yes" else "partly")
    assert row.first_rule_verdict == "reproduced in kind"
    larger = row.ours["recall lost without planes of equal energy, the larger"]
    assert larger == pytest.approx(1 - min(slow, faster))


def influence(folder, *, untrained=0.1, trained=0.1, model="gemma-3-270m"):
    """Profiles of 64 tokens, the first eighth and the last token high, the rest of the last eighth so far above."""

    def ends(height):
        logs = np.zeros(64)
        logs[:8], logs[-8:-1], logs[-1] = 1.0, height, 2.0
        return np.exp(logs)

    fresh = np.broadcast_to(ends(untrained), (2, 3, 64))
    peak = np.zeros((3, 2, 2, 64))
    arrays = {
        "kinds": np.array(["qwen2", "own"]),
        "rotated": fresh,
        "unrotated": fresh,
        "trained": np.broadcast_to(ends(trained), (4, 64)),
        "trained_peak": peak,
        "fresh_peak": peak,
    }
    save("influence", arrays, folder, model)
    return ledger("L-4", folder=folder)[0]


@pytest.mark.parametrize(("untrained", "trained"), [(0.1, 0.1), (-0.1, 0.1), (0.1, -0.1)])
def test_the_end_of_a_u_is_judged_without_the_last_token(tmp_path, untrained, trained):
    row = influence(tmp_path, untrained=untrained, trained=trained)
    held = {name: said.startswith(("6 of 6", "4 of 4")) for name, said in row.parts.items()}
    assert held.pop("the end, without the last token, is above the middle, untrained") == (untrained > 0)
    assert held.pop("the end, without the last token, is above the middle, trained") == (trained > 0)
    assert all(held.values())
    assert row.first_rule_verdict == "reproduced in kind"


def test_draws_of_random_weights_are_counted_once(tmp_path):
    """A taught model has those of its base, which say nothing anew; another model has its own."""
    influence(tmp_path, untrained=-0.1)
    influence(tmp_path, model="llama")
    row = influence(tmp_path, model="gemma-3-270m-binds")
    end = "untrained models, last eighth but the last token above the middle"
    assert row.ours[end] == "0 of 6"
    taught, llama, *_ = row.others
    assert (taught.ours[end], llama.ours[end]) == ("0 of 0", "6 of 6")
    assert taught.parts["the beginning is above the middle, untrained"] == "not testable"
    assert row.ours["untrained models, draws of a Qwen-2 of eight layers"] == 3
    assert "3 draws of a Qwen-2 of eight layers and 3 draws of the model's own architecture" in row.note
