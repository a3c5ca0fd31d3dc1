"""Live figures: what the widget takes, computes and refuses, and that it agrees with the frames of the page."""

import json
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from refusals import refuse_each

from posym_figures import Bars, Choice, Heatmap, Lines, Points, Readout, Slider, join_module, slider_figure
from posym_figures._pages import SCRIPTS

TOKENS = np.arange(6)
THETA = Slider("theta", "Angle θ", [0.1, 0.5, 1.0], start=0.5)
KEYS = Slider("keys", "Keys", [2, 4, 8])
SIGN = Choice("sign", "Sign", ["plus", "minus"])


def waves(theta: float, keys: int, sign: str) -> list[Any]:
    """One result of every kind: arrays, fields, rows, tensors, NaN, texts."""
    wave = np.cos(theta * TOKENS) * (1 if sign == "plus" else -1)
    matrix = np.outer(wave, wave) + keys
    matrix[0, 0] = np.nan
    return [
        {"frames": (two := np.stack([wave, wave / keys])), "lower": two - 1, "upper": two + 1, "marker": theta},
        torch.tensor(matrix),
        {"frames": wave[None], "labels": [f"{sign} {token}" for token in TOKENS], "highlight": keys % 6},
        {"frames": np.stack([wave, wave**2], -1), "groups": (wave > 0).astype(int)},
        {"keys": keys, "sign": sign, "sum": wave.sum()},
        [wave.max(), f"{theta:.2f}"],
    ]  # fmt: skip


def every_panel() -> list[Any]:
    return [
        Lines("Lines", TOKENS, series=("a", "b")),
        Heatmap("Matrix"),
        Bars("Bars", None),
        Points("Points", labels=list("abcdef"), group_labels=("below", "above")),
        Readout(title="Rows"),
        Readout(["most", "angle"], title="Given labels"),
    ]


def figure(panels=None, sliders=(THETA, KEYS, SIGN), compute=waves, **more):
    return slider_figure(panels or every_panel(), sliders, caption="C.", alt="A.", compute=compute, **more)


def page_frame(shown, place: int, field: dict, settings: dict) -> list:
    """What the page draws: the literal index arithmetic of the script."""
    panel, index = shown.data["panels"][place], 0
    for slider, length in zip(panel["over"], panel["dims"], strict=True):
        one = shown.sliders[slider]
        index = index * length + one.settings.index(settings[one.name])
    index = field["at"][index] if "at" in field else index
    whole = len(field["v"]) <= field["n"]
    return field["v"] if whole else field["v"][index * field["n"] : (index + 1) * field["n"]]


def test_page_and_kernel_agree_at_every_setting() -> None:
    shown = figure()
    widget, compared = shown.widget(), 0
    for settings in product(*(slider.settings for slider in shown.sliders)):
        widget.values = dict(zip(("theta", "keys", "sign"), settings, strict=True))
        for place, fields in enumerate(widget.shown["panels"]):
            for name, field in fields.items():
                sent = shown.data["panels"][place][name]
                for old, new in zip(*([one] if isinstance(one, dict) else one for one in (sent, field)), strict=True):
                    assert page_frame(shown, place, old, widget.values) == new["v"], (name, settings)
                    compared += 1
    assert compared == 18 * (4 + 1 + 3 + 2 + 3 + 2)


def test_a_value_between_the_frames_is_computed_before_the_assignment_returns() -> None:
    widget = figure().widget()
    assert widget.values == {"theta": 0.5, "keys": 2, "sign": "plus"}
    seen = []
    widget.observe(lambda change: seen.append((change["new"], widget.arrays[3]["frames"][1, 0])), "values")
    widget.values = {"theta": 0.1234}
    assert widget.values == {"theta": 0.1234, "keys": 2, "sign": "plus"}
    assert seen == [(widget.values, np.cos(0.1234))]
    expected = waves(0.1234, 2, "plus")
    np.testing.assert_array_equal(widget.arrays[1], expected[1].numpy())
    for place in (0, 2, 3, 4):
        for name, one in expected[place].items():
            np.testing.assert_array_equal(widget.arrays[place][name], np.asarray(one))
    assert widget.arrays[5].tolist() == [1.0, "0.12"]
    widget.values = {"sign": "minus", "keys": 3}
    assert widget.values == widget.shown["values"] == {"theta": 0.1234, "keys": 3, "sign": "minus"}
    assert json.dumps(widget.shown["panels"], allow_nan=False)


