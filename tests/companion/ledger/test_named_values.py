"""Quantities that several pages show: each has a value and a sample, and is written in one way."""

from __future__ import annotations

import numpy as np
import pytest
from bs4 import BeautifulSoup

from posym_companion.language_models import binding_results
from posym_companion.ledger import NAMED_VALUES, named_value
from posym_companion.ledger.named_values import NamedValue
from posym_companion.one_head import thresholds
from posym_companion.results import MissingResultError, load_result


@pytest.mark.parametrize("name", NAMED_VALUES)
def test_every_named_value_has_a_text_and_a_sample(name: str) -> None:
    found = named_value(name)
    assert np.isfinite(found.number)
    assert found.text
    assert found.sample
    assert found.name == name


def test_a_value_is_written_with_its_sample_in_one_element() -> None:
    page = BeautifulSoup(
        str(NamedValue(name="a-b", number=0.5, text="0.50 [0.40, 0.60]", sample="3 < 5")), "html.parser"
    )
    (value,) = page.select("span.posym-named")
    assert value["data-name"] == "a-b"
    assert value.get_text() == "0.50 [0.40, 0.60] (3 < 5)"
    assert value.select_one(".posym-sample").get_text() == "(3 < 5)"


def test_values_are_those_of_the_stored_results() -> None:
    right = binding_results(None)["likes", 16]["correct"]
    assert named_value("accuracy-likes-16").number == pytest.approx(right.mean())
    assert named_value("accuracy-likes-16").sample == f"{len(right)} prompts"
    seeds = thresholds(load_result("frequency_control/full"), "index_single_32")
    assert named_value("index-threshold-32").text.startswith(f"{seeds.mean():.4f} [")
    assert named_value("random-products").text == "1,000 of 1,000"
    assert named_value("correlation-random-weights").text.startswith("−0.")
    kinds = [named_value(f"kinds-of-solver{end}") for end in ("", "-of-two-questions")]
    assert kinds[0].number == kinds[1].number + 1
    assert kinds[0].sample != kinds[1].sample
    local, wide = (named_value(f"threshold-on-text-{kind}") for kind in ("local", "global"))
    assert wide.number < 2.78 < local.number
    assert "15 local layers" in local.sample


def test_a_name_that_no_quantity_has_is_refused(tmp_path) -> None:
    with pytest.raises(ValueError, match="no value is called 'accuracy'; the names are threshold-on-text-local"):
        named_value("accuracy")
    with pytest.raises(MissingResultError):
        named_value("correlation-random-weights", folder=tmp_path)
