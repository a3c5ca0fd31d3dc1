"""Axes say what they mean: which way frequencies run, where positions begin, what bars of attention are a share of."""

import inspect
import json
import re

import axes
import numpy as np

from posym_figures import Bars, Heatmap, plots, slider_figure


def data_of(*panels):
    html = slider_figure(panels, [], caption="C.", alt="A.").html
    return json.loads(re.search(r'class="posym-data">(.*?)</script>', html, re.S)[1])


def test_every_axis_of_frequencies_in_the_book_says_which_way_it_runs(root) -> None:
    labels = [(path.name, label) for path in root.glob("book/**/*.ipynb") for label in axes.labels_of_notebook(path)]
    for path in root.glob("posym_companion/figures/*.py"):
        labels += [(path.name, label) for label in axes.labels_in(path.read_text(encoding="utf-8"))]
    assert len(labels) > 100
    assert sum(bool(axes.FREQUENCIES.search(label)) for _, label in labels) > 5
    assert [each for each in labels if axes.lacks_direction(each[1])] == []


def test_so_do_the_axes_that_the_packages_draw(root) -> None:
    files = root.glob("posym_*/**/static/*.js")
    scripts = [label for path in files for label in axes.labels_of_script(path.read_text("utf-8"))]
    labels = [*scripts, *axes.labels_in(inspect.getsource(plots))]
    assert [label for label in labels if axes.lacks_direction(label)] == []


def test_rows_columns_and_bars_count_from_0_where_they_have_no_names() -> None:
    heatmap, bars = data_of(Heatmap("H", np.zeros((2, 3))), Bars("B", None, np.zeros(2)))["panels"]
    assert (heatmap["row_labels"]["v"], heatmap["column_labels"]["v"]) == (["0", "1"], ["0", "1", "2"])
    assert bars["labels"]["v"] == ["0", "1"]
    ax = plots.heatmap(np.eye(2)).axes[0]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0", "1"]
    assert [text.get_text() for text in plots.bars(["a"], [1.0], x_label="band").axes[0].get_xticklabels()] == ["a"]
