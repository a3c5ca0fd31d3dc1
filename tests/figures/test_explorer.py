"""The head explorer: what it refuses, what it packs, and how it answers in a browser."""

import base64
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from in_browser import move
from refusals import refuse_each

from posym_companion.language_models import head_explorer as experiment
from posym_figures._explorer import ARRAYS, HeadInput, head_explorer
from posym_profile import profile
from posym_profile.prompts import make_prompts

LAYERS, HEADS, PLANES, SPAN = 5, 3, 8, 8
LENGTHS, TAUS = (1, 2, 4), (1e-4, 1e-2, 1.0)
# The first head is dead: its shares and those of its planes are undefined.
DEAD = (0, 0)


def one_input(name="facts", seed=0, **changed) -> HeadInput:
    draw = np.random.default_rng(seed)
    scores, cut, heads = (len(LENGTHS), len(TAUS), LAYERS, HEADS), (len(LENGTHS), LAYERS, HEADS), (LAYERS, HEADS)
    arrays = {part: draw.random(scores) for part in ("positional", "symbolic")}
    arrays |= {f"{part}_margin": 0.1 * draw.random(scores) for part in ("positional", "symbolic")}
    arrays |= {f"{part}_share": 0.5 * draw.random(cut) for part in ("positional", "symbolic")}
    arrays |= {"entropy": draw.random(heads), "attention": draw.dirichlet(np.ones(SPAN + 2), heads)}
    arrays["examples"] = draw.dirichlet(np.ones(SPAN + 2), (1, *heads))
    arrays |= {f"plane_{part}": draw.random((*heads, PLANES)) for part in ("positional", "symbolic")}
    arrays |= {f"plane_{part}_share": 0.5 * draw.random((*heads, PLANES)) for part in ("positional", "symbolic")}
    arrays["plane_energy_share"] = draw.dirichlet(np.ones(PLANES), heads)
    for part in ("positional_share", "symbolic_share"):
        arrays[part][:, *DEAD] = np.nan
        arrays[f"plane_{part}"][DEAD] = np.nan
    arrays |= {part: changed.pop(part) for part in ARRAYS if part in changed}
    given = {"note": f"A note on {name}.", "start": 1, "span": SPAN, "lengths": LENGTHS, **changed}
    given.setdefault("tokens", [[f" word{place}" for place in range(SPAN + 2)]])
    return HeadInput(name, name.capitalize(), **given, arrays=arrays)


def make(*inputs, **changed):
    options = {
        "taus": TAUS, "angles": np.geomspace(1, 0.001, PLANES)[None].repeat(LAYERS, 0), "caption": "All heads.",
        "alt": "Points in a square.", "length": 2, "head": (2, 1), "marked": (4,), "marked_label": "global layers",
        "turn": [3.0] * LAYERS, "plane_note": "a note",
    }  # fmt: skip
    return head_explorer(inputs or (one_input(), one_input("text", 1)), **{**options, **changed})


def payload(shown):
    return json.loads(re.search(r'class="posym-explorer-data">(.*?)</script>', shown.html, re.S)[1])


def unpacked(packed):
    codes = np.frombuffer(base64.b64decode(packed["data"]), f"<u{packed['bits'] // 8}").astype(float)
    most = 2 ** packed["bits"] - 2
    values = packed["low"] + (packed["high"] - packed["low"]) * (codes / most) ** packed["power"]
    return np.where(codes > most, np.nan, values)


# ---- arrays in, HTML out ---------------------------------------------------------------------------------------------


def test_packed_numbers_are_the_numbers():
    given = one_input()
    sent = payload(make(given))["inputs"][0]["arrays"]
    assert set(sent) == set(ARRAYS)
    for name in ARRAYS:
        array, sent_back = given.arrays[name].ravel(), unpacked(sent[name])
        assert (np.isnan(array) == np.isnan(sent_back)).all(), name
        steps = 2 ** sent[name]["bits"] - 2
        # Half a step; where small values are spread, steps are widest at the top.
        np.testing.assert_allclose(sent_back, array, atol=0.51 * sent[name]["power"] / steps, rtol=1e-5)


def test_the_table_is_there_before_scripts_run():
    given = one_input()
    shown = make(given)
    rows = re.findall(r'<th scope="row">(\d):(\d)</th><td>([\d.]+)</td><td>([\d.]+)</td><td>([\d.]+)</td>', shown.html)
    assert len(rows) == LAYERS * HEADS
    for layer, head, *told in rows:
        place = int(layer), int(head)
        expected = (
            *(given.arrays[name][1, 0][place] for name in ("positional", "symbolic")),
            given.arrays["entropy"][place],
        )
        assert told == [f"{value:.2f}" for value in expected]
    assert shown._repr_html_() == shown.html == make(given).html
    assert not re.search("https?://", shown.html.replace("http://www.w3.org/2000/svg", ""))


