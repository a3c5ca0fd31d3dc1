"""Live figures where readers meet them: a chapter's own in a real JupyterLab, and in what looks like Colab."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from address import TEMPLATE, is_setup_cell
from compare import needed

from benchmarks.laboratory import chromium, opened

CHAPTER = Path("book/where_and_what/where_and_what.ipynb")
FIGURE = "compute=one_head"
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


def cells_of(root: Path) -> list[str]:
    """The cells of the chapter that its figure needs, as they stand."""
    cells = [cell for cell in nbformat.read(root / CHAPTER, as_version=4).cells if cell.cell_type == "code"]
    cells = [cell for cell in cells if not is_setup_cell(cell.source)]
    last = next(place for place, cell in enumerate(cells) if FIGURE in cell.source)
    cells = cells[: last + 1]
    cells[last].metadata["tags"] = ["nbval-check-output"]
    for cell in cells[:last]:
        cell.metadata["tags"] = []
    kept = [cell.source for cell, keep in zip(cells, needed(list(cells)), strict=True) if keep]
    return [*kept[:-1], kept[-1].replace("slider_figure(\n", "figure = slider_figure(\n"), READOUT]


def test_a_typed_value_reaches_python_and_the_drawing(root: Path) -> None:
    pytest.importorskip("jupyterlab")
    if chromium() is None:
        pytest.skip("no system Chromium; install the package chromium to open JupyterLab in it")
    asked: list[str] = []
    with opened(cells_of(root), root, viewport={"width": 1100, "height": 1000}) as page:
        page.on("request", lambda request: asked.append(request.url))
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
        page.locator("input[name=angle]").first.press("ArrowRight")
        page.get_by_text("'angle': 0.15").wait_for(timeout=30_000)
    assert [url for url in asked if not url.startswith(("http://127.0.0.1", "ws://127.0.0.1", "blob:", "data:"))] == []


COLAB = """
import json, sys, types
for name in ("google", "google.colab", "google.colab.output"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["google"].colab = sys.modules["google.colab"]
sys.modules["google.colab"].output = sys.modules["google.colab.output"]
enabled = []
sys.modules["google.colab.output"].enable_custom_widget_manager = lambda *_: enabled.append(True)
sys.modules["google.colab.output"].disable_custom_widget_manager = lambda *_: None
sys.modules["google.colab.output"]._widgets = types.SimpleNamespace(_installed_url=None)
import IPython
IPython.get_ipython = lambda: types.SimpleNamespace(kernel=True)
import numpy as np
from posym_core.figures import Lines, Slider, slider_figure
figure = slider_figure([Lines("L", np.arange(4))], [Slider("theta", "θ", [0.1, 1.0])], caption="C.", alt="A.",
                       compute=lambda theta: np.cos(theta * np.arange(4)))
bundle = figure._repr_mimebundle_()
print(json.dumps({"enabled": enabled, "kinds": sorted(bundle[0])}))
"""


def test_colab_gets_the_widget_with_the_extras_of_the_first_cell(root: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "POSYM_STATIC"}
    done = subprocess.run([sys.executable, "-c", COLAB], cwd=root, env=environment, capture_output=True, text=True)
    said: dict[str, Any] = json.loads(done.stdout or "{}")
    assert said.get("enabled"), done.stderr
    assert "application/vnd.jupyter.widget-view+json" in said["kinds"]
    assert "text/html" not in said["kinds"]
    assert "./posym[lm,chapters]" in TEMPLATE