@pytest.mark.parametrize(("values", "message"), [
    ({"theta": float("nan")}, r"value of slider 'theta' must lie in 0\.1 to 1\.0; got nan"),
    ({"theta": "0.5"}, r"must lie in 0\.1 to 1\.0; got '0\.5'"),
    ({"keys": True}, r"must lie in 2 to 8; got True"),
    ({"sign": "both"}, r"must be one of its 2 values; got 'both'\. They are 'plus', 'minus'"),
    ({"angle": 0.5}, r"values must name sliders of the figure \(theta, keys, sign\); got 'angle'"),
])  # fmt: skip
def test_values_that_no_slider_takes_are_refused_and_change_nothing(values, message) -> None:
    widget = figure().widget()
    before, arrays = dict(widget.values), widget.arrays
    with pytest.raises(ValueError, match=message):
        widget.values = values
    assert widget.values == before
    assert widget.arrays is arrays


def halting(theta: float) -> np.ndarray:
    if 0.2 < theta < 0.4:
        raise ZeroDivisionError("no wave here")
    return np.cos(theta * TOKENS)


def test_an_error_of_the_function_is_raised_and_shown_and_leaves_the_last_good_state() -> None:
    widget = figure([Lines("L", TOKENS)], [THETA], halting).widget()
    widget.values = {"theta": 0.7}
    good = widget.arrays
    with pytest.raises(ZeroDivisionError, match="no wave here"):
        widget.values = {"theta": 0.3}
    assert widget.error == "ZeroDivisionError: no wave here (at theta = 0.3)"
    assert widget.values == widget.shown["values"] == {"theta": 0.7}
    assert widget.arrays is good


def test_what_a_browser_asks_for_is_computed_or_complained_of() -> None:
    widget = figure([Lines("L", TOKENS)], [THETA], halting).widget()
    widget.set_state({"values": {"theta": 0.7}})
    np.testing.assert_array_equal(widget.arrays[0], halting(0.7))
    for asked, said in ((0.3, "no wave here"), (7, "must lie in 0.1 to 1.0; got 7")):
        widget.set_state({"values": {"theta": asked}})
        assert said in widget.error
        assert widget.values == {"theta": 0.7}
    widget.set_state({"values": {"theta": 0.9}})
    assert (widget.error, widget.values) == ("", {"theta": 0.9})


sizes = iter([3, 3, 3, 3, 4])
test_refusals_name_rule_value_and_way_out = refuse_each(
    (lambda: figure(compute=None), "lines 'Lines' has no frames; pass them, or a compute that makes"),
    (lambda: figure([Readout({"r": 1.0})], [], None).widget(), "a figure of frames alone has no widget"),
    (lambda: figure(compute=lambda theta: []), r"names of the sliders as keywords \(theta, keys,", TypeError),
    (lambda: setattr(
        figure([Heatmap("C")], [THETA], lambda theta: np.zeros((2, next(sizes)))).widget(), "values", {"theta": 0.3}
    ), "must return frames of 'C' in the shape of its frames"),
)  # fmt: skip


