"""Draw a profile's figures, and write one page that shows them with its tables and asks no other file or host.

The page is meant for those who did not make the profile: it says what the scores mean, what was measured and where the
numbers come from. It follows the reader's light or dark mode, reads on a phone, and its table can be sorted.
"""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from scipy.stats import binom

from posym_profile.prompts._drafts import ORIGIN, Prompts, are_bare_lists
from posym_profile.scores._head_table import LABELS, MAIN_SHARES, SCORES, tabulate_heads
from posym_profile.scores._visibility import POSITIONAL, describe_hidden_blocks, format_count, shorten_name

if TYPE_CHECKING:
    from xarray import Dataset

NAME = "report.html"


def list_caveats(scores: Dataset, prompts: Sequence[Prompts]) -> list[str]:
    """List what must be said of a profile: hidden blocks, and prompts that are lists of one frame."""
    settings, lines = json.loads(scores.attrs["settings"]), []
    if not settings["visible_only"]:
        visible, blocks = scores.visible_blocks.values.tolist(), scores.blocks.values.tolist()
        consequence = f"{POSITIONAL}; pass --visible-only to score visible blocks alone, or shorter prompts"
        lines.append(describe_hidden_blocks(visible, blocks, consequence))
    if all(map(are_bare_lists, prompts)):
        tell = "the shares of symbol and origin tell" if settings["cube"] else "add --cube to see"
        lines.append(
            f"all prompts are {ORIGIN}. Put some of the same frame in front (as --task binding-with-lead). To vary the "
            "frame (--task binding-varied) or to read the one token that differs (posym_profile.origin_cube with read) "
            f"helps less; {tell} how much of it that is"
        )
    return [line for line in lines if line]


def describe_answers(scores: Dataset) -> str:
    """Say how often a model is right, and what a blind choice would reach; nothing for prompts without answers."""
    if "correct" not in scores:
        return ""
    right, prompts = int(scores.correct.sum()), scores.sizes["prompt"]
    chance = float((1 / scores.alternatives).mean())  # of a blind choice among each prompt's alternatives
    words = f"right on {right} of {format_count(prompts, 'prompt')}, {right / prompts:.0%}; chance {chance:.0%}"
    # As many would be right by chance in one set of prompts of twenty.
    return words if binom.sf(right - 1, prompts, chance) < 0.05 else f"{words}, from which it cannot be told apart"


def render_pages(scores: Dataset, prompts: Sequence[Prompts]) -> dict[str, bytes]:
    """Render the figures of a profile as SVG and its report as HTML, by file name; no figures without Matplotlib."""
    drawn, lacking = {}, ""
    try:
        drawn = draw_figures(scores)
    except ImportError as error:
        lacking = str(error)
    page = render_report(scores, prompts, drawn, lacking).encode(errors="backslashreplace")
    return {**{name: content for name, (content, _, _) in drawn.items()}, NAME: page}


def draw_figures(scores: Dataset) -> dict[str, tuple[bytes, str, str]]:
    """Draw figures by file name: the SVG, its caption, and what it shows in words."""
    from posym_figures import plots

    positional, symbolic = (scores[name].mean("prompt").values for name in ("positional", "symbolic"))
    layers = np.broadcast_to(np.arange(len(positional))[:, None], positional.shape)
    drawn = {
        "scores_by_head.svg": (
            plots.layer_head_scores(positional, symbolic),
            "Mean scores of every head. Hatched cells have no score.",
            "Two grids of layers by heads with scores from 0 to 1, which are the numbers of the table.",
        ),
        "score_plane.svg": (
            plots.score_plane(positional.ravel(), symbolic.ravel(), layers=layers.ravel()),
            "Every head by its two scores. Below the diagonal heads are more positional, above it more symbolic.",
            "Points in a square from 0 to 1, one a head, coloured by layer, which are the numbers of the table.",
        ),
    }
    return {name: (render_svg(figure), caption, words) for name, (figure, caption, words) in drawn.items()}


def render_report(
    scores: Dataset, prompts: Sequence[Prompts], drawn: Mapping[str, tuple[bytes, str, str]], lacking: str
) -> str:
    """Render the page, with what is drawn or what is lacking for it."""
    settings, provenance = json.loads(scores.attrs["settings"]), json.loads(scores.attrs["provenance"])
    origin = {
        **{key: value for key, value in settings.items() if value is not None and key != "identity"},
        **{f"model {key}": value for key, value in settings["identity"].items()},
        **{key: provenance[key] for key in ("device", "date", "seconds")},
        "posym_core": f"{provenance['code_version']} (code {provenance['code_digest'][:12]})",
        **provenance["versions"],
    }
    labels, shares = ([name for name in names if name in scores] for names in (LABELS, MAIN_SHARES))
    return TEMPLATES.get_template("report.html.j2").render(
        title=f"Heads of {shorten_name(settings['model'])}",
        measured=_describe_measured(scores),
        caveats=list_caveats(scores, prompts),
        shares=bool(shares),
        figures=drawn,
        lacking=lacking,
        intervals=scores.sizes["prompt"] > 1,
        scores={name: name.replace("_", " ").capitalize() for name in (*SCORES, *shares, *labels)},
        labels=bool(labels),
        rows=tabulate_heads(scores).to_dict("records"),
        nan=math.nan,
        origin=origin,
    )


def _describe_measured(scores: Dataset) -> str:
    """Say what was measured, in a sentence or two."""
    prompts, layers, heads = (scores.sizes[name] for name in ("prompt", "layer", "head"))
    settings = json.loads(scores.attrs["settings"])
    what = f"the task {settings['task']}" if settings.get("task") else f"the file {settings['input']}"
    sentence = (
        f"{format_count(prompts, 'prompt')} from {what}, of up to {int(scores.length.max()):,} tokens with up to "
        f"{int(scores.blocks.max()):,} blocks; {format_count(layers, 'layer')} of up to {format_count(heads, 'head')}."
    )
    answers = describe_answers(scores)
    return f"{sentence} Among the alternatives it was given, the model is {answers}." if answers else sentence


def render_svg(figure: Any) -> bytes:
    """Render a figure as SVG, the same bytes for the same drawing."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "posym", "svg.image_inline": True}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


TEMPLATES = Environment(
    loader=PackageLoader("posym_profile.report", "static"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
TEMPLATES.filters["number"] = lambda value, form: "" if math.isnan(value) else form % value
TEMPLATES.filters["base64"] = lambda content: base64.b64encode(content).decode()
