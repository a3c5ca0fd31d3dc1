"""Slider figures: what they refuse, what they send to the page, and how they behave in a browser."""

import json
import re

import matplotlib
import numpy as np
import pytest
import torch
from in_browser import move
from matplotlib.colors import to_hex
from refusals import refuse_each

from posym_figures import Bars, Choice, Guess, Heatmap, Lines, Points, Readout, Slider, slider_figure

THETA = Slider("theta", "Angle θ", [0.1, 0.5, 1.0], start=0.5, format=".1f")
KEYS = Slider("keys", "Keys", [4, 8], format="{:d} keys".format)


def figure(panel, *sliders, **options):
    return slider_figure(
        panel if isinstance(panel, list) else [panel],
        sliders or (THETA, KEYS),
        caption="Caption.",
        alt="Alt text.",
        **options,
    )


def data_of(shown) -> list[dict]:
    text = re.search(r'<script type="application/json" class="posym-data">(.*?)</script>', shown.html, re.S)
    assert text
    return json.loads(text[1])["panels"]


def test_every_text_is_escaped(open_page):
    evil = "</script><script>alert(\"x\")</script><b title='&'>"
    panels = [
        Bars(evil, [evil, "b"], np.zeros((2, 2, 2)), series=[evil], x_label=evil),
        Points(evil, np.zeros((2, 2, 1, 2)), labels=[evil], group_labels=[evil]),
        Readout({evil: [[evil, "b"]] * 2}, title=evil),
    ]
    controls = [Slider("s", evil, [evil, "b"]), Choice("c", evil, [evil, "d"], start=evil)]
    page = open_page([slider_figure(panels, controls, caption=evil, alt=evil)])
    assert (page.locator("script").count(), page.locator("b").count()) == (2, 0)
    for where in ("figcaption", "option"):
        assert page.locator(where).first.text_content() == evil
    assert [page.locator(control).get_attribute("aria-label") for control in ("input", "select")] == [evil] * 2
    assert not set("<>&") & set(page.locator(".posym-data").inner_text())


def test_a_panel_that_follows_some_sliders_shows_the_others_at_their_start():
    panels = [Lines("By angle", [0, 1], over=("theta",)), Lines("By keys", [0, 1], over=("keys",))]
    controls, compute = [THETA, Slider("keys", "Keys", [4, 8], start=8)], lambda theta, keys: [[theta * keys] * 2] * 2
    shown = slider_figure(panels, controls, caption="Caption.", alt="Alt text.", compute=compute)
    assert [panel["frames"]["v"] for panel in data_of(shown)] == [[0.8, 0.8, 4, 4, 8, 8], [2, 2, 4, 4]]


@pytest.mark.parametrize(
    ("digits", "expected"), [(4, [0.1235, 12350, -3, None, 1.235e-09, 0]), (2, [0.12, 12000, -3, None, 1.2e-09, 0])]
)
def test_numbers_are_rounded_to_significant_digits(digits, expected):
    numbers = [0.123456, 12345.6, -3.0, np.nan, 1.23456e-9, -0.0]
    sent = data_of(figure(Heatmap("C", [[numbers]]), Slider("s", "S", [1]), digits=digits))
    assert sent[0]["frames"]["v"] == expected


def test_frames_follow_the_order_of_over_and_rows_and_bars_without_names_count_from_0():
    frames = np.arange(6.0).reshape(2, 3)
    panel, bars = data_of(figure([Readout({"r": frames}, over=("keys", "theta"), format=".0f"),
                                  Bars("B", None, np.zeros(2), over=())]))  # fmt: skip
    assert (panel["over"], panel["dims"]) == ([1, 0], [2, 3])
    assert panel["rows"][0]["v"] == ["0", "1", "2", "3", "4", "5"]
    assert bars["labels"]["v"] == ["0", "1"]


def test_diverging_limits_are_symmetric_and_sequential_ones_are_not():
    frames = torch.tensor([-1.0, 3.0], requires_grad=True).reshape(1, 1, 2).expand(3, 1, 2).to(torch.bfloat16)
    for colours, limits in (("diverging", [-3, 3]), ("sequential", [-1, 3])):
        sent = data_of(figure(Heatmap("C", frames, colours=colours), THETA))[0]
        assert sent["limits"] == limits
        assert sent["frames"] == {"n": 2, "v": [-1, 3]}  # equal frames are sent once
    assert data_of(figure(Heatmap("C", np.full((3, 1, 2), np.nan)), THETA))[0]["limits"] == [-1, 1]


def test_undefined_values_are_never_zero():
    sent = data_of(figure(Readout({"share": [0.0, np.nan, -0.0001]}, format=".2f"), THETA))[0]["rows"][0]["v"]
    assert sent == ["0.00", "undefined", "0.00"]
    bars = data_of(figure(Bars("B", ["a"], [[0.0], [np.nan], [1.0]]), THETA))[0]
    assert (bars["frames"]["v"], bars["y_limits"][0]) == ([0, None, 1], 0)


