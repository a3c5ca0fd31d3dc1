"""A reader's own facts: the model of several heads in the browser against PyTorch, what is typed, and the page."""

from __future__ import annotations

import csv
from itertools import product

import numpy as np
import pytest
import torch
from in_browser import functions, opened

from posym_companion.several_hops import facts_figure, facts_task, run_with_edits
from posym_companion.several_hops.browser_models import make_facts_model
from posym_companion.several_hops.gptj import compute_answer_logits
from posym_companion.several_hops.hop_figure import COLOURS, NAMES, STATIC, encode_parcels, parcel_layout
from posym_core import swap_scores
from posym_core.metrics import rope_angles

SIZES = {"layers": 2, "heads": 4, "width": 64}
ANGLES = rope_angles(16)
WORDS = {"names": NAMES, "colours": COLOURS, "most": 8}
TYPED = "Ann likes red. Ben likes blue. Cleo likes green."
ASK = """([model, parts, layouts, asked]) => {
    model.tensors = Object.assign({}, ...parts.map((text, place) => unpackParcel(text, layouts[place])));
    return asked.map(({ tokens, off, pair, blocks }) => {
        const order = pair && orderOf(tokens.length, pair);
        const { logits, attention, scores } = forward(model, tokens, { off, order, blocks });
        return { logits: [...logits], attention: attention.map((weights) => [...weights]), scores };
    });
}"""


@pytest.fixture(scope="module")
def scripts(browser):
    page = functions(browser, *("core.js", "keep.js"), STATIC / "gptj.js", STATIC / "facts.js")
    yield page
    page.close()


@pytest.fixture(scope="module")
def model():
    """Random weights that half precision holds exactly, with attention that is far from even."""
    model = make_facts_model()
    for name, parameter in model.named_parameters():
        if "q_proj" in name or "k_proj" in name:
            parameter.data *= 12
        parameter.data = parameter.data.half().float()
    return model.eval()


def weights_of(model):
    return {name: x.detach().numpy() for name, x in model.named_parameters()}


def ask(scripts, model, asked):
    weights = weights_of(model)
    described = {**SIZES, "angles": ANGLES.tolist()}
    return scripts.evaluate(ASK, [described, encode_parcels(weights), parcel_layout(weights), asked])


def turned(x, places):
    """``[token, head * dim]`` rotated to ``places``, ``[head, token, dim]``."""
    pairs = torch.view_as_complex(x.double().unflatten(-1, (SIZES["heads"], -1, 2)))
    phase = places[:, None, None] * ANGLES
    return torch.view_as_real(pairs * torch.complex(phase.cos(), phase.sin())).flatten(-2).transpose(0, 1)


@torch.no_grad()
def test_a_pass_of_several_heads_is_that_of_pytorch(scripts, model):
    task = facts_task(5)
    batch = task.ask("index", 3, torch.Generator().manual_seed(1))
    off = [[], [0, 5], list(range(8))]
    asked = [
        {"tokens": tokens.tolist(), "off": [head in silent for head in range(8)]}
        for tokens, silent in zip(batch.tokens, off, strict=True)
    ]
    found = ask(scripts, model, asked)
    for tokens, silent, one in zip(batch.tokens, off, found, strict=True):
        seen = []
        edits = {divmod(head, SIZES["heads"]): torch.zeros(16) for head in silent}
        expected = run_with_edits(
            model, tokens[None], output=edits, seen=lambda _, weights, __, seen=seen: seen.append(weights[0])
        )
        np.testing.assert_allclose(one["logits"], expected[0], atol=1e-5)
        np.testing.assert_allclose(np.array(one["attention"]), torch.cat(seen).flatten(1), atol=1e-5)
    assert np.ptp([one["logits"] for one in found], axis=0).max() > 0.01


@torch.no_grad()
def test_scores_and_exchanged_keys_are_those_of_pytorch(scripts, model):
    tokens = facts_task(4).ask("binding", 1, torch.Generator().manual_seed(2)).tokens[0]
    blocks = {"start": 1, "length": 4, "count": 4}
    (plain, moved) = ask(
        scripts, model, [{"tokens": tokens.tolist(), "blocks": blocks}, {"tokens": tokens.tolist(), "pair": [0, 2]}]
    )
    places = torch.arange(len(tokens)).double()
    order = torch.arange(len(tokens))
    order[1:5], order[9:13] = torch.arange(9, 13), torch.arange(1, 5)
    kept, weights = {}, []

    def attend(layer, attention, values):
        query, keys = (kept[layer, part][0] for part in ("q_proj", "k_proj"))
        query, last = turned(query, places)[:, -1:], turned(keys[order], places)
        attention = attention.clone()
        attention[0, :, -1:] = (query @ last.mT / 4).softmax(-1).to(attention)
        weights.append(attention[0])
        return attention @ values

    for part, layer in product(("q_proj", "k_proj"), range(2)):
        block = getattr(model.transformer.h[layer].attn, part)
        block.hook = block.register_forward_hook(lambda _, __, out, at=(layer, part): kept.update({at: out}))
    try:
        expected = compute_answer_logits(model, tokens[None], attend=attend)[0]
        compute_answer_logits(model, tokens[None])
    finally:
        for part, layer in product(("q_proj", "k_proj"), range(2)):
            getattr(model.transformer.h[layer].attn, part).hook.remove()
    np.testing.assert_allclose(moved["logits"], expected, atol=1e-5)
    np.testing.assert_allclose(np.array(moved["attention"]), torch.cat(weights).flatten(1), atol=1e-5)
    assert np.abs(np.subtract(moved["logits"], plain["logits"])).max() > 0.01
    scores = []
    for layer in range(2):
        query, keys = (turned(kept[layer, part][0], places) for part in ("q_proj", "k_proj"))
        found = swap_scores(
            query[:, -1], keys, ANGLES, start=1, block_length=4, blocks=4, scale=0.25, pairing="neighbours"
        )
        scores += torch.stack([found.positional, found.symbolic], -1).tolist()
    np.testing.assert_allclose(plain["scores"], scores, atol=1e-4)
    assert np.ptp(scores) > 0.2


