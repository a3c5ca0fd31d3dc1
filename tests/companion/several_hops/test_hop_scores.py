"""Station scores against contents truly swapped in the model's own attention; summaries against loops."""

from __future__ import annotations

import itertools

import literal
import pytest
import torch
from architectures import Swapped

from posym_companion.several_hops.gptj import make_gptj
from posym_companion.several_hops.hop_scores import capture_layers, station_scores, summary
from posym_core import rope_angles
from posym_core.metrics._frequencies import mean_frequency
from posym_core.metrics._score_geometry import classify_purity
from posym_core.tasks._number_letter import NumberTask
from posym_profile.capture._capturing import capture

TASK = NumberTask(window=3, steps=4, letters=7, hops=3)
# A soft temperature, so that rounding of attention does not decide which pair counts; at 1e-4 it would.
TAU = 0.05


def tiny(heads=1, layers=2, task=TASK, spread=8.0):
    """A decoder whose attention is neither uniform nor one-hot."""
    model = make_gptj(vocabulary=task.vocabulary, layers=layers, heads=heads, width=16, dropout=0.0, positions=256)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.mul_(spread * (2 if "q_proj" in name else 1))
    return model.eval()


def sample(count=6, task=TASK, seed=0):
    return task.sample(count, generator=torch.Generator().manual_seed(seed))


def scores_by_swapping(model, tokens):
    """Both scores ``[score, layer, head]`` of the last token, pair by pair, by the model's own code."""
    keys = tokens.shape[-1] - 1
    swapped = Swapped(model, tokens[None])

    def weights(calls):
        return torch.stack([call.weights()[0, :, 0, :keys] for call in calls]).double()

    before = weights(swapped.calls)
    gaps, along, across = [], [], []
    for i, j in itertools.combinations(range(keys), 2):
        after = weights(swapped.calls_in_order(literal.swapped_order(keys + 1, 0, 1, i, j)))
        v, moved = before[..., [i, j]], after[..., [i, j]]
        gaps.append((v[..., 0] - v[..., 1]).abs() / TAU)
        along.append(torch.cosine_similarity(v, moved, dim=-1))
        across.append(torch.cosine_similarity(v.flip(-1), moved, dim=-1))
    weight = torch.stack(gaps).softmax(0)
    return torch.stack([(weight * torch.stack(x)).sum(0) for x in (along, across)])


@pytest.mark.parametrize("heads", [1, 2])
def test_scores_are_those_of_contents_truly_swapped(heads):
    model, batch = tiny(heads), sample(3)
    found = station_scores(capture_layers(model, batch.tokens), batch.path, angles=rope_angles(16 // heads), tau=TAU)
    for sequence, station in itertools.product(range(3), range(3)):
        if station >= batch.hops[sequence]:
            assert found.positional[sequence, station].isnan().all()
            continue
        position = int(batch.path[sequence, station])
        positional, symbolic = scores_by_swapping(model, batch.tokens[sequence, : position + 1])
        torch.testing.assert_close(found.positional[sequence, station].double(), positional, atol=1e-4, rtol=0)
        torch.testing.assert_close(found.symbolic[sequence, station].double(), symbolic, atol=1e-4, rtol=0)
    assert float(found.positional.nan_to_num().std()) > 0.02


def test_attention_entropy_and_use_are_those_of_the_model_at_every_station():
    model, batch = tiny(), sample(6)
    layers = capture_layers(model, batch.tokens)
    found = station_scores(layers, batch.path, angles=rope_angles(16))
    calls = capture(model, batch.tokens, rows=None)
    weights = torch.stack([call.weights() for call in calls], dim=1)  # [sequence, layer, head, query, key]
    torch.testing.assert_close(layers.attention(), weights, atol=1e-6, rtol=0)
    for sequence, hops in enumerate(batch.hops.tolist()):
        for station in range(hops):
            here, there = batch.path[sequence, station], batch.path[sequence, station + 1]
            row = weights[sequence, :, :, here, : here + 1].double()
            entropy = -(row * row.log()).sum(-1) / torch.tensor(float(here + 1)).log()
            torch.testing.assert_close(found.entropy[sequence, station].double(), entropy, atol=1e-5, rtol=0)
            torch.testing.assert_close(found.onward[sequence, station].double(), row[..., there], atol=1e-6, rtol=0)
            for layer, call in enumerate(calls):
                product = call.query[sequence, 0, here] * call.keys[sequence, 0, : here + 1] * call.scale
                use = (product[:, 0::2] + product[:, 1::2]).amax(0)
                torch.testing.assert_close(found.use[sequence, station, layer, 0], use, atol=1e-5, rtol=0)


def test_means_are_taken_by_hops_over_sequences():
    model, batch = tiny(), sample(9)
    scores = station_scores(capture_layers(model, batch.tokens), batch.path, angles=rope_angles(16))
    found = summary(scores, batch.hops, longest=3)
    assert found["positional"].shape == (3, 3, 2, 1)
    assert found["use"].shape == (2, 1, 8)
    for hops, station, layer in itertools.product((1, 2, 3), range(3), range(2)):
        rows = [i for i in range(9) if batch.hops[i] == hops]
        values = [float(scores.symbolic[i, station, layer, 0]) for i in rows]
        mean = found["symbolic"][hops - 1, station, layer, 0]
        if station >= hops:
            assert mean.isnan()
        else:
            assert float(mean) == pytest.approx(sum(values) / 3, abs=1e-5)


def test_purity_needs_one_score_above_and_the_other_below():
    positional = torch.tensor([0.91, 0.91, 0.05, 0.97, 0.5, torch.nan])
    symbolic = torch.tensor([0.09, 0.11, 0.95, 0.04, 0.5, 0.0])
    assert classify_purity(positional, symbolic).tolist() == [1, 0, -1, 1, 0, 0]
    assert classify_purity(positional, symbolic, 0.05).tolist() == [0, 0, 0, 1, 0, 0]
    with pytest.raises(ValueError, match=r"gamma must lie in \(0, 0.5\], so that a head is pure in one way.*got 0.6"):
        classify_purity(positional, symbolic, 0.6)


def test_frequency_ids_are_weighted_by_use():
    use = torch.tensor([[0.0, 2.0, 0.0, 2.0], [1.0, -5.0, 0.0, 0.0]])
    assert mean_frequency(use).tolist() == [3.0, 1.0]