test_refusals_name_rule_value_and_way_out = refuse_each(
    (lambda: figure(Heatmap("C", np.zeros((4, 2, 5, 5)))), r"frames of 'C' must have shape \[theta: 3, keys: 2, row,"),
    (lambda: figure(Heatmap("C", np.zeros((3, 2, 2)), over=("angle",))),
     r"over must name sliders of the figure \('theta', 'keys'\); got 'angle'"),
    (lambda: Choice("kind", "Kind", ["a", "c"], start="d"), "start of slider 'kind' must be one of its 2 values; got"),
    (lambda: figure(Lines("L", [1, 2], np.zeros((3, 2, 2, 2)), series=["one"])),
     "labels must be one for each of the 2 series or groups; got 1"),
    (lambda: figure(Lines("L", [1, 2], np.zeros((3, 2, 2)), colours=["pink"])),
     "colours must be among blue, .*; got 'pink'"),
    (lambda: figure(Bars("B", ["a"], np.zeros((3, 2, 1)), highlight=np.ones((3, 2)))),
     "highlight must be a whole number from 0 to 0, or NaN for none; got 1"),
    (lambda: figure(Points("P", np.zeros((3, 2, 1, 2)), groups=[0.5])), "groups must be whole numbers"),
    (lambda: Guess("Q", "a"), "two choices or bars at least, and not both; got 0 choices and 0 bars"),
)  # fmt: skip


def samples():
    """One figure with every kind of panel, undefined values among them, and a small one."""
    theta, keys = np.array([0.1, 0.5, 1.0]), np.array([4, 8])
    distance = np.arange(1, 9)
    wave = np.cos(theta[:, None, None] * distance + keys[:, None])
    matrix = np.sin(theta[:, None, None, None] * 3 + 4 * np.arange(4)[:, None] + np.arange(3) + keys[:, None, None])
    matrix[:, :, 0, 0] = np.nan
    big = np.cos(theta[:, None, None] * np.subtract.outer(np.arange(30.0), np.arange(30.0)))
    big[:, 0, 0] = np.nan
    bars = np.stack([wave, wave**2], -2)[..., :4].copy()
    bars[:, 0, 0, 1] = np.nan
    curves = np.stack([wave, wave / 2], -2)
    curves[1, :, 0, 3:5] = np.nan
    points = np.stack([wave, np.roll(wave, 1, -1)], -1)
    points[:, :, 7] = np.nan
    share = wave[..., 0].copy()
    share[2] = np.nan
    panels = [
        Heatmap("C", matrix, x_label="position b", y_label="content a", decimals=1, outlined="diagonal"),
        Heatmap("Big", big, over=("theta",), colours="sequential"),
        Lines("Curves", distance, curves, series=["one", "two"], x_log=True, marker=wave[..., 0] + 4, marker_label="m",
              lower=curves - 0.1, upper=curves + 0.1, dots=True, reference=[wave[0, 0]], reference_labels=["fixed"]),
        [Bars("Bars", list("abcd"), bars, series=["p", "q"], lower=bars - 0.1, upper=bars + 0.1, decimals=2),
         Bars("Piled", list("abcd"), bars**2, stacked=True, highlight=1)],
        Points("Points", points, labels=[f"point {i}" for i in range(8)], arrows=True, circle=1.0, highlight=2),
        Points("Shaded", points, shades=np.arange(8), shade_label="layer", diagonal=True),
        Readout({"share": share, "named": [["a", "b"], ["c", "d"], ["e", "f"]]}, title="Values"),
    ]  # fmt: skip
    alone = slider_figure(
        [Lines("Alone", distance, wave[:, 0, None])], [THETA], caption="Another figure.", alt="A cosine."
    )
    return [slider_figure(panels, [THETA, KEYS], caption="All panels & more.", alt="Every panel."), alone]


FAKE_LOADER = """<script>
window.defined = 0;
window.define = (...all) => { window.defined += 1; };
window.define.amd = {};
window.require = window.requirejs = () => { throw new Error("no module was to be asked for"); };
</script>"""


def drawings(page, place=0):
    boxes = page.locator("figure.posym-figure").nth(place).locator(".posym-drawing")
    return boxes.evaluate_all("boxes => boxes.map(box => box.innerHTML)")


def set_slider(page, place, index):
    move(page.locator("input[type=range]").nth(place), index)


