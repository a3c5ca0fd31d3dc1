"""How long a live figure takes in JupyterLab from a value that is no frame to the drawing of what Python computed.

Needs JupyterLab and a Chromium on the path. The time is the reader's: it holds the pause in which the figure waits for
further moves, the way to the kernel and back, the computation of 64 numbers, and the drawing.
"""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Iterator
from pathlib import Path

from benchmarks.laboratory import chromium, opened

CELL = """
import numpy as np
from posym_figures import Lines, Slider, slider_figure
distance = np.arange(64)
slider_figure(
    [Lines("Logit", distance, y_limits=(-1, 1))], [Slider("theta", "Angle", np.linspace(0, 1, 21))],
    caption="One plane.", alt="A cosine.", compute=lambda theta: np.cos(theta * distance),
)
"""
# The nearest frame is drawn at once; what Python computed is the second drawing.
TYPE = """async (turns) => {
    const box = document.querySelector("input.posym-number"), drawing = document.querySelector(".posym-drawing");
    const times = [];
    for (let turn = 1; turn <= turns; turn++) {
        const begin = performance.now();
        await new Promise((done) => {
            let drawn = 0;
            const watch = new MutationObserver(() => ++drawn === 2 && (watch.disconnect(), done()));
            watch.observe(drawing, { childList: true });
            box.value = turn / (turns + 7);
            box.dispatchEvent(new Event("change"));
        });
        times.push(performance.now() - begin);
    }
    return times;
}"""
TURNS = 20


def rows() -> Iterator[str]:
    """A table row: the median time from a typed value to its drawing."""
    if chromium() is None or importlib.util.find_spec("jupyterlab") is None:
        yield "| live slider in JupyterLab | not measured: no Chromium or no JupyterLab |"
        return
    with opened([CELL], Path(__file__).resolve().parent.parent) as page:
        page.wait_for_selector("figure.posym-figure svg", timeout=120_000)
        times = page.evaluate(TYPE, TURNS)
    each = statistics.median(times)
    yield f"| live slider in JupyterLab: from a value to its drawing, of 100 ms allowed | {each:.0f} ms |"


if __name__ == "__main__":
    print("\n".join(rows()))
