"""Ablation and patching against hooks made by hand, and on a model whose heads' roles are known."""

from __future__ import annotations

import pytest
import torch

from posym_companion.solvers.head_roles import (
    mean_ablation,
    patching,
    with_other_answers,
)
from posym_core.models._decoders import DecoderEnsemble
from posym_core.models._ensembles import make_generators, stack_streams
from posym_core.tasks._facts import FactsTask

TASK = FactsTask(facts=3, names=5, attributes=4)


@pytest.fixture
def model():
    angles = torch.tensor([[[1.0, 0.1], [0.5, 0.0]], [[0.3, 0.2], [0.0, 0.0]]])
    return DecoderEnsemble(TASK, angles, seeds=(0, 1), heads=2)


@pytest.fixture
def batch(model):
    return stack_streams([TASK.ask("binding", 6, each) for each in make_generators(model.seeds, purpose=0)])


def by_hand(model, tokens, layer, head, new):
    """Scores with a head's columns of the stream of heads overwritten just before the output map of one layer."""
    kept, calls = model._map, []

    def map_with_hook(x, weights, place):
        if weights is model.output:
            calls.append(place)
            if place == layer:
                x = x.clone()
                x[..., head * model.dim : (head + 1) * model.dim] = new
        return kept(x, weights, place)

    model._map = map_with_hook
    try:
        scores = model(tokens)
    finally:
        del model._map
    assert calls == list(range(model.layers))
    return scores


def columns(model, tokens, layer, head):
    kept, found = model._map, {}

    def map_with_hook(x, weights, place):
        if weights is model.output:
            found[place] = x[..., head * model.dim : (head + 1) * model.dim]
        return kept(x, weights, place)

    model._map = map_with_hook
    try:
        model(tokens)
    finally:
        del model._map
    return found[layer]


@torch.no_grad()
def test_mean_ablation_against_hooks_by_hand(model, batch):
    found = mean_ablation(model, batch)
    assert found.shape == (2, 2, 2, 2)
    for layer in range(2):
        for head in range(2):
            mean = columns(model, batch.tokens, layer, head).mean(2, keepdim=True)
            scores = by_hand(model, batch.tokens, layer, head, mean)
            right = (scores.argmax(-1) == batch.answer[:, None]).double().mean((2, 3))
            torch.testing.assert_close(found[..., layer, head], right)


@torch.no_grad()
def test_patching_against_hooks_by_hand(model, batch):
    other = with_other_answers(model, batch)
    found = patching(model, batch, other)

    def preference(scores, seed):
        rows = torch.arange(6)
        return (
            scores[seed, :, rows, 0, other.answer[seed, :, 0]] - scores[seed, :, rows, 0, batch.answer[seed, :, 0]]
        ).sum(1)

    for layer in range(2):
        for head in range(2):
            scores = by_hand(model, batch.tokens, layer, head, columns(model, other.tokens, layer, head))
            for seed in range(2):
                before, after = (preference(model(x.tokens), seed) for x in (batch, other))
                expected = (preference(scores, seed) - before) / (after - before)
                torch.testing.assert_close(found[seed, :, layer, head], expected.double(), atol=1e-5, rtol=1e-3)


def test_other_answers_differ_in_one_token_and_are_right(model, batch):
    other = with_other_answers(model, batch)
    changed = (other.tokens != batch.tokens).sum(-1)
    assert (changed == 1).all()
    place = 2 + 2 * batch.fact
    assert torch.equal(other.tokens.gather(-1, place), TASK.first_attribute + other.answer)
    assert (other.answer != batch.answer).all()


def test_the_only_head_carries_the_whole_answer(batch):
    """With one layer of one head all that changes with an attribute comes through that head."""
    model = DecoderEnsemble(TASK, torch.zeros(1, 1, 4), seeds=(0, 1), heads=1)
    torch.testing.assert_close(
        patching(model, batch, with_other_answers(model, batch)), torch.ones(2, 1, 1, 1).double()
    )
