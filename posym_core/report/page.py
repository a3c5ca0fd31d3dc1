"""A profile's figures, and one page that shows them with its tables and asks no other file or host for anything.

The page is meant for those who did not make the profile: it says what the scores mean, what was measured and where the
numbers come from. It follows the reader's light or dark mode, reads on a phone, and its table can be sorted.
"""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

import numpy as np

from posym_core.report.folder import ProfileRun
from posym_core.report.tables import HeadMeans, head_means, head_rows

NAME = "report.html"
NO_FIGURES = "Figures need the package Matplotlib; install it with: pip install 'posym-core[book]'"

TASKS = {
    "binding": "facts that give each name an attribute, and a question about one of them",
    "index": "a list of words, and a question about a place in it",
    "keyvalue": "keys with values, and a question about one key",
    "induction": "a random sequence of words that begins again",
    "text": "windows of English text, one token a block",
}


def pages(profile: ProfileRun) -> dict[str, bytes]:
    """The figures of a profile as SVG and its report as HTML, by file name; no figures without Matplotlib."""
    try:
        drawn = figures(profile)
    except ImportError:
        drawn = {}
    return {**{name: content for name, (content, _, _) in drawn.items()}, NAME: report(profile, drawn).encode()}


def figures(profile: ProfileRun) -> dict[str, tuple[bytes, str, str]]:
    """Figures by file name: the SVG, its caption, and what it shows in words."""
    from matplotlib.ticker import MaxNLocator

    from posym_core.figures import plots

    positional, symbolic = head_means(profile.arrays["positional"]), head_means(profile.arrays["symbolic"])
    layers = np.broadcast_to(np.arange(positional.value.shape[0])[:, None], positional.value.shape)
    trend = _by_layer(positional), _by_layer(symbolic)
    drawn = {
        "scores_by_head.svg": (
            plots.layer_head_scores(positional.value, symbolic.value),
            "Mean scores of every head. Hatched cells have no score.",
            f"Two grids of layers by heads with scores from 0 to 1. {_in_words(profile)}",
        ),
        "score_plane.svg": (
            plots.score_plane(positional.value.ravel(), symbolic.value.ravel(), layers=layers.ravel()),
            "Every head by its two scores. Below the diagonal heads are more positional, above it more symbolic.",
            f"Points in a square from 0 to 1, one a head, coloured by layer. {_in_words(profile)}",
        ),
        "scores_by_layer.svg": (
            plots.curve(
                np.arange(len(trend[0][0])),
                np.stack([line for line, _, _ in trend]),
                lower=np.stack([low for _, low, _ in trend]),
                upper=np.stack([high for _, _, high in trend]),
                series=("positional", "symbolic"),
                colours=("positional", "symbolic"),
                x_label="layer",
                y_label="score",
                y_limits=(-0.03, 1.03),
            ),
            "Mean over the heads of each layer; the bands reach from its lowest head to its highest.",
            "Two curves of scores over layers, positional and symbolic, with bands.",
        ),
    }
    drawn["scores_by_layer.svg"][0].axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    return {name: (_svg(figure), caption, words) for name, (figure, caption, words) in drawn.items()}


def report(profile: ProfileRun, drawn: Mapping[str, tuple[bytes, str, str]]) -> str:
    """The page."""
    settings, provenance = profile.settings, profile.provenance
    rows = head_rows(profile.arrays)
    name = str(settings["model"]).rstrip("/").rpartition("/")[2] or str(settings["model"])
    title = f"Heads of {name}"
    body = [
        f"<h1>{_text(title)}</h1>",
        f'<p class="lead">{_text(_measured(profile))}</p>',
        "<h2>What the scores say</h2>",
        "<p>A prompt has blocks of equally many tokens, and its last token attends to them. Two blocks are swapped at "
        "a head’s input, with everything else fixed. If the attention stays <em>where</em> it was, whatever now stands "
        "there, the head follows positions: its <strong>positional score</strong> is near 1. If the attention moves "
        "along with <em>what</em> it looked at, the head follows symbols: its <strong>symbolic score</strong> is near "
        "1. Each score is the cosine of the attention after the swap with the one or the other expectation, averaged "
        "over all pairs of blocks with most weight on pairs that the head tells apart. Both scores are high where a "
        "head hardly tells blocks apart. <strong>Entropy</strong> is that of the attention, from 0 (one token) to 1 "
        "(all alike).</p>",
        f"<p>{_text(_in_words(profile))}</p>",
        *_figures(drawn),
        "<h2>All heads</h2>",
        f"<p>Means over prompts{_intervals(profile)}. Layers and heads count from 0. "
        "The buttons in the first row sort.</p>",
        _table(rows),
        "<h2>Where the numbers come from</h2>",
        _definitions(
            {
                **{key: value for key, value in settings.items() if value is not None and key != "identity"},
                **{f"model {key}": value for key, value in settings["identity"].items()},
                "device": provenance["device"],
                "date": provenance["date"],
                "seconds": provenance["seconds"],
                "posym_core": f"{provenance['code_version']} (code {provenance['code_digest'][:12]})",
                **provenance["versions"],
            }
        ),
    ]
    style, script = (files("posym_core.report") / "static" / f"report.{kind}" for kind in ("css", "js"))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{_text(title)}</title>\n<style>\n{style.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + f"\n</main>\n<script>\n{script.read_text(encoding='utf-8')}</script>\n</body>\n</html>\n"
    )


