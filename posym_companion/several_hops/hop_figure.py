"""Trained models in the reader's browser: edit a sequence, or type facts, switch heads off, and see what heads look at.

``gptj.js`` is the forward pass of :mod:`posym_companion.several_hops.gptj` in plain arrays. Weights travel in half
precision, as they are stored, in *parcels*: one for embedding and read-out and one for each layer, loaded when the
reader asks. On a page a parcel is a script, since browsers do not let a page that was opened from a file fetch its
neighbours; in a notebook the kernel sends it. The model of facts is small, so its figure carries it.
"""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from posym_companion.one_head import training_figure
from posym_companion.several_hops.gptj import find_tables
from posym_core.tasks import FactsTask
from posym_figures import (
    Figure,
    LiveFigure,
    join_module,
    join_scripts,
    render_page,
    require_shape,
    require_texts,
)

if TYPE_CHECKING:
    from posym_figures import AskingWidget

__all__ = ["COLOURS", "NAMES", "HopModel", "HopsFigure", "facts_figure", "facts_task", "hops_figure", "write_parcels"]

STATIC = Path(__file__).with_name("static")
PAYLOAD_LIMIT = 200_000
"""Bytes that the description of the models may take, without their weights."""
LONGEST = 80
"""Most tokens of a sequence."""
LAYER = re.compile(r"transformer\.h\.(\d+)\.")
NAMES, COLOURS = (
    tuple(words.split())
    for words in (
        "Ann Ben Cleo Dan Eve Fay Gus Hal Ida Jack Kim Leo Mia Ned Oona Pia",
        "red blue green yellow black white pink grey brown orange purple gold silver beige teal lime",
    )
)
"""What a reader calls names and attributes of a :class:`posym_core.tasks.FactsTask`."""
SIZES = {"number": ("letters",), "letter": ("alphabet", "integers")}


@dataclass(frozen=True, eq=False)
class HopModel:
    """A trained model and the task that it was trained on.

    Args:
        task: a :class:`posym_core.tasks.NumberTask` or
            :class:`~posym_core.tasks.LetterTask`.
        weights: arrays by name, as a :func:`posym_companion.several_hops.gptj.make_gptj` of one head a layer names
            them.
        angles: ``[plane]``, radians per position.
        example: tokens of the sequence that is shown first.
        label: what the reader chooses it by.
        source: name of the result whose weights these are; pages of the book load them from there.
        attention: ``[layer, query, key]``, the model's on the example, shown before its weights are loaded.
        logits: ``[token]``, its answer to the example; given with ``attention``.
    """

    task: Any
    weights: Mapping[str, Any]
    _: KW_ONLY
    angles: Any
    example: Sequence[int]
    label: str
    source: str = ""
    attention: Any = None
    logits: Any = None

    @property
    def name(self) -> str:
        """Return the task's name."""
        return self.task.name

    def description(self) -> dict[str, Any]:
        """Return all but the weights, for the page.

        Raises:
            ValueError: if the task is unknown, or weights, angles and example do not fit it.
        """
        if self.name not in SIZES:
            raise ValueError(f"task must be one of {', '.join(SIZES)}; got {self.name!r}")
        layouts = parcel_layout(self.weights)
        vocabulary, width = np.shape(self.weights["transformer.wte.weight"])
        if vocabulary != self.task.vocabulary:
            raise ValueError(
                f"the task has {self.task.vocabulary} tokens, but the model of {self.name!r} embeds {vocabulary}"
            )
        angles = [float(angle) for angle in self.angles]
        if 2 * len(angles) != width:
            raise ValueError(
                f"a head of {width} dimensions has {width // 2} angles; got {len(angles)}. Only models of one head a "
                "layer can be shown"
            )
        example = [int(token) for token in self.example]
        if not 2 <= len(example) <= LONGEST or not all(0 <= token < vocabulary for token in example):
            raise ValueError(f"example must be 2 to {LONGEST} tokens below {vocabulary}; got {example}")
        sizes = {name: getattr(self.task, name) for name in ("name", "window", "steps", "hops", *SIZES[self.name])}
        return {
            "task": {**sizes, "names": self.task.token_names},
            "layouts": layouts,
            "layers": len(layouts) - 1,
            "width": width,
            "angles": angles,
            "example": example,
            "source": self.source,
            "first": self.first(len(layouts) - 1),
        }

    def first(self, layers: int) -> dict[str, Any] | None:
        """Return attention on the example and the three likeliest answers, for the page; None if they are not given.

        Raises:
            ValueError: if their shapes do not fit ``layers``, the example and the task.
        """
        if self.attention is None:
            return None
        places = len(self.example)
        attention = require_shape("attention", self.attention, ("layer", layers), ("query", places), ("key", places))
        logits = require_shape("logits", self.logits, ("token", self.task.vocabulary))
        odds = np.exp(logits - logits.max())
        best = np.argsort(-odds, kind="stable")[:3]
        return {
            "attention": [[float(f"{weight:.3f}") for weight in layer.ravel()] for layer in attention],
            "best": [[int(token), float(f"{odds[token] / odds.sum():.4g}")] for token in best],
        }


