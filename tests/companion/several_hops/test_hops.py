"""Models of several hops in the browser: against PyTorch, the rules of their tasks, and the page that asks them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from in_browser import functions, opened
from refusals import refuse_each

from posym_companion.several_hops import hops_figure
from posym_companion.several_hops.gptj import make_gptj, run_with_edits, set_angles
from posym_companion.several_hops.hop_figure import (
    STATIC,
    HopModel,
    encode_parcels,
    parcel_layout,
    write_parcels,
)
from posym_core.tasks import LetterTask, NumberTask, walk

TASKS = {"number": NumberTask(), "letter": LetterTask()}
ASK = """([model, parts, layouts, asked]) => {
    model.tensors = Object.assign({}, ...parts.map((text, place) => unpackParcel(text, layouts[place])));
    return asked.map(({ tokens, off, stretch }) => {
        const { logits, attention } = forward(model, tokens, { off, stretch });
        return { logits: [...logits], attention: attention.map((weights) => [...weights]) };
    });
}"""


@pytest.fixture(scope="module")
def scripts(browser):
    page = functions(browser, STATIC / "gptj.js", STATIC / "hop_tasks.js")
    yield page
    page.close()


def small(task, *, layers=2, width=8, seed=0):
    """A model with random weights that half precision holds exactly."""
    model = make_gptj(vocabulary=task.vocabulary, layers=layers, width=width, seed=seed).half().float().eval()
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "ln_" in name:
            parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
        elif "attn" in name:
            parameter.data *= 20  # attention that is far from even
    return model.half().float()


def weights_of(model):
    return {name: x.detach().numpy() for name, x in model.named_parameters()}


def angles_of(model):
    planes = model.config.rotary_dim // 2
    return torch.tensor(10000.0, dtype=torch.float64) ** (-torch.arange(planes, dtype=torch.float64) / planes)


def ask(scripts, model, angles, asked):
    weights = weights_of(model)
    described = {"layers": model.config.n_layer, "width": model.config.n_embd, "angles": angles.tolist()}
    return scripts.evaluate(ASK, [described, encode_parcels(weights), parcel_layout(weights), asked])


# ---- the model -------------------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("name", TASKS)
def test_logits_and_attention_are_those_of_pytorch(scripts, name):
    task = TASKS[name]
    model = small(task)
    angles = angles_of(model)
    batch = task.sample(4, generator=torch.Generator().manual_seed(1), extra=3)
    options = [([False, False], 1.0), ([True, False], 1.0), ([False, True], 1.0), ([False, False], 1.7)]
    asked = [
        {"tokens": tokens.tolist(), "off": off, "stretch": stretch}
        for tokens, (off, stretch) in zip(batch.tokens, options, strict=True)
    ]
    found = ask(scripts, model, angles, asked)
    for tokens, (off, stretch), one in zip(batch.tokens, options, found, strict=True):
        set_angles(model, angles * stretch, positions=64)
        seen = []
        silent = {(layer, 0): torch.zeros(8) for layer, switched in enumerate(off) if switched}
        expected = run_with_edits(
            model, tokens[None], output=silent, seen=lambda layer, weights, said, seen=seen: seen.append(weights[0, 0])
        )
        np.testing.assert_allclose(one["logits"], expected[0], atol=1e-5)
        for ours, theirs in zip(one["attention"], seen, strict=True):
            np.testing.assert_allclose(np.reshape(ours, theirs.shape), theirs, atol=1e-5)
    assert np.abs(np.subtract(found[0]["logits"], found[3]["logits"])).max() > 0.01


def test_half_precision_is_read_exactly(scripts):
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    (text,) = encode_parcels({"lm_head.bias": finite})
    found = scripts.evaluate(
        "([text, size]) => [...unpackParcel(text, [['x', [size]]]).x]", [text, len(finite)]
    )  # fmt: skip
    np.testing.assert_array_equal(np.array(found, dtype=np.float32), finite.astype(np.float32))


# ---- the rules -------------------------------------------------------------------------------------------------------


def described(name):
    task = TASKS[name]
    sizes = {"number": ("letters",), "letter": ("alphabet", "integers")}[name]
    return {x: getattr(task, x) for x in ("name", "window", "steps", "hops", *sizes)} | {"names": task.token_names}


@pytest.mark.parametrize("name", TASKS)
def test_paths_follow_the_rules_of_the_task(scripts, name):
    batch = TASKS[name].sample(200, generator=torch.Generator().manual_seed(0), extra=5)
    found = scripts.evaluate(
        "([task, all]) => all.map((tokens) => follow(task, tokens))", [described(name), batch.tokens.tolist()]
    )
    assert [one["answer"] for one in found] == batch.answer.tolist()
    assert [one["path"] for one in found] == [[x for x in row if x >= 0] for row in batch.path.tolist()]


@pytest.mark.parametrize("name", TASKS)
def test_drawn_sequences_have_the_path_that_was_asked_for(scripts, name):
    task = TASKS[name]
    drawn = scripts.evaluate(
        """(task) => [1, 2, 3, 4].flatMap((hops) => Array.from({ length: 50 }, () => {
            const tokens = drawSequence(task, hops);
            return { hops, tokens, front: [...drawFront(task, tokens, 6), ...tokens] };
        }))""",
        described(name),
    )
    for hops_asked, tokens, front in (one.values() for one in drawn):
        assert len(tokens) == task.window + task.steps + 1
        assert max(tokens) < task.vocabulary
        ends = []
        for sequence in (tokens, front):
            whole = torch.tensor([sequence])
            ends += [walk(whole, task, hops=count, layers=4)[0, -1].item() for count in (hops_asked, hops_asked - 1)]
        assert ends[0] == ends[2]  # what stands in front changes nothing
        assert ends[0] != ends[1]  # and the path is no shorter
    window = torch.tensor([one["tokens"][: task.window] for one in drawn])
    assert len(window.unique()) > 20


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("number", "a dp, 1 16", [0, 119, 120, 135]),
        ("letter", "(a,1) (h,8)  a,b hh (C, 2)", [0, 63, 65, 127, 17]),
        ("number", "a 17", "“17” is no token of this task, which has letters a to dp and integers 1 to 16."),
    ],
)
def test_texts_are_read(scripts, name, text, expected):
    found = scripts.evaluate("([task, text]) => parse(task, text, 80)", [described(name), text])
    if isinstance(expected, str):
        assert found["message"].startswith(expected)
    else:
        assert found["tokens"] == expected


# ---- the page --------------------------------------------------------------------------------------------------------


def one_model(name="number", **changed):
    task = TASKS[name]
    model = small(task)
    example = task.sample(8, generator=torch.Generator().manual_seed(0)).tokens[0]
    options = {"angles": angles_of(model), "example": example, "label": name.capitalize(), "source": f"of/{name}"}
    return HopModel(task, weights_of(model), **{**options, **changed})


def make(*models, **changed):
    return hops_figure(models or [one_model(), one_model("letter")], **{"caption": "C.", "alt": "A.", **changed})


def answer(page):
    page.wait_for_function("document.querySelector('output[name=answer]').value !== ''")
    return page.locator("output[name=answer]").evaluate("output => output.value")


@torch.no_grad()
def expected_answer(name, tokens):
    return TASKS[name].token_names[run_with_edits(small(TASKS[name]), torch.tensor([tokens])).argmax().item()]


def arcs(page):
    return page.locator("[data-layer]").evaluate_all("boxes => boxes.map((box) => box.innerHTML).join()")


def test_a_reader_asks_the_model(browser, tmp_path):
    with opened(browser, make(address="parcels"), tmp_path) as page:
        for name in TASKS:
            write_parcels(name, weights_of(small(TASKS[name])), tmp_path / "parcels")
        assert page.locator("[data-hops]").count() == 1
        assert page.locator("output[name=answer]").evaluate("output => output.value") == ""
        page.click("button[name=load]")
        first = answer(page)
        tokens = one_model().description()["example"]
        assert first == expected_answer("number", tokens)
        assert page.locator("progress").evaluate("bar => bar.value") == 1
        # Two tokens change places.
        before = arcs(page)
        page.locator(".posym-hop-tokens button").nth(1).click()
        page.locator(".posym-hop-tokens button").nth(12).click()
        tokens[1], tokens[12] = tokens[12], tokens[1]
        assert answer(page) == expected_answer("number", tokens)
        assert arcs(page) != before
        assert page.locator("input[name=sequence]").input_value().split()[1] == TASKS["number"].token_names[tokens[1]]
        # A sequence of one's own, and one that is none.
        page.fill("input[name=sequence]", "a b c 2 1")
        assert answer(page) == expected_answer("number", [0, 1, 2, 121, 120])
        page.wait_for_function(
            "document.querySelector('.posym-live-rule').textContent === 'by the rules b, 2 hops away'"
        )
        page.fill("input[name=sequence]", "a b ?")
        assert "“?” is no token of this task" in page.locator("[role=alert]").text_content()
        page.select_option("select[name=task]", "letter")
        page.click("button[name=load]")
        assert answer(page) == expected_answer("letter", one_model("letter").description()["example"])


def test_swaps_off_the_path_say_so_and_the_address_keeps_what_is_set(browser, tmp_path):
    with opened(browser, make(), tmp_path) as page:
        page.click("button[name=load]")
        answer(page)
        tokens = page.locator(".posym-hop-tokens button")
        framed = tokens.evaluate_all("all => all.map((one) => one.className !== '')")
        off, on = ([place for place, on in enumerate(framed) if on == which] for which in (False, True))
        rule = page.locator(".posym-live-rule")
        for pair, said in ((off[:2], True), ((off[0], on[0]), False)):
            for place in pair:
                tokens.nth(place).click()
            assert ("neither of the swapped tokens is on the path" in rule.text_content()) == said
        page.locator("button[name=head]").last.click()
        page.locator("input[name=stretch]").press("ArrowRight")
        answer(page)
        sequence = page.locator("input[name=sequence]").input_value()
        page.wait_for_function("location.hash.includes('off=1')")
        page.wait_for_timeout(200)
        address = page.evaluate("location.hash")
    with opened(browser, make(), tmp_path, address=address) as page:
        assert page.locator("input[name=sequence]").input_value() == sequence
        assert page.locator("input[name=stretch]").input_value() == "21"
        assert page.locator("button[name=head]").last.get_attribute("aria-pressed") == "true"
    with opened(browser, make(), tmp_path, address="#hops:task=sort&sequence=nothing") as page:
        assert "“nothing” is no token of this task" in page.locator("[role=alert]").text_content()


test_refusals_name_rule_value_and_way_out = refuse_each(
    (lambda: make(replace(one_model(), task=NumberTask(letters=3))),
     "the task has 19 tokens, but the model of 'number' embeds 136"),
    (lambda: encode_parcels({"lm_head.bias": np.array([1e6])}), "weights must be finite in half precision"),
    literally=True,
)  # fmt: skip
