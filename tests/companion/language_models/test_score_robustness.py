import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from block_tables import make_block_table
from refusals import refuse_each

from posym_companion.language_models import score_robustness
from posym_core import rope_angles, swap_scores
from posym_core.metrics._permutations import (
    draw_orders,
    list_swap_orders,
    permute_blocks,
    score_permutations,
)
from posym_profile.prompts import make_prompts
from posym_profile.scores._layer_measurement import map_layers

SETTING = replace(score_robustness.EXPERIMENT.shrink(score_robustness.ScoreRobustness()), prompts=2, permutations=10)


def a_head(seed=0, keys=23, dim=16, sharpness=1.0):
    generator = torch.Generator().manual_seed(seed)
    query = sharpness * torch.randn(dim, dtype=torch.float64, generator=generator)
    return query, torch.randn(keys, dim, dtype=torch.float64, generator=generator), rope_angles(dim)


def literal_scores(before, after, orders, tau, eps):
    """The two cosines of every order over the places that changed, and their weighted means, number by number."""
    along, across, gaps = [], [], []
    for order, now in zip(orders.tolist(), after.tolist(), strict=True):
        changed = [place for place, content in enumerate(order) if place != content]
        stayed, followed = [float(before[p]) for p in changed], [float(before[order[p]]) for p in changed]
        found = [now[p] for p in changed]

        def cosine(x, y):
            norms = [max(math.sqrt(sum(a * a for a in z)), eps, 1e-300) for z in (x, y)]
            return sum(a * b for a, b in zip(x, y, strict=True)) / norms[0] / norms[1]

        along.append(cosine(found, stayed))
        across.append(cosine(found, followed))
        gaps.append(math.sqrt(sum((a - b) ** 2 for a, b in zip(stayed, followed, strict=True)) / 2))
    weights = [math.exp((gap - max(gaps)) / tau) for gap in gaps]
    return [
        sum(w * c for w, c in zip(weights, along, strict=True)) / sum(weights),
        sum(w * c for w, c in zip(weights, across, strict=True)) / sum(weights),
    ]


@pytest.mark.parametrize(("tau", "eps"), [(1e-4, 1e-8), (1e-2, 0.0), (10.0, 1e-2)])
def test_scores_are_the_literal_ones(tau, eps):
    orders = draw_orders(6, 15, torch.Generator().manual_seed(2))
    before = torch.rand(6, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) / 6
    after = torch.rand(15, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(4)) / 6
    found = score_permutations(before, after, orders, tau=tau, eps=eps)
    assert [float(x) for x in vars(found).values()] == pytest.approx(literal_scores(before, after, orders, tau, eps))


@pytest.mark.parametrize("sharpness", [0.0, 0.5, 3.0, 30.0])
@pytest.mark.parametrize(("tau", "eps"), [(1e-4, 1e-8), (1e-1, 0.0), (1e-4, 1e-3)])
def test_swaps_are_the_swap_scores(sharpness, tau, eps):
    query, keys, angles = a_head(7, sharpness=sharpness)
    layout = {"start": 2, "block_length": 4, "blocks": 5}
    table, orders = make_block_table(query, keys, angles, **layout), list_swap_orders(5)
    found = score_permutations(table.attention(), table.attention(orders), orders, tau=tau, eps=eps)
    expected = swap_scores(query, keys, angles, **layout, tau=tau, eps=eps)
    assert float(found.positional) == pytest.approx(float(expected.positional), abs=1e-9)
    assert float(found.symbolic) == pytest.approx(float(expected.symbolic), abs=1e-9)


def test_orders():
    assert list_swap_orders(3).tolist() == [[1, 0, 2], [2, 1, 0], [0, 2, 1]]
    drawn = draw_orders(3, 3000, torch.Generator().manual_seed(0))
    counts = torch.unique(drawn, dim=0, return_counts=True)[1]
    assert len(counts) == 5
    assert counts.min() > 500
    assert counts.max() < 700
    assert torch.equal(drawn, draw_orders(3, 3000, torch.Generator().manual_seed(0)))


ORDERS = torch.tensor([[1, 0]])
test_refusals = refuse_each(
    (lambda: score_of_ones(2, orders=torch.tensor([[1, 0], [0, 1]])), "every order must move a block, but 1 of 2"),
    (
        lambda: permute_blocks(torch.arange(5), ORDERS, start=1, block_length=2),
        "1 to 4, but the last of 5 tokens",
    ),
)


def score_of_ones(rows, *, orders=ORDERS, **options):
    return score_permutations(torch.tensor([0.5, 0.5]), torch.ones(rows, 2), orders, **options)


@pytest.fixture
def one_wording(monkeypatch):
    monkeypatch.setattr(score_robustness, "WORDINGS", score_robustness.WORDINGS[:1])
    monkeypatch.setattr(score_robustness, "TASKS", ("binding-likes", "text"))


def test_cuts_stay_within_the_facts(packaged):
    prompts = make_prompts(packaged[1], "binding-lives", facts=4, count=1)
    cuts = score_robustness.list_cuts(prompts)
    assert tuple(cuts) == score_robustness.CUTS
    stop = prompts.start + 4 * prompts.block_length
    for cut in cuts.values():
        assert cut["start"] + cut["blocks"] * cut["block_length"] <= stop
    assert cuts["one token early"]["start"] == prompts.start - 1
    assert cuts["single tokens"]["blocks"] == 4 * prompts.block_length


def test_parts_agree_with_each_other(loads, one_wording, packaged, tmp_path):
    run = {
        part: next(score_robustness.EXPERIMENT.run([replace(SETTING, part=part)], folder=tmp_path, progress=False))
        for part in ("choices", "tasks", "intervention")
    }
    chosen, tasks, swapped = run["choices"], run["tasks"], run["intervention"]
    default = np.stack([tasks["positional"][0].mean(0), tasks["symbolic"][0].mean(0)])
    np.testing.assert_allclose(chosen["grid"][0, 2, 2], default, atol=2e-6)
    np.testing.assert_allclose(chosen["cut"][0, 0], default, atol=2e-6)
    np.testing.assert_allclose(chosen["orders"][0, 0, :2], default, atol=2e-5)
    np.testing.assert_allclose(swapped["scores"][0, 0].mean(1), default, atol=2e-5)
    assert (chosen["orders_below"][0, 0] == 0).all()
    assert (chosen["grid_below"][0, :, 0] == 0).all()
    assert tasks["positional"].shape == (2, 2, 18, 4)
    assert tasks["correct"].shape == (2, 2)


def test_a_rerun_reads_the_permuted_prompt(packaged):
    """What stands for the re-run is the attention of an ordinary pass over the swapped prompt."""
    model, tokenizer = packaged
    prompts = make_prompts(tokenizer, "binding-likes", facts=3, count=1)
    swapped = permute_blocks(prompts.input_ids, list_swap_orders(3), start=prompts.start, block_length=4)[0]

    def attention(heads):
        logits = (heads.keys @ heads.query[..., None]).squeeze(-1) * heads.scale
        weights = logits.softmax(-1)[..., prompts.start : prompts.start + 12]
        return {"d": weights.unflatten(-1, (3, 4)).mean(-1)}

    before = map_layers(model, prompts.input_ids, attention, progress=False)["d"][0]
    after = map_layers(model, swapped, attention, progress=False)["d"]
    found = score_permutations(before, after.movedim(0, 2), list_swap_orders(3))
    measured = score_robustness.measure_intervention(model, prompts, progress=False)["scores"][1, :, 0]
    np.testing.assert_allclose(measured, np.stack([found.positional, found.symbolic]), atol=1e-4)
