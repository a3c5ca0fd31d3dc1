"""Live figures where readers meet them: a chapter's own in a real JupyterLab."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from address import FIRST
from axe import violations

from benchmarks.laboratory import chromium, laboratory
from posym_companion.several_hops import multihop
from posym_companion.several_hops.gptj import run_with_edits

SLIDERS = Path("book/where_and_what/where_and_what.ipynb"), "figures.angle_and_keys()"
HOPS = Path("book/several_hops/multihop_tasks.ipynb"), "figures.ask_the_models("
# The chapter's last expression is the figure; beside its widget stands what Python says of it.
READOUT = """
import ipywidgets
from IPython.display import display
said = ipywidgets.Label("nothing moved")
widget = figure.widget()
widget.observe(lambda moved: setattr(said, "value", f"{moved['new']} {widget.arrays[1].sum():.6f}"), "values")
display(said)
widget
"""
SCHEME = """scheme => {
    const figure = document.querySelector("figure.posym-figure");
    return getComputedStyle(figure).getPropertyValue("--posym-scheme").trim() === scheme;
}"""


def cells_of(root: Path, chapter: Path, figure: str) -> list[str]:
    """The cells of a chapter up to one of its figures, as they stand, without those of other figures."""
    cells = [cell for cell in nbformat.read(root / chapter, as_version=4).cells if cell.cell_type == "code"]
    sources = [cell.source for cell in cells if not cell.source.startswith(FIRST)]
    last = next(place for place, source in enumerate(sources) if figure in source)
    return [*(source for source in sources[:last] if "slider_figure(\n" not in source), sources[last]]


@pytest.fixture(scope="module")
def jupyterlab() -> Iterator[Any]:
    """One JupyterLab and one browser for all notebooks, or skipped tests."""
    pytest.importorskip("jupyterlab")
    if chromium() is None:
        pytest.skip("no system Chromium; install the package chromium to open JupyterLab in it")
    with laboratory(Path(__file__).resolve().parents[2]) as opens:
        yield opens


@pytest.fixture
def open_notebook(jupyterlab: Any) -> Iterator[Any]:
    """Opens a page of JupyterLab with cells, which asks no other machine for anything."""
    asked, pages = list[str](), list[Any]()

    def shown(cells: list[str]) -> Any:
        page = jupyterlab(cells, viewport={"width": 1100, "height": 1000})
        page.on("request", lambda request: asked.append(request.url))
        pages.append(page)
        return page

    yield shown
    for page in pages:
        page.context.close()
    assert [url for url in asked if not url.startswith(("http://127.0.0.1", "ws://127.0.0.1", "blob:", "data:"))] == []


def serious(page: Any) -> dict[str, list[str]]:
    """What axe-core finds in the figure under the light and the dark theme of JupyterLab."""
    found = {}
    for scheme, theme in (("light", "JupyterLab Light"), ("dark", "JupyterLab Dark")):
        page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", theme)
        page.wait_for_function(SCHEME, arg=scheme)
        found[scheme] = violations(page, scheme, "figure.posym-figure")
    return found


def test_a_typed_value_reaches_python_and_the_drawing(root: Path, open_notebook: Any) -> None:
    imports, *_, last = cells_of(root, *SLIDERS)
    page = open_notebook([imports, f"figure = {last}.figure", READOUT])
    page.wait_for_selector("figure.posym-figure svg", timeout=120_000)
    box, drawing = page.locator("input.posym-number").first, page.locator(".posym-drawing").first
    before = drawing.inner_html()
    box.fill("0.1234")
    box.press("Enter")
    page.get_by_text("'angle': 0.1234").wait_for(timeout=30_000)
    page.wait_for_function("old => document.querySelector('.posym-drawing').innerHTML !== old", arg=before)
    assert page.locator("input[name=angle]").first.get_attribute("aria-valuetext") == "0.1234"
    box.fill("7")
    box.press("Enter")
    page.get_by_text("value of slider 'angle' must lie in 0.0 to 1.2; got 7").wait_for(timeout=30_000)
    assert box.input_value() == "0.1234"
    assert serious(page) == {"light": [], "dark": []}
    page.locator("input[name=angle]").first.press("ArrowRight")
    page.get_by_text("'angle': 0.15").wait_for(timeout=30_000)


@torch.no_grad()
def test_models_answer_in_a_notebook_with_weights_from_its_kernel(root: Path, open_notebook: Any) -> None:
    results = f"import os\nos.environ['POSYM_RESULTS'] = {str(root / 'results')!r}"  # the notebook stands elsewhere
    imports, *_, loads, shows = cells_of(root, *HOPS)
    page = open_notebook([results, imports, loads, shows])
    page.wait_for_selector("[data-hops] svg", timeout=60_000)
    page.click("button[name=load]")
    page.wait_for_function("() => document.querySelector('output[name=answer]').value !== ''", timeout=60_000)
    said = page.locator("output[name=answer]").evaluate("output => output.value")
    sequence = page.locator("input[name=sequence]").input_value().split()
    assert serious(page) == {"light": [], "dark": []}
    model, settings = multihop.load_weights("multihop/number_0", device="cpu")
    names = settings.make_task().token_names
    tokens = torch.tensor([[names.index(name) for name in sequence]])
    assert said == names[int(run_with_edits(model, tokens).argmax())]
