"""The head explorer of a model and prompts of one's own: as a file of a profile, and beside a kernel."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch
from architectures import build, tokens
from in_browser import opened
from saved_models import save_model

from posym_profile import explore, load_model, profile
from posym_profile.prompts import Prompts
from posym_profile.report._explored import NAME, choose_explored, decode_tokens, list_block_lengths
from posym_profile.report._run import ProfileSettings, run_profiles
from posym_profile.scores._head_views import Cuts, average_views, make_head_views


def prompts_of(number, length, block_length=4, blocks=4):
    rest = {"answer_ids": torch.zeros(number, 0), "target": torch.zeros(number), "texts": []}
    layout = {"start": 3, "block_length": block_length, "blocks": blocks}
    return Prompts(input_ids=tokens(number, length), names=[str(i) for i in range(number)], **layout, **rest)


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """A random Mistral, whose window of 16 tokens hides blocks, and five prompts of two shapes."""
    folder = tmp_path_factory.mktemp("given")
    lines = [
        {"id": f"p{number}", "input_ids": tokens(1, length, seed=number)[0].tolist(), "start": 3, "block_length": 4}
        for number, length in enumerate((26, 20, 26, 26, 20))
    ]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(line | {"blocks": 4}) + "\n" for line in lines))
    model = save_model(folder / "some-mistral", "Mistral")
    return ProfileSettings(model=str(model), input=str(folder / "prompts.jsonl"), device="cpu", tau=2e-4)


@pytest.fixture(scope="module")
def found(given, tmp_path_factory):
    """The folder of a profile with its explorer, and its scores."""
    folder = tmp_path_factory.mktemp("out") / "profile"
    return folder, run_profiles([given.model], given, folder, explorer=True)[folder]


def payload(page):
    return json.loads(re.search(r'class="posym-explorer-data">(.*?)</script>', page, re.S)[1])


# ---- what is measured ------------------------------------------------------------------------------------------------


def test_views_are_those_of_a_profile(given):
    model, _ = load_model(given.model, device="cpu")
    ids = torch.cat([tokens(1, 26, seed=number) for number in range(3)])
    cuts = Cuts(3, 16, lengths=(2, 4), taus=(1e-4, 0.1), shown=(4, 0.1))
    views = average_views(make_head_views(model, ids, cuts))
    options = {"start": 3, "progress": False, "visible_only": False}
    for place, length in enumerate(cuts.lengths):
        for step, tau in enumerate(cuts.taus):
            alone = profile(model, ids, block_length=length, blocks=16 // length, tau=tau, **options)
            for name in ("positional", "symbolic", "entropy"):
                value = views[name] if name == "entropy" else views[name][place, step]
                np.testing.assert_allclose(value, alone[name].mean("prompt"), atol=1e-4)
    planes = profile(model, ids, block_length=4, blocks=4, tau=0.1, per_frequency=True, **options)
    np.testing.assert_allclose(views["plane_symbolic"], planes.plane_symbolic.mean("prompt"), atol=1e-3)
    assert views["angles"].shape == views["plane_symbolic"].shape[::2]


@pytest.mark.parametrize("name", ["Mistral", "gpt-oss", "Gemma2"])
def test_attention_is_the_models_own(tmp_path, name):
    """With windows, soft-caps and sinks, whose part no token has."""
    model = build(name)
    ids = tokens(2, 26)
    cuts = Cuts(3, 16, lengths=(4,), taus=(0.1,), shown=(4, 0.1))
    views = make_head_views(model, ids, cuts)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(ids, output_attentions=True).attentions
    for layer, own in enumerate(weights):
        np.testing.assert_allclose(views["attention"][:, layer], own[:, :, -1].float().numpy(), atol=1e-4)


def test_one_prompt_has_no_interval_and_hidden_blocks_have_no_share(given):
    model, _ = load_model(given.model, device="cpu")
    cuts = Cuts(3, 16, lengths=(1,), taus=(0.1,), shown=(1, 0.1))
    views = average_views(make_head_views(model, tokens(1, 26), cuts))
    assert np.isnan(views["positional_margin"]).all()
    hidden = (views["attention"][:, :, 3:19] == 0).any(-1)
    assert hidden.any()
    np.testing.assert_array_equal(np.isnan(views["positional_share"][0]), hidden)


@pytest.mark.parametrize(
    ("shape", "lengths"),
    [((4, 16), [1, 2, 4, 8, 16]), ((7, 10), [1, 7, 14, 35]), ((1, 64), [1, 2, 4, 8, 16]), ((4, 2), [1, 2, 4]),
     ((1, 512), [1, 4, 8, 16, 32]), ((64, 8), [16, 32, 64, 128, 256])],
)  # fmt: skip
def test_block_lengths_come_out_even_and_own_is_among_them(shape, lengths):
    assert list_block_lengths(prompts_of(1, shape[0] * shape[1] + 4, *shape)) == lengths


@pytest.mark.parametrize(
    ("shapes", "chosen"),
    [
        ([(2, 26), (9, 20), (9, 30)], [(9, 20), (7, 30)]),
        ([(2, 900), (3, 950)], [(2, 950)]),
        ([(2, 3000), (1, 26)], [(1, 3000)]),
    ],
)
def test_an_explorer_has_as_many_prompts_as_a_page_has_room_for(shapes, chosen):
    found = choose_explored([prompts_of(*shape) for shape in shapes])
    assert [tuple(some.input_ids.shape) for some in found] == chosen


class Spaced:
    """A tokenizer that leaves out the space at the beginning of a text, and writes a letter in two tokens."""

    words = ("▁Ann", "▁likes", ".", "\xc3", "\xa9")

    def decode(self, ids, **options):
        text = "".join(self.words[token] for token in ids).replace("▁", " ").removeprefix(" ")
        return text.encode("latin-1").decode("utf-8", "replace")


def test_texts_of_tokens_keep_their_spaces():
    assert decode_tokens([0, 1, 2, 1, 3, 4], Spaced()) == ["Ann", " likes", ".", " likes", "�", "�"]


# ---- the file --------------------------------------------------------------------------------------------------------


def test_the_file_holds_the_profiles_prompts_and_scores(given, found):
    page = (found[0] / NAME).read_text("utf-8")
    assert "<title>Head explorer of some-mistral</title>" in page
    assert "Every head of some-mistral." in page
    text = page.replace("http://www.w3.org/2000/svg", "")
    assert "http://" not in text
    assert "https://" not in text
    data = payload(page)
    long, short = data["inputs"]
    assert long["label"] == "3 prompts of 26 tokens, 4 blocks of 4 tokens"
    assert short["label"] == "2 prompts of 20 tokens, 4 blocks of 4 tokens"
    assert [label.partition(":")[0] for label in long["labels"] + short["labels"]] == ["p0", "p2", "p3", "p1", "p4"]
    assert long["note"] == ("3 prompts of 26 tokens from the file prompts.jsonl: 4 blocks of 4 tokens from token 3 on.")
    assert 2e-4 in data["taus"]
    assert data["taus"][data["start"]["tau"]] == 2e-4
    # As the page opens, the table has the means of the prompts that are shown first.
    row = re.search(r'<th scope="row">1:2[^<]*</th><td>([\d.]+)</td><td>([\d.]+)</td>', page)
    mean = [float(found[1][name].sel(prompt=["p0", "p2", "p3"])[:, 1, 2].mean()) for name in ("positional", "symbolic")]
    assert [float(row[1]), float(row[2])] == pytest.approx(mean, abs=0.006)


def test_a_profile_is_kept_whose_explorer_would_be_too_large(given, tmp_path, monkeypatch):
    monkeypatch.setattr("posym_profile.report._explored.FILE_LIMIT", 100)
    said = []
    run_profiles([given.model], given, tmp_path, explorer=True, report=said.append)
    assert said[0].startswith("no explorer is written: the packed numbers take 0.0 MB, but")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["heads.csv", "scores.nc"]


# ---- in a browser ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "scheme"), [(900, "light"), (900, "dark"), (390, "light")])
def test_the_file_opens_offline_and_its_controls_draw(found, browser, tmp_path, width, scheme):
    text = (found[0] / NAME).read_text("utf-8")
    with opened(browser, text, tmp_path, width=width, color_scheme=scheme) as page:
        draw(page, width)
    with opened(browser, text, tmp_path, width=390, has_touch=True, is_mobile=True) as page:
        page.locator(".posym-ex-prompt .posym-ex-query").tap()
        tip = page.locator(".posym-ex-prompt + .posym-tip")
        assert re.match(r"token 25 “.*”, which asks: ", tip.text_content())


def draw(page, width):
    """Move every control once."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    text, prompt = page.locator(".posym-ex-prompt"), page.locator("[name=prompt]")
    shade = "[...document.querySelectorAll('.posym-ex-prompt span')].map((one) => one.style.background).join()"
    before = page.evaluate(shade), text.text_content(), page.locator(".posym-ex-blocks").inner_html()
    assert prompt.locator("option").count() == 3
    prompt.select_option("2")
    assert page.evaluate("[...document.querySelectorAll('.posym-ex-prompt')].length") == 1
    after = page.evaluate(shade), text.text_content(), page.locator(".posym-ex-blocks").inner_html()
    assert all(one != other for one, other in zip(before, after, strict=True))
    page.wait_for_function("location.hash.endsWith('&prompt=2')")
    name, scores = page.locator(".posym-ex-name"), page.locator(".posym-ex-readout")
    chosen, numbers = name.text_content(), scores.inner_html()
    page.locator("[name=head]").select_option("0" if chosen != "Layer 0, head 0" else "1")
    assert name.text_content() != chosen
    assert scores.inner_html() != numbers
    page.locator("[name=input]").select_option("shape1")
    assert prompt.locator("option").count() == 2
    assert prompt.input_value() == "0"
    # A window of 16 hides blocks of the longer prompts.
    page.locator("[name=input]").select_option("shape0")
    assert page.locator(".posym-ex-blind").is_visible()


# ---- beside a kernel -------------------------------------------------------------------------------------------------


def test_one_prompt_of_ones_own_is_shown(given, tmp_path):
    model, tokenizer = load_model(given.model, device="cpu")
    shown = explore(model, tokenizer, "[[Ann likes red.]] [[Bob likes blue.]] Bob likes", tau=0.1)
    (one,) = payload(shown.html)["inputs"]
    assert one["label"] == "1 prompt of 11 tokens, 2 blocks of 4 tokens"
    shown.save(tmp_path / "explorer.html")
    assert payload((tmp_path / "explorer.html").read_text("utf-8")) == payload(shown.html)
    for text, message in (("Ann likes", "no block is marked in 'Ann likes'"), ("[[Ann", "followed by its own")):
        with pytest.raises(ValueError, match=message):
            explore(model, tokenizer, text)
