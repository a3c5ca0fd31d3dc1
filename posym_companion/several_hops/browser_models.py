"""The models that readers train and ask in their browser, beside the same models in PyTorch.

For Index and Retrieval: toys of six angles of the grid ``frequency_control`` with three seeds each, trained by
``toy.js`` in headless Chromium with the grid's settings, and their accuracy beside the grid's. For Number and Letter:
the logits of ``gptj.js`` on test sequences beside those of PyTorch. Needs Chromium on the path and Playwright.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from posym_companion.experiments import Experiment, RunOutput
from posym_companion.one_head import frequency_control, training_figure
from posym_companion.several_hops import multihop
from posym_companion.several_hops.gptj import run_with_edits
from posym_companion.several_hops.hop_figure import STATIC, encode_parcels, parcel_layout
from posym_core.metrics import rope_angles
from posym_figures import join_module

TOYS, HOPS = ("index", "retrieval"), ("number", "letter")
BATCH = 20  # sequences a call, and steps between two looks at the bar
DIMS = {
    "angles": "angle",
    "accuracy seconds": "seed angle",
    "difference right_browser right_pytorch same": "sequence",
    "milliseconds": "sequence",
}
TRAIN = """([name, sizes, angles, width, seed, training, tested]) => {
    const task = makeTask(name, sizes), model = makeModel(task, angles, { width, seed });
    const batch = emptyBatch(task, training.batch), source = chance(seed + 2 ** 40), began = performance.now();
    while (model.steps < training.steps) {
        lossAndGradients(model, drawBatch(task, source, batch));
        adamStep(model, training);
    }
    const seconds = (performance.now() - began) / 1000;
    const { hits, asked } = countHits(model, chance(seed + 2 ** 41), tested);
    const sum = (counts) => counts.reduce((total, count) => total + count, 0);
    return [sum(hits) / sum(asked), seconds];
}"""
LOAD = """([model, parts, layouts]) => {
    model.tensors = Object.assign({}, ...parts.map((text, place) => unpackParcel(text, layouts[place])));
    window.asked = model;
}"""
ASK = """(sequences) => sequences.map((tokens) => {
    const began = performance.now(), { logits } = forward(window.asked, tokens);
    return [[...logits], performance.now() - began];
})"""


@dataclass(frozen=True, kw_only=True)
class BrowserModels:
    """One task.

    Attributes:
        task: ``"index"`` or ``"retrieval"``, trained; ``"number"`` or ``"letter"``, asked.
        frequencies: frequency IDs of the angles that are trained, 1 is the fastest.
        seeds: of the trained toys.
        sequences: test sequences that the trained models are asked.
    """

    task: str = "index"
    frequencies: tuple[int, ...] = (1, 5, 9, 13, 19, 25)
    seeds: tuple[int, ...] = (0, 1, 2)
    sequences: int = 1000

    def __post_init__(self):
        if self.task not in TOYS + HOPS:
            raise ValueError(f"task must be one of {', '.join(TOYS + HOPS)}; got {self.task!r}")

    @property
    def name(self) -> str:
        return f"browser_models/{self.task}"


@contextlib.contextmanager
def script_page(*scripts: Path) -> Iterator[Any]:
    """An empty page of headless Chromium in which these scripts' functions can be called.

    Raises:
        RuntimeError: if Chromium or Playwright is not installed.
    """
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        raise RuntimeError("models in a browser need Chromium on the path and found none; run `make browser`")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise RuntimeError("models in a browser need playwright; install the extra test") from None
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page()
        page.add_script_tag(content=join_module(*scripts))
        yield page
        browser.close()


def measure(
    setting: BrowserModels, *, device: str = "cpu", work: Path | None = None, progress: bool = False
) -> RunOutput:
    """Train or ask the models of one task.

    Returns:
        Of toys ``angles`` ``[angle]``, ``accuracy`` and ``seconds`` ``[seed, angle]``; of models of several hops, by
        sequence, the largest ``difference`` of a logit from PyTorch's, whether both give the ``same`` answer, whether
        the right one, and the ``milliseconds`` of a pass.
    """
    arrays = (
        train_in_browser(setting, progress=progress)
        if setting.task in TOYS
        else ask_in_browser(setting, progress=progress)
    )
    key = "seconds" if setting.task in TOYS else "milliseconds"
    return RunOutput(arrays=arrays, seconds=float(arrays[key].sum()) * (1 if key == "seconds" else 1e-3))


def train_in_browser(setting: BrowserModels, *, progress: bool = False) -> dict[str, np.ndarray]:
    """Toys trained in the browser with the settings of the grid."""
    grid = frequency_control.FrequencyControlSettings()
    angles = rope_angles(grid.dim, grid.base)[torch.tensor(setting.frequencies) - 1]
    sizes = {"length": grid.lengths[0], "symbols": 32, "attributes": grid.attributes, "repetition": grid.repetition}
    names = ("steps", "batch", "learning_rate", "warmup", "betas")
    training = {name: getattr(grid.training, name) for name in names}
    accuracy = np.zeros((2, len(setting.seeds), len(angles)))
    with script_page(training_figure.STATIC / "toy.js") as page:
        for place, seed in enumerate(tqdm(setting.seeds, desc=setting.name, disable=not progress)):
            for variant, angle in enumerate(angles.tolist()):
                asked = [setting.task, sizes, [angle], 64, seed, training, grid.test_inputs]
                accuracy[:, place, variant] = page.evaluate(TRAIN, asked)
    return {"angles": angles.numpy(), "accuracy": accuracy[0], "seconds": accuracy[1]}


@torch.no_grad()
def ask_in_browser(setting: BrowserModels, *, progress: bool = False) -> dict[str, np.ndarray]:
    """A trained model of several hops asked in the browser and in PyTorch."""
    model, made = multihop.load_weights(f"multihop/{setting.task}_0", device="cpu")
    weights = {name: x.numpy() for name, x in model.named_parameters()}
    batch = made.make_task().sample(setting.sequences, generator=made.generator(multihop.TEST))
    expected = torch.cat([run_with_edits(model, part) for part in batch.tokens.split(BATCH)]).numpy()
    described = {"layers": made.layers, "width": made.width, "angles": made.angles.tolist()}
    logits, milliseconds = [], []
    with script_page(STATIC / "gptj.js") as page:
        page.evaluate(LOAD, [described, encode_parcels(weights), parcel_layout(weights)])
        for part in tqdm(batch.tokens.split(BATCH), desc=setting.name, disable=not progress):
            for row, took in page.evaluate(ASK, part.tolist()):
                logits.append(row)
                milliseconds.append(took)
    ours = np.array(logits)
    answers, theirs = ours.argmax(-1), expected.argmax(-1)
    return {
        "difference": np.abs(ours - expected).max(-1),
        "same": answers == theirs,
        "right_browser": answers == batch.answer.numpy(),
        "right_pytorch": theirs == batch.answer.numpy(),
        "milliseconds": np.array(milliseconds),
    }


def full_size() -> list[BrowserModels]:
    """All four tasks; there is no ``model`` to choose."""
    return [BrowserModels(task=task) for task in TOYS + HOPS]


EXPERIMENT = Experiment(
    settings=full_size, small={"frequencies": (9, 25), "seeds": (0,), "sequences": 20}, measure=measure, dims=DIMS
)
