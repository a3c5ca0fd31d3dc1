"""The last step of a build, on small pages: shared files, anchors, badges, and models that a page loads."""

from __future__ import annotations

import json
from pathlib import Path

import finish_site
import numpy as np
from safetensors.numpy import save_file

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
    assert "No such page" in (tmp_path / "404.html").read_text(encoding="utf-8")


def test_cells_that_show_a_claim_have_anchors(tmp_path: Path) -> None:
    page = (
        '<div class="cell tag_hide-input tag_shows-u25-7 tag_live-u25-7 docutils container">Figure</div>'
        '<div class="cell tag_hide-input docutils container">Words</div><div class="cell_input docutils container">'
    )
    changed = finish_site.anchors(page)
    assert changed.replace('<span id="shows-u25-7"></span><span id="live-u25-7"></span>', "") == page
    assert changed.index('u25-7"></span>Figure') < changed.index("Words")


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
