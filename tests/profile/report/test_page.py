"""The report of a profile: one file that asks for nothing, says what was measured, and works in a browser."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from asked_addresses import Addresses
from in_browser import opened
from xarray import Dataset

from posym_core.metrics._cube_parts import PARTS
from posym_profile.prompts import Prompts
from posym_profile.report._page import NAME, describe_answers, list_caveats, render_pages
from posym_profile.scores._head_table import tabulate_heads

PROMPTS, LAYERS, HEADS = 5, 3, 4


def made_up(prompts: int = PROMPTS, **settings: object) -> Dataset:
    """A profile of numbers that nobody measured, with a head that has no score and one that is missing."""
    generator = np.random.default_rng(0)
    arrays = {name: generator.random((prompts, LAYERS, HEADS)) for name in ("positional", "symbolic", "entropy")}
    arrays["positional"][:, 2, 2], arrays["symbolic"][:, 2, 2] = np.nan, np.nan
    for name in ("positional", "symbolic", "entropy"):
        arrays[name][:, 2, 3] = np.nan
    arrays |= {name: np.full(prompts, value) for name, value in (("start", 1), ("block_length", 4), ("blocks", 6))}
    arrays |= {"length": np.arange(30, 30 + prompts), "correct": np.arange(prompts) % 2 == 0}
    arrays |= {"log_probability": np.zeros(prompts), "alternatives": np.full(prompts, 4)}
    arrays |= {"visible_blocks": np.full((prompts, LAYERS), 6), "tokens_beyond": np.zeros(prompts, np.int64)}
    dims = ("prompt", "layer", "head")
    found = Dataset({name: (dims[: x.ndim], x) for name, x in arrays.items()})
    asked = {"model": "some/model <b>", "task": "binding", "identity": {"revision": "abc"}, "input": None}
    asked |= {"visible_only": False, "cube": False} | settings
    provenance = {
        "device": "a device", "date": "2026-01-01", "seconds": 1.5, "code_version": "0.1.0", "code_digest": "0" * 64,
        "versions": {"python": "3.11"},
    }  # fmt: skip
    return found.assign_attrs(settings=json.dumps(asked), provenance=json.dumps(provenance))


def prompts_of(**changes: int) -> list[Prompts]:
    """Prompts whose blocks are a fact and a stop."""
    ids = torch.tensor([[1, *range(10, 40)]])
    ids[:, 1::2] = 2
    layout = {"start": 1, "block_length": 4, "blocks": 6} | changes
    none = torch.zeros(1, 0, dtype=torch.int64)
    return [Prompts(input_ids=ids, **layout, answer_ids=none, target=none.sum(1), texts=[])]


def pages(scores: Dataset) -> dict[str, bytes]:
    return render_pages(scores, prompts_of())


@pytest.fixture(scope="module")
def content() -> dict[str, bytes]:
    pytest.importorskip("matplotlib")
    return pages(made_up())


def test_the_page_asks_no_file_and_no_host_for_anything(content: dict[str, bytes]) -> None:
    page = content[NAME].decode()
    addresses = Addresses(page)
    assert addresses.undescribed == 0
    assert len(addresses.asked) == 3
    assert all(address.startswith("data:") for address in addresses.asked)
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|import\(", page)
    for name, drawn in content.items():
        if name.endswith(".svg"):
            outside = re.findall(rb'(?:href|src)="(?!#|data:)[^"]*"', drawn)
            assert outside == []


def test_the_page_says_what_was_measured(content: dict[str, bytes]) -> None:
    page = content[NAME].decode()
    assert "Heads of model &lt;b&gt;" in page
    assert "<b>" not in page
    assert "5 prompts from the task binding, of up to 34 tokens with up to 6 blocks; 3 layers of up to 4 heads." in page
    assert "the model is right on 3 of 5 prompts, 60%; chance 25%, from which it cannot be told apart." in page
    assert page.count("<tr>") == 1 + LAYERS * HEADS - 1
    assert "revision" in page
    assert ">None<" not in page


def test_caveats_are_told_by_the_page_as_by_the_command() -> None:
    profile = made_up()
    profile.visible_blocks[0, 1] = 2
    profile.tokens_beyond[3] = 9
    caveats = list_caveats(profile, prompts_of())
    assert len(caveats) == 3
    page = pages(profile)[NAME].decode().replace("&#39;", "'")
    assert all(f"<p>{words[0].upper()}{words[1:]}.</p>" in page for words in caveats)
    assert "layer 1: 2 of 6. What is swapped into a hidden block gets no attention" in caveats[0]
    assert "1 of 5 prompts is longer than the model's max_position_embeddings, by up to 9" in caveats[1]
    assert "all prompts are lists of one frame without a lead" in caveats[2]
    assert caveats[2].endswith("add --cube to see how much of it that is")
    assert page.count('<td data-value="1">1†</td>') == HEADS
    assert list_caveats(made_up(visible_only=True), prompts_of(start=5, blocks=5)) == []
    (lists,) = list_caveats(made_up(cube=True), prompts_of())
    assert lists.endswith("the shares of symbol and origin tell how much of it that is")


def test_labels_and_shares_have_columns_and_are_explained(content: dict[str, bytes]) -> None:
    profile = made_up()
    for place, name in enumerate(("previous_token", "first_token", "induction", "copying")):
        profile[name] = ("layer", "head"), np.full((LAYERS, HEADS), 0.11 * (place + 1), dtype=np.float32)
    parts = np.random.default_rng(1).dirichlet((1.0,) * 7, profile.entropy.shape)
    parts[np.isnan(profile.entropy.values)] = np.nan
    for place, name in enumerate(PARTS.values()):
        profile[f"{name}_share"] = ("prompt", "layer", "head"), parts[..., place]
    page, plain = pages(profile)[NAME].decode(), content[NAME].decode()
    for words in ("<strong>induction</strong>", "What a swap of keys moves"):
        assert words in page
        assert words not in plain
    for place, name in enumerate(("Previous token", "First token", "Induction", "Copying")):
        assert f'<button type="button">{name}</button>' in page
        assert page.count(f">{0.11 * (place + 1):.2f}<") >= LAYERS * HEADS - 1
    row = tabulate_heads(profile).iloc[0]
    for name in ("Symbol share", "Origin share", "Place share"):
        assert f'<button type="button">{name}</button>' in page
        low, value, high = (row[f"{name.lower().replace(' ', '_')}{end}"] for end in ("_low", "", "_high"))
        assert f"{value:.2f} <small>[{low:.2f}, {high:.2f}]</small>" in page


def test_one_prompt_has_no_intervals() -> None:
    page = pages(made_up(1, task=None, input="mine.jsonl"))[NAME].decode()
    assert "<small>" not in page
    assert "intervals" not in page
    assert "1 prompt from the file mine.jsonl" in page


def test_figures_are_the_same_each_time(content: dict[str, bytes]) -> None:
    assert pages(made_up()) == content


def test_without_matplotlib_the_page_says_how_to_get_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("matplotlib", "posym_figures.plots"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = pages(made_up())
    assert list(found) == [NAME]
    assert b"which was not imported: " in found[NAME]
    assert b". It comes with: pip install matplotlib." in found[NAME]


@pytest.mark.parametrize(
    ("right", "prompts", "alternatives", "said"),
    [
        (3, 16, 16, "right on 3 of 16 prompts, 19%; chance 6%, from which it cannot be told apart"),
        (4, 16, 16, "right on 4 of 16 prompts, 25%; chance 6%"),
        (1, 1, 2, "right on 1 of 1 prompt, 100%; chance 50%, from which it cannot be told apart"),
        (1, 1, 50, "right on 1 of 1 prompt, 100%; chance 2%"),
        (1, 2, [2, 8], "right on 1 of 2 prompts, 50%; chance 31%, from which it cannot be told apart"),
    ],
)
def test_answers_are_said_beside_chance(right, prompts, alternatives, said):
    given = {"correct": np.arange(prompts) < right, "alternatives": np.zeros(prompts, int) + alternatives}
    assert describe_answers(Dataset({name: ("prompt", x) for name, x in given.items()})) == said
    assert describe_answers(Dataset()) == ""


@pytest.mark.parametrize(("scheme", "width"), [("light", 1000), ("dark", 375)])
def test_the_page_in_a_browser(scheme, width, content: dict[str, bytes], browser: object, tmp_path: Path) -> None:
    with opened(browser, content[NAME].decode(), tmp_path, color_scheme=scheme, width=width) as page:
        requests = []
        page.on("request", lambda request: requests.append(request.url))
        page.reload()
        assert page.evaluate("document.documentElement.scrollWidth") == width
        widths = page.evaluate("[...document.images].map(image => image.naturalWidth)")
        assert len(widths) == 2
        assert min(widths) > 0
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(13, 17, 23)")
        column = "[...document.querySelectorAll('tbody tr')].map(row => row.cells[2].dataset.value)"
        page.get_by_role("button", name="Positional").click()
        down = page.evaluate(column)
        assert down[-1] == ""
        assert down[:-1] == sorted(down[:-1], key=float, reverse=True)
        page.get_by_role("button", name="Positional").press("Enter")
        assert page.evaluate(column) == [*down[-2::-1], ""]
        assert page.locator("th[aria-sort]").count() == 1
        assert sum(url.startswith("file://") for url in requests) == 1
