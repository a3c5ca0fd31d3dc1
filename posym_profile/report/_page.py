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
from jaxtyping import Float
from jinja2 import Environment, PackageLoader, StrictUndefined

from posym_profile.prompts._prompt_tasks import PROMPT_TASKS
from posym_profile.report._folder import HEADS
from posym_profile.report._prompt_files import BlockedPrompt
from posym_profile.report._tables import describe_answers, describe_frames, describe_lists
from posym_profile.scores._head_table import LABELS, MAIN_SHARES, SCORES, SHARES, count_hidden_blocks, tabulate_heads
from posym_profile.scores._visibility import describe_long_prompts, format_count, format_runs, shorten_name

if TYPE_CHECKING:
    from xarray import Dataset

NAME = "report.html"
MARK = "†"


def render_pages(scores: Dataset, prompts: Sequence[BlockedPrompt]) -> dict[str, bytes]:
    """Render the figures of a profile as SVG and its report as HTML, by file name; no figures without Matplotlib.

    Of several queries they show the last.
    """
    if "query" in scores.dims:
        scores = scores.isel(query=-1)
    try:
        drawn = draw_figures(scores, prompts)
    except ImportError:
        drawn = {}
    page = render_report(scores, prompts, drawn).encode(errors="backslashreplace")
    return {**{name: content for name, (content, _, _) in drawn.items()}, NAME: page}


def draw_figures(scores: Dataset, prompts: Sequence[BlockedPrompt]) -> dict[str, tuple[bytes, str, str]]:
    """Draw figures by file name: the SVG, its caption, and what it shows in words."""
    from matplotlib.ticker import MaxNLocator

    from posym_figures import plots

    positional, symbolic = (scores[name].mean("prompt").values for name in ("positional", "symbolic"))
    layers = np.broadcast_to(np.arange(len(positional))[:, None], positional.shape)
    mean, low, high = np.stack([_average_layers(positional), _average_layers(symbolic)], 1)
    hidden = _list_hidden(scores)
    where = f" {MARK} {format_runs(hidden, 'Layer')} {_see(hidden)} not see all blocks whole." if hidden else ""
    drawn = {
        "scores_by_head.svg": (
            plots.layer_head_scores(positional, symbolic),
            f"Mean scores of every head. Hatched cells have no score.{where}",
            f"Two grids of layers by heads with scores from 0 to 1. {_describe_extremes(scores)}",
        ),
        "score_plane.svg": (
            plots.score_plane(positional.ravel(), symbolic.ravel(), layers=layers.ravel()),
            "Every head by its two scores. Below the diagonal heads are more positional, above it more symbolic.",
            f"Points in a square from 0 to 1, one a head, coloured by layer. {_describe_extremes(scores)}",
        ),
        "scores_by_layer.svg": (
            plots.curve(
                np.arange(len(layers)),
                mean,
                lower=low,
                upper=high,
                series=("positional", "symbolic"),
                colours=("positional", "symbolic"),
                x_label="layer",
                y_label="score",
                y_limits=(-0.03, 1.03),
            ),
            f"Mean over the heads of each layer; the bands reach from its lowest head to its highest.{where}",
            "Two curves of scores over layers, positional and symbolic, with bands.",
        ),
    }
    if words := _describe_shares(scores, prompts):
        shares = [scores[name].mean("prompt").values.ravel() for name in MAIN_SHARES]
        caption = (
            "Every head between symbol, origin and place: their three shares divided by their sum. What interactions "
            f"hold is left out here: {_measure_interactions(scores):.0%} of the variance in the median head.{where}"
        )
        drawn["share_triangle.svg"] = (
            plots.share_triangle(*shares, layers=layers.ravel()),
            caption,
            f"Points in a triangle, one a head, coloured by layer. {words}",
        )
    drawn["scores_by_layer.svg"][0].axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    return {name: (render_svg(figure), caption, words) for name, (figure, caption, words) in drawn.items()}


def render_report(
    scores: Dataset, prompts: Sequence[BlockedPrompt], drawn: Mapping[str, tuple[bytes, str, str]]
) -> str:
    """Render the page."""
    settings, provenance = read_settings(scores), json.loads(scores.attrs["provenance"])
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
        hidden=_describe_hidden(scores),
        too_long=describe_long_prompts(scores.tokens_beyond.values.tolist()),
        lists=describe_lists(prompts, cube=bool(shares)),
        shares=_describe_shares(scores, prompts),
        extremes=_describe_extremes(scores),
        figures=drawn,
        intervals=len(prompts) > 1,
        scores={name: name.replace("_", " ").capitalize() for name in (*SCORES, *shares, *labels)},
        labels=bool(labels),
        mark=MARK,
        rows=tabulate_heads(scores).to_dict("records"),
        nan=math.nan,
        origin=origin,
    )


def read_settings(scores: Dataset) -> dict[str, Any]:
    """Read what was asked for when these were measured."""
    return json.loads(scores.attrs["settings"])


