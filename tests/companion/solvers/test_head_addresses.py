"""Heads' outputs of one list in another: the squares, the replacement by a literal loop, and what changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from architectures import build

from posym_companion.results import name_dims
from posym_companion.solvers import head_addresses, taught_decoders
from posym_companion.solvers.head_addresses import (
    DIMS,
    EXPERIMENT,
    FRAMES,
    RUNS,
    SOURCES,
    Heads,
    draw_square,
    fill_square,
    full_size,
    measure,
    measure_square,
    run_last_token,
)
from posym_profile.capture import hook_attention
from posym_profile.interventions import patch_heads, record_head_outputs
from posym_profile.prompts import PromptTokens, find_single_words

HEADS = Heads(layer=0, tested=(1,), others=(0, 2), readers=((1, 0), (1, 1)))


@pytest.fixture(scope="module")
def tiny(tokenizer):
    # Of a shorter window the cache would keep less than the facts.
    return build("Gemma3", vocab_size=len(tokenizer), sliding_window=128).requires_grad_(False)


@pytest.fixture(scope="module")
def square(tokenizer):
    return draw_square(tokenizer, "speaks", 6, torch.Generator().manual_seed(3))


def test_words_are_in_no_other_experiment(tokenizer):
    tokens = PromptTokens(tokenizer)
    new = {word for kind in ("family_names", "languages", "subjects") for word in find_single_words(tokens, kind, 16)}
    old = ("names", "colours", "things", "cities", "other_names", "instruments", "animals", "professions", "surnames")
    assert not new & {word for kind in (*old, "vehicles") for word in find_single_words(tokens, kind, 1)}


@pytest.mark.parametrize("wording", [*FRAMES, None])
def test_a_source_differs_in_what_it_is_called_after(tokenizer, wording):
    facts = 8
    prompts, places = draw_square(wording and tokenizer, wording or "", facts, torch.Generator().manual_seed(1))
    blocks = prompts.input_ids[:, prompts.start :][:, : facts * prompts.block_length].reshape(8, facts, -1)
    asked = blocks[RUNS, prompts.target]
    assert {*prompts.target.tolist()} == {*places.tolist()}
    assert torch.equal(prompts.answer_ids.sort(1).values, prompts.answer_ids[:1].sort(1).values.expand(8, -1))
    assert prompts.answer_ids[0].unique().numel() == facts
    # The question ends with the asked fact's name, or with that and the frame's verb.
    assert all((name == row[-6:]).any() for name, row in zip(asked[:, 0], prompts.input_ids, strict=True))
    rest = [place for place in range(facts) if place not in places]
    for source, bits in SOURCES.items():
        other = RUNS ^ bits
        same_fact = (asked == asked[other]).all(1)
        assert same_fact.all() if source in ("shuffled", "address") else not same_fact.any()
        same_place = prompts.target == prompts.target[other]
        assert same_place.all() if source in ("shuffled", "content") else not same_place.any()
        assert not torch.equal(blocks[0, rest], blocks[other[0], rest])
        both = (blocks[RUNS[:, None], places] == blocks[other[:, None], places]).flatten(1).all(1)
        assert both.all() if source in ("shuffled", "both") else not both.any()


def read_whole(model, prompts, places, run, **replaced):
    """A plain pass over one whole prompt: log ratios of later heads, and logits of the attributes."""
    ratios = []

    def look(call):
        if call.index > HEADS.layer:
            logits = call.logits()[0, :, 0]
            totals = []
            for place in (places.sum() - prompts.target[run], prompts.target[run]):
                first = prompts.start + int(place) * prompts.block_length
                totals.append(
                    torch.stack([logits[:, first + k].exp() for k in range(prompts.block_length)]).sum(0).log()
                )
            ratios.append(totals[0] - totals[1])

    with hook_attention(model, look):
        logits = model(prompts.input_ids[run][None], use_cache=False).logits[0, -1]
    return torch.stack(ratios), logits[prompts.answer_ids[run]]


def test_the_last_token_alone_is_what_whole_passes_are(tiny, square):
    prompts, places = square
    cache = fill_square(tiny, prompts)
    plain = run_last_token(tiny, prompts, cache, RUNS, places, HEADS.layer)
    whole = record_head_outputs(tiny, prompts.input_ids)
    torch.testing.assert_close(plain.outputs, whole.outputs[:, HEADS.layer, -1], rtol=1e-4, atol=1e-5)
    source = RUNS ^ SOURCES["address"]
    heads = run_last_token(
        tiny, prompts, cache, RUNS, places, HEADS.layer, heads=HEADS.tested, outputs=plain.outputs[source]
    )
    stream = run_last_token(tiny, prompts, cache, RUNS, places, HEADS.layer, residual=plain.residual[source])
    assert (heads.logits - plain.logits).abs().max() > 1e-3
    for run in (0, 5):
        outputs = whole.outputs[run, None].clone()
        outputs[:, HEADS.layer, -1] = whole.outputs[source[run], HEADS.layer, -1]
        with patch_heads(tiny, [(HEADS.layer, head) for head in HEADS.tested], outputs):
            expected = read_whole(tiny, prompts, places, run)

        def replace(module, args, output, run=run):
            hidden = (output[0] if isinstance(output, tuple) else output).clone()
            hidden[:, -1] = plain.residual[source[run]]
            return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

        handle = tiny.base_model.layers[HEADS.layer].register_forward_hook(replace)
        ceiling = read_whole(tiny, prompts, places, run)
        handle.remove()
        intact = read_whole(tiny, prompts, places, run)
        for found, (ratio, logits) in ((heads, expected), (stream, ceiling), (plain, intact)):
            torch.testing.assert_close(found.log_ratio[run], ratio, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(found.logits[run], logits, rtol=1e-4, atol=1e-4)


def test_a_list_in_place_of_itself_changes_nothing(tiny, square, monkeypatch):
    prompts, places = square
    monkeypatch.setattr(head_addresses, "SOURCES", dict.fromkeys(SOURCES, 0))
    found = measure_square(tiny, prompts, places, HEADS, HEADS.others)
    for name in ("moved", "moved_later", "odds"):
        np.testing.assert_allclose(found[name].astype(float), 0, atol=1e-4)
    right = found["correct"].astype(float)
    np.testing.assert_allclose(found["chosen"][..., 0].astype(float), right)


def test_a_result_is_what_its_description_says(tiny, tokenizer, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(head_addresses, "HEADS", dict.fromkeys(head_addresses.HEADS, HEADS))
    monkeypatch.setattr(head_addresses, "kept_factors", lambda run, folder: asked.append(run.name) or {})
    every = full_size()
    by_name = {setting.name.partition("/")[2]: setting for setting in every}
    shrunk = EXPERIMENT.shrink(by_name["taught2_learned"])
    found = measure(tiny, tokenizer, tmp_path, shrunk, progress=False)
    measure(tiny, tokenizer, tmp_path, EXPERIMENT.shrink(by_name["untaught_learned"]), progress=False)
    assert asked == ["taught_gemma/all_2"]
    name_dims(DIMS, found)
    assert found["moved"].shape == (2, 4, 4, 2)
    assert found["named"].tolist() == [[0, 1], [1, 0], [1, 1]]
    # The readers are among all later heads.
    np.testing.assert_array_equal(found["moved"][:, 0], found["moved_later"][:, :, 0, :2])
    # What the source stream says is all that the last token knows of the question.
    assert np.abs(found["odds"][:, 3, 3]).max() > 0


@pytest.mark.parametrize("lesson", ["additions", "matrices"])
def test_a_lesson_changes_the_matrices_of_attention_alone(lesson, monkeypatch):
    """Both lessons begin with the decoder that has learned index, and additions change matrices by their rank."""
    learn, before = taught_decoders._learn, {}

    def remember(model, trained, question, *rest):
        if question == "binding":
            before.update({name: part.weight.detach().clone() for name, part in list_matrices(model)})
        learn(model, trained, question, *rest)

    monkeypatch.setattr(taught_decoders, "_learn", remember)
    with taught_decoders.teach_decoder(lesson, 0, steps=3) as model:
        changes = {name: part.weight.detach() - before[name] for name, part in list_matrices(model)}
        assert not model.training
    changed = {name.rpartition(".")[2] for name, change in changes.items() if change.abs().max() > 0}
    assert changed == {"q_proj", "k_proj", "v_proj", "o_proj"}
    ranks = {int(torch.linalg.matrix_rank(changes[name].double(), rtol=1e-4)) for name in changes if "_proj" in name}
    assert max(ranks) <= taught_decoders.RANK if lesson == "additions" else max(ranks) > taught_decoders.RANK


def list_matrices(model):
    """Modules with a weight, without what trains it."""
    return [(name, x) for name, x in model.named_modules() if hasattr(x, "weight") and "parametriz" not in name]
