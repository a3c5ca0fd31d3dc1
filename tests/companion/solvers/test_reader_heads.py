"""What is kept of heads that read symbols or origins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from posym_companion.experiments import SECOND
from posym_companion.results import name_dims
from posym_companion.solvers import reader_heads
from posym_companion.solvers.reader_heads import (
    DIMS,
    EXCHANGES,
    EXPERIMENT,
    full_size,
    measure,
    measure_asked_contrast,
)
from posym_profile import binding_prompts, profile
from posym_profile.capture._capturing import capture


def test_a_result_is_what_its_description_says(wide, tokenizer, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(reader_heads, "kept_factors", lambda run, folder: asked.append(run.name) or {})
    setting = EXPERIMENT.shrink(full_size()[2])
    found = measure(wide, tokenizer, tmp_path, setting, progress=False)
    assert asked == [f"taught_gemma/{SECOND}-all_1"]
    name_dims(DIMS, found)
    layers, heads = wide.config.num_hidden_layers, wide.config.num_attention_heads
    assert found["contrasts"].shape == (3, 2, layers, heads)
    assert np.isfinite(found["contrasts"]).all()
    prompts = binding_prompts(tokenizer, facts=setting.facts, count=2, seed=setting.seed)
    scores = profile(wide, prompts.input_ids, **prompts.layout, visible_only=False, progress=False)
    np.testing.assert_allclose(found["symbolic"], scores.symbolic, atol=1e-3)
    # Alone, what is exchanged changes heads' attention; what is exchanged first is nothing.
    alone = measure(wide, tokenizer, tmp_path, replace(setting, alone=True), progress=False)
    name_dims(DIMS, alone)
    assert set(alone) == {"log_ratio"}
    assert alone["log_ratio"].shape == (2, 1, len(EXCHANGES), layers, heads)
    first = prompts.start + prompts.target[0] * prompts.block_length
    weights = torch.stack([call.weights()[0, :, 0] for call in capture(wide, prompts.input_ids)])
    asked_fact = weights[..., first : first + prompts.block_length].sum(-1)
    ratios = []
    for fact in range(setting.facts):
        place = prompts.start + fact * prompts.block_length
        ratios.append((asked_fact / weights[..., place : place + prompts.block_length].sum(-1)).log())
    found_ratio = torch.tensor(alone["log_ratio"][0, 0, 0]).float()
    assert min(float((found_ratio - x).abs().max()) for x in ratios) < 1e-2
    assert all(np.abs(alone["log_ratio"][:, :, at] - alone["log_ratio"][:, :, 0]).max() > 0.01 for at in range(1, 5))


def test_the_contrast_is_what_asking_adds():
    generator = torch.Generator().manual_seed(0)
    queries, levels = 6, 6
    asked = torch.tensor([0, 1, 1, 3, 5, 2])
    anyway = torch.randn(1, 2, levels, generator=generator) + torch.randn(queries, 2, 1, generator=generator)
    added = torch.nn.functional.one_hot(asked, levels)[:, None] * torch.tensor([3.0, 0.0])[:, None]
    torch.testing.assert_close(
        measure_asked_contrast(anyway + added, asked), torch.tensor([3.0, 0.0], dtype=torch.float64)
    )
