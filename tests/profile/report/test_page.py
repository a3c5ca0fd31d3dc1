"""The report of a profile: one file that asks for nothing, says what was measured, and works in a browser."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from asked_addresses import Addresses
from in_browser import opened
from saved_models import save_model
from xarray import Dataset

from posym_core.metrics._cube_parts import PARTS
from posym_profile import load_tokenizer
from posym_profile.report._page import NAME, describe_answers, list_caveats, render_pages
from posym_profile.report._run import ProfileSettings, run_profiles
from posym_profile.scores import tabulate_heads

LAYERS, HEADS = 3, 4


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Return prompts and their profile, in which one head has no score and one is missing."""
    folder = tmp_path_factory.mktemp("measured")
    model = str(save_model(folder / "tiny <b>"))
    settings = ProfileSettings(model=model, task="binding", facts=6, prompts=5, device="cpu")
    scores = run_profiles([model], settings, folder / "out")[folder / "out"].load()
    scores.positional[:, 2, 2:] = scores.symbolic[:, 2, 2:] = scores.entropy[:, 2, 3] = np.nan
    return settings.make_prompts(load_tokenizer(model)), scores


@pytest.fixture(scope="module")
def content(measured) -> dict[str, bytes]:
    pytest.importorskip("matplotlib")
    return render_pages(measured[1], measured[0])


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


def test_the_page_says_what_was_measured(content, measured) -> None:
    page = content[NAME].decode()
    assert "Heads of tiny &lt;b&gt;" in page
    assert "<b>" not in page
    prompts, scores = measured
    tokens = prompts[0].input_ids.shape[1]
    assert f"5 prompts from the task binding, of up to {tokens} tokens with up to 6 blocks; 3 layers of up to 4" in page
    assert f"the model is {describe_answers(scores)}." in page
    assert page.count("<tr>") == 1 + LAYERS * HEADS - 1
    assert "sha256" in page
    assert ">None<" not in page
    assert render_pages(scores, prompts) == content


def test_caveats_are_told_by_the_page_as_by_the_command(measured) -> None:
    prompts, scores = measured[0], measured[1].copy(deep=True)
    scores.visible_blocks[0, 1] = 2
    caveats = list_caveats(scores, prompts)
    page = render_pages(scores, prompts)[NAME].decode().replace("&#39;", "'")
    assert all(f"<p>{words[0].upper()}{words[1:]}.</p>" in page for words in caveats)
    hidden, lists = caveats
    assert "in layer 1 (because of a sliding window, say). What is swapped into a hidden block gets no" in hidden
    assert lists.startswith("all prompts are lists of one frame without a lead")
    assert lists.endswith("add --cube to see how much of it that is")
    assert page.count('<td data-value="1">1†</td>') == HEADS
    scores.attrs["settings"] = scores.attrs["settings"].replace('"cube": false', '"cube": true')
    assert list_caveats(scores, prompts)[1].endswith("the shares of symbol and origin tell how much of it that is")


def test_labels_and_shares_have_columns_and_are_explained(content, measured) -> None:
    scores = measured[1].copy(deep=True)
    for place, name in enumerate(("previous_token", "first_token", "induction", "copying")):
        scores[name] = ("layer", "head"), np.full((LAYERS, HEADS), 0.11 * (place + 1), dtype=np.float32)
    parts = np.random.default_rng(1).dirichlet((1.0,) * 7, scores.entropy.shape)
    for place, name in enumerate(PARTS.values()):
        scores[f"{name}_share"] = ("prompt", "layer", "head"), parts[..., place]
    page, plain = render_pages(scores, measured[0])[NAME].decode(), content[NAME].decode()
    for words in ("<strong>induction</strong>", "What a swap of keys moves"):
        assert words in page
        assert words not in plain
    for place, name in enumerate(("Previous token", "First token", "Induction", "Copying")):
        assert f'<button type="button">{name}</button>' in page
        assert page.count(f">{0.11 * (place + 1):.2f}<") >= LAYERS * HEADS - 1
    row = tabulate_heads(scores).iloc[0]
    for name in ("Symbol share", "Origin share", "Place share"):
        assert f'<button type="button">{name}</button>' in page
        low, value, high = (row[f"{name.lower().replace(' ', '_')}{end}"] for end in ("_low", "", "_high"))
        assert f"{value:.2f} <small>[{low:.2f}, {high:.2f}]</small>" in page


def test_one_prompt_has_no_intervals(measured) -> None:
    page = render_pages(measured[1].isel(prompt=[0]), measured[0])[NAME].decode()
    assert "<small>" not in page
    assert "intervals" not in page


def test_without_matplotlib_the_page_says_how_to_get_figures(measured, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("matplotlib", "posym_figures.plots"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = render_pages(measured[1], measured[0])
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
