"""The last step of a build, on small pages: shared files, anchors, badges, and models that a page loads."""

from __future__ import annotations

import json
from pathlib import Path

import finish_site
import numpy as np
from safetensors.numpy import save_file

from posym_figures import join_module

FIGURE = (
    '<figure class="posym-figure">\n<style>.posym {{ top: 0 }}</style>\n<input>\n'
    '<script type="application/json" class="posym-data">[1]</script>\n<script>{script}</script>\n</figure>'
)


def write_page(site: Path, body: str, name: str = "book/scores.html") -> Path:
    path = site / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (site / "_static").mkdir(exist_ok=True)
    path.write_text(f"<html><head></head><body><article>{body}</article></body></html>", encoding="utf-8")
    return path


def test_figures_share_their_style_and_script_and_saved_copies_carry_both(tmp_path: Path) -> None:
    pages = [write_page(tmp_path, 2 * FIGURE.format(script="draw()"), f"book/{name}.html") for name in "ab"]
    finish_site.share_figure_files(tmp_path)
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert "<style>" not in text
        assert text.count("<script") == 3  # two figures' data, one file
        assert text.count('src="../_static/figure.js"') == text.count('href="../_static/figure.css"') == 1
    script = (tmp_path / "_static" / "figure.js").read_text(encoding="utf-8")
    assert script == 'document.currentScript.dataset.style = ".posym { top: 0 }";\ndraw()'


def test_a_whole_site_is_finished(tmp_path: Path, root: Path) -> None:
    write_page(tmp_path, FIGURE.format(script="draw()"))
    write_page(tmp_path, '<script src="searchindex.js"></script>', "search.html")
    write_page(tmp_path, '<script src="../searchindex.js"></script>', "book/words.html")
    finish_site.finish(tmp_path, root)
    assert "searchindex" in (tmp_path / "search.html").read_text(encoding="utf-8")
    assert "searchindex" not in (tmp_path / "book" / "words.html").read_text(encoding="utf-8")
    moved = (tmp_path / "book" / "what_survives.html").read_text(encoding="utf-8")
    assert 'href="reference/ledger.html#what-survives-in-other-models"' in moved


def test_an_explorer_comes_from_a_file_beside_its_page(tmp_path: Path, browser) -> None:
    data = '<script type="application/json" class="posym-explorer-data">{"a": "\\u003c"}</script>'
    path = write_page(tmp_path, f'<figure class="posym-figure">{data}</figure>')
    path.write_text(finish_site.set_explorers_aside(path.read_text(), path), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    script = page.locator("script.posym-explorer-data")
    assert script.text_content() == ""
    page.add_script_tag(
        content=join_module("core.js") + "startAll('posym-explorer-data', (_, data) => (window.seen = data));"
    )
    page.wait_for_function("() => window.seen && window.seen.a === '<'")
    page.close()


def test_weights_that_a_page_loads_on_a_click_are_packed_beside_it(tmp_path: Path) -> None:
    weights = {"lm_head.bias": np.ones(3, np.float16), "transformer.h.0.ln_1.bias": np.zeros(2, np.float16)}
    (tmp_path / "results" / "multihop").mkdir(parents=True)
    save_file(weights, tmp_path / "results" / "multihop" / "number_0.safetensors")
    asked = json.dumps({"address": "../_static/hops", "models": {"number": {"source": "multihop/number_0"}}})
    site = tmp_path / "site"
    write_page(site, f'<script type="application/json" class="posym-hops-data">{asked}</script>')
    finish_site.pack_models(site, tmp_path / "results")
    packed = sorted((site / "_static" / "hops" / "number").iterdir())
    assert [path.name for path in packed] == ["0.js", "1.js"]
    assert packed[0].read_text() == 'posymParcel("number",0,"ADwAPAA8");\n'