@pytest.mark.parametrize("head", ["", FAKE_LOADER], ids=["plain page", "page with an AMD loader"])
def test_sliders_change_their_own_drawings(open_page, head):
    page = open_page([*samples(), samples()[1]], head=head)
    before, other, again = drawings(page), drawings(page, 1), drawings(page, 2)
    first = page.locator("input[name=theta]").first
    first.press("ArrowRight")
    assert (first.input_value(), first.get_attribute("aria-valuetext")) == ("2", "1.0")
    assert page.locator(".posym-value").first.text_content() == "1.0"
    after = drawings(page)
    assert [old != new for old, new in zip(before, after, strict=True)] == [True] * 8
    assert drawings(page, 1) == other
    set_slider(page, 1, 1)
    # The second panel does not depend on the number of keys.
    assert [old != new for old, new in zip(after, drawings(page), strict=True)] == [True, False] + [True] * 6
    first.press("ArrowLeft")
    set_slider(page, 1, 0)
    assert drawings(page) == before
    set_slider(page, 2, 0)
    assert drawings(page, 1) != other
    assert drawings(page) == before
    assert drawings(page, 2) == again
    if head:
        assert page.evaluate("window.defined") == 0


def test_undefined_is_shown_as_such(open_page):
    page = open_page(samples())
    kinds = page.locator("figure").first.locator(".posym-drawing")
    assert kinds.nth(0).locator(".posym-void").count() == 1  # hatched cell
    assert kinds.nth(1).locator(".posym-void").count() == 1  # under the bitmap
    assert "undefined" in (kinds.nth(3).text_content() or "")
    assert "1 undefined" in (kinds.nth(5).text_content() or "")
    assert "undefined" not in (kinds.nth(7).text_content() or "")
    set_slider(page, 0, 2)
    assert kinds.nth(7).locator("[role=cell]").first.text_content() == "undefined"
    for y in (120, 180):
        kinds.nth(0).hover(position={"x": 150, "y": y})
        tip = page.locator(".posym-tip").first.text_content() or ""
        row, column, value = re.fullmatch(r"content a (\d), position b (\d): (−?[\d.]+)", tip).groups()
        frame = data_of(samples()[0])[0]["frames"]["v"][4 * 12 :]
        assert float(value.replace("−", "-")) == pytest.approx(frame[3 * int(row) + int(column)], abs=0.01)


def test_cells_have_the_colour_of_their_share_and_negative_bars_hang_below_each_other(open_page):
    heatmap = Heatmap("C", [[0.5, -1.0, 1.0, 0.5]], limits=(-1, 1), colours="sequential", over=())
    piled = Bars("B", ["a"], [[-1.0], [-2.0]], stacked=True, over=())
    page = open_page([slider_figure([heatmap, piled], [], caption="C.", alt="A.")])
    cells = page.locator(".posym-drawing").first.locator("rect[rx='2']")
    shades = cells.evaluate_all("all => all.map(one => one.getAttribute('fill'))")
    assert [to_hex([int(part) / 255 for part in re.findall(r"\d+", shade)]) for shade in shades[1:3]] == [
        to_hex(matplotlib.colormaps["viridis"](share)) for share in (0.0, 1.0)
    ]
    assert shades[0] == shades[3] not in shades[1:3]
    first, second = page.locator(".posym-drawing").nth(1).locator("rect.posym-fill").all()
    top, below = (one.bounding_box() for one in (first, second))
    assert below["y"] == pytest.approx(top["y"] + top["height"], abs=0.5)


@pytest.mark.parametrize(("root", "body", "theme", "expected"), [
    ("", "", "dark", "dark"),
    ('data-theme="light"', "", "dark", "light"),
    ('data-theme="dark"', "", "light", "dark"),
    ("", 'data-jp-theme-light="false"', "light", "dark"),
    ("", 'data-jp-theme-light="true"', "dark", "light"),
    ("", 'class="vscode-dark"', "light", "dark"),
])  # fmt: skip
def test_colours_follow_the_page(open_page, root, body, theme, expected):
    page = open_page(samples()[1:], root=root, body=body, theme=theme)
    scheme = page.locator("figure").evaluate("figure => getComputedStyle(figure).getPropertyValue('--posym-scheme')")
    assert scheme.strip() == expected


def test_every_bar_has_the_whisker_of_its_own_series(open_page):
    bars = Bars("B", ["a"], [[0.2], [0.8]], lower=[[0.1], [0.7]], upper=[[0.3], [0.9]], series=["p", "q"], over=())
    page = open_page([slider_figure([bars], [], caption="C.", alt="A.")])
    tops = page.locator("rect.posym-fill:not([rx])").evaluate_all("all => all.map(x => +x.getAttribute('y'))")
    ends = page.locator(".posym-whisker").evaluate_all(
        "all => all.map(x => (+x.getAttribute('y1') + +x.getAttribute('y2')) / 2)"
    )
    assert ends == pytest.approx(tops, abs=0.3)
