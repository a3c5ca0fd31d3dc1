import csv
import io

import numpy as np
import pytest

from posym_core.metrics._stats import mean_interval
from posym_profile.report._tables import describe_answers, write_heads_table
from posym_profile.scores._head_tables import SHARES, average_heads, make_head_rows


def scores():
    x = np.random.default_rng(0).random((40, 2, 3))
    x[3:, 1, 2], x[:, 0, 1] = np.nan, np.nan
    return x


def test_means_and_intervals_are_those_of_every_head_alone():
    x = scores()
    found = average_heads(x, draws=20_000)
    for layer, head in ((0, 0), (0, 2), (1, 0), (1, 1)):
        alone = mean_interval(x[:, layer, head], draws=20_000)
        assert found.value[layer, head] == pytest.approx(alone.value, abs=1e-12)
        assert found.low[layer, head] == pytest.approx(alone.low, abs=1e-12)
        assert found.high[layer, head] == pytest.approx(alone.high, abs=1e-12)
    assert found.value[1, 2] == pytest.approx(x[:3, 1, 2].mean())
    assert found.low[1, 2] < found.value[1, 2] < found.high[1, 2]
    assert np.isnan([found.value[0, 1], found.low[0, 1], found.high[0, 1]]).all()


def test_one_prompt_has_no_interval():
    found = average_heads(scores()[:1])
    assert np.isnan(found.low).all()
    assert found.value[0, 0] == scores()[0, 0, 0]


def test_chance_is_the_mean_over_prompts_of_differently_many_alternatives():
    arrays = {"correct": np.array([True, False]), "alternatives": np.array([2, 8])}
    assert describe_answers(arrays).startswith("right on 1 of 2 prompts, 50%; chance 31%")


def test_two_prompts_have_the_interval_of_their_scores():
    found = average_heads(np.array([[[0.25, np.nan]], [[0.75, 0.5]]]))
    assert (found.value[0, 0], found.low[0, 0], found.high[0, 0]) == (0.5, 0.25, 0.75)
    # One of the two has no score: the mean is the other's, however often it is drawn.
    assert (found.value[0, 1], found.low[0, 1], found.high[0, 1]) == (0.5, 0.5, 0.5)


def test_heads_that_do_not_exist_have_no_row_and_undefined_scores_are_empty():
    entropy = np.full((40, 2, 3), 0.5)
    entropy[:, 0, 0] = np.nan
    arrays = {"positional": scores(), "symbolic": scores(), "entropy": entropy}
    rows = make_head_rows(arrays)
    assert [(row["layer"], row["head"]) for row in rows] == [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert [row["prompts"] for row in rows] == [0, 40, 40, 40, 3]
    written = list(csv.DictReader(io.StringIO(write_heads_table(arrays).decode())))
    assert written[0]["positional"] == written[0]["symbolic_high"] == written[0]["hidden_blocks"] == ""
    assert float(written[1]["positional"]) == pytest.approx(rows[1]["positional"], rel=1e-6)


def test_heads_of_layers_that_do_not_see_all_blocks_are_marked():
    arrays = {name: scores() for name in ("positional", "symbolic")} | {"entropy": np.full((40, 2, 3), 0.5)}
    arrays |= {"blocks": np.r_[np.full(39, 6), 8], "visible_blocks": np.full((40, 2), 6)}
    arrays["visible_blocks"][39] = [8, 3]
    assert [row["hidden_blocks"] for row in make_head_rows(arrays)] == [0, 0, 0, 5, 5, 5]
    arrays["visible_blocks"][39, 1], arrays["visible_blocks"][:39, 1] = 8, 0
    written = list(csv.DictReader(io.StringIO(write_heads_table(arrays).decode())))
    assert [row["hidden_blocks"] for row in written] == ["0"] * 3 + ["6"] * 3


def test_shares_of_a_cube_have_columns_where_there_is_one():
    arrays = {name: scores() for name in ("positional", "symbolic")} | {"entropy": np.full((40, 2, 3), 0.5)}
    assert not set(SHARES) & set(make_head_rows(arrays)[0])
    arrays |= {name: scores() for name in SHARES.values()}
    rows = make_head_rows(arrays)
    place = [row["place_share"] for row in rows]
    np.testing.assert_array_equal(place, [row["positional"] for row in rows])
    assert [name for name in rows[0] if name.endswith("_share_low")] == [
        f"{name}_share_low" for name in ("symbol", "origin", "place")
    ]


@pytest.mark.parametrize(
    ("right", "prompts", "alternatives", "said"),
    [
        (1, 16, 16, "right on 1 of 16 prompts, 6%; chance 6%, from which it cannot be told apart"),
        (3, 16, 16, "right on 3 of 16 prompts, 19%; chance 6%, from which it cannot be told apart"),
        (4, 16, 16, "right on 4 of 16 prompts, 25%; chance 6%"),
        (1, 1, 2, "right on 1 of 1 prompt, 100%; chance 50%, from which it cannot be told apart"),
        (1, 1, 50, "right on 1 of 1 prompt, 100%; chance 2%"),
    ],
)
def test_answers_are_said_beside_chance(right, prompts, alternatives, said):
    correct = np.arange(prompts) < right
    assert describe_answers({"correct": correct, "alternatives": np.full(prompts, alternatives)}) == said
    assert describe_answers({}) == ""