def test_saved_whole_or_not_at_all(tmp_path, monkeypatch) -> None:
    shown = slider_figure([Readout({"r": 1.0})], [], caption=r"Where $\theta n^2$ is $10^{-4}$.", alt="A value.")
    path = shown.save(str(tmp_path / "figure.html"))
    for text in (path.read_text("utf-8"), shown.markup()):
        assert "Where θ n² is 10⁻⁴.</figcaption>" in text
    monkeypatch.setattr(type(path), "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        shown.save(tmp_path / "other.html")
    assert [one.name for one in tmp_path.iterdir()] == ["figure.html"]


# A front end without its kernel: what is asked is written down, and answered only when a test says so.
FRONT_END = """
const heard = {}, state = STATE;
Object.assign(window, {
  asked: [], tell: (name, value) => ((state[name] = value), heard[`change:${name}`].forEach((hear) => hear())),
});
const model = {
  get: (name) => state[name],
  set: (_, value) => (model.next = value),
  save_changes: () => { if (window.disposed) throw new Error("disposed"); window.asked.push(model.next); },
  send: () => {},
  on: (name, hear) => (heard[name] = [...(heard[name] || []), hear]),
};
render({ model, el: document.body });
"""


@pytest.fixture
def orphan(open_page):
    """Puts a widget on a page where time stands still until a test moves it."""

    def orphan(figure):
        widget, page = figure.widget(), open_page([])
        page.clock.install(time=0)
        page.clock.pause_at(1000)
        state = {name: getattr(widget, name) for name in ("markup", "data", "shown", "error")}
        text = join_module(*SCRIPTS) + FRONT_END.replace("STATE", json.dumps(state))
        page.add_script_tag(content=text, type="module")
        page.wait_for_selector(".posym-number")
        return page, widget

    return orphan


@pytest.fixture
def field(orphan):
    """A page and the widget of a figure whose readout is a thousand times its slider."""
    panels = [Readout(["field"], format=".0f"), Lines("Field", TOKENS)]
    sliders = [Slider("field", "Field", [0.5, 0.7, 0.9], format=".2f")]
    return orphan(figure(panels, sliders, lambda field: [[1000 * field], np.full(6, 1000 * field)]))


def type_in(page, value: str) -> None:
    page.fill(".posym-number", value)
    page.press(".posym-number", "Enter")


def labelled_and_drawn(page) -> tuple[str, str]:
    return page.input_value(".posym-number"), page.inner_text(".posym-readout [role=cell]")


def test_a_figure_whose_kernel_is_gone_stands_at_a_setting_that_it_draws_and_says_so(field) -> None:
    page, widget = field
    note, panels = page.locator(".posym-note"), page.locator(".posym-panels")
    type_in(page, "0.62")
    assert panels.get_attribute("aria-busy") == "true"  # until the kernel has had its time
    page.clock.fast_forward(100)
    assert page.evaluate("asked") == [{"field": 0.62}]
    page.clock.fast_forward(4000)
    assert labelled_and_drawn(page) == ("0.7", "700")
    assert page.input_value("input[type=range]") == "1"
    assert panels.get_attribute("aria-busy") == "false"
    assert note.inner_text() == (
        "The kernel does not answer. The figure stands at the nearest setting that was computed before."
    )
    # Was it only busy, its answer moves the figure.
    widget.values = {"field": 0.62}
    page.evaluate("shown => tell('shown', shown)", widget.shown)
    assert labelled_and_drawn(page) == ("0.62", "620")
    assert note.inner_text() == ""


def test_an_answer_to_what_was_asked_before_moves_nothing(field) -> None:
    page, widget = field
    widget.values = {"field": 0.52}
    stale = dict(widget.shown)
    type_in(page, "0.62")
    page.evaluate("shown => tell('shown', shown)", stale)
    assert page.input_value(".posym-number") == "0.62"
    page.evaluate("() => tell('error', 'ValueError: no field')")  # while it waits to ask, that is of something else
    assert page.input_value(".posym-number") == "0.62"
    page.clock.fast_forward(100)
    page.evaluate("() => tell('error', 'ValueError: no field here')")
    assert labelled_and_drawn(page) == ("0.52", "520")
    assert page.inner_text(".posym-error") == "ValueError: no field here"
