"""Rankings of heads: what each predictor is, and orders with ties, without numbers, and without depth."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray

from posym_companion.language_models.head_predictors import (
    CROSSING,
    PREDICTORS,
    answer_places,
    copying_scores,
    induction,
    language_predictors,
    previous_token,
)
from posym_companion.solvers import ranked_models
from posym_companion.solvers.head_rankings import (
    ORDERS,
    interleave,
    list_orders,
    rank_heads,
    score_need,
)
from posym_companion.solvers.ranked_models import load_kept_solver, weights_digest
from posym_companion.solvers.solver_predictors import measure_parts, solver_predictors
from posym_companion.solvers.task_solvers import SCORING, capture_heads, draw_questions
from posym_core.metrics import PARTS, draw_latin_square, permute_blocks
from posym_core.tasks import FactsBatch
from posym_profile import binding_prompts, origin_cube, profile
from posym_profile.capture._capturing import capture
from posym_profile.interventions._head_patching import record_head_outputs

pytestmark = pytest.mark.filterwarnings("ignore::posym_profile.scores._visibility.HiddenBlocksWarning")


@pytest.fixture(scope="module")
def prompts(tokenizer):
    return binding_prompts(tokenizer, facts=4, count=4, seed=1)


def test_swaps_cubes_and_copying_are_what_the_library_and_a_loop_say(tiny, prompts):
    found = language_predictors(tiny, prompts, squares=2)
    assert tuple(found) == PREDICTORS
    scores = profile(tiny, prompts.input_ids, **prompts.layout, visible_only=False, progress=False)
    for name in ("positional", "symbolic", "entropy"):
        np.testing.assert_allclose(found[name], scores[name].mean("prompt"), atol=1e-6)
    cubes = xarray.concat([origin_cube(tiny, prompts[row : row + 1], seed=row) for row in (0, 1)], "prompt")
    np.testing.assert_allclose(found["symbol share"], cubes.symbol_share.mean("prompt"), atol=1e-9)
    where = cubes.variance.sel(part=["origin", "place", "origin_place"]).sum("part", skipna=False).mean("prompt")
    np.testing.assert_allclose(found["where size"], where**0.5, atol=1e-9)
    assert ((found["slow planes"] >= 0) & (found["slow planes"] <= 1)).all()
    weights = [call.weights()[:, :, 0] for call in capture(tiny, prompts.input_ids)]
    target = prompts.start + prompts.target * prompts.block_length
    for layer, row in enumerate(weights):
        asked_fact = sum(row[torch.arange(4), :, target + offset] for offset in range(prompts.block_length))
        np.testing.assert_allclose(found["asked fact"][layer], asked_fact.mean(0), atol=1e-5)


def test_copying_is_attention_times_what_the_head_adds_to_the_logit(tiny, prompts):
    """The sum over heads of what they add is what the attention adds, read through the last norm's weights."""
    found = copying_scores(tiny, prompts)
    layer, places = len(tiny.model.layers) - 1, answer_places(prompts)
    assert (prompts.input_ids[torch.arange(4), places] == prompts.answer_ids[torch.arange(4), prompts.target]).all()
    said = record_head_outputs(tiny, prompts.input_ids).outputs[:, layer, -1]
    weights = capture(tiny, prompts.input_ids)[layer].weights()[:, :, 0]
    block, vocabulary = tiny.model.layers[layer], tiny.get_output_embeddings().weight
    whole = block.self_attn.o_proj(said.flatten(1))
    size = whole.square().mean(-1).sqrt()
    expected = torch.zeros(4, said.shape[1])
    for row in range(4):
        for head in range(said.shape[1]):
            alone = torch.zeros_like(said[row])
            alone[head] = said[row, head]
            added = block.self_attn.o_proj(alone.flatten()) / size[row]
            added = added * (1 + block.post_attention_layernorm.weight) * (1 + tiny.model.norm.weight)
            logits = vocabulary[prompts.answer_ids[row]] @ added
            raised = logits[prompts.target[row]] - logits.mean()
            expected[row, head] = weights[row, head, places[row]] * raised
    np.testing.assert_allclose(found["copying"][layer], expected.mean(0), rtol=1e-3, atol=1e-9)
    top = (weights.argmax(-1) == places[:, None]).double().mean(0)
    np.testing.assert_allclose(found["retrieval"][layer], top)


def test_previous_token_and_induction_of_made_up_attention():
    attention = torch.zeros(1, 1, 9, 9)
    attention[..., torch.arange(1, 9), torch.arange(8)] = 0.5
    assert float(previous_token(attention)) == 0.5
    # A mark, four tokens, and these again: each of the second four looks behind its first mention.
    again = torch.zeros(1, 1, 9, 9)
    for query in range(5, 9):
        again[..., query, query - 4 + 1] = 0.25
    assert float(induction(again, 4)) == 0.25
    assert float(previous_token(again)) == 0


