"""The report of a profile: one file that asks for nothing, says what was measured, and works in a browser."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from asked_addresses import Addresses
from in_browser import opened

from posym_core.metrics._cube_parts import PARTS
from posym_profile.report._folder import ProfileRun
from posym_profile.report._page import NAME, draw_figures, render_pages, render_report
from posym_profile.report._prompt_files import BlockedPrompt
from posym_profile.scores._head_tables import make_head_rows

PROMPTS, LAYERS, HEADS = 5, 3, 4


def made_up(prompts: int = PROMPTS, **settings: object) -> ProfileRun:
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
    return ProfileRun(
        folder=Path(),
        settings={"model": "some/model <b>", "task": "binding", "identity": {"revision": "abc"}, "input": None}
        | settings,
        provenance={
            "device": "a device",
            "date": "2026-01-01",
            "seconds": 1.5,
            "code_version": "0.1.0",
            "code_digest": "0" * 64,
            "versions": {"python": "3.11"},
        },
        arrays=arrays,
        prompts=[
            BlockedPrompt(input_ids=(1,) * 30, start=1, block_length=4, blocks=6, id=str(n)) for n in range(prompts)
        ],
    )


@pytest.fixture(scope="module")
def content() -> dict[str, bytes]:
    pytest.importorskip("matplotlib")
    return render_pages(made_up())


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
    profile.arrays["positional"][:, 0, 1], profile.arrays["symbolic"][:, 0, 1] = 0.995, 0.994
    page = render_report(profile, {})
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
    assert "†" not in render_report(profile, {})
    profile.arrays["visible_blocks"][0, 1] = 2
    page = render_pages(profile)[NAME].decode()
    assert "Layer 1 (marked †) does not see all blocks whole" in page
    assert says in page
    assert page.count('<td data-value="1">1†</td>') == HEADS
    assert page.count("† Layer 1 does not see all blocks whole.") == 2
    assert "The most positional head is head 2 of layer 1 (†) (positional 0.99" in page
    profile.arrays["visible_blocks"][1, 0] = 5
    assert "Layers 0, 1 (marked †) do not see all blocks whole" in render_report(profile, {})


def test_of_several_queries_the_last_is_shown_and_named() -> None:
    profile = made_up()
    several = replace(profile, settings={**profile.settings, "queries": [12, -4]})
    several.arrays["queries"] = np.array([12, -4])
    for name in ("positional", "symbolic", "entropy", "visible_blocks"):
        several.arrays[name] = np.stack([several.arrays[name] * 0, several.arrays[name]], 1)
    page = render_pages(several)[NAME].decode()
    assert "Scores are those at token -4, one of several queries that heads.csv has; negative numbers count" in page
    table = page[page.index("<table") : page.index("</table>")]
    plain = render_pages(made_up())[NAME].decode()
    assert table == plain[plain.index("<table") : plain.index("</table>")]
    assert "Scores are those at" not in plain


def test_labels_have_columns_and_are_explained() -> None:
    profile = made_up()
    assert "Copying" not in render_report(profile, {})
    for place, name in enumerate(("previous_token", "first_token", "induction", "copying")):
        profile.arrays[f"label_{name}"] = np.full((LAYERS, HEADS), 0.11 * (place + 1), dtype=np.float32)
    page = render_report(profile, {})
    assert "<strong>induction</strong>" in page
    for place, name in enumerate(("Previous token", "First token", "Induction", "Copying")):
        assert f'<button type="button">{name}</button>' in page
        assert page.count(f">{0.11 * (place + 1):.2f}<") >= LAYERS * HEADS - 1


def with_shares(profile: ProfileRun) -> ProfileRun:
    """The same with made-up parts of a cube; a head that is missing has none."""
    generator = np.random.default_rng(1)
    parts = generator.dirichlet((1.0,) * 7, profile.arrays["entropy"].shape)
    parts[np.isnan(profile.arrays["entropy"])] = np.nan
    shares = {f"cube_{name}": parts[..., place] for place, name in enumerate(PARTS.values())}
    part = {f"symbolic_part_{name}": shares[f"cube_{name}"] for name in ("symbol", "origin")}
    return replace(profile, arrays={**profile.arrays, **shares, **part})


def test_a_cube_has_a_triangle_a_paragraph_and_columns(content: dict[str, bytes]) -> None:
    profile = with_shares(made_up())
    whole = render_pages(profile)
    page = whole[NAME].decode()
    assert set(whole) - set(content) == {"share_triangle.svg"}
    assert "What a swap of keys moves" in page
    rows = [row for row in make_head_rows(profile.arrays) if np.isfinite(row["symbol_share"])]
    parts = [
        f"{name} {np.median([row[f'{name}_share'] for row in rows]):.0%}" for name in ("symbol", "origin", "place")
    ]
    rest = np.median([1 - sum(row[f"{name}_share"] for name in ("symbol", "origin", "place")) for row in rows])
    assert f"Medians over heads of the shares are {', '.join(parts)} and interactions {rest:.0%}." in page
    assert f"is left out here: {rest:.0%} of the variance in the median head." in page
    theirs = "Tokens that all blocks share differ in nothing but their origin, so part of its share can be theirs."
    assert theirs in page
    different = [replace(prompt, input_ids=tuple(range(30))) for prompt in profile.prompts]
    assert theirs not in render_report(replace(profile, prompts=different), {})
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
    for name in profile.arrays:
        if name.startswith(("cube_", "symbolic_part_")):
            profile.arrays[name][:] = np.nan
    whole = render_pages(profile)
    assert "share_triangle.svg" not in whole
    assert "nan" not in whole[NAME].decode().split("<h2>All heads</h2>")[1].split("<h2>")[0]


def test_lists_of_one_frame_are_told_of() -> None:
    profile = made_up()
    said = "All prompts are lists of one frame (blocks share 4 of 4 tokens) without a lead, so a high symbolic score"
    assert said in render_report(profile, {})
    assert "add --cube to see how much.</p>" in render_report(profile, {})
    assert "the shares of symbol and origin tell how much of it that is.</p>" in render_report(with_shares(profile), {})
    prompts = [replace(prompt, start=5, blocks=5) for prompt in profile.prompts]
    assert "lists of one frame" not in render_report(replace(profile, prompts=prompts), {})


def test_prompts_that_are_too_long_are_named() -> None:
    profile = made_up()
    assert "max_position_embeddings" not in render_report(profile, {})
    profile.arrays["tokens_beyond"][3] = 9
    assert "<p>1 of 5 prompts is longer than the model&#39;s max_position_embeddings, by up to 9" in render_report(
        profile, {}
    )


def test_profiles_from_before_blocks_were_counted_have_a_page() -> None:
    profile = made_up()
    for name in ("visible_blocks", "tokens_beyond"):
        profile.arrays.pop(name)
    assert "†" not in render_report(profile, {})


def test_one_prompt_has_no_intervals() -> None:
    pytest.importorskip("matplotlib")
    page = render_pages(made_up(1, task=None, input="mine.jsonl"))[NAME].decode()
    assert "<small>" not in page
    assert "intervals" not in page
    assert "1 prompt from the file mine.jsonl" in page


def test_figures_are_the_same_each_time(content: dict[str, bytes]) -> None:
    assert {name: drawn for name, (drawn, _, _) in draw_figures(made_up()).items()}.items() <= content.items()


def test_without_matplotlib_the_page_says_how_to_get_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("matplotlib", "posym_figures.plots"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = render_pages(made_up())
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
