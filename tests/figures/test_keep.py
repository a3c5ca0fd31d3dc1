"""What a reader keeps of a slider figure on a page: its state, its drawings, its numbers, and a page of its own."""

import csv
import io
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import finish_site
import numpy as np
import pytest
from in_browser import functions

from posym_figures import Bars, Choice, Heatmap, Lines, Points, Readout, Slider, slider_figure

THETA, KIND = Slider("theta", "Angle θ", [0.1, 0.5, 1.0], start=0.5), Choice("kind", "Kind", ["a&b", "c;d"])
TOKENS = np.arange(3)


def waves(theta, kind):
    wave = np.cos(theta * TOKENS) * (1 if kind == "a&b" else -1)
    return [
        {"frames": (two := np.stack([wave, 2 * wave])), "lower": two - 1, "upper": two + 1},
        np.outer(wave, wave) + np.array([[np.nan, 0, 0], [0, 0, 0], [0, 0, 0]]),
        wave,
        {"frames": np.stack([wave, wave**2], -1), "groups": np.array([0, 1, 1]) if kind == "a&b" else np.zeros(3)},
        {"sum": wave.sum()},
    ]


FIGURE = slider_figure(
    [Lines("Lines", TOKENS, series=['one, "two"', "b"]), Heatmap("C"), Bars("Bars", list("xyz")),
     Points("P", group_labels=("near", "far", "none")), Readout()],
    [THETA, KIND], caption="Where $a^2$.", alt="A.", compute=waves,
)  # fmt: skip


@pytest.fixture
def opened(browser, tmp_path: Path):
    """Opens the figure twice on a page that shares its style and script, as the site's pages do, from a file."""
    page = f'<!doctype html><html lang="en"><head><title>T</title></head><body>{FIGURE.html * 2}</body></html>'
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    (tmp_path / "_static").mkdir()
    finish_site.share_figure_files(tmp_path)
    complaints: list[str] = []

    def open_page(hash="", file="page.html", **options):
        context = browser.new_context(offline=True, accept_downloads=True, **options)
        shown = context.new_page()
        shown.on("console", lambda message: complaints.append(message.text))
        shown.on("pageerror", lambda error: complaints.append(str(error)))
        shown.goto((tmp_path / file).as_uri() + hash)
        return shown

    yield open_page
    assert complaints == []


def saved(page, name: str, folder: Path, figure: int = 0) -> str:
    page.locator("summary").nth(figure).click()
    with page.expect_download() as got:
        page.locator("figure").nth(figure).get_by_role("button", name=name).click()
    got.value.save_as(folder / got.value.suggested_filename)
    return (folder / got.value.suggested_filename).read_text(encoding="utf-8")


def settings(page) -> list[str]:
    return page.locator("figure input, figure select").evaluate_all("all => all.map(one => one.value)")


def test_the_address_keeps_the_state_of_each_figure_and_restores_it(opened) -> None:
    page = opened()
    assert settings(page) == ["1", "0", "1", "0"]
    page.locator("select").nth(1).select_option(index=1)
    page.locator("input").first.press("ArrowRight")
    page.wait_for_url("**#lines-c-bars-p-2:*;*")
    again = opened("#" + page.url.split("#")[1])
    assert settings(again) == settings(page) == ["2", "0", "1", "1"]
    assert again.locator("[role=cell]").all_text_contents() == page.locator("[role=cell]").all_text_contents()
    again.locator("input").first.press("ArrowLeft")
    again.wait_for_function("() => !location.hash.includes('lines-c-bars-p:')")
    assert settings(opened("#lines-c-bars-p:theta=0.93&kind=nothing")) == ["2", "0", "1", "0"]


WORDS = """<a class="posym-moves posym-c1" href="#lines-c-bars-p:theta=1">fast</a>
<a class="posym-moves" href="#lines-c-bars-p-2:kind=c%3Bd">twin</a>"""


