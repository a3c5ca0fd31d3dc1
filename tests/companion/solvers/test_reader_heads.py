"""What is kept of heads that read symbols or origins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from posym_companion.experiments import SECOND
from posym_companion.language_models import origins
from posym_companion.results import name_dims
from posym_companion.solvers import reader_heads
from posym_companion.solvers.reader_heads import DIMS, EXPERIMENT, KEPT, KEPT_ALONE, full_size, measure


def test_a_result_is_what_its_description_says(wide, tokenizer, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(reader_heads, "kept_factors", lambda run, folder: asked.append(run.name) or {})
    setting = EXPERIMENT.shrink(full_size()[2])
    found = measure(wide, tokenizer, tmp_path, setting, progress=False)
    assert asked == [f"taught_gemma/{SECOND}-all_1"]
    name_dims(DIMS, found)
    layers, heads = wide.config.num_hidden_layers, wide.config.num_attention_heads
    assert found["log_ratio"].shape == (2, 1, len(KEPT), layers, heads)
    # The same as the experiment on origins has on these prompts.
    same = origins.Origins(
        model=setting.model, facts=setting.facts, asked=True, prompts=2, seed=setting.seed, reads="few"
    )
    expected = origins.measure(wide, tokenizer, same, progress=False)
    np.testing.assert_allclose(found["contrasts"], expected["contrasts"][0], rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(found["symbolic"], expected["symbolic"], atol=1e-3)
    # An exchange changes the heads of its layers and of those behind them, and none before.
    changed = found["log_ratio"].astype(float) - found["log_ratio"][:, :, :1]
    late = changed[:, :, KEPT.index(("whole", "late"))]
    first = round(2 * layers / 3)
    assert np.abs(late[:, :, :first]).max() == 0
    assert np.abs(late[:, :, first:]).max() > 0
    # Alone, a head of the first layer reads what it does where all layers change.
    alone = measure(wide, tokenizer, tmp_path, replace(setting, alone=True), progress=False)
    name_dims(DIMS, alone)
    assert set(alone) == {"log_ratio"}
    assert alone["log_ratio"].shape == (2, 1, len(KEPT_ALONE), layers, heads)
    np.testing.assert_array_equal(alone["log_ratio"][:, :, 0], found["log_ratio"][:, :, 0])
    for exchange in ("whole", "origin", "symbol", "other origins"):
        late, own = (
            x["log_ratio"][:, :, at, first]
            for x, at in ((found, KEPT.index((exchange, "late"))), (alone, KEPT_ALONE.index(exchange)))
        )
        np.testing.assert_allclose(own.astype(float), late.astype(float), atol=5e-3)
