"""Quantities that several pages show: one name, one value, one sample.

A page prints ``named_value(name)`` and so shows the value with its sample beside it. The tests of the site read the
built pages and fail where one name has two texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from html import escape
from pathlib import Path

import numpy as np

from posym_companion.encodings.judges.gram_spectra import random_products
from posym_companion.language_models.judges.binding_profile import binding_results, layer_contrasts
from posym_companion.language_models.judges.plane_profile import turning_angle
from posym_companion.language_models.judges.random_weights import KINDS, random_weight_results
from posym_companion.language_models.plane_profile import PlaneProfile
from posym_companion.one_head.judges.frequency_control import accuracy, thresholds
from posym_companion.results import Result, load_result
from posym_companion.solvers.judges.head_removal import language_advantages, removal_results
from posym_companion.solvers.judges.solver_heads import load_settings
from posym_companion.verdicts import Cases
from posym_core.metrics import Estimate, correlate_heads, find_local_layers, mean_interval

# Text on which Gemma's planes cross from symbol to position; a layer that sees 512 tokens back sees all of it.
LENGTHS = (32, 64, 128, 256, 512)
WORDINGS, FACTS = ("likes", "bought", "lives"), (16, 64, 128)
GRID = "frequency_control/full"
ONE_PLANE = {"index": (0.1, 0.0006), "retrieval": (0.1, 0.0006)}


@dataclass(frozen=True, kw_only=True)
class NamedValue:
    """A quantity as pages show it.

    Attributes:
        name: what it is called in :data:`NAMED_VALUES`.
        number: the value itself.
        text: the value as it is written, with its 95% interval where it has one.
        sample: what it was measured on, in words.
    """

    name: str
    number: float
    text: str
    sample: str

    def __str__(self) -> str:
        """Markdown and HTML at once: the value, and its sample in brackets."""
        sample = f'<span class="posym-sample">({escape(self.sample)})</span>'
        return f'<span class="posym-named" data-name="{escape(self.name)}">{escape(self.text)} {sample}</span>'


Found = tuple[Estimate | Cases | tuple[float, float] | int, str]  # the value and its sample


@cache
def _grid(folder: Path | None) -> Result:
    return load_result(GRID, folder=folder)


@cache
def _bindings(folder: Path | None) -> dict[tuple[str, int], Result]:
    return dict(binding_results(folder))


def threshold_on_text(folder: Path | None, *, local: bool) -> Found:
    """``theta n`` at which a plane's contents are half symbol: mean over lengths, interval over layers."""
    runs = [load_result(PlaneProfile(facts=length).name, folder=folder) for length in LENGTHS]
    layers = np.flatnonzero(np.isin(np.arange(len(runs[0]["angles"])), find_local_layers(runs[0]["angles"])) == local)
    crossed = [[turning_angle(r["kept"][i].astype(float), r["angles"][i]) * r["seen"][i] for i in layers] for r in runs]
    kind = "local" if local else "global"
    sample = f"{len(layers)} {kind} layers, running text of {LENGTHS[0]} to {LENGTHS[-1]} tokens"
    return mean_interval(np.nanmean(crossed, 0), over="layers"), sample


def binding_accuracy(folder: Path | None, *, wording: str, facts: int) -> Found:
    """Share of binding prompts that the untaught Gemma answers right."""
    right = _bindings(folder)[wording, facts]["correct"]
    return mean_interval(right, over="prompts"), f"{len(right)} prompts"


def positional_trend(folder: Path | None, *, wording: str, facts: int) -> Found:
    """Median positional score of the early half of Gemma's layers minus that of the late half."""
    result = _bindings(folder)[wording, facts]
    (contrast, _), *_ = layer_contrasts({(wording, facts): result}).values()
    return contrast.difference, f"{len(result['positional'])} prompts"


def task_threshold(folder: Path | None, *, task: str, length: int) -> Found:
    """Angle half-way up the rise of a task's accuracy, in heads of one plane."""
    seeds = thresholds(_grid(folder), f"{task}_single_{length}")
    return mean_interval(seeds, over="seeds"), f"{len(seeds)} seeds"


