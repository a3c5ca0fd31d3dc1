"""Pointers to the heads that handle position: against loops, and on heads whose kind is known."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest
import torch

from posym_companion.encodings.pointers import POINTERS, SCORED, head_pointers, layer_cross_logits
from posym_core.encodings import ENCODINGS
from posym_core.models._classifier import EncodingModel, ModelSettings
from posym_core.tasks._sentences import TRIGGERS, DistanceTask

TASK = DistanceTask(distances=5, side=2, longest=10, vocabulary=9)


def model(encoding="rope", **options):
    sizes = {"layers": 2, "width": 16, "heads": 2, "hidden": 16, "rank": 4, "length": 10, "dropout": 0.0}
    settings = ModelSettings(vocabulary=9, classes=5, encoding=encoding, **{**sizes, **options})
    return EncodingModel(settings, seed=3).eval()


def sentences(count=3, seed=0):
    return TASK.sample(count, generator=torch.Generator().manual_seed(seed))


def trigger_places(batch):
    return [[int((row == trigger).nonzero()) for trigger in TRIGGERS] for row in batch.tokens]


@pytest.mark.parametrize(
    "name", [name for name in ENCODINGS if name not in ("carope", "selective-rope", "path", "urpe")]
)
def test_the_diagonal_of_c_is_what_the_layer_computed(name):
    found, batch = model(name), sentences()
    for layer, call in zip(found.layers, found.calls(batch.tokens), strict=True):
        for sentence, places in enumerate(trigger_places(batch)):
            seen = batch.seen[sentence].nonzero()[:, 0]
            for query in places:
                others = seen[seen != query]
                encoding = layer.attention.encoding.double()
                C = layer_cross_logits(encoding, call, sentence, query, others)
                expected = call.logits[sentence, :, query, others].double()
                torch.testing.assert_close(C.diagonal(dim1=-2, dim2=-1), expected, rtol=1e-4, atol=1e-5)


def test_attention_between_the_triggers_by_a_loop():
    found, batch = model(), sentences()
    expected = torch.zeros(2, 2, dtype=torch.float64)
    for number, call in enumerate(found.calls(batch.tokens)):
        for head in range(2):
            read = []
            for sentence, (first, second) in enumerate(trigger_places(batch)):
                for query, key in ((first, second), (second, first)):
                    logits = [float(x) for x in call.logits[sentence, head, query]]
                    read.append(math.exp(logits[key]) / sum(math.exp(x) for x in logits))
            expected[number, head] = sum(read) / len(read)
    torch.testing.assert_close(head_pointers(found, batch)["between"], expected, rtol=1e-5, atol=1e-7)


def test_heads_of_known_kinds():
    pointers = head_pointers(model("nope"), sentences())
    assert pointers["symbolic"].min() > 0.999
    torch.testing.assert_close(pointers["symbolic_share"], torch.ones(2, 2, dtype=torch.float64))
    biased = model("alibi")
    for layer in biased.layers:
        layer.attention.projections.weight.data[:16] = 0  # queries of 0 leave the bias
    pointers = head_pointers(biased, sentences())
    assert pointers["positional"].min() > 0.999
    torch.testing.assert_close(pointers["positional_share"], torch.ones(2, 2, dtype=torch.float64))
    mixed = head_pointers(model(("rope", "nope")), sentences())
    assert mixed["symbolic_share"][:, 1].min() > 1 - 1e-9 > mixed["symbolic_share"][:, 0].max()


def test_deviation_and_frequencies_by_a_loop():
    found, batch = model("rope", layers=1), sentences(2)
    (call,) = found.calls(batch.tokens)
    angles = found.layers[0].attention.encoding.angles
    deviations, means = [], []
    for sentence, places in enumerate(trigger_places(batch)):
        seen = batch.seen[sentence].nonzero()[:, 0].tolist()
        for query in places:
            others = [place for place in seen if place != query]
            if len(others) < 2:
                continue  # nothing can be swapped
            logits = call.logits[sentence, 0, query, others].double().numpy()
            deviations.append(logits.std())
            weights = []
            for plane, angle in enumerate(angles.tolist()):
                each = []
                for key in others:
                    q = complex(*call.query[sentence, 0, query, [plane, plane + 4]].tolist())
                    k = complex(*call.key[sentence, 0, key, [plane, plane + 4]].tolist())
                    each.append((q * k.conjugate() * cmath.rect(1, angle * (query - key))).real)
                weights.append(max(0.0, *each))
            means.append(sum((plane + 1) * w for plane, w in enumerate(weights)) / sum(weights))
    pointers = head_pointers(found, batch)
    assert float(pointers["deviation"][0, 0]) == pytest.approx(np.mean(deviations), rel=1e-5)
    assert float(pointers["mean_frequency"][0, 0]) == pytest.approx(np.mean(means), rel=1e-4)


def test_a_causal_query_swaps_what_it_sees():
    """What stands behind a query draws nothing from it: it may be anything."""
    found, batch = model("rope", layers=1, causal=True), sentences(3)
    (call,) = found.calls(batch.tokens)
    deviations = []
    for sentence, places in enumerate(trigger_places(batch)):
        for query in places:
            before = [place for place in range(query) if bool(batch.seen[sentence, place])]
            if len(before) >= 2:
                deviations.append(call.logits[sentence, 0, query, before].double().numpy().std())
    assert deviations
    pointers = head_pointers(found, batch)
    assert float(pointers["deviation"][0, 0]) == pytest.approx(np.mean(deviations), rel=1e-5)


def test_what_is_not_defined_is_nan():
    for name in ("carope", "selective-rope", "urpe"):
        pointers = head_pointers(model(name), sentences())
        assert all(pointers[key].isnan().all() for key in SCORED)
        assert pointers["between"].isfinite().all()
    assert head_pointers(model("pope"), sentences())["mean_frequency"].isnan().all()
    assert set(head_pointers(model("path", causal=True), sentences())) == set(POINTERS)
