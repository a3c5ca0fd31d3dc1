"""What removals decide, from made-up curves: both sides of each line, no room, chance, and a missing run."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from invented import save_invented

from posym_companion.ledger import ledger
from posym_companion.results import load_result
from posym_companion.solvers.head_removal import AGAINST, JUDGED, ORDERS_OF, HeadRemoval, list_settings
from posym_companion.solvers.judges.head_removal import area, least_area
from posym_companion.solvers.ranked_models import BANDS, LANGUAGE_MODELS, SOLVERS

GEMMA = LANGUAGE_MODELS[0]
COUNTS = [1, 2, 4]
LISTS, PROMPTS = 4, 1600


def invented(folder, settings, *, levels, whole=1.0, spread=0.0, members=1, questions=1):
    """Removals in which accuracy is at the same level at every count: of a tested order, of those against it.

    Levels differ by ``spread`` from list to list.
    """
    generator = np.random.default_rng(0)
    for setting in settings:
        names = ORDERS_OF[setting.what]
        level = np.array([levels.get(name, levels["other"]) for name in names])
        by_list = spread * np.repeat(generator.normal(size=(len(level), LISTS)), PROMPTS // LISTS, axis=1)
        moved = level[:, None] + (by_list if setting.what == "remove" else 0)
        rank = np.tile((np.arange(PROMPTS // LISTS) + 0.5) / (PROMPTS // LISTS), LISTS)
        shape = (members, questions, len(names), len(COUNTS), PROMPTS)
        ends = np.stack([rank < whole, rank < 0.0])
        arrays = {
            "order_names": np.array(names),
            "counts": np.array(COUNTS),
            "heads": np.array(8),
            "correct": np.broadcast_to(rank < np.broadcast_to(moved, (len(names), PROMPTS))[:, None], shape),
            "ends": np.broadcast_to(ends, (members, questions, 2, PROMPTS)),
        }
        save_invented(setting.name, arrays, folder, **asdict(setting))


def gemma(folder, score, against, **kind):
    levels = {"other": against, **dict.fromkeys(JUDGED, score)}
    invented(folder, list_settings(GEMMA), levels=levels, **kind)
    (row,) = ledger("B-1", folder=folder)
    return row


def test_every_order_counts_for_itself(tmp_path):
    levels = {"other": 0.8, "score": 0.4, "planes": 0.6, "copying": 0.5}
    invented(tmp_path, list_settings(GEMMA), levels=levels, spread=1e-3)
    (row,) = ledger("B-1", folder=tmp_path)
    assert row.verdict == "partly"
    assert (row.grade, row.parts["the papers' score"]) == ("partly, 1 of 6", "3 of 3 orders")
    assert row.parts["the energy of planes"] == "2 of 3 orders"
    assert row.parts["the share of the cube"] == "0 of 3 orders"
    (missed,) = [one for one in row.fails_in if "that of planes " in one]
    assert missed.startswith("copying: area less that of planes -0.")
    # Beyond depth alone is not beyond depth and copying.
    folder = tmp_path / "depth alone"
    invented(folder, list_settings(GEMMA), levels={"other": 0.8, "copying": 0.4, **dict.fromkeys(JUDGED, 0.4)})
    (row,) = ledger("B-1", folder=folder)
    assert row.verdict == "not reproduced"
    assert [*row.parts.values()] == ["1 of 1 sets of models", "yes", *["2 of 3 orders"] * 6]


@pytest.mark.parametrize(("spread", "verdict"), [(0.005, "reproduced in kind"), (0.2, "not reproduced")])
def test_intervals_are_over_lists(tmp_path, spread, verdict):
    levels = {"other": 0.6, **dict.fromkeys(JUDGED, 0.4)}
    invented(tmp_path, list_settings(GEMMA), levels=levels, spread=spread)
    assert ledger("B-1", folder=tmp_path)[0].verdict == verdict


def test_a_model_that_cannot_answer_tells_nothing(tmp_path):
    """Its accuracy is above one half, and the interval is not."""
    assert gemma(tmp_path, 0.1, 0.4, whole=0.52, spread=1e-3).verdict == "not testable"


def test_nothing_lies_below_the_least_area(tmp_path):
    """One order that takes all that is needed at once leaves no room, whatever the others do."""
    levels = {"other": 0.8, "copying": 0.0}
    invented(tmp_path, list_settings(GEMMA), levels=levels, spread=0)
    (row,) = ledger("B-1", folder=tmp_path)
    assert row.verdict == "not testable"
    assert row.ours["least room below another order"] == pytest.approx(0, abs=1e-3)
    assert row.parts["the papers' score"] == "not testable"


def solvers(folder, *, ensembles=2, members=5, whole=1.0, score=0.2, against=0.8, claim="B-3"):
    for name in list(SOLVERS)[:ensembles]:
        levels = {"other": against, **dict.fromkeys(JUDGED, score)}
        invented(folder, list_settings(name), levels=levels, whole=whole, members=members, questions=2)
    (row,) = ledger(claim, folder=folder)
    return row


@pytest.mark.parametrize("claim", ["B-3", "B-4"])
def test_small_decoders_are_compared_model_by_model(tmp_path, claim):
    row = solvers(tmp_path, claim=claim)
    assert row.verdict == "reproduced in kind"
    assert row.ours["models that answer"] == 10
    assert len(BANDS) == 4


def test_areas_are_means_over_doublings(tmp_path):
    gemma(tmp_path, 0.5, 1.0)
    result = load_result(HeadRemoval(model=GEMMA).name, folder=tmp_path)
    found = area(result, "score").mean()
    x = np.log2(1 + np.array([0.0, 1, 2, 4, 8]))
    assert found == pytest.approx(np.interp(np.linspace(0, x[-1], 100_001), x, [1, 0.5, 0.5, 0.5, 0]).mean(), abs=1e-4)
    kept = load_result(replace(HeadRemoval(model=GEMMA), what="keep").name, folder=tmp_path)
    rising = np.interp(np.linspace(0, x[-1], 100_001), x, [0, 0.5, 0.5, 0.5, 1]).mean()
    assert area(kept, "score").mean() == pytest.approx(rising, abs=1e-4)
    assert least_area(result) == pytest.approx(1 / (2 * x[-1]), abs=1e-9)
    assert set(AGAINST) <= set(result["order_names"].tolist())