test_refusals_name_rule_value_and_way_out = refuse_each(
    (lambda: make(one_input("a b")), "an input's name has letters, digits, '_' and '-' only, for links; got 'a b'"),
    (lambda: make(one_input(), one_input()), "names of inputs must differ; got facts, facts"),
    (lambda: make(replace(one_input(), arrays={"entropy": np.ones((5, 3))})),
     "arrays of input 'facts' must hold all of ARRAYS; positional, symbolic, positional_margin"),
    literally=True,
)  # fmt: skip


# ---- the experiment and the real figure ------------------------------------------------------------------------------


def test_the_experiment_agrees_with_a_profile(packaged, monkeypatch):
    monkeypatch.setattr(experiment, "LENGTHS", (1, 4))
    monkeypatch.setattr(experiment, "TAUS", (1e-4, 0.1))
    setting = experiment.EXPERIMENT.shrink(experiment.HeadExplorer())
    measured = experiment.measure(*packaged, setting, progress=False)
    prompts = make_prompts(packaged[1], setting.task, facts=setting.facts, count=2, seed=0)
    for length, tau in ((4, 1e-4), (1, 0.1)):
        cut = {"start": prompts.start, "block_length": length, "blocks": experiment.SPAN // length}
        live = profile(packaged[0], prompts.input_ids, **cut, tau=tau, progress=False)
        place = experiment.LENGTHS.index(length), experiment.TAUS.index(tau)
        for name in ("positional", "symbolic"):
            np.testing.assert_allclose(measured[name][place], np.asarray(getattr(live, name)).mean(0), atol=1e-4)
            spread = np.abs(np.diff(np.asarray(getattr(live, name)), axis=0)[0]) / 2
            np.testing.assert_allclose(measured[f"{name}_margin"][place], 12.706 * spread, atol=2e-3)
    np.testing.assert_allclose(measured["entropy"], np.asarray(live.entropy).mean(0), atol=1e-4)
    np.testing.assert_allclose(measured["attention"].sum(-1), 1, atol=1e-5)
    assert measured["tokens"][1].strip().isalpha()


# ---- in a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture
def open_page(open_page):
    """Opens explorers below a link to one of their states."""
    link = SimpleNamespace(html='<a id="visit" href="#head=1.2&amp;input=text&amp;tau=1">visit</a>')
    return lambda *figures, **options: open_page([link, *(figures or [make()])], reduced_motion="reduce", **options)


def set_slider(page, name, index):
    move(page.locator(f"input[name={name}]").first, index)


PARTS = ("plane", "readout", "shares", "map", "blocks", "prompt", "profile", "ranks")


def drawn(page):
    """The innards of every part by name."""
    return {name: page.locator(f".posym-ex-{name}").first.inner_html() for name in PARTS}


def different(before, after):
    return {name for name in PARTS if before[name] != after[name]}


def chosen(page):
    return page.locator(".posym-ex-name").first.text_content()


# The address settles a moment after the last change.
SETTLED = "expected => location.hash === expected"


def place_of(page, head):
    """Where a head's point is on the screen."""
    box = page.locator(".posym-ex-plane .posym-ex-point").nth(head).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def alone(page):
    """A head whose point has no neighbour within reach, not the chosen one."""
    places = [place_of(page, head) for head in range(LAYERS * HEADS)]
    for head, (x, y) in enumerate(places):
        nearest = min(np.hypot(x - a, y - b) for other, (a, b) in enumerate(places) if other != head)
        if nearest > 20 and head != 7:
            return head, (x, y)
    raise AssertionError("the samples have no lonely head")


def test_what_is_seen_first(open_page):
    page = open_page()
    assert chosen(page) == "Layer 2, head 1"
    assert page.locator("[name=tau]").get_attribute("aria-valuetext") == "10⁻⁴"
    given = one_input()
    cells = page.locator(".posym-ex-readout [role=cell]").all_text_contents()
    margin = given.arrays["positional_margin"][1, 0, 2, 1]
    assert cells[0] == f"{given.arrays['positional'][1, 0, 2, 1]:.2f} ± {margin:.2f}"
    before, within = given.arrays["attention"][2, 1, 0], given.arrays["attention"][2, 1, 1:9].sum()
    assert [float(text.split("%")[0]) for text in cells[3:5]] == pytest.approx([100 * before, 100 * within], abs=0.6)
    rank = 1 + int((given.arrays["positional"][1, 0] > given.arrays["positional"][1, 0, 2, 1]).sum())
    ranks = page.locator(".posym-ex-rank")
    assert f"rank {rank} of 15" in ranks.first.text_content()
    # The fastest plane is the first, not the zeroth.
    frequency = given.arrays["plane_energy_share"][2, 1] @ (1 + np.arange(PLANES))
    assert ranks.last.locator("span").nth(1).text_content() == f"{frequency:.0f}"
    # Diamonds are the marked layer.
    assert page.locator(".posym-ex-plane path.posym-ex-point").count() == HEADS


def windowed(**changed):
    """In layer 1 the last token sees none before token 4: of blocks of two from token 1 on, two are not seen whole."""
    arrays = {name: one_input().arrays[name].copy() for name in ("attention", "examples")}
    for array in arrays.values():
        array[..., 1, :, :4] = 0
        array[..., 1, :, :] /= array[..., 1, :, :].sum(-1, keepdims=True)
    return one_input(**arrays, **changed)


def test_layers_that_do_not_see_all_blocks_are_marked(open_page):
    # A window that ends before the blocks begin hides none of them.
    assert "◌</th>" not in make(windowed(start=4, span=6, lengths=(1, 2, 3)), length=1).html
    page = open_page(shown := make(windowed(), one_input("text", 1), head=(1, 2)))
    rows = re.findall(r'<th scope="row">([^<]*)</th>', shown.html)
    assert [row for row in rows if "◌" in row] == ["1:0 ◌", "1:1 ◌", "1:2 ◌"]
    legend = page.locator(".posym-ex-blind")
    assert legend.text_content().startswith("◌ Dashed heads are in layers that do not see all blocks.")
    for where in (".posym-ex-plane .posym-ex-point", ".posym-ex-map button"):
        assert page.locator(f"{where}.posym-ex-hidden").count() == HEADS
    cell = page.locator(".posym-ex-readout [role=cell]").last
    for place, sees in ((1, "2 of 4"), (2, "1 of 2"), (0, "5 of 8")):
        set_slider(page, "block", place)
        assert cell.text_content() == sees
        assert page.locator(".posym-ex-blocks .posym-void").count() == 1
        assert page.locator(".posym-ex-blocks rect.posym-fill").count() == int(sees[-1])
    page.locator("[name=head]").select_option("0")
    assert cell.text_content() == "all"
    # The other input sees everything.
    page.locator("[name=input]").select_option("text")
    assert not legend.is_visible()
    assert page.locator(".posym-ex-hidden").count() == 0


def test_a_click_on_a_head_changes_every_part(open_page):
    page = open_page()
    before, box = drawn(page), page.locator(".posym-ex-plane").bounding_box()
    page.mouse.click(box["x"] + 2, box["y"] + 2)  # beside all heads
    assert drawn(page) == before
    head, (x, y) = alone(page)
    said = f"layer {head // HEADS}, head {head % HEADS}: "
    page.mouse.move(x, y)
    assert page.locator(".posym-tip").first.text_content().startswith(f"{said}s_POS 0.")
    page.mouse.click(x, y)
    assert different(before, drawn(page)) == set(PARTS)
    page.wait_for_function(SETTLED, arg=f"#head={head // HEADS}.{head % HEADS}")
    assert page.locator(".posym-ex-said").text_content().startswith(f"{said}positional 0.")
    # The keyboard goes on from there.
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith(said)


def test_arrow_keys_move_over_the_map(open_page):
    page = open_page()
    page.locator(".posym-ex-map [aria-selected=true]").focus()
    for key, expected in (
        ("ArrowRight", "3, head 1"), ("ArrowDown", "3, head 2"), ("ArrowDown", "3, head 2"), ("ArrowLeft", "2, head 2"),
        ("ArrowUp", "2, head 1"), ("Home", "0, head 1"), ("ArrowLeft", "0, head 1"), ("End", "4, head 1 ◆"),
    ):  # fmt: skip
        page.keyboard.press(key)
        assert chosen(page) == f"Layer {expected}"
    assert page.locator(".posym-ex-map [tabindex='0']").count() == 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-selected')") is None


def test_the_temperature_moves_the_points(open_page):
    page = open_page()
    before, place = drawn(page), place_of(page, 3)
    page.locator("[name=tau]").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("[name=tau]").get_attribute("aria-valuetext") == "0.01"
    assert place_of(page, 3) != place
    given, area = one_input(), page.locator(".posym-ex-plane").bounding_box()
    expected = given.arrays["positional"][1, 1, 1, 0] - given.arrays["positional"][1, 0, 1, 0]
    assert place_of(page, 3)[0] - place[0] == pytest.approx(expected * (area["width"] - 44), abs=1.5)
    # The temperature changes neither what is attended to nor the planes.
    assert different(before, drawn(page)) == {"plane", "readout", "map", "ranks"}
    page.wait_for_function(SETTLED, arg="#head=2.1&tau=0.01")


def test_addresses_are_read_with_care(open_page):
    page = open_page()
    for address, expected, tau in (
        ("#head=3.0&tau=0.02&block=4", "Layer 3, head 0", "1"),
        ("#head=9.0&tau=1", "Layer 2, head 1", "0"),
        ("#some-section", "Layer 2, head 1", "0"),
        ("#head=3.0&input=<script>&tau=-1&block=e", "Layer 3, head 0", "0"),
    ):
        page.evaluate("address => history.replaceState(null, '', address)", address)
        page.reload()
        assert (chosen(page), page.locator("[name=tau]").input_value()) == (expected, tau), address


def test_undefined_is_never_a_number(open_page):
    scores = one_input().arrays["positional"]
    scores[:, :, 3, 2] = np.nan
    page = open_page(make(one_input(positional=scores)), address="#head=0.0")
    keys = page.locator(".posym-ex-keys span").all_text_contents()
    assert keys == ["positional undefined", "symbolic undefined", "interaction undefined"]
    assert page.locator(".posym-ex-profile .posym-void").count() == PLANES
    ranks = page.locator(".posym-ex-rank").all_text_contents()
    assert [text.endswith("undefined") for text in ranks] == [False, False, True, True, True, False, False]
    assert "of 14" in ranks[0]
    assert "1 undefined" in page.locator(".posym-ex-plane").text_content()
    page.locator("[name=head]").select_option("11")
    assert page.locator(".posym-ex-readout [role=cell]").first.text_content() == "undefined"
    assert not page.locator(".posym-ex-plane .posym-ring").is_visible()


def test_inputs_have_cuts_and_prompts_of_their_own(open_page):
    cut = {"positional_share", "symbolic_share"}
    arrays = {name: array[::2] for name, array in one_input("text", 1).arrays.items() if array.ndim == 4 or name in cut}
    arrays["examples"] = np.random.default_rng(3).dirichlet(np.ones(SPAN + 2), (2, LAYERS, HEADS))
    tokens = [[f" {letter}{place}" for place in range(SPAN + 2)] for letter in "ab"]
    other = one_input("text", 1, lengths=LENGTHS[::2], tokens=tokens, labels=["first", "second"], **arrays)
    page = open_page(make(one_input(), other), address="#head=1.1&input=text&prompt=1")
    assert page.locator(".posym-ex-prompt").text_content().startswith(" b0")
    # Of the lengths 1 and 4 the first is nearest to 2.
    block = page.locator("[name=block]")
    assert (block.get_attribute("aria-valuetext"), block.get_attribute("max")) == ("1", "1")
    before = drawn(page)
    page.locator("[name=prompt]").select_option("first")
    # Neither means nor scores depend on the prompt that is shown.
    assert different(before, drawn(page)) == {"blocks", "prompt"}
    page.wait_for_function(SETTLED, arg="#head=1.1&input=text&block=1")
    set_slider(page, "block", 1)
    page.locator("[name=input]").select_option("facts")
    assert (block.get_attribute("aria-valuetext"), block.get_attribute("max")) == ("4", "2")


def test_every_text_is_escaped(open_page):
    evil = "</script><script>alert(\"x\")</script><b title='&'>"
    given = replace(one_input(), label=evil, note=evil, group=evil, tokens=[[evil] * (SPAN + 2)])
    page = open_page(make(given, caption=evil, alt=evil, marked_label=evil, plane_note=evil, turn_label=evil))
    assert (page.locator("script").count(), page.locator("b").count()) == (2, 0)
    assert page.locator("figcaption").text_content().strip() == evil
    assert page.locator(".posym-ex-note").text_content() == evil
    assert page.locator(".posym-ex-prompt span").first.text_content() == evil
    assert not set("<>&") & set(page.locator(".posym-explorer-data").inner_text())


def test_two_explorers_do_not_mix(open_page):
    page = open_page(make(), make())
    second = page.locator("figure").nth(1)
    second.locator("[name=head]").select_option("0")
    assert page.locator(".posym-ex-name").all_text_contents() == ["Layer 2, head 1", "Layer 0, head 0"]