@dataclass(frozen=True, eq=False, repr=False)
class HopsFigure(LiveFigure):
    """A finished figure of :func:`hops_figure`: displays itself in notebooks and on built pages.

    A page of the book loads the weights from beside it; where a kernel runs, the kernel sends them.
    """

    models: tuple[HopModel, ...]
    address: str | None

    @property
    def lives(self) -> bool:
        """Return whether the weights are still to come."""
        return self.address is not None

    @functools.cached_property
    def parcels(self) -> dict[str, list[str]]:
        """Return the parcels of every model, by its name."""
        return {model.name: encode_parcels(model.weights) for model in self.models}

    def answer(self, asked: Any) -> dict[str, Any] | None:
        """Return the message with the parcel that a widget asks for; ``None`` for any other message."""
        if not isinstance(asked, dict) or asked.get("wanted") != "parcel":
            return None
        name, place = asked["name"], asked["place"]
        return {"parcel": f"{name}/{place}", "text": self.parcels[name][place]}

    def widget(self) -> AskingWidget:
        """Return a new widget of this figure, whose weights come from the kernel when the reader asks for them.

        Raises:
            ImportError: if anywidget is not installed.
        """
        from posym_figures import AskingWidget

        script = join_module("core.js", "keep.js", STATIC / "hop_tasks.js", STATIC / "hops.js")
        return AskingWidget(self.markup(), script, self.answer)


def parcel_layout(weights: Mapping[str, Any]) -> list[list[list[Any]]]:
    """Return names and shapes of the tensors of every parcel: what belongs to no layer, then layer by layer.

    >>> parcel_layout({"transformer.h.0.b": np.ones(2), "lm_head.bias": np.ones((3,))})
    [[['lm_head.bias', [3]]], [['transformer.h.0.b', [2]]]]
    """
    places = {name: int(match[1]) + 1 if (match := LAYER.match(name)) else 0 for name in sorted(weights)}
    return [
        [[name, list(np.shape(weights[name]))] for name in places if places[name] == place]
        for place in range(max(places.values()) + 1)
    ]


def encode_parcels(weights: Mapping[str, Any]) -> list[str]:
    """Return the parcels of a model: base64 of its arrays in half precision, little-endian, in the order of
    :func:`parcel_layout`.

    Raises:
        ValueError: if half precision cannot hold a weight.
    """
    packed = []
    for tensors in parcel_layout(weights):
        flat = np.concatenate([np.asarray(weights[name], dtype=np.float32).ravel() for name, _ in tensors])
        if not (np.abs(flat) <= 65504).all():
            raise ValueError("weights must be finite in half precision, whose largest number is 65504; rescale them")
        packed.append(base64.b64encode(flat.astype("<f2").tobytes()).decode("ascii"))
    return packed