def _measured(profile: ProfileRun) -> str:
    """What was measured, in a sentence or two."""
    prompts, layers, heads = profile.arrays["positional"].shape
    settings = profile.settings
    if settings.get("task"):
        kind = TASKS.get(str(settings["task"]).partition("-")[0], "")
        what = f"the task {settings['task']}" + (f" ({kind})" if kind else "")
    else:
        what = f"the file {settings['input']}"
    blocks = _range(profile.arrays["blocks"])
    sentence = (
        f"{prompts} prompts from {what}, with {blocks} blocks each and {_range(profile.arrays['length'])} tokens long; "
        f"{layers} layers with up to {heads} heads."
    )
    if "correct" in profile.arrays:
        right = int(profile.arrays["correct"].sum())
        chance = float((1 / profile.arrays["alternatives"]).mean())
        sentence += (
            f" Among the alternatives it was given, the model put the right answer first in {right} of {prompts} "
            f"({right / prompts:.0%}; a blind choice would in {chance:.0%})."
        )
    return sentence


def _in_words(profile: ProfileRun) -> str:
    """The most positional and the most symbolic head."""
    sentences = []
    first, second = (head_means(profile.arrays[name]).value for name in ("positional", "symbolic"))
    for name, gap in (("positional", first - second), ("symbolic", second - first)):
        if np.isfinite(gap).any():
            layer, head = np.unravel_index(np.nanargmax(gap), gap.shape)
            sentences.append(
                f"The most {name} head is head {head} of layer {layer} (positional {first[layer, head]:.2f}, symbolic "
                f"{second[layer, head]:.2f})."
            )
    return " ".join(sentences)


def _intervals(profile: ProfileRun) -> str:
    return ", with 95 % bootstrap intervals over prompts" if len(profile.arrays["positional"]) > 1 else ""


def _figures(drawn: Mapping[str, tuple[bytes, str, str]]) -> list[str]:
    if not drawn:
        return [f"<p>{_text(NO_FIGURES)}.</p>"]
    return [
        f'<figure><img src="data:image/svg+xml;base64,{base64.b64encode(content).decode()}" alt="{_text(words)}">'
        f"<figcaption>{_text(caption)}</figcaption></figure>"
        for content, caption, words in drawn.values()
    ]


def _table(rows: list[dict[str, float]]) -> str:
    """One row a head; values carry their full number for sorting."""
    names = {"layer": "Layer", "head": "Head", "positional": "Positional", "symbolic": "Symbolic", "entropy": "Entropy"}
    header = "".join(
        f'<th scope="col"{_ascending(key)}><button type="button">{label}</button></th>' for key, label in names.items()
    )
    lines = []
    for row in rows:
        cells = [f"<td>{row[key]}</td>" for key in ("layer", "head")]
        for key in ("positional", "symbolic", "entropy"):
            value = row[key]
            shown = "–" if math.isnan(value) else f"{value:.2f}"
            low, high = row.get(f"{key}_low", math.nan), row.get(f"{key}_high", math.nan)
            ends = "" if math.isnan(low) else f" <small>[{low:.2f}, {high:.2f}]</small>"
            cells.append(f'<td data-value="{"" if math.isnan(value) else f"{value:.6g}"}">{shown}{ends}</td>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="Scores of all heads"><table class="sortable">\n'
        f"<thead><tr>{header}</tr></thead>\n<tbody>\n" + "\n".join(lines) + "\n</tbody>\n</table></div>"
    )


def _ascending(key: str) -> str:
    return ' aria-sort="ascending"' if key == "layer" else ""


def _definitions(values: Mapping[str, Any]) -> str:
    lines = (f"<dt>{_text(key)}</dt><dd>{_text(value)}</dd>" for key, value in values.items())
    return "<dl>\n" + "\n".join(lines) + "\n</dl>"


def _by_layer(means: HeadMeans) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, lowest and highest head of every layer; NaN for a layer without scores."""
    reductions: tuple[Callable[..., Any], ...] = (np.mean, np.min, np.max)
    rows = [row[np.isfinite(row)] for row in means.value]
    mean, low, high = (np.array([reduce(row) if len(row) else np.nan for row in rows]) for reduce in reductions)
    return mean, low, high


def _range(values: np.ndarray) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _svg(figure: Any) -> bytes:
    """The figure as SVG, the same bytes for the same drawing."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "posym", "svg.image_inline": True}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def _text(value: object) -> str:
    return html.escape(str(value))
