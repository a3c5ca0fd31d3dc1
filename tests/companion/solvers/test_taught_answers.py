"""Further answers of the taught models: what is kept of them."""

from __future__ import annotations

import numpy as np

from posym_companion.experiments import SECOND
from posym_companion.results import name_dims
from posym_companion.solvers import taught_answers
from posym_companion.solvers.taught_answers import DIMS, EXPERIMENT, full_size, measure
from posym_companion.solvers.taught_gemma import FACTS


def test_a_result_is_what_its_description_says(tiny, tokenizer, tmp_path, monkeypatch):
    """Places are of the facts that are there, and what was not asked is missing."""
    asked = []
    monkeypatch.setattr(taught_answers, "kept_factors", lambda run, folder: asked.append(run.name) or {})
    found = measure(tiny, tokenizer, tmp_path, EXPERIMENT.shrink(full_size(SECOND)[1]), progress=False)
    assert asked == ["taught_gemma/smollm2-135m-all_1"]
    name_dims(DIMS, found)
    assert found["correct"].shape == (3, 3, 2)
    assert np.isfinite(found["correct"]).sum(-1).tolist() == [[2, 2, 1]] * 3
    assert (np.nan_to_num(found["place"]) < np.array(FACTS)[:, None]).all()
