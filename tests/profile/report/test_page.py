"""The report of a profile: one file that asks for nothing, says what was measured, and works in a browser."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from asked_addresses import Addresses
from in_browser import opened
from xarray import Dataset, concat

from posym_core.metrics._cube_parts import PARTS
from posym_profile.report._page import NAME, draw_figures, render_pages, render_report
from posym_profile.report._prompt_files import BlockedPrompt
from posym_profile.scores._head_table import SHARES, tabulate_heads

PROMPTS, LAYERS, HEADS = 5, 3, 4


def made_up(prompts: int = PROMPTS, **settings: object) -> Dataset:
    """A profile of numbers that nobody measured, with a head that has no score and one that is missing."""
    generator = np.random.default_rng(0)
    arrays = {name: generator.random((prompts, LAYERS, HEADS)) for name in ("positional", "symbolic", "entropy")}
    arrays["positional"][:, 1, 2], arrays["symbolic"][:, 1, 2] = 0.99, 0.01
    arrays["positional"][:, 2, 2], arrays["symbolic"][:, 2, 2] = np.nan, np.nan
    for name in ("positional", "symbolic", "entropy"):
        arrays[name][:, 2, 3] = np.nan
    arrays |= {name: np.full(prompts, value) for name, value in (("start", 1), ("block_length", 4), ("blocks", 6))}
    arrays |= {"length": np.arange(30, 30 + prompts), "correct": np.arange(prompts) % 2 == 0}
    arrays |= {"log_probability": np.zeros(prompts), "alternatives": np.full(prompts, 4)}
    arrays |= {"visible_blocks": np.full((prompts, LAYERS), 6), "tokens_beyond": np.zeros(prompts, np.int64)}
    arrays["window"] = np.full(LAYERS, np.nan)
    dims = ("prompt", "layer", "head")
    found = Dataset({name: (dims[: x.ndim] if name != "window" else "layer", x) for name, x in arrays.items()})
    asked = {"model": "some/model <b>", "task": "binding", "identity": {"revision": "abc"}, "input": None}
    asked |= {"queries": [-1], "visible_only": False} | settings
    provenance = {
        "device": "a device", "date": "2026-01-01", "seconds": 1.5, "code_version": "0.1.0", "code_digest": "0" * 64,
        "versions": {"python": "3.11"},
    }  # fmt: skip
    return found.assign_attrs(settings=json.dumps(asked), provenance=json.dumps(provenance))


def prompts_of(scores: Dataset, **changes: object) -> list[BlockedPrompt]:
    given = {"input_ids": (1,) * 30, "start": 1, "block_length": 4, "blocks": 6} | changes
    return [BlockedPrompt(**given, id=str(number)) for number in range(scores.sizes["prompt"])]


def pages(scores: Dataset, **changes: object) -> dict[str, bytes]:
    return render_pages(scores, prompts_of(scores, **changes))


def report(scores: Dataset, **changes: object) -> str:
    return render_report(scores, prompts_of(scores, **changes), {})


@pytest.fixture(scope="module")
def content() -> dict[str, bytes]:
    pytest.importorskip("matplotlib")
    return pages(made_up())


def test_the_page_asks_no_file_and_no_host_for_anything(content: dict[str, bytes]) -> None:
    page = content[NAME].decode()
    addresses = Addresses(page)
    assert addresses.undescribed == 0
    assert len(addresses.asked) == 4
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
    assert "5 prompts from the task binding (facts that give" in page
    assert "with 6 blocks each and 30 to 34 tokens long; 3 layers with up to 4 heads" in page
    answers = "the model is right on 3 of 5 prompts, 60%; chance 25%, from which it cannot be told apart."
    assert answers in page
    assert "The most positional head is head 2 of layer 1 (positional 0.99, symbolic 0.01)" in page
    assert page.count("<tr>") == 1 + LAYERS * HEADS - 1
    assert "revision" in page
    assert ">None<" not in page


def test_the_heads_named_first_are_those_of_the_highest_scores():
    profile = made_up()
    # By the difference of its scores this head would be behind head 2 of layer 1.
    profile.positional[:, 0, 1], profile.symbolic[:, 0, 1] = 0.995, 0.994
    page = report(profile)
    assert "The most positional head is head 1 of layer 0 (positional 0.99, symbolic 0.99)" in page
    assert "The most symbolic head is head 1 of layer 0 (positional 0.99, symbolic 0.99)" in page


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "come out as positional by construction. The option --visible-only scores visible blocks alone."),
        ({"visible_only": True}, "scores there are over the blocks that the last token sees, and undefined below two"),
    ],
)
def test_layers_that_do_not_see_all_blocks_are_marked(settings: dict[str, object], says: str) -> None:
    pytest.importorskip("matplotlib")
    profile = made_up(**settings)
    assert "†" not in report(profile)
    profile.visible_blocks[0, 1] = 2
    page = pages(profile)[NAME].decode()
    assert "Layer 1 (marked †) does not see all blocks whole" in page
    assert says in page
    assert page.count('<td data-value="1">1†</td>') == HEADS
    assert page.count("† Layer 1 does not see all blocks whole.") == 2
    assert "The most positional head is head 2 of layer 1 (†) (positional 0.99" in page
    profile.visible_blocks[1, 0] = 5
    assert "Layers 0, 1 (marked †) do not see all blocks whole" in report(profile)


def test_of_several_queries_the_last_is_shown_and_named() -> None:
    scored, profile = ["positional", "symbolic", "entropy", "visible_blocks"], made_up(queries=[12, -4])
    several = profile.assign({name: concat([profile[name] * 0, profile[name]], "query") for name in scored})
    several = several.assign_coords(query=[12, -4])
    page = pages(several)[NAME].decode()
    assert "Scores are those at token -4, one of several queries that heads.csv has; negative numbers count" in page
    table = page[page.index("<table") : page.index("</table>")]
    plain = pages(made_up())[NAME].decode()
    assert table == plain[plain.index("<table") : plain.index("</table>")]
    assert "Scores are those at" not in plain


def test_labels_have_columns_and_are_explained() -> None:
    profile = made_up()
    assert "Copying" not in report(profile)
    for place, name in enumerate(("previous_token", "first_token", "induction", "copying")):
        profile[name] = ("layer", "head"), np.full((LAYERS, HEADS), 0.11 * (place + 1), dtype=np.float32)
    page = report(profile)
    assert "<strong>induction</strong>" in page
    for place, name in enumerate(("Previous token", "First token", "Induction", "Copying")):
        assert f'<button type="button">{name}</button>' in page
        assert page.count(f">{0.11 * (place + 1):.2f}<") >= LAYERS * HEADS - 1


def with_shares(profile: Dataset) -> Dataset:
    """The same with made-up parts of a cube; a head that is missing has none."""
    generator = np.random.default_rng(1)
    parts = generator.dirichlet((1.0,) * 7, profile.entropy.shape)
    parts[np.isnan(profile.entropy.values)] = np.nan
    shares = {f"{name}_share": parts[..., place] for place, name in enumerate(PARTS.values())}
    shares |= {f"symbolic_part_{name}": shares[f"{name}_share"] for name in ("symbol", "origin")}
    return profile.assign({name: (("prompt", "layer", "head"), x) for name, x in shares.items()})


def test_a_cube_has_a_triangle_a_paragraph_and_columns(content: dict[str, bytes]) -> None:
    profile = with_shares(made_up())
    whole = pages(profile)
    page = whole[NAME].decode()
    assert set(whole) - set(content) == {"share_triangle.svg"}
    assert "What a swap of keys moves" in page
    rows = [row for row in tabulate_heads(profile).to_dict("records") if np.isfinite(row["symbol_share"])]
    parts = [
        f"{name} {np.median([row[f'{name}_share'] for row in rows]):.0%}" for name in ("symbol", "origin", "place")
    ]
    rest = np.median([1 - sum(row[f"{name}_share"] for name in ("symbol", "origin", "place")) for row in rows])
    assert f"Medians over heads of the shares are {', '.join(parts)} and interactions {rest:.0%}." in page
    assert f"is left out here: {rest:.0%} of the variance in the median head." in page
    theirs = "Tokens that all blocks share differ in nothing but their origin, so part of its share can be theirs."
    assert theirs in page
    assert theirs not in report(profile, input_ids=tuple(range(30)))
    for label in ("Symbol share", "Origin share", "Place share"):
        assert f'<button type="button">{label}</button>' in page
    low, value, high = (rows[0][f"origin_share{end}"] for end in ("_low", "", "_high"))
    assert f"{value:.2f} <small>[{low:.2f}, {high:.2f}]</small>" in page
    addresses = Addresses(page)
    assert (addresses.undescribed, len(addresses.asked)) == (0, 5)
    plain = content[NAME].decode()
    assert "What a swap of keys moves" not in plain
    assert "share" not in plain.split("<h2>All heads</h2>")[1].split("</thead>")[0]


def test_a_cube_in_which_nothing_varies_has_no_triangle() -> None:
    pytest.importorskip("matplotlib")
    profile = with_shares(made_up())
    for name in SHARES:
        profile[name][:] = np.nan
    whole = pages(profile)
    assert "share_triangle.svg" not in whole
    assert "nan" not in whole[NAME].decode().split("<h2>All heads</h2>")[1].split("<h2>")[0]


def test_lists_of_one_frame_are_told_of() -> None:
    profile = made_up()
    said = "All prompts are lists of one frame (blocks share 4 of 4 tokens) without a lead, so a high symbolic score"
    assert said in report(profile)
    assert "add --cube to see how much.</p>" in report(profile)
    assert "the shares of symbol and origin tell how much of it that is.</p>" in report(with_shares(profile))
    assert "lists of one frame" not in report(profile, start=5, blocks=5)


def test_prompts_that_are_too_long_are_named() -> None:
    profile = made_up()
    assert "max_position_embeddings" not in report(profile)
    profile.tokens_beyond[3] = 9
    assert "<p>1 of 5 prompts is longer than the model&#39;s max_position_embeddings, by up to 9" in report(profile)


def test_one_prompt_has_no_intervals() -> None:
    pytest.importorskip("matplotlib")
    page = pages(made_up(1, task=None, input="mine.jsonl"))[NAME].decode()
    assert "<small>" not in page
    assert "intervals" not in page
    assert "1 prompt from the file mine.jsonl" in page


def test_figures_are_the_same_each_time(content: dict[str, bytes]) -> None:
    again = draw_figures(made_up(), prompts_of(made_up()))
    assert {name: drawn for name, (drawn, _, _) in again.items()}.items() <= content.items()


def test_without_matplotlib_the_page_says_how_to_get_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("matplotlib", "posym_figures.plots"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = pages(made_up())
    assert list(found) == [NAME]
    assert b"pip install matplotlib" in found[NAME]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1000), ("dark", 375)])
def test_the_page_in_a_browser(scheme, width, content: dict[str, bytes], browser: object, tmp_path: Path) -> None:
    with opened(browser, content[NAME].decode(), tmp_path, color_scheme=scheme, width=width) as page:
        requests = []
        page.on("request", lambda request: requests.append(request.url))
        page.reload()
        assert page.evaluate("document.documentElement.scrollWidth") == width
        widths = page.evaluate("[...document.images].map(image => image.naturalWidth)")
        assert len(widths) == 3
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