def write_parcels(name: str, weights: Mapping[str, Any], folder: Path) -> None:
    """Write a model's parcels where a page with :func:`hops_figure` looks for them: ``folder / name / 0.js`` and so
    on."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    for place, text in enumerate(encode_parcels(weights)):
        (folder / name / f"{place}.js").write_text(f'posymParcel("{name}",{place},"{text}");\n', encoding="ascii")


def hops_figure(models: Sequence[HopModel], *, caption: str, alt: str, address: str | None = None) -> HopsFigure:
    """Show models that the reader asks: a sequence in, the answer and every layer's attention out.

    Args:
        models: what the reader chooses among, one a task.
        caption: what the figure shows and how to use it.
        alt: what is seen, for readers who hear it.
        address: folder of the parcels, seen from the page; without it they are part of the figure, 6 MB a model. In a
            notebook whose kernel runs they come from the kernel.

    Returns:
        A figure that displays itself.

    Raises:
        ValueError: if there are no models, two have the same task, one does not fit its task, or texts are missing.
    """
    require_texts(caption=caption, alt=alt)
    names = [model.name for model in models]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"models must be one or more, each of another task; got {', '.join(names) or 'none'}")
    described = {model.name: model.description() for model in models}
    html = render_page(
        STATIC / "hops.html.j2",
        {"models": described, "address": address, "longest": LONGEST},
        limit=PAYLOAD_LIMIT,
        too_much="the descriptions take {size:.1f} MB, but the figure may carry {limit:.1f} MB; pass fewer models",
        scripts=("core.js", "keep.js", STATIC / "hop_tasks.js", STATIC / "hops.js", STATIC / "hops_page.js"),
        styles=("figure.css", training_figure.STATIC / "live.css", STATIC / "hops.css"),
        worker=Markup(join_scripts(STATIC / "gptj.js", STATIC / "gptj_worker.js")),
        labels={model.name: model.label for model in models},
        layers=max(each["layers"] for each in described.values()),
        parcels=[(model.name, list(enumerate(encode_parcels(model.weights)))) for model in models]
        if address is None
        else [],
        caption=caption,
        alt=alt,
    )
    text = f"<models of several hops, {', '.join(names)}: {alt}>"
    return HopsFigure(html=html, text=text, models=tuple(models), address=address)


def facts_task(facts: int = 8) -> FactsTask:
    """Return the task of facts in words that a reader can type, with questions by name and by number."""
    return FactsTask(facts=facts, words=4, names=len(NAMES), attributes=len(COLOURS))


def facts_figure(model: Any, *, facts: Sequence[tuple[str, str]], ask: str, caption: str, alt: str) -> Figure:
    """Draw a model that reads a reader's own facts as they are typed, with the attention and the scores of its heads.

    Args:
        model: a :func:`posym_companion.several_hops.gptj.make_gptj` of the tokens of :func:`facts_task`, on the CPU.
        facts: name and colour of each fact that is shown first.
        ask: the question that is shown first, a name or the number of a fact.
        caption: what the figure shows and how to use it.
        alt: what is seen, for readers who hear it.

    Returns:
        A figure that displays itself and needs neither a kernel nor a network.

    Raises:
        ValueError: if the model embeds other tokens, a fact has other words, or texts are missing.
    """
    require_texts(caption=caption, alt=alt)
    task = facts_task()
    if model.config.vocab_size != task.vocabulary:
        raise ValueError(f"the task has {task.vocabulary} tokens, but the model embeds {model.config.vocab_size}")
    if not 2 <= len(facts) <= task.facts or not all(name in NAMES and colour in COLOURS for name, colour in facts):
        raise ValueError(f"facts must be 2 to {task.facts} pairs of one of NAMES and one of COLOURS; got {list(facts)}")
    sine, cosine = find_tables(model)[0].embed_positions[1].double().chunk(2)
    weights = {name: x.detach().numpy() for name, x in model.named_parameters()}
    layouts = parcel_layout(weights)
    sizes = {"layers": len(layouts) - 1, "width": model.config.n_embd, "heads": model.config.n_head}
    text = " ".join(f"{name} likes {colour}." for name, colour in facts)
    html = render_page(
        STATIC / "facts.html.j2",
        {"model": sizes | {"angles": sine.atan2(cosine).tolist()}, "layouts": layouts}
        | {"names": NAMES, "colours": COLOURS, "most": task.facts, "facts": text, "ask": ask},
        limit=PAYLOAD_LIMIT,
        too_much="the description takes {size:.1f} MB, but the figure may carry {limit:.1f} MB",
        scripts=("core.js", "keep.js", STATIC / "gptj.js", STATIC / "facts.js"),
        styles=("figure.css", training_figure.STATIC / "live.css", STATIC / "hops.css"),
        layers=sizes["layers"],
        heads=sizes["heads"],
        names=NAMES,
        colours=COLOURS,
        most=task.facts,
        parcels=encode_parcels(weights),
        caption=caption,
        alt=alt,
    )
    return Figure(html=html, text=f"<a model that reads facts: {alt}>")


def list_parcels(html: str) -> list[tuple[str, str, str]]:
    """Return name, source and address of every model whose parcels a page asks for."""
    parcels = re.findall(r'class="posym-hops-data">(.*?)</script>', html, re.DOTALL)
    return [
        (name, model["source"], data["address"])
        for data in map(json.loads, parcels)
        if data["address"] is not None
        for name, model in data["models"].items()
    ]
