"""Scores at tokens before the last: each is what a prompt that ends there would have."""

import warnings

import literal
import numpy as np
import pytest
import torch
from architectures import shared, tokens

from posym_profile import HiddenBlocksWarning, profile
from posym_profile.capture import capture
from posym_profile.planes import find_planes
from posym_profile.scores import map_layers
from posym_profile.scores._layer_heads import read_layer_heads
from posym_profile.scores._layer_measurement import resolve_queries

SCORES = ("positional", "symbolic", "entropy")
# Blocks at 3 to 6, 7 to 10 and so on; ten of 44 tokens.
LAYOUT = {"start": 3, "block_length": 4, "tau": 0.05, "progress": False}
SEEN = LAYOUT | {"visible_only": True}
NAMES = ["Llama", "Gemma3", "GPT-J", "gpt-oss", "DeepSeek-V3", "Falcon", "Mistral"]
QUERIES = [30, 17, -1, -6]


def assert_same(found, expected, atol=0.0):
    for name in SCORES:
        np.testing.assert_allclose(found[name], expected[name], atol=atol, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_a_query_has_the_scores_of_a_prompt_that_ends_there(name):
    model, ids = shared(name), tokens()
    found = profile(model, ids, queries=QUERIES, **SEEN)
    assert found.positional.shape == (2, 4, 3, 4)
    assert found.visible_blocks.shape == (2, 4, 3)
    assert found["query"].values.tolist() == QUERIES
    for query in QUERIES:
        ends = profile(model, ids[:, : query % 44 + 1], **SEEN)
        assert_same(found.sel(query=query), ends, atol=1e-5)
        np.testing.assert_array_equal(found.sel(query=query).visible_blocks, ends.visible_blocks)


@pytest.mark.parametrize("name", ["Llama", "Gemma3", "gpt-oss"])
def test_the_last_token_alone_is_what_is_scored_unasked(name):
    """Bit by bit, in whichever way it is named."""
    model, ids = shared(name), tokens()
    unasked = profile(model, ids, visible_only=False, **LAYOUT)
    assert int(unasked["query"]) == -1
    for last in ([-1], (43,), torch.tensor([-1]), np.array([43])):
        found = profile(model, ids, queries=last, visible_only=False, **LAYOUT)
        assert found.positional.shape == (2, 3, 4)
        assert found.drop_vars("query").equals(unasked.drop_vars("query"))


@pytest.mark.parametrize("name", ["Llama", "gpt-oss"])
def test_scores_are_those_of_keys_swapped_word_by_word(name):
    """By explicit softmax rows, also over blocks that stand behind the query or hold it."""
    model, ids, query = shared(name), tokens(1), 22
    calls, planes = capture(model, ids, rows=None), find_planes(model, 44)
    found = profile(model, ids, queries=[query], visible_only=False, start=3, block_length=4, tau=0.05, progress=False)
    assert found.visible_blocks.max() == 4  # 3 to 18; the query ends the fifth
    for layer, (call, planes_here) in enumerate(zip(calls, planes, strict=True)):
        heads = read_layer_heads(call, planes_here, row=query, token=query)
        for head in range(4):
            place = divmod(head, heads.query.shape[2])
            sink = None if heads.sinks is None else heads.sinks[place].double()
            row = heads.visible[0, 0, 0]
            assert row.nonzero().max() == query
            expected = literal.swap_scores(
                heads.query[0, *place].double(), heads.keys[0, place[0], 0].double(), heads.angles, start=3, length=4,
                blocks=10, tau=0.05, scale=heads.scale, visible=row, softcap=heads.softcap, sink=sink,
            )  # fmt: skip
            for score, value in zip(("positional", "symbolic"), expected, strict=True):
                assert float(getattr(found, score)[0, layer, head]) == pytest.approx(value, abs=1e-5)


@pytest.mark.parametrize("hold", [0, 5_000, 2**22])
def test_rows_that_wait_together_are_those_measured_alone(hold, monkeypatch):
    model, ids = shared("Gemma3"), tokens()
    monkeypatch.setattr("posym_profile.scores._profiling.NUMBERS_HELD", hold)
    found = profile(model, ids, queries=QUERIES, per_frequency=True, **SEEN)
    assert found.plane_positional.shape == (2, 4, 3, 4, 8)
    for query in QUERIES:
        assert_same(found.sel(query=query), profile(model, ids, queries=[query], per_frequency=True, **SEEN), atol=1e-5)


def test_padding_is_not_counted():
    model, ids, mask = shared("Gemma3"), tokens(), torch.ones(2, 44, dtype=torch.int64)
    mask[0, :9] = 0
    found = profile(model, ids, mask, queries=[25, -2], **SEEN)
    first, second = (profile(model, prompt, queries=[25, -2], **SEEN) for prompt in (ids[0, 9:], ids[1]))
    for query in (25, -2):
        for place, alone in enumerate((first, second)):
            for name in SCORES:
                one, other = found.sel(query=query)[name][place], alone.sel(query=query)[name][0]
                np.testing.assert_allclose(one, other, atol=1e-5, rtol=0)


def test_blocks_behind_a_query_are_hidden_and_warned_of_once():
    with pytest.warns(HiddenBlocksWarning) as caught:
        found = profile(shared("Llama"), tokens(), queries=[20, -1], **LAYOUT)
    assert [str(one.message).split(". ")[0] for one in caught] == [
        "queries do not see all blocks whole in layers 0, 1, 2 (because of a sliding window, say)"
    ]
    assert found.blocks.values.tolist() == [10, 10]
    asked = profile(shared("Llama"), tokens(), queries=[20, -1], visible_only=False, **LAYOUT)
    assert_same(found, asked)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = profile(shared("Llama"), tokens(), queries=[20, -1], blocks=4, **LAYOUT)
    assert_same(alone.sel(query=20), profile(shared("Llama"), tokens(), queries=[20], **SEEN), atol=1e-6)


def test_windows_leave_queries_without_scores_where_they_leave_one_block():
    found = profile(
        shared("Gemma3"), tokens(), queries=[24, 43], start=0, block_length=12, visible_only=True, progress=False
    )
    assert found.visible_blocks.values.tolist() == [[[1, 1, 2], [0, 0, 3]]] * 2
    assert found.symbolic[:, :, :2].isnull().all()
    assert found.symbolic[:, :, 2].notnull().all()
    assert found.entropy.notnull().all()


def test_anything_is_measured_at_any_token():
    model, ids, asked = shared("Gemma3"), tokens(), []

    def measure(heads):
        asked.append((heads.layer, None if heads.token is None else heads.token.tolist()))
        logits = (heads.query[..., None, :] * heads.keys).sum(-1) * heads.scale
        return {"weights": logits.masked_fill(~heads.visible, -torch.inf).softmax(-1)}

    found = map_layers(model, ids, measure, queries=[5, -1], progress=False)["weights"]
    assert asked == [(layer, token) for layer in range(3) for token in ([5, 5], None)]
    with torch.no_grad():
        expected = shared("Gemma3", "eager")(ids, output_attentions=True).attentions
    rows = torch.stack([layer[:, :, [5, 43]].transpose(1, 2) for layer in expected], 2)
    torch.testing.assert_close(found, rows, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("queries", "error", "message"), [
    ([], ValueError, "queries must name one token or more, each once, from -44 to 43 .*; got []"),
    ([1.5], TypeError, "'float' object cannot be interpreted as an integer"),
    ([44], ValueError, "queries must name one token or more, each once, from -44 to 43 .*; got [44]"),
    ([-1, 43], ValueError, "queries must name one token or more, each once, from -44 to 43 .*; got [-1, 43]"),
])  # fmt: skip
def test_queries_that_do_not_fit_are_refused_before_a_pass(queries, error, message, monkeypatch):
    monkeypatch.setattr("posym_profile.scores._profiling.map_layers", None)
    with pytest.raises(error, match=message.replace("[", r"\[")):
        profile(shared("Llama"), tokens(), queries=queries, **LAYOUT)


LLAMA = shared("Llama")


def test_a_query_that_is_no_whole_number_of_all_lengths_is_refused():
    with pytest.raises(ValueError, match=r"each once, from -6 to 5 for prompts of 6 tokens; got \[-2, 4\]"):
        resolve_queries([-2, 4], [5, 6])
    # Of five tokens the last but one is number 3, and of six number 4.
    assert resolve_queries([-2, 4], [5]) == [-2, 4]