def test_predictors_of_small_decoders(solver):
    _, setting, model = solver
    found = solver_predictors(model, setting, "index", prompts=6, squares=2)
    assert tuple(found) == PREDICTORS
    assert all(x.shape == (2, 2, 4) for x in found.values())
    batch = draw_questions(model, "index", 6, SCORING)
    for layer, attention in enumerate(model.attention(batch.tokens)):
        last = attention[:, 0, :, :, -1]
        fact = 1 + 2 * batch.fact[..., 0]
        both = sum(last.gather(-1, (fact + k)[:, :, None, None].expand(-1, -1, 4, 1))[..., 0] for k in (0, 1))
        np.testing.assert_allclose(found["asked fact"][:, layer], both.mean(1), atol=1e-5)
        raised = []
        for seed in range(2):
            reads = []
            model_reads: list = []
            model(batch.tokens, edit=lambda number, read, kept=model_reads: (kept.append(read), read)[1])
            for head in range(4):
                read = model_reads[layer][seed, 0, :, head, -1]
                rows = model.output[seed, 0, layer][head * model.dim : (head + 1) * model.dim]
                logits = (read @ rows * model.norms[seed, 0, -1]) @ model.read[seed, 0]
                answer = logits.gather(-1, batch.answer[seed])[:, 0] - logits.mean(-1)
                at = last[seed, torch.arange(6), head, fact[seed] + 1]
                reads.append((answer * at).mean())
            raised.append(torch.stack(reads))
        np.testing.assert_allclose(found["copying"][:, layer], torch.stack(raised), rtol=1e-4, atol=1e-7)
    slow = model.angles[0, 0] * 8 < CROSSING
    assert slow.any()
    assert not slow.all()


def test_parts_of_small_decoders_are_those_of_a_literal_loop(solver):
    _, setting, model = solver
    found = measure_parts(model, setting, "index", 1)
    orders = draw_latin_square(4, torch.Generator().manual_seed(0))
    prompts = draw_questions(model, "index", 1, SCORING)
    told = permute_blocks(prompts.tokens[:, 0], orders, start=1, block_length=2)
    seed, layer, head = 1, 1, 2
    here = capture_heads(model, FactsBatch(told, *prompts[1:]))[2 * seed + layer]
    query, keys = here.query[:, head, 0].double(), here.keys[:, head, 0].double()
    cube = torch.zeros(4, 4, 4, dtype=torch.float64)
    for prompt, origin, place in np.ndindex(4, 4, 4):
        both = [turned(keys[prompt, 1 + 2 * origin + t], 2 * (place - origin), here.angles) for t in (0, 1)]
        logit = (torch.stack([query[prompt] @ key for key in both]) * here.scale).logsumexp(0)
        cube[orders[prompt, origin], origin, place] = logit
    parts = dict(zip(PARTS.values(), found[seed, 0, layer, head].tolist(), strict=True))
    for name, others in (("symbol", (1, 2)), ("origin", (0, 2)), ("place", (0, 1))):
        assert parts[name] == pytest.approx(float(cube.mean(others).var(correction=0)), rel=1e-3)
    assert sum(parts.values()) == pytest.approx(float(cube.var(correction=0)), rel=1e-3)


def turned(key, steps, angles):
    first, second = key.chunk(2)
    cos, sin = (steps * angles).cos(), (steps * angles).sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos])


def test_kept_solvers_are_trained_once_and_their_weights_tell_them_apart(solver, tmp_path, monkeypatch):
    _, setting, model = solver
    first = load_kept_solver(setting, device="cpu", root=tmp_path)
    assert weights_digest(first) == weights_digest(model)  # the same settings give the same weights
    monkeypatch.setattr(ranked_models, "train_ensemble", lambda *_args, **_kinds: 1 / 0)
    again = load_kept_solver(setting, device="cpu", root=tmp_path)
    with torch.no_grad():
        again.read[0, 0, 0, 0] += 1
    assert weights_digest(again) != weights_digest(first)


def predictors(**changed):
    generator = np.random.default_rng(0)
    return {name: generator.uniform(size=(6, 4)) for name in PREDICTORS} | changed


def test_the_most_needed_heads_come_first_ties_in_one_order_and_no_number_last():
    x = np.array([0.5, np.nan, 1.0, 0.5, 1.0])
    assert rank_heads(x, np.array([4, 3, 2, 1, 0])).tolist() == [4, 2, 3, 0, 1]
    assert rank_heads(x, np.array([0, 1, 2, 3, 4])).tolist() == [2, 4, 0, 3, 1]
    orders = list_orders(predictors(retrieval=np.zeros((6, 4)), copying=np.zeros((6, 4))), "binding", seed=1)
    assert tuple(sorted(orders)) == tuple(sorted(ORDERS))
    assert all(sorted(order) == list(range(24)) for order in orders.values())
    assert (orders["retrieval"] == orders["copying"]).all()
    assert (orders["late first"] // 4).tolist() == sorted(orders["late first"] // 4, reverse=True)
    assert (orders["early first"] // 4).tolist() == sorted(orders["early first"] // 4)
    assert len({tuple(orders[f"random {draw}"]) for draw in range(20)}) == 20


def test_within_thirds_takes_turns_and_knows_nothing_of_depth():
    deep = np.arange(24.0).reshape(6, 4)  # the deeper, the more symbolic
    order = list_orders(predictors(symbolic=deep), "binding", seed=0)["score, within thirds"]
    assert (order[:6] // 8).tolist() == [2, 1, 0, 2, 1, 0]
    assert order[:3].tolist() == [23, 15, 7]
    assert interleave(np.array([3, 2, 1, 0]), np.array([0, 0, 1, 1])).tolist() == [3, 1, 2, 0]


def test_binding_asks_for_symbols_and_index_for_places():
    x = predictors()
    binding, index = score_need(x, "binding"), score_need(x, "index")
    assert binding["score"] is x["symbolic"]
    assert index["score"] is x["positional"]
    assert binding["cube share"] is x["symbol share"]
    assert index["cube share"] is x["where share"]
    np.testing.assert_array_equal(binding["planes"], -index["planes"])
    np.testing.assert_array_equal(binding["contrast"], -index["contrast"])
    np.testing.assert_array_equal(binding["low entropy"], -x["entropy"])