def _describe_measured(scores: Dataset) -> str:
    """Say what was measured, in a sentence or two."""
    prompts, layers, heads = (scores.sizes[name] for name in ("prompt", "layer", "head"))
    settings = read_settings(scores)
    if settings.get("task"):
        task = str(settings["task"])
        what = f"the task {task}" + (f" ({PROMPT_TASKS[task].says})" if task in PROMPT_TASKS else "")
    else:
        what = f"the file {settings['input']}"
    blocks, length = _format_range(scores.blocks.values), _format_range(scores.length.values)
    sentence = (
        f"{format_count(prompts, 'prompt')} from {what}, with {blocks} blocks each and {length} tokens long; "
        f"{format_count(layers, 'layer')} with up to {format_count(heads, 'head')}."
    )
    if settings["queries"] != [-1]:
        queries = settings["queries"]
        more = f", one of several queries that {HEADS} has" if len(queries) > 1 else ""
        sentence += f" Scores are those at token {queries[-1]}{more}; negative numbers count from the end."
    answers = describe_answers(scores)
    return f"{sentence} Among the alternatives it was given, the model is {answers}." if answers else sentence


def _list_hidden(scores: Dataset) -> list[int]:
    """List the layers that do not see all blocks whole."""
    return [layer for layer, number in enumerate(count_hidden_blocks(scores).values) if number > 0]


def _describe_hidden(scores: Dataset) -> str:
    """Say which layers do not see all blocks, and what that does to their scores; nothing where all see all."""
    layers = _list_hidden(scores)
    if not layers:
        return ""
    where = f"{format_runs(layers, 'Layer')} (marked {MARK}) {_see(layers)} not see all blocks whole"
    if read_settings(scores).get("visible_only"):
        return f"{where}: scores there are over the blocks that the last token sees, and undefined below two of them."
    behind = "they stand behind the query, or a sliding window hides them"
    why = behind if read_settings(scores)["queries"] != [-1] else "a sliding window hides some from the last token"
    return (
        f"{where}, as {why}. What is swapped into a hidden block gets no "
        "attention, whatever a head looks for, so that heads there come out as positional by construction. The option "
        "--visible-only scores visible blocks alone."
    )


def _see(layers: Sequence[int]) -> str:
    return "do" if len(layers) > 1 else "does"


def _describe_extremes(scores: Dataset) -> str:
    """Name the heads of the highest positional and of the highest symbolic score, which ``top_heads`` puts first."""
    sentences = []
    first, second = (scores[name].mean("prompt").values for name in ("positional", "symbolic"))
    for name, score in (("positional", first), ("symbolic", second)):
        if np.isfinite(score).any():
            layer, head = np.unravel_index(np.nanargmax(score), score.shape)
            mark = f" ({MARK})" if layer in _list_hidden(scores) else ""
            sentences.append(
                f"The most {name} head is head {head} of layer {layer}{mark} (positional {first[layer, head]:.2f}, "
                f"symbolic {second[layer, head]:.2f})."
            )
    return " ".join(sentences)


def _measure_interactions(scores: Dataset) -> float:
    """Measure what symbol, origin and place do not hold alone, in the median head."""
    return float(np.nanmedian(1 - sum(scores[name].mean("prompt") for name in MAIN_SHARES)))


def _describe_shares(scores: Dataset, prompts: Sequence[BlockedPrompt]) -> str:
    """Say what the median head follows, and what the symbolic part is made of; nothing without a cube."""
    means = {name: scores[name].mean("prompt").values for name in SHARES if name in scores}
    if not means or not all(np.isfinite(means[name]).any() for name in MAIN_SHARES):
        return ""
    parts = [f"{name.partition('_')[0]} {np.nanmedian(means[name]):.0%}" for name in MAIN_SHARES]
    origins = np.array_split(means["symbolic_part_origin"], 3)
    thirds = ", ".join(f"{np.nanmedian(part):.0%}" if np.isfinite(part).any() else "–" for part in origins)
    shared = any(frame.offsets for frame in describe_frames(prompts))
    rest = _measure_interactions(scores)
    # The logits of a block's tokens count together.
    theirs = " Tokens that all blocks share differ in nothing but their origin, so part of its share can be theirs."
    return (
        f"Medians over heads of the shares are {', '.join(parts)} and interactions {rest:.0%}. Of what a "
        "single prompt shows as following contents, the symbolic part, origin has in the median head "
        f"{thirds} in the early, middle and late third of the layers.{theirs if shared else ''}"
    )


def _average_layers(means: Float[np.ndarray, "layer head"]) -> Float[np.ndarray, "reduction layer"]:
    """Return mean, lowest and highest head of every layer; NaN for a layer without scores."""
    rows = [row[np.isfinite(row)] for row in means]
    return np.array([[reduce(row) if len(row) else np.nan for row in rows] for reduce in (np.mean, np.min, np.max)])


def _format_range(values: np.ndarray) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


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
