"""How quickly the head explorer of the book answers in headless Chromium: slider, list and click, at full size.

Needs the results ``head_explorer/*`` and a Chromium on the path. A time is the processor time of the page's main
thread, from the event to the end of layout: what else a machine does meanwhile does not count.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from posym_companion.language_models.head_explorer import LENGTHS, SPAN, TAUS, full_size
from posym_companion.results import load_result
from posym_figures import ARRAYS, Figure, HeadInput, head_explorer

ACTIONS = {
    "a step of the temperature": "turn => set('tau', turn % 11, 'input')",
    "a step of the block length": "turn => set('block', turn % 5, 'input')",
    "another head": "turn => set('head', (turn * 7) % 72, 'change')",
    "another input": "turn => set('input', `input${turn % 6}`, 'change')",
}
ACT = """([action, first, turns]) => {
    const figure = document.querySelector('.posym-explorer');
    const set = (name, value, kind) => {
        const control = figure.querySelector(`[name=${name}]`);
        control.value = value;
        control.dispatchEvent(new Event(kind, { bubbles: true }));
    };
    const act = eval(action);
    for (let turn = first; turn < first + turns; turn++) {
        act(turn);
        figure.getBoundingClientRect();
    }
}"""
TURNS = 20


def figure() -> Figure:
    """The explorer with everything that the book's page shows."""
    results = [load_result(setting.name) for setting in full_size()]
    inputs = [
        HeadInput(
            f"input{place}",
            "Input",
            note="Note.",
            tokens=[list(result["tokens"])],
            start=int(result["start"]),
            span=SPAN,
            lengths=LENGTHS,
            arrays={array: result["example"][None] if array == "examples" else result[array] for array in ARRAYS},
        )
        for place, result in enumerate(results)
    ]
    return head_explorer(inputs, taus=TAUS, angles=results[0]["angles"], caption="Heads.", alt="Heads.")


def rows() -> Iterator[str]:
    """Table rows: size of the figure, and the median time of each kind of interaction."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        yield "| head explorer | not measured: no Chromium on the path |"
        return
    from playwright.sync_api import sync_playwright

    shown = figure()
    yield f"| size of the head explorer, of 1,000 kB allowed | {len(shown.html.encode()) / 1e3:.0f} kB |"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page_file = Path(folder) / "page.html"
        page_file.write_text(f'<!doctype html><meta charset="utf-8">{shown.html}', "utf-8")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 900, "height": 900})
        page.goto(page_file.as_uri())
        inspector = page.context.new_cdp_session(page)
        inspector.send("Performance.enable", {"timeDomain": "threadTicks"})

        def seconds() -> float:
            metrics = inspector.send("Performance.getMetrics")["metrics"]
            return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

        for name, action in ACTIONS.items():
            page.evaluate(ACT, [action, 1, 4])
            begin = seconds()
            page.evaluate(ACT, [action, 5, TURNS])
            each = 1e3 * (seconds() - begin) / TURNS
            yield f"| head explorer: {name}, of 50 ms allowed | {each:.0f} ms |"
        browser.close()


if __name__ == "__main__":
    print("\n".join(rows()))
