"""Statistics of random scores: numbers of the textbook's formulas, or a stated refusal."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from random_inputs import attempt, cases
from scipy import stats as reference

from posym_core.metrics import _stats as stats
from posym_core.metrics import contrast_layers


@st.composite
def scores(draw, *shape):
    """Scores with ties and, at times, undefined ones."""
    numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(-1, 1, width=32))
    if draw(st.booleans()):
        numbers = st.one_of(numbers, st.just(math.nan))
    return draw(arrays("float64", shape, elements=numbers))


def ordered(estimate):
    assert all(map(math.isfinite, (estimate.value, estimate.low, estimate.high)))
    assert estimate.low <= estimate.high


@cases
@given(st.integers(0, 6).flatmap(scores))
def test_mean_interval(values):
    found = attempt(stats.mean_interval, values, draws=20)
    if np.isnan(values).all():
        assert found is None
        return
    ordered(found)
    defined = [x for x in values.tolist() if not math.isnan(x)]
    assert found.value == pytest.approx(sum(defined) / len(defined))
    assert min(defined) - 1e-9 <= found.low <= found.high <= max(defined) + 1e-9


@cases
@given(st.data(), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3))
def test_layer_contrast(data, prompts, layers, per_layer):
    x = data.draw(scores(prompts, layers, per_layer))
    found = attempt(contrast_layers, x, draws=20)
    if layers < 2:
        assert found is None
    if found is None:
        return
    heads = [[x[:, layer, head] for head in range(per_layer)] for layer in range(layers)]
    means = [[float(np.nanmean(head)) for head in row if not np.isnan(head).all()] for row in heads]
    early, late = (list(itertools.chain(*part)) for part in (means[: layers // 2], means[layers // 2 :]))
    assert found.early == pytest.approx(float(np.median(early)), abs=1e-12)
    assert found.late == pytest.approx(float(np.median(late)), abs=1e-12)
    ordered(found.difference)


@cases
@given(st.data(), st.integers(1, 3), st.integers(2, 4), st.integers(1, 3))
def test_head_correlation(data, prompts, layers, per_layer):
    x, y = (data.draw(scores(prompts, layers, per_layer)) for _ in range(2))
    undefined = np.isnan(x).all(0).any() or np.isnan(y).all(0).any()
    means = [] if undefined else [np.nanmean(z, axis=0).ravel() for z in (x, y)]
    for by_rank, scipys, error in ((False, reference.pearsonr, 1e-6), (True, reference.spearmanr, 1e-9)):
        found = attempt(stats.correlate_heads, x, y, draws=30, by_rank=by_rank)
        if undefined or layers * per_layer < 3:
            assert found is None
        if found is not None:
            assert found.value == pytest.approx(float(scipys(*means)[0]), abs=error)
            ordered(found)