# ---- what is typed ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ann likes red. ben likes BLUE", [[0, 0], [1, 1]]),
        ("Pia likes lime.\nAnn lime;", [[15, 15], [0, 15]]),
        ("Ann likes red. Zoe likes blue.", "The model does not know “Zoe”. It knows the names Ann, Ben,"),
    ],
)
def test_facts_are_read(scripts, text, expected):
    found = scripts.evaluate("([words, text]) => readFacts(words, text)", [WORDS, text])
    if isinstance(expected, str):
        assert found["message"].startswith(expected)
    else:
        assert found["facts"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What does ben like?", (5, [1])),
        ("Pia", (19, [])),
        ("the third fact", (38, [2])),
        ("4", "There are 3 facts, numbered from 1; got 4."),
        ("Zoe", "The model does not know “Zoe”."),
    ],
)
def test_questions_are_read(scripts, text, expected):
    facts = [[0, 0], [1, 1], [2, 2]]
    found = scripts.evaluate("([words, facts, text]) => readQuestion(words, facts, text)", [WORDS, facts, text])
    if isinstance(expected, str):
        assert found["message"].startswith(expected)
    else:
        assert (found["token"], found["asked"]) == expected


# ---- the page --------------------------------------------------------------------------------------------------------


def make(model, **changed):
    facts = [("Ann", "red"), ("Ben", "blue"), ("Cleo", "green")]
    return facts_figure(model, **{"facts": facts, "ask": "Ben", "caption": "C.", "alt": "A.", **changed})


@torch.no_grad()
def expected_answer(model, facts, token):
    task = facts_task(len(facts))
    told = [mark for name, colour in facts for mark in (4 + name, 1, task.first_attribute + colour, 2)]
    logits = compute_answer_logits(model, torch.tensor([[0, *told, 3, token]]))[0]
    return COLOURS[logits[task.first_attribute : task.first_ordinal].argmax()]


def answer(page):
    return page.locator("output[name=answer]").evaluate("output => output.value")


def test_a_reader_types_facts_and_changes_heads(browser, model, tmp_path):
    with opened(browser, make(model), tmp_path) as page:
        assert page.locator("textarea").input_value() == TYPED
        facts = [(0, 0), (1, 1), (2, 2)]
        assert answer(page) == expected_answer(model, facts, 5)
        page.fill("textarea", TYPED + " Pia likes lime.")
        page.fill("[name=ask]", "the fourth")
        assert answer(page) == expected_answer(model, [*facts, (15, 15)], 39)
        assert "told: lime (fact 4)" in page.locator(".posym-live-rule").text_content()
        page.wait_for_function("document.querySelector('.posym-live-said').textContent.includes('The model answers')")
        drawings = page.locator("[data-head]")
        before = drawings.last.inner_html()
        page.locator(".posym-hop-tokens button").nth(0).click()
        page.locator(".posym-hop-tokens button").nth(3).click()
        assert "with two keys exchanged" in page.locator(".posym-live-source").text_content()
        assert drawings.last.inner_html() != before
        page.fill("textarea", "Zoe likes red.")  # unknown: what is drawn is no answer to it
        assert page.locator(".posym-facts-heads").evaluate("part => getComputedStyle(part).opacity") == "0.35"
        page.fill("textarea", TYPED + " Pia likes lime.")
        assert page.locator(".posym-facts-heads").evaluate("part => getComputedStyle(part).opacity") == "1"
        assert "exchanged" not in page.locator(".posym-live-source").text_content()
        page.locator(".posym-hop-tokens button").nth(0).click()
        page.locator(".posym-hop-tokens button").nth(3).click()
        page.locator("button[name=head]").first.press("Enter")
        assert "switched off" in drawings.first.get_attribute("aria-label")
        page.wait_for_function("location.hash.includes('keys=1')")
        page.wait_for_timeout(200)
        address, state = page.evaluate("location.hash"), page.locator(".posym-live-state").text_content()
        page.get_by_text("Keep this figure").click()
        with page.expect_download() as got:
            page.get_by_role("button", name="CSV", exact=True).click()
        got.value.save_as(tmp_path / "facts.csv")
        rows = list(csv.DictReader((tmp_path / "facts.csv").read_text("utf-8").splitlines()))
        assert {row["panel"] for row in rows} == {f"head {layer}:{head}" for layer in range(2) for head in range(4)}
        sums = sum(float(row["y"]) for row in rows if row["panel"] == "head 0:1" and row["series"] == "attention")
        assert sums == pytest.approx(1, abs=1e-6)
    with opened(browser, make(model), tmp_path, address=address) as page:
        assert page.locator(".posym-live-state").text_content() == state
        assert page.locator("button[name=head]").first.get_attribute("aria-pressed") == "true"


# ---- the trained model -----------------------------------------------------------------------------------------------
