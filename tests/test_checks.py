"""What is too large, or not a number, is refused in words that name the rule, the value and the way out."""

import math

import numpy as np
import pytest
import torch

from posym_companion.encodings.pointers import head_pointers
from posym_companion.several_hops.gptj import make_gptj, mark_right_answers, run_with_edits
from posym_companion.several_hops.hop_answers import answer_questions
from posym_core import cross_logits, frequency_shares, rotate, swap_scores
from posym_core._checks import require_count, require_finite
from posym_core.encodings import ENCODINGS, LayerShape, make_encoding
from posym_core.models._classifier import EncodingModel, ModelSettings, ablate_each_head, predict_classes
from posym_profile.language_models._answers import choose_answers

ONE = torch.tensor([1.0])
LARGE = torch.tensor([3e38, 3e38])
KEYS = torch.eye(2).repeat(2, 1)
QUERY = torch.tensor([1.0, 0.5])


@pytest.mark.parametrize("value", [2, 3.0, math.nan, True, "3", None, torch.ones(2)], ids=repr)
def test_counts_are_whole_numbers_of_any_kind(value):
    for whole in (3, np.int64(3), torch.tensor(3)):
        assert type(require_count("heads", whole, 3)) is int
    with pytest.raises(ValueError, match=r"^heads must be a whole number of at least 3; got "):
        require_count("heads", value, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128])
@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_numbers_of_any_kind_are_finite_or_refused(dtype, bad):
    x = torch.ones(3, 2, dtype=dtype)
    require_finite("x", x.conj())
    require_finite("x", x * torch.finfo(dtype).max)  # whose sum is infinite
    (torch.view_as_real(x)[..., 1] if x.is_complex() else x)[1, 0] = bad
    with pytest.raises(ValueError, match=r"^x must be finite; 1 of its 6 entries"):
        require_finite("x", x)


@pytest.mark.parametrize(("query", "keys", "scale", "what"), [
    (LARGE, KEYS, 1.0, "the scaled query"),
    (QUERY, KEYS, 1e39, "the scaled query"),
    (QUERY, KEYS * 3e38, 1.0, "keys"),
    (QUERY * 1e20, KEYS * 1e20, 1.0, "logits"),
])  # fmt: skip
def test_heads_whose_logits_would_overflow(query, keys, scale, what):
    message = rf"^{what} may reach .*, but torch.float32 holds .* pass smaller numbers, or float64"
    with pytest.raises(ValueError, match=message):
        cross_logits(query, keys, ONE, scale=scale)
    with pytest.raises(ValueError, match=message):
        swap_scores(query, keys, ONE, block_length=1, scale=scale, products=torch.float32)
    # Twice as many digits hold them.
    assert bool(cross_logits(query.double(), keys.double(), ONE, scale=scale).isfinite().all())
    assert bool(swap_scores(query, keys, ONE, block_length=1, scale=scale).positional.isfinite())


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


def encoder():
    settings = ModelSettings(vocabulary=9, classes=4, layers=2, width=16, heads=2, hidden=12, rank=3, length=14)
    return EncodingModel(settings), "layers.1.dropout"


def gptj():
    return make_gptj(vocabulary=9, layers=2, heads=2, width=16), "transformer.drop"


@pytest.mark.parametrize(("make", "ask"), [
    (encoder, lambda model: predict_classes(model, None)),
    (encoder, lambda model: ablate_each_head(model, None)),
    (encoder, lambda model: head_pointers(model, None)),
    (gptj, lambda model: mark_right_answers(model, None, None)),
    (gptj, lambda model: run_with_edits(model, None)),
    (gptj, lambda model: choose_answers(model, None)),
    (gptj, lambda model: answer_questions(model, None, [], [])),
])  # fmt: skip
def test_one_part_in_training_mode_is_refused_whoever_asks(make, ask):
    model, part = make()
    model.eval().get_submodule(part).train()
    assert not model.training
    message = rf"^\w+ \({part}\) is in training mode, where dropout alters attention .*; call model.eval\(\)$"
    with pytest.raises(ValueError, match=message):
        ask(model)


def test_what_would_overflow_in_float32_is_held_by_float64():
    assert bool(rotate(LARGE.double(), math.pi / 4, ONE).isfinite().all())
    assert bool(cross_logits(QUERY * 1e10, KEYS * 1e10, ONE).isfinite().all())
    small = frequency_shares(QUERY.double() * 1e-200, KEYS.double(), ONE)
    large = frequency_shares(QUERY.double(), KEYS.double(), ONE)
    torch.testing.assert_close(small.symbolic_share, large.symbolic_share)
