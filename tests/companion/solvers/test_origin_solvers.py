"""Parts of the logits of small decoders: those of a literal loop, and what can be none of them where."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from posym_companion.results import name_dims
from posym_companion.solvers import origin_solvers, task_solvers
from posym_companion.solvers.head_roles import mark_members_right
from posym_companion.solvers.origin_solvers import (
    DIMS,
    EXPERIMENT,
    KEPT,
    OriginSolvers,
    measure_logits,
    measure_parts,
)
from posym_companion.solvers.solver_settings import TaskSolvers
from posym_companion.solvers.task_solvers import SCORING, capture_heads, draw_questions, fact_layout
from posym_core.metrics._cube_parts import draw_latin_square
from posym_core.metrics._permutations import permute_blocks
from posym_core.models._decoders import DecoderEnsemble
from posym_core.tasks._facts import FactsBatch

AT = {name: place for place, name in enumerate(KEPT)}


def tiny(band: str) -> OriginSolvers:
    setting = EXPERIMENT.shrink(OriginSolvers(solver=TaskSolvers(band=band, layers=3)))
    training = replace(setting.solver.training, steps=12, batch=8, record_every=4)
    return replace(setting, solver=replace(setting.solver, width=16, training=training, test_prompts=24))


def untrained(solver: TaskSolvers) -> DecoderEnsemble:
    return DecoderEnsemble(solver.task, solver.angles[None], seeds=solver.seeds, heads=solver.heads)


@pytest.fixture(scope="module")
def measured():
    return origin_solvers.measure(tiny("none"), device="cpu", progress=False)


def test_arrays_have_named_dimensions_and_the_ensemble_is_the_one_of_the_other_experiment(measured):
    name_dims(DIMS, measured)
    assert measured["parts"].shape == measured["parts_before"].shape == (2, 2, 2, 2, 3, 2, 8)
    assert measured["patched"].shape == (2, 2, 3, 2)
    solver = tiny("none").solver
    model, _ = task_solvers.train_ensemble(solver, device="cpu", work=None, progress=False)
    right = [
        mark_members_right(model, draw_questions(model, q, 24, task_solvers.TESTING)).mean((1, 2, 3))
        for q in solver.questions
    ]
    np.testing.assert_allclose(measured["accuracy"], torch.stack(right, 1), atol=1e-6)
    assert not np.allclose(measured["parts"], measured["parts_before"])


def test_the_first_layer_has_no_origin_and_no_rotation_no_place(measured):
    for name in ("parts", "parts_before"):
        parts = measured[name]
        total = parts[..., :-1].sum(-1)
        for part in KEPT[:-1]:
            share = parts[..., AT[part]] / total
            if "place" in part or part == "all_three":
                assert share.max() < 1e-9, part
            if "origin" in part:
                assert share[..., 0, :].max() < 1e-9, part
        assert (parts[..., 1:, :, AT["origin"]] > 1e-4 * total[..., 1:, :]).all()
    turning = measure_parts(untrained(tiny("1e4").solver), "index", tiny("1e4"))
    assert (turning[..., AT["place"]] > 0).all()


def test_in_the_first_layer_all_prompts_ask_alike(measured):
    own, crossed = measured["parts"][:, :, 0], measured["parts"][:, :, 1]
    np.testing.assert_allclose(own[..., 0, :, :], crossed[..., 0, :, :], rtol=1e-4, atol=1e-7)
    assert not np.allclose(own[..., 2, :, :], crossed[..., 2, :, :], rtol=1e-3)


@pytest.mark.parametrize("band", ["none", "1e4"])
def test_logits_and_parts_are_those_of_a_literal_loop(band):
    setting = tiny(band)
    model = untrained(setting.solver)
    prompts = draw_questions(model, "index", setting.squares, SCORING)
    generator = torch.Generator().manual_seed(0)
    found = measure_parts(model, "index", setting)
    for square in range(setting.squares):
        orders = draw_latin_square(4, generator)
        tokens = permute_blocks(prompts.tokens[:, square], orders, start=1, block_length=2)
        heads = capture_heads(model, FactsBatch(tokens, *prompts[1:]))
        for seed in range(2):
            layer, head = 2, 1
            here = heads[3 * seed + layer]
            query, keys = here.query[:, head, 0].double(), here.keys[:, head, 0].double()
            for row, crossed in enumerate((False, True)):
                logits = measure_logits(here, fact_layout(setting.solver), crossed=crossed)[:, head]
                cube = torch.zeros(4, 4, 4, dtype=torch.float64)
                for prompt in range(4):
                    for origin in range(4):
                        for place in range(4):
                            asking = range(4) if crossed else (prompt,)
                            each = []
                            for other in asking:
                                moved = [
                                    turned(keys[prompt, 1 + 2 * origin + t], 2 * (place - origin), here.angles)
                                    for t in (0, 1)
                                ]
                                products = torch.stack([query[other] @ key for key in moved]) * here.scale
                                each.append(products.logsumexp(0))
                            expected = torch.stack(each).mean()
                            assert logits[prompt, origin, place] == pytest.approx(float(expected), abs=1e-5)
                            cube[orders[prompt, origin], origin, place] = expected
                origins = cube.mean((0, 2)).var(correction=0)
                symbols = cube.mean((1, 2)).var(correction=0)
                of_prompts = torch.stack([cube[orders[p], torch.arange(4)].mean() for p in range(4)]).var(correction=0)
                ours = found[seed, row, square, layer, head]
                for name, value in (("origin", origins), ("symbol", symbols), ("prompts", of_prompts)):
                    assert float(ours[AT[name]]) == pytest.approx(float(value), rel=1e-3)


def turned(key, steps, angles):
    first, second = key.chunk(2)
    cos, sin = (steps * angles).cos(), (steps * angles).sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos])