def test_words_set_a_figure_again_and_again(opened, tmp_path: Path) -> None:
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    (tmp_path / "worded.html").write_text(text.replace("<body>", f"<body>{WORDS}"), encoding="utf-8")
    page = opened(file="worded.html")
    before = page.locator("[role=cell]").all_text_contents()
    for _ in range(2):
        page.get_by_text("fast").click()
        assert settings(page) == ["2", "0", "1", "0"]
        assert page.url.endswith("#lines-c-bars-p:theta=1&kind=a%26b")
        page.locator("input").first.press("ArrowLeft")
    page.get_by_text("fast").press("Enter")
    page.get_by_text("twin").click()
    assert settings(page) == ["2", "0", "1", "1"]
    after = page.locator("[role=cell]").all_text_contents()
    assert [old != new for old, new in zip(before, after, strict=True)] == [True, True]


def test_numbers_as_csv(opened, tmp_path: Path) -> None:
    rows = list(csv.DictReader(saved(opened(), "CSV", tmp_path).splitlines()))
    expected = waves(0.5, "a&b")
    assert {(row["theta"], row["kind"]) for row in rows} == {("0.5", "a&b")}
    lines = [row for row in rows if row["panel"] == "Lines"]
    assert [row["series"] for row in lines] == ['one, "two"'] * 3 + ["b"] * 3
    for column, name in (("y", "frames"), ("upper", "upper")):
        np.testing.assert_allclose([float(row[column]) for row in lines], expected[0][name].ravel(), rtol=1e-3)
    points = [[float(row["x"]), float(row["y"])] for row in rows if row["panel"] == "P"]
    np.testing.assert_allclose(points, expected[3]["frames"], rtol=1e-3)
    assert [row["series"] for row in rows if row["panel"] == "P"] == ["near", "far", "far"]
    cells = [row["y"] for row in rows if row["panel"] == "C"]
    assert cells[0] == ""
    np.testing.assert_allclose([float(cell) for cell in cells[1:]], expected[1].ravel()[1:], rtol=1e-3)
    assert [row["x"] for row in rows if row["panel"] == "Bars"] == ["x", "y", "z"]
    assert [row["series"] + row["x"] for row in rows if row["panel"] == "C"][:4] == ["00", "01", "02", "10"]
    assert rows[-1]["series"] == "sum"
    assert float(rows[-1]["y"]) == pytest.approx(expected[4]["sum"], abs=1e-3)


def test_cells_that_would_tear_a_row_are_quoted(browser) -> None:
    cells = ["a\rb", "a\nb", "a,b", '"a"', "a"]
    page = functions(browser, "core.js", "keep.js")
    text = page.evaluate("rows => csvOf({}, rows)", [["P", cell, 1, 2] for cell in cells])
    page.close()
    assert [row["series"] for row in csv.DictReader(io.StringIO(text, newline=""))] == cells


def test_drawings_as_svg_carry_their_looks(opened, tmp_path: Path) -> None:
    text = saved(opened(color_scheme="dark"), "SVG", tmp_path)
    root = ElementTree.fromstring(text)
    assert len(root.findall("{*}svg")) == 4
    assert "Angle θ" in text
    assert "class=" not in text.replace("posym-", "") or "var(" not in text
    assert "rgb(86, 180, 233)" in text  # the blue of dark pages


def test_a_page_of_its_own_moves_without_what_it_came_from(opened, tmp_path: Path) -> None:
    page = opened("#lines-c-bars-p:theta=1")
    text = saved(page, "Page", tmp_path)
    assert "Where a².</figcaption>" in text
    (tmp_path / "_static" / "figure.js").unlink()
    alone = opened(file="lines-c-bars-p.html", viewport={"width": 390, "height": 800})
    assert settings(alone) == ["2", "0"]
    before = alone.locator("[role=cell]").text_content()
    alone.locator("input").press("ArrowLeft")
    assert alone.locator("[role=cell]").text_content() != before
    assert alone.evaluate("document.documentElement.scrollWidth") <= 390
    assert alone.locator(".posym-keep").count() == 1
