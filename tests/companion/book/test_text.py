"""Tables that fit their columns, and refuse what does not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from posym_companion.book import Table
from posym_core.metrics._stats import Estimate

ESTIMATE = Estimate(value=0.5, low=0.25, high=0.75)


def test_a_table_writes_what_it_is_given() -> None:
    table = Table("task", "n", "share", rows=[("Index", 3, 0.25)], form=".0%")
    table.add("Retrieval", np.int64(4), np.float32(0.5))
    table.add("both", "–", torch.tensor(0.75))
    assert str(table).splitlines() == [
        "| task | n | share |", "|:--|--:|--:|", "| Index | 3 | 25% |", "| Retrieval | 4 | 50% |", "| both | – | 75% |",
    ]  # fmt: skip
    assert table._repr_markdown_() == str(table)


def test_estimates_and_text_keep_their_own_form() -> None:
    table = Table("a", "b", "c", rows=[(ESTIMATE, "0.123", True)], form=".0f")
    assert str(table).endswith("| 0.50 [0.25, 0.75] | 0.123 | True |")


@pytest.mark.parametrize(
    ("columns", "align", "got"),
    [((), "lr", "got 0 columns"), (("a",), "x", "align='x'")],
)
def test_a_table_refuses_what_aligns_nothing(columns: tuple[str, ...], align: str, got: str) -> None:
    with pytest.raises(ValueError, match=rf"align has a letter of l, r, c for each, the last of which repeats.*{got}"):
        Table(*columns, align=align)
