"""Models in headless Chromium: a step of training, a pass of a model of several hops, and the size of every page.

Times are the best of several rounds. Sizes are those of the built site, with all that a page loads by itself; without a
site in ``_build/html`` there are none.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import torch

from posym_companion.one_head import frequency_control, training_figure
from posym_companion.several_hops import hop_figure, multihop
from posym_companion.several_hops.browser_models import LOAD, script_page

SITE = Path(__file__).resolve().parents[1] / "_build" / "html"
STEPS = """([name, sizes, training]) => {
    const task = makeTask(name, sizes), model = makeModel(task, [0.1], { width: 64, seed: 0 });
    const batch = emptyBatch(task, training.batch), source = chance(1);
    let best = Infinity;
    for (let round = 0; round < 6; round++) {
        const began = performance.now();
        for (let step = 0; step < 50; step++) {
            lossAndGradients(model, drawBatch(task, source, batch));
            adamStep(model, training);
        }
        best = Math.min(best, (performance.now() - began) / 50);
    }
    return best;
}"""
PASS = """(tokens) => {
    let best = Infinity;
    for (let round = 0; round < 8; round++) {
        const began = performance.now();
        forward(window.asked, tokens);
        best = Math.min(best, performance.now() - began);
    }
    return best;
}"""


def rows() -> Iterator[str]:
    """Table rows, as they are measured."""
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        yield "| models in a browser | not measured: no Chromium on the path |"
        return
    yield from training_rows()
    yield from pass_rows()
    yield from page_rows(SITE)


def training_rows() -> Iterator[str]:
    """A step of the trainer at 32 positions, and the whole run that it makes."""
    grid = frequency_control.FrequencyControlSettings()
    sizes = {"length": grid.lengths[0], "symbols": 32, "attributes": grid.attributes, "repetition": grid.repetition}
    names = ("steps", "batch", "learning_rate", "warmup", "betas")
    training = {name: getattr(grid.training, name) for name in names}
    with script_page(training_figure.STATIC / "toy.js") as page:
        for task in ("index", "retrieval", "induction"):
            each = page.evaluate(STEPS, [task, sizes, training])
            whole = each * grid.training.steps / 1e3
            limit = "" if task == "induction" else ", of 10 s allowed"
            yield f"| trainer: a step of {task}, {grid.lengths[0]} positions | {each:.1f} ms |"
            yield f"| trainer: a run of {task}{limit} | {whole:.1f} s |"


@torch.no_grad()
def pass_rows() -> Iterator[str]:
    """A pass of the trained Number model, twelve layers of 128 dimensions."""
    model, settings = multihop.load_weights("multihop/number_0", device="cpu")
    weights = {name: x.numpy() for name, x in model.named_parameters()}
    described = {"layers": settings.layers, "width": settings.width, "angles": settings.angles.tolist()}
    with script_page(hop_figure.STATIC / "gptj.js") as page:
        page.evaluate(LOAD, [described, hop_figure.encode_parcels(weights), hop_figure.parcel_layout(weights)])
        for tokens in (17, 64):
            took = page.evaluate(PASS, [place % 100 for place in range(tokens)])
            yield f"| models of several hops: a pass over {tokens} tokens | {took:.0f} ms |"


def page_rows(site: Path) -> Iterator[str]:
    """Every page of the site with what it loads before a click."""
    sizes = {page: loaded(page, site) for page in sorted(site.rglob("*.html"))} if site.is_dir() else {}
    for page, size in sizes.items():
        yield f"| size of {page.relative_to(site).as_posix()}, of 2,500 kB allowed | {size / 1e3:,.0f} kB |"
    if not sizes:
        yield "| size of every page | not measured: no site in _build/html |"


def loaded(page: Path, site: Path) -> int:
    """Bytes of a page and of the files of the site that it loads by itself; not the fonts that styles name."""
    from bs4 import BeautifulSoup

    parsed = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    named = [str(tag["src"]) for tag in parsed.select("script[src], img[src]")]
    named += [str(tag["href"]) for tag in parsed.select("link[rel~=stylesheet][href], link[rel~=icon][href]")]
    files = {(page.parent / unquote(urlsplit(name).path)).resolve() for name in named if not name.startswith("data:")}
    return page.stat().st_size + sum(file.stat().st_size for file in files if file.is_file() and site in file.parents)


if __name__ == "__main__":
    print("\n".join(rows()))
