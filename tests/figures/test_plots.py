"""Plots: they show the numbers given, say what is undefined, refuse what does not fit, and leave no trace."""

import io
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from refusals import refuse_each

from posym_figures import INK, PALETTE, plots
from posym_figures._style import EDGE

LAYERS, HEADS, PLANES = 6, 4, 8


@pytest.fixture(autouse=True)
def no_display():
    matplotlib.use("agg")
    # Each test sees a style that no test before it can have changed.
    matplotlib.rcdefaults()


def scores():
    positional = np.linspace(0, 1, LAYERS * HEADS).reshape(LAYERS, HEADS)
    symbolic = 1 - positional
    symbolic[1, 2] = np.nan
    return positional, symbolic


def shares():
    slow = np.linspace(0, 1, PLANES)
    return {"positional": (1 - slow) / 2, "symbolic": slow, "interaction": (1 - slow) / 2}


def corners():
    """Shares of heads in the three corners and the middle, and of one that has none."""
    symbol, origin, place = np.eye(3)[:, [0, 1, 2, 0, 0]] / 2
    for share in (symbol, origin, place):
        share[3:] = 0.1, 0.0
    return symbol, origin, place


def every_plot() -> dict[str, Figure]:
    positional, symbolic = scores()
    layers = np.repeat(np.arange(LAYERS), HEADS)
    ramp = np.linspace(0.1, 0.9, PLANES)
    gap = np.where(np.arange(PLANES) == 3, np.nan, ramp)
    return {
        "heatmap": plots.heatmap(np.where(np.eye(5) > 0, np.nan, 1.5), title="C", decimals=1),
        "layer_head_scores": plots.layer_head_scores(positional, symbolic),
        "score_plane": plots.score_plane(positional.ravel(), symbolic.ravel(), layers=layers, gamma=0.1),
        "share_triangle": plots.share_triangle(*corners(), layers=np.arange(5)),
        "dots": plots.dots(["a", "b"], [[0.1, np.nan], [0.3, 0.4]], series=["ours", "paper"], reference=0.2),
        "curve": plots.curve(
            np.arange(PLANES), [ramp, gap], series=["one", "two"], lower=[ramp, gap], upper=[ramp, gap]
        ),
    }


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()]


def pixels(figure: Figure) -> np.ndarray:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=60)
    buffer.seek(0)
    return plt.imread(buffer)


def test_every_plot_is_without_a_ground_and_the_same_again():
    second = every_plot()
    for name, figure in every_plot().items():
        picture = pixels(figure)
        assert picture[0, 0, 3] == 0, name
        assert all(ax.get_facecolor()[3] == 0 for ax in figure.axes), name
        assert np.array_equal(picture, pixels(second[name])), name


def luminance(colour: Any) -> float:
    """Relative luminance as the Web Content Accessibility Guidelines define it."""
    parts = np.array(to_rgb(colour))
    return float(np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])


def contrast(one: Any, two: Any) -> float:
    low, high = sorted(luminance(colour) + 0.05 for colour in (one, two))
    return high / low


@pytest.mark.parametrize("ground", ["#ffffff", "#121212"], ids=["light page", "dark page"])
def test_text_and_lines_are_read_on_light_and_on_dark_pages(ground):
    for name, figure in every_plot().items():
        in_cells = {text for ax in figure.axes if ax.images for text in ax.texts if text.get_ha() == "center"}
        shown = {text for text in figure.findobj(matplotlib.text.Text) if text.get_text()} - in_cells
        colours = {one.get_color() for one in (*shown, *(line for ax in figure.axes for line in ax.lines))}
        assert min(contrast(colour, ground) for colour in colours) >= 3, (name, colours)
    assert min(contrast(colour, ground) for colour in (*PALETTE, EDGE)) >= 3
    assert contrast(INK, ground) >= 4


