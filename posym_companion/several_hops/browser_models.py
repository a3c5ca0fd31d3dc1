"""The models that readers train and ask in their browser, beside the same models in PyTorch.

For Index and Retrieval: toys of six angles of the grid ``frequency_control`` with three seeds each, trained by
``toy.js`` in headless Chromium with the grid's settings, and their accuracy beside the grid's. For Number and Letter:
the logits of ``gptj.js`` on test sequences beside those of PyTorch. For facts: a model of two layers is trained in
PyTorch, on 2 to 8 facts with questions by name and by number, and then asked in both, too; its weights lie beside the
result in half precision. Needs Chromium on the path and Playwright.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from tqdm import tqdm

from posym_companion.experiments import Experiment, RunOutput
from posym_companion.one_head import frequency_control, training_figure
from posym_companion.results import find_attached_file, load_result
from posym_companion.several_hops import multihop
from posym_companion.several_hops.gptj import make_gptj, run_with_edits
from posym_companion.several_hops.hop_figure import STATIC, encode_parcels, facts_task, parcel_layout
from posym_core.metrics import rope_angles
from posym_core.models import CosineSettings, make_generators, train
from posym_core.tasks import FactsBatch
from posym_figures import join_module

TOYS, HOPS, FACTS = ("index", "retrieval"), ("number", "letter"), "facts"
TRAINING, TEST = range(2)  # purposes of generators
TEACHING = CosineSettings(
    steps=4000, batch=64, learning_rate=5e-3, warmup=100, betas=(0.9, 0.98), record_every=50, stop_loss=0.01
)  # of the model that reads facts
DIMS = {
    "angles": "angle",
    "accuracy seconds": "seed angle",
    "difference right_browser right_pytorch same": "sequence",
    "milliseconds facts question": "sequence",
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
        task: ``"index"`` or ``"retrieval"``, trained in the browser; ``"number"`` or ``"letter"``, asked there;
            ``"facts"``, trained in PyTorch and asked.
        frequencies: frequency IDs of the angles that are trained, 1 is the fastest.
        seeds: of the trained toys.
        sequences: test sequences that the trained models are asked.
        training: of the model that reads facts.
    """

    task: str = "index"
    frequencies: tuple[int, ...] = (1, 5, 9, 13, 19, 25)
    seeds: tuple[int, ...] = (0, 1, 2)
    sequences: int = 1000
    training: CosineSettings = TEACHING

    def __post_init__(self):
        known = (*TOYS, *HOPS, FACTS)
        if self.task not in known:
            raise ValueError(f"task must be one of {', '.join(known)}; got {self.task!r}")

    @property
    def name(self) -> str:
        return f"browser_models/{self.task}"


@contextlib.contextmanager
def script_page(*scripts: Path) -> Iterator[Any]:
    """Return an empty page of headless Chromium in which these scripts' functions can be called.

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
    if setting.task in TOYS:
        arrays = train_in_browser(setting, progress=progress)
        return RunOutput(arrays=arrays, seconds=float(arrays["seconds"].sum()))
    if setting.task in HOPS:
        model, made = multihop.load_weights(f"multihop/{setting.task}_0")
        batch = made.make_task().sample(setting.sequences, generator=made.generator(multihop.TEST))
        arrays = ask_in_browser(
            model, made.angles, list(zip(batch.tokens, batch.answer, strict=True)), progress=progress
        )
        return RunOutput(arrays=arrays, seconds=float(arrays["milliseconds"].sum()) / 1e3)
    return measure_facts(setting, progress=progress)


def train_in_browser(setting: BrowserModels, *, progress: bool = False) -> dict[str, np.ndarray]:
    """Return toys trained in the browser with the settings of the grid."""
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
def ask_in_browser(
    model: Any, angles: Float[Tensor, " plane"], asked: list[tuple[Tensor, Tensor]], *, progress: bool = False
) -> dict[str, np.ndarray]:
    """Return a trained model asked in the browser and in PyTorch: sequences of tokens with their right answers."""
    weights = {name: x.numpy() for name, x in model.named_parameters()}
    config = model.config
    described = {"layers": config.n_layer, "width": config.n_embd, "heads": config.n_head, "angles": angles.tolist()}
    found: dict[str, list[Any]] = {name: [] for name in ("difference", "same", "right_browser", "right_pytorch")}
    took: list[float] = []
    with script_page(STATIC / "gptj.js") as page:
        page.evaluate(LOAD, [described, encode_parcels(weights), parcel_layout(weights)])
        for tokens, answer in tqdm(asked, disable=not progress):
            ((row, milliseconds),) = page.evaluate(ASK, [tokens.tolist()])
            ours, theirs = np.array(row), run_with_edits(model, tokens[None])[0].numpy()
            answers = ours.argmax(), theirs.argmax()
            found["difference"].append(np.abs(ours - theirs).max())
            found["same"].append(answers[0] == answers[1])
            found["right_browser"].append(answers[0] == int(answer))
            found["right_pytorch"].append(answers[1] == int(answer))
            took.append(milliseconds)
    return {name: np.array(values) for name, values in found.items()} | {"milliseconds": np.array(took)}


# ---- facts -----------------------------------------------------------------------------------------------------------


class FactsLoss(nn.Module):
    """Cross-entropy of the answers to all questions of a batch of prompts."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def losses(self, batch: FactsBatch) -> Float[Tensor, ""]:
        first = batch.tokens.shape[1] - 2 * batch.answer.shape[1] + 1
        logits = self.model(batch.tokens).logits[:, first::2]
        return nn.functional.cross_entropy(logits.flatten(0, 1), answer_tokens(batch).flatten())


