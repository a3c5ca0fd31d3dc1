"""What the trend of scores over layers could be instead, from invented results whose medians are known."""

from __future__ import annotations

import numpy as np
import pytest
from invented import save_invented

from posym_companion.language_models.judges.doubts import layer_doubts
from posym_companion.language_models.origins import Origins
from posym_companion.language_models.random_weights import DRAWS, RandomWeights
from posym_core.runs.results import MissingResultError

LAYERS, HEADS = 6, 5


def heads(*thirds):
    """The same for all prompts and heads, by thirds of the layers."""
    return np.broadcast_to(np.repeat(thirds, LAYERS // 3)[None, :, None], (3, LAYERS, HEADS)).copy()


@pytest.fixture
def folder(tmp_path):
    for kind, shift in (({}, 0.0), ({"beginning": False}, 0.1), ({"lead": 8}, 0.2)):
        positional, mass = heads(0.5, 0.6, 0.7) + shift, heads(0.05, 0.5, 0.8)
        # One head of the second third attends to the facts, unlike the others, and scores otherwise.
        mass[:, 2:4, 1:], positional[:, 2:4, 0] = 0.01, 0.9
        arrays = {"positional": positional, "symbolic": 1 - positional, "mass": mass}
        save_invented(Origins(**kind).name, arrays, tmp_path)
    for setting in (RandomWeights(weights="trained"), *(RandomWeights(draw=draw) for draw in DRAWS)):
        both = np.stack([heads(0.1, 0.2, 0.3), heads(0.4, 0.5, 0.6)])
        save_invented(setting.name, {"positional": both, "symbolic": 1 - both}, tmp_path)
    return tmp_path


def test_every_doubt_has_its_own_medians(folder):
    found = layer_doubts(folder=folder)
    np.testing.assert_allclose(found["attention"]["attention"], [0.05, 0.01, 0.8])
    np.testing.assert_allclose(found["as they come"]["s_POS"], [0.5, 0.6, 0.7])
    np.testing.assert_allclose(found["without the mark of beginning"]["s_SYM"], [0.4, 0.3, 0.2])
    np.testing.assert_allclose(found["behind 8 facts of the same frame"]["s_POS"], [0.7, 0.8, 0.9])
    np.testing.assert_allclose(found["all pairs of facts weighed alike"]["s_POS"], [0.4, 0.5, 0.6])
    np.testing.assert_allclose(found["random weights, draw 3"]["s_POS"], [0.1, 0.2, 0.3])
    attend = found["heads with a tenth of their attention on facts"]["s_POS"]
    np.testing.assert_allclose(attend, [np.nan, 0.9, 0.7])


def test_a_model_that_was_not_measured_has_none(folder):
    with pytest.raises(MissingResultError, match="smollm2"):
        layer_doubts("smollm2-135m", folder=folder)