def one_plane_accuracy(folder: Path | None, *, task: str, angle: float) -> Found:
    """Accuracy of heads of one plane on 32 positions, at the stored angle next to the one named."""
    grid = _grid(folder)
    place = int(np.abs(np.log(grid["angles"] / angle)).argmin())
    seeds = accuracy(grid, f"{task}_single_32")[:, place]
    return mean_interval(seeds, over="seeds"), f"{len(seeds)} seeds"


def random_weights(folder: Path | None) -> Found:
    """Pearson's r of the two scores over the heads of Gemma with random weights: the least and the largest."""
    each = [
        correlate_heads(result["positional"][0], result["symbolic"][0], draws=2).value
        for wording, facts in KINDS
        for result in random_weight_results(wording, facts, folder)
    ]
    draws = len(each) // len(KINDS)
    return (min(each), max(each)), f"{draws} draws, each on {len(KINDS)} kinds of prompt; temperature 1e-4"


def kinds_of_solver(folder: Path | None, *, two_questions: bool) -> Found:
    """How many settings of small decoders solve all their questions; of all, or of those asked two kinds alone."""
    settings = load_settings(folder)
    both = {name: x for name, x in settings.items() if len(x.settings["questions"]) == 2}
    chosen = both if two_questions else settings
    two = sum(x.settings["layers"] == 2 for x in chosen.values())
    asked = "asked binding and index alone" if two_questions else "asked binding, index and, in one, last"
    return len(chosen), f"{asked}; {two} of two layers"


def score_advantage(folder: Path | None, *, model: str, other: str) -> Found:
    """By how much less accuracy is left, over all numbers of removed heads, in the order of the symbolic score."""
    result = removal_results(model, folder)["remove"]
    sample = f"{result['correct'].shape[-1]} questions about {result.settings['lists']} lists in an untaught wording"
    return language_advantages(result)["score", other], sample


def products(folder: Path | None) -> Found:
    """Random Gram matrices times a kernel, and those of these products that are majorised; no result is needed."""
    tried, held, _ = random_products()
    return Cases(held, tried), "sizes 2 to 16, real and complex"


NAMED_VALUES: Mapping[str, Callable[[Path | None], Found]] = {
    **{
        f"threshold-on-text-{kind}": partial(threshold_on_text, local=local)
        for kind, local in (("local", True), ("global", False))
    },
    **{
        f"{name}-{wording}-{facts}": partial(measure, wording=wording, facts=facts)
        for name, measure in (("accuracy", binding_accuracy), ("positional-early-minus-late", positional_trend))
        for wording in WORDINGS
        for facts in FACTS
    },
    **{
        f"{task}-threshold-{length}": partial(task_threshold, task=task, length=length)
        for task in ONE_PLANE
        for length in (16, 32, 64)
    },
    **{
        f"{task}-accuracy-{angle}": partial(one_plane_accuracy, task=task, angle=angle)
        for task, angles in ONE_PLANE.items()
        for angle in angles
    },
    "correlation-random-weights": random_weights,
    "kinds-of-solver": partial(kinds_of_solver, two_questions=False),
    "kinds-of-solver-of-two-questions": partial(kinds_of_solver, two_questions=True),
    **{
        f"score-below-{other.replace(' ', '-')}": partial(score_advantage, model="gemma-3-270m-binds", other=other)
        for other in ("late first", "copying")
    },
    "random-products": products,
}


def named_value(name: str, folder: Path | None = None) -> NamedValue:
    """Return a quantity that several pages show, with its sample."""
    if name not in NAMED_VALUES:
        raise ValueError(f"no value is called {name!r}; the names are {', '.join(NAMED_VALUES)}")
    value, sample = NAMED_VALUES[name](folder)
    if isinstance(value, Estimate):
        form = ".4f" if "-threshold-" in name else ".2f"
        text = f"{value.value:{form}} [{value.low:{form}}, {value.high:{form}}]"
        return NamedValue(name=name, number=value.value, text=text.replace("-", "−"), sample=sample)
    if isinstance(value, tuple):
        text = " to ".join(f"{end:.2f}" for end in value)
        return NamedValue(name=name, number=value[0], text=text.replace("-", "−"), sample=sample)
    if isinstance(value, Cases):
        return NamedValue(name=name, number=value.held, text=f"{value.held:,} of {value.of:,}", sample=sample)
    return NamedValue(name=name, number=value, text=f"{value:,}", sample=sample)