def answer_tokens(batch: FactsBatch) -> Int64[Tensor, "prompt question"]:
    """Return the tokens of the attributes that are asked for."""
    return facts_task().first_attribute + batch.answer


def make_facts_model() -> Any:
    """Return the model that reads facts with random weights: two layers of four heads."""
    task = facts_task()
    positions = task.context + 2 * task.facts
    return make_gptj(vocabulary=task.vocabulary, layers=2, heads=4, width=64, dropout=0, positions=positions)


def measure_facts(setting: BrowserModels, *, progress: bool = False) -> RunOutput:
    """Train the model that reads facts, round it to half precision, and ask it in the browser and in PyTorch.

    Returns:
        As :func:`measure`, with ``facts`` of each prompt and its ``question``, 0 by name and 1 by number.
    """
    from safetensors.torch import save

    model = make_facts_model()

    def draw(count: int, generators: Any) -> FactsBatch:
        facts = int(torch.randint(2, 9, (), generator=generators[0]))
        return facts_task(facts).sample(count, generators[0])

    train(
        FactsLoss(model),
        draw,
        generators=make_generators((0,), purpose=TRAINING),
        settings=setting.training,
        progress=progress,
        label=setting.name,
    )
    for parameter in model.parameters():  # and not the table of angles
        parameter.data = parameter.data.half().float()
    model.eval()
    (generator,) = make_generators((0,), purpose=TEST)
    kinds = [(facts, place) for facts in range(2, 9) for place in range(2)]
    every = [kinds[number % len(kinds)] for number in range(setting.sequences)]
    asked = []
    for facts, place in every:
        task = facts_task(facts)
        one = task.ask(task.questions[place], 1, generator)
        asked.append((one.tokens[0], answer_tokens(one)[0, 0]))
    arrays = ask_in_browser(model, rope_angles(model.config.rotary_dim), asked, progress=progress)
    weights = {name: x.detach().half().contiguous() for name, x in model.named_parameters()}
    facts, question = np.array(every).T
    return RunOutput(
        arrays=arrays | {"facts": facts, "question": question},
        files={".safetensors": save(weights, metadata={"format": "pt"})},
    )


def load_facts_model(*, folder: Path | str | None = None) -> Any:
    """Return the model that reads facts, in evaluation mode and float32, on the CPU.

    Raises:
        ResultError: if result or weights are missing or altered.
    """
    from safetensors.torch import load_file

    result = load_result(f"browser_models/{FACTS}", folder=folder)
    weights = load_file(find_attached_file(result, f"{FACTS}.safetensors", folder=folder))
    model = make_facts_model()
    model.load_state_dict({name: x.float() for name, x in weights.items()}, strict=True)
    return model.eval()


def full_size() -> list[BrowserModels]:
    """Return all five tasks; there is no ``model`` to choose."""
    return [BrowserModels(task=task) for task in (*TOYS, *HOPS, FACTS)]


EXPERIMENT = Experiment(
    settings=full_size,
    small=lambda setting: replace(
        setting, frequencies=(9, 25), seeds=(0,), sequences=20, training=replace(setting.training, steps=200)
    ),
    measure=measure,
    dims=DIMS,
)
