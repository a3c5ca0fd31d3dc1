"""What is too large, or not a number, is refused in words that name the rule, the value and the way out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from posym_companion.encodings.pointers import head_pointers
from posym_companion.several_hops.gptj import make_gptj, mark_right_answers, run_with_edits
from posym_companion.several_hops.hop_answers import answer_questions
from posym_companion.solvers.families import answers_right
from posym_core import cross_logits, exclusion, frequency_shares, rope_angles, rotate, swap_scores
from posym_core._checks import require_count, require_counts, require_finite
from posym_core.encodings import ENCODINGS, LayerShape, make_encoding
from posym_core.metrics import _contrasts as contrasts
from posym_core.metrics import _stats as stats
from posym_core.metrics import cross_scores, exchange_scores
from posym_core.metrics._permutations import make_block_table
from posym_core.metrics._score_geometry import simulate_random_swaps
from posym_core.models._classifier import EncodingModel, ModelSettings, ablate_each_head, predict_classes
from posym_profile.language_models._answers import choose_answers

ONE = torch.tensor([1.0])
LARGE = torch.tensor([3e38, 3e38])
KEYS = torch.eye(2).repeat(2, 1)
QUERY = torch.tensor([1.0, 0.5])


@pytest.mark.parametrize("value", [3, np.int64(3), torch.tensor(3)])
def test_counts_are_integers_of_any_kind(value):
    number = require_count("heads", value, 3)
    assert (number, type(number)) == (3, int)


@pytest.mark.parametrize("value", [2, -1, 3.5, 3.0, math.nan, math.inf, True, "3", None, [3], torch.ones(2)])
def test_counts_that_are_none(value):
    with pytest.raises(ValueError, match=r"^heads must be a whole number of at least 3; got "):
        require_count("heads", value, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_of_any_kind_are_finite_or_refused(dtype, bad):
    x = torch.ones(3, 2, dtype=dtype)
    require_finite("x", x)
    require_finite("x", x.conj())
    (torch.view_as_real(x)[..., 1] if x.is_complex() else x)[1, 0] = bad
    with pytest.raises(ValueError, match=r"^x must be finite; 1 of its 6 entries"):
        require_finite("x", x)


def test_counts_say_why_and_which():
    with pytest.raises(ValueError, match=r"least 2 \(one position leaves nothing to choose\); got 1$"):
        require_count("length", 1, 2, "one position leaves nothing to choose")
    with pytest.raises(ValueError, match=r"^count must be a whole number of at least 1; got 0$"):
        require_counts(facts=(2, 2), count=(0, 1))


def test_rotations_that_would_overflow():
    with pytest.raises(ValueError, match=r"the turned x may reach 3\.0e\+38, but torch.float32 holds .*, or float64"):
        rotate(LARGE, 1.0, ONE)
    assert bool(rotate(LARGE.double(), math.pi / 4, ONE).isfinite().all())
    with pytest.raises(ValueError, match=r"the turned x may .* pass smaller numbers$"):
        rotate(torch.tensor([1.7e308, 1.7e308], dtype=torch.float64), 1.0, ONE)
    with pytest.raises(ValueError, match=r"positions times angles must be finite; 1\.0e\+200 times 1\.0e\+200 is not"):
        rotate(QUERY, 1e200, torch.tensor([1e200], dtype=torch.float64))
    with pytest.raises(ValueError, match="angles of base 5e-324 must be finite"):
        rope_angles(256, 5e-324)


@pytest.mark.parametrize(
    ("query", "keys", "scale", "what"),
    [
        (LARGE, KEYS, 1.0, "the scaled query"),
        (QUERY, KEYS, 1e39, "the scaled query"),
        (QUERY, KEYS * 3e38, 1.0, "keys"),
        (QUERY * 1e20, KEYS * 1e20, 1.0, "logits"),
    ],
)
def test_heads_whose_logits_would_overflow(query, keys, scale, what):
    message = rf"^{what} may reach .*, but torch.float32 holds .* pass smaller numbers, or float64"
    with pytest.raises(ValueError, match=message):
        cross_logits(query, keys, ONE, scale=scale)
    with pytest.raises(ValueError, match=message):
        swap_scores(query, keys, ONE, block_length=1, scale=scale, products=torch.float32)
    # Twice as many digits hold them.
    assert bool(cross_logits(query.double(), keys.double(), ONE, scale=scale).isfinite().all())
    assert bool(swap_scores(query, keys, ONE, block_length=1, scale=scale).positional.isfinite())


def test_variances_need_room_for_squares():
    with pytest.raises(ValueError, match="squares of logits may reach"):
        frequency_shares(QUERY * 1e10, KEYS * 1e10, ONE)
    assert bool(cross_logits(QUERY * 1e10, KEYS * 1e10, ONE).isfinite().all())
    with pytest.raises(ValueError, match="squares of differences in C may reach"):
        exclusion(torch.tensor([[1e20, 0.0], [0.0, 0.0]]))
    small = frequency_shares(QUERY.double() * 1e-200, KEYS.double(), ONE)
    large = frequency_shares(QUERY.double(), KEYS.double(), ONE)
    torch.testing.assert_close(small.symbolic_share, large.symbolic_share)


@pytest.mark.parametrize("softcap", [math.inf, math.nan])
def test_caps_that_are_no_numbers(softcap):
    for scores in (swap_scores, make_block_table):
        with pytest.raises(ValueError, match="softcap must be"):
            scores(QUERY, KEYS, ONE, block_length=1, start=0, blocks=2, softcap=softcap)


@pytest.mark.parametrize("name", ENCODINGS)
def test_encodings_refuse_what_is_no_number_or_too_large(name):
    shape = LayerShape(heads=1, dim=8, width=8, length=8)
    encoding, x = make_encoding(name, shape), torch.ones(1, 2, 8)
    content = {"content": torch.ones(2, 8)} if encoding.needs_content else {}
    with pytest.raises(ValueError, match="query must be finite; 16 of its 16 entries"):
        encoding.logits(x * math.nan, x, **content)
    with pytest.raises(ValueError, match="key must be finite"):
        encoding.logits(x, x * math.inf, **content)
    with pytest.raises(ValueError, match=r"^logits may reach .* pass smaller numbers, or float64"):
        encoding.logits(x * 1e20, x * 1e20, **content)
    with pytest.raises(
        ValueError, match=r"positions must lie within 2\*\*53, where float64 counts exactly; got 1.0e\+17"
    ):
        encoding.logits(x, x, positions=torch.tensor([0.0, 1e17]), **content)
    if encoding.needs_content:
        with pytest.raises(ValueError, match="content must be finite"):
            encoding.logits(x, x, content=content["content"] * math.nan)


def test_signed_zeros_are_zeros():
    plus, minus = (
        simulate_random_swaps(torch.tensor([zero, zero]), generator=torch.Generator().manual_seed(0))
        for zero in (0.0, -0.0)
    )
    assert plus == minus


def test_statistics_of_what_has_no_score():
    nothing = torch.full((2, 4, 1), math.nan)
    with pytest.raises(ValueError, match="scores must be finite, or NaN where undefined; 8 of 8 are infinite"):
        contrasts.contrast_layers(nothing.nan_to_num(math.inf))
    with pytest.raises(ValueError, match="a contrast needs heads with a score on both sides"):
        contrasts.contrast_layers(nothing)
    with pytest.raises(
        ValueError, match="a correlation needs scores of every head, not all the same; 0 of 4 heads have one"
    ):
        stats.head_correlation(nothing, nothing)
    with pytest.raises(ValueError, match="a mean needs at least one value; got none"):
        stats.mean_interval(nothing[:, 0, 0])
    with pytest.raises(ValueError, match="values must be finite, or NaN where undefined; 1 of 2 are infinite"):
        stats.mean_interval([1.0, math.inf])


def encoder():
    settings = ModelSettings(vocabulary=9, classes=4, layers=2, width=16, heads=2, hidden=12, rank=3, length=14)
    return EncodingModel(settings), "layers.1.dropout"


def gptj():
    return make_gptj(vocabulary=9, layers=2, heads=2, width=16), "transformer.drop"


@pytest.mark.parametrize(
    ("make", "ask"),
    [
        (encoder, lambda model: predict_classes(model, None)),
        (encoder, lambda model: ablate_each_head(model, None)),
        (encoder, lambda model: head_pointers(model, None)),
        (gptj, lambda model: mark_right_answers(model, None, None)),
        (gptj, lambda model: run_with_edits(model, None)),
        (gptj, lambda model: answers_right(model, None, None)),
        (gptj, lambda model: choose_answers(model, None)),
        (gptj, lambda model: answer_questions(model, None, [], [])),
    ],
)
def test_one_part_in_training_mode_is_refused_whoever_asks(make, ask):
    model, part = make()
    model.eval().get_submodule(part).train()
    assert not model.training
    message = rf"^\w+ \({part}\) is in training mode, where dropout alters attention and answers; call model.eval\(\)$"
    with pytest.raises(ValueError, match=message):
        ask(model)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            torch.zeros(1),
            r"leading dimensions of C, here \[2, 3, other\]; got \(1,\). Repeat by outside.expand what all",
        ),
        (torch.zeros(3, 1), r"here \[2, 3, other\]; got \(3, 1\)"),
        (torch.zeros(2, 1, 4), r"here \[2, 3, other\]; got \(2, 1, 4\)"),
        (torch.zeros(2, 3), r"here \[2, 3, other\]; got \(2, 3\)"),
    ],
)
def test_logits_outside_are_those_of_the_heads(given, message):
    with pytest.raises(ValueError, match=rf"^outside must have shape \[..., other\] with .*{message}"):
        cross_scores(torch.zeros(2, 3, 5, 5), outside=given)
    with pytest.raises(TypeError, match=r"outside must be float32 or float64; got torch.int64"):
        cross_scores(torch.zeros(2, 3, 5, 5), outside=torch.zeros(2, 3, 1, dtype=torch.long))
    assert cross_scores(torch.zeros(2, 3, 5, 5), outside=torch.zeros(1).expand(2, 3, -1)).symbolic.shape == (2, 3)


@pytest.mark.parametrize("wrong", [4, 7, -1])
def test_keys_that_are_exchanged_stand_at_places(wrong):
    C, place = torch.zeros(2, 4, 4), torch.tensor([1, 3])
    message = rf"must be places from 0 to 3, of the keys of C; got {wrong}. Count places from 0$"
    with pytest.raises(ValueError, match=f"^first {message}"):
        exchange_scores(C, torch.tensor([1, wrong]), place)
    with pytest.raises(ValueError, match=f"^second {message}"):
        exchange_scores(C, place, torch.tensor([wrong, 1]))
    for given, said in ((place[:1], r"torch.int64 of shape \(1,\)"), (place.double(), "torch.float64 of shape")):
        with pytest.raises(
            ValueError, match=rf"^second must be int64, one place for each \(2,\) of C's heads; got {said}"
        ):
            exchange_scores(C, place, given)


def test_values_of_an_interval_are_independent_and_scores_have_layers():
    values = np.zeros((8, 50))
    message = (
        r"must be independent values in one dimension.*; got shape \(8, 50\). Take the mean over what belongs to one"
    )
    with pytest.raises(ValueError, match=f"^values {message}"):
        stats.mean_interval(values)
    with pytest.raises(ValueError, match=f"^second {message}"):
        stats.mean_difference(values[:, 0], values)
    for given in (np.arange(5.0), np.zeros((3, 0))):
        rule = rf"scores must have shape \[prompt, layer, ...\] with at least one of each; got \({given.shape[0]},"
        with pytest.raises(ValueError, match=f"^{rule}.*. For values without layers use mean_interval$"):
            stats.statistic_interval(np.mean, given)
