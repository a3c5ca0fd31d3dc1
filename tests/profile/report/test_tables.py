import csv
import io

import numpy as np
import pytest
import xarray

from posym_core.metrics._stats import mean_interval
from posym_profile.report._folder import write_table_of_models
from posym_profile.scores import tabulate_heads
from posym_profile.scores._head_table import average_heads

DIMS = ("prompt", "layer", "head")


def scores():
    x = np.random.default_rng(0).random((40, 2, 3))
    x[3:, 1, 2], x[:, 0, 1] = np.nan, np.nan
    return x


def average(x, **options):
    return [mean.values for mean in average_heads(xarray.DataArray(x, dims=DIMS, name="x"), **options).values()]


def table(**variables):
    """A profile of 40 prompts of six blocks."""
    arrays = {name: scores() for name in ("positional", "symbolic")} | {"entropy": np.full((40, 2, 3), 0.5)}
    arrays |= {"blocks": np.full(40, 6), "visible_blocks": np.full((40, 2), 6)} | variables
    return xarray.Dataset({name: (DIMS[: x.ndim], x) for name, x in arrays.items()})


def read(written):
    return list(csv.DictReader(io.StringIO(written.decode())))


def test_means_and_intervals_are_those_of_every_head_alone():
    x = scores()
    means, lows, highs = average(x, intervals=True, draws=20_000)
    for place in ((0, 0), (0, 2), (1, 0), (1, 1)):
        alone = mean_interval(x[:, *place], draws=20_000)
        expected = alone.value, alone.low, alone.high
        assert (means[place], lows[place], highs[place]) == pytest.approx(expected, abs=1e-12)
    assert means[1, 2] == pytest.approx(x[:3, 1, 2].mean())
    assert lows[1, 2] < means[1, 2] < highs[1, 2]
    assert np.isnan([means[0, 1], lows[0, 1], highs[0, 1]]).all()


def test_heads_that_do_not_exist_have_no_row_and_undefined_scores_are_empty():
    entropy = np.full((40, 2, 3), 0.5)
    entropy[:, 0, 0] = np.nan
    found = table(entropy=entropy)
    rows = tabulate_heads(found)
    assert list(zip(rows.layer, rows["head"], strict=True)) == [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert rows.prompts.tolist() == [0, 40, 40, 40, 3]
    written = read(write_table_of_models({"a": found}))
    assert written[0]["positional"] == written[0]["symbolic_high"] == ""
    assert float(written[1]["positional"]) == pytest.approx(scores()[:, 0, 2].mean(), rel=1e-6)


def test_heads_of_layers_that_do_not_see_all_blocks_are_marked():
    blocks, visible = np.r_[np.full(39, 6), 8], np.full((40, 2), 6)
    visible[39] = [8, 3]
    assert tabulate_heads(table(blocks=blocks, visible_blocks=visible)).hidden_blocks.tolist() == [0, 0, 0, 5, 5, 5]
    visible[39, 1], visible[:39, 1] = 8, 0
    assert tabulate_heads(table(blocks=blocks, visible_blocks=visible)).hidden_blocks.tolist() == [0, 0, 0, 6, 6, 6]


def test_one_of_several_queries_is_to_be_chosen():
    with pytest.raises(ValueError, match="scores are of several queries; choose one, as tabulate_heads"):
        tabulate_heads(xarray.concat([table(), table()], xarray.Variable("query", [30, -1])))


def test_several_models_have_one_table():
    written = read(write_table_of_models({"a": table(), "b": table()}))
    assert next(iter(written[0])) == "model"
    assert [row["model"] for row in written] == ["a"] * 6 + ["b"] * 6
    assert read(write_table_of_models({"=1+1": table()}))[0]["model"] == "'=1+1"