@pytest.mark.parametrize("colours", ["diverging", "sequential"])
def test_numbers_are_read_in_their_cells(colours):
    ax = plots.heatmap(np.linspace(-1, 1, 25).reshape(5, 5), colours=colours, decimals=1).axes[0]
    image = ax.images[0]
    # On white whatever the page, for the numbers cannot follow it.
    assert any(to_hex(patch.get_facecolor()) == "#ffffff" and patch.get_zorder() < -1 for patch in ax.patches)
    for text, value in zip(ax.texts, np.ravel(image.get_array()), strict=True):
        *colour, alpha = image.cmap(image.norm(value))
        assert contrast(text.get_color(), 1 - alpha * (1 - np.array(colour))) >= 3, value


def test_undefined_is_said():
    drawn = every_plot()
    for name, said in (
        ("heatmap", "5 cells undefined"), ("layer_head_scores", "1 cell undefined"),
        ("score_plane", "1 head undefined"), ("share_triangle", "1 head undefined"),
        ("dots", "undefined"),
    ):  # fmt: skip
        assert said in texts(drawn[name]), name


def test_heatmaps_show_the_matrices_they_are_given():
    matrix = torch.tensor([[1.0, -2.0], [0.25, 0.0]])
    figure = plots.heatmap(matrix, decimals=2)
    image = figure.axes[0].images[0]
    assert np.array_equal(image.get_array(), matrix.numpy())
    assert image.get_clim() == (-2, 2)
    assert {"1.00", "−2.00", "0.25", "0.00"} <= set(texts(figure))
    assert figure.axes[0].get_ylim() == (1.5, -0.5)  # the first content stands on top
    for ax, values in zip(plots.layer_head_scores(*scores()).axes, scores(), strict=False):
        assert ax.images[0].get_clim() == (0, 1)
        assert np.array_equal(np.ma.filled(ax.images[0].get_array(), np.nan), values, equal_nan=True)


def test_dots_and_heads_stand_at_their_values():
    values, lower, upper = [[0.25, 0.75]], [[0.2, 0.5]], [[0.5, 1.0]]
    ax = plots.dots(["a", "b"], values, lower=lower, upper=upper).axes[0]
    (points,) = (part for part in ax.collections if hasattr(part, "get_sizes") and len(part.get_sizes()))
    assert points.get_offsets().tolist() == [[0.25, 0], [0.75, 1]]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first label on top
    segments = np.concatenate([part.get_segments() for part in ax.collections if hasattr(part, "get_segments")])
    assert segments[:, :, 0].tolist() == [[0.2, 0.5], [0.5, 1.0]]
    heads = plots.score_plane(np.array([0.1, 0.9]), np.array([0.8, 0.2]), layers=[0, 1]).axes[0].collections[0]
    assert heads.get_offsets().tolist() == [[0.1, 0.8], [0.9, 0.2]]


def test_the_triangle_has_a_head_where_its_shares_pull_it():
    ax = plots.share_triangle(*corners()).axes[0]
    spots = np.ma.filled(ax.collections[0].get_offsets(), np.nan)
    labels = {note.get_text(): np.array(note.xy) for note in ax.texts if isinstance(note, Annotation)}
    for spot, name in zip(spots, ("symbol", "origin", "place"), strict=False):
        assert np.allclose(spot, labels[name]), name
    assert np.allclose(np.linalg.norm(spots[[0, 1, 2]] - spots[[1, 2, 0]], axis=1), 1)
    assert np.allclose(spots[3], spots[:3].mean(0))
    assert np.isnan(spots[4]).all()


test_refusals_name_rule_value_and_way_out = refuse_each(
    (lambda: plots.heatmap([1.0, 2.0]), r"matrix must have shape \[row, column\]; got \[2\]. Reshape or reduce"),
    (lambda: plots.layer_head_scores(np.eye(2), np.eye(3)), r"symbolic must have shape \[layer: 2, head: 2\]"),
    (lambda: plots.score_plane([1.0], [1.0], layers=[1, 2]), r"layers must have shape \[head: 1\]; got \[2\]"),
    (lambda: plots.share_triangle([0.5], [0.1, 0.2], [0.1]), r"origin must have shape \[head: 1\]; got \[2\]"),
    (lambda: plots.dots(["a"], [[1, 2]]), r"values must have shape \[series, row: 1\]; got \[1, 2\]"),
    (lambda: plots.curve([0, 1], [[0, 1]], series=["a", "b"]), r"one for each of the 1 series or groups; got 2"),
)  # fmt: skip
