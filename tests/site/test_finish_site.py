"""The last step of a build, on small pages: formulas, styles, pictures, and what pages say about themselves."""

from __future__ import annotations

import datetime
import json
from importlib import resources
from pathlib import Path

import finish_site
import numpy as np
import pytest
import set_formulas
from fontTools.ttLib import TTFont
from safetensors.numpy import save_file

SETTINGS = '<script>window.MathJax = {"loader": {"load": ["input/tex", "output/chtml"]}}</script>'
SCRIPT = '<script defer="defer" src="../_static/mathjax/startup.js"></script>'
FIGURE = (
    '<figure class="posym-figure">\n<style>.posym {{ top: 0 }}</style>\n<input>\n'
    '<script type="application/json" class="posym-data">[1]</script>\n<script>{script}</script>\n</figure>'
)


def write_page(site: Path, body: str, name: str = "book/scores.html") -> Path:
    path = site / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "<html><head><title>Scores &#8212; Where and What</title>\n"
        f'<meta name="viewport" content="width=1"><meta name="viewport" content="width=2">{SETTINGS}\n{SCRIPT}\n'
        f"</head><body><nav><p>Menu</p></nav><article><h1>Scores</h1>{body}</article></body></html>",
        encoding="utf-8",
    )
    return path


def inline(source: str) -> str:
    return f'<span class="math notranslate nohighlight">\\({source}\\)</span>'


def test_formulas_stand_in_the_page_before_any_script_runs(tmp_path: Path) -> None:
    page = write_page(tmp_path, f"{inline('a &lt; b')}<code>\\(c\\)</code>")
    other = write_page(tmp_path, "<p>Words.</p>", "book/words.html")
    set_formulas.set_formulas(tmp_path, set_formulas.MATHJAX)
    text = page.read_text(encoding="utf-8")
    assert "<mjx-container" in text
    assert "startup.js" not in text
    assert "window.MathJax" not in text
    assert "<code>\\(c\\)</code>" in text
    assert text.count('href="../_static/mathjax.css"') == 1
    assert "mathjax" not in other.read_text(encoding="utf-8")
    styles = (tmp_path / "_static" / "mathjax.css").read_text(encoding="utf-8")
    for font in ("MathJax_Main-Regular.woff", "MathJax_Math-Italic.woff"):
        assert f"mathjax/{font}" in styles
        assert (tmp_path / "_static" / "mathjax" / font).is_file()


def test_a_formula_that_cannot_be_read_stops_the_build(tmp_path: Path) -> None:
    write_page(tmp_path, inline("a") + inline("\\frac{1"))
    with pytest.raises(ValueError, match=r"MathJax cannot read 1 formulas; correct them: \\frac\{1"):
        set_formulas.set_formulas(tmp_path, set_formulas.MATHJAX)


def test_icon_fonts_keep_the_letters_of_the_rules_that_are_left(tmp_path: Path) -> None:
    theme = resources.files("pydata_sphinx_theme") / "theme" / "pydata_sphinx_theme" / "static" / "vendor"
    for name in ("fa-solid-900.ttf", "fa-solid-900.woff2"):
        (tmp_path / name).write_bytes((theme / "fontawesome" / "webfonts" / name).read_bytes())
    write_page(tmp_path, '<i class="fa-moon"></i>')
    (tmp_path / "theme.css").write_text('.fa-moon{content:"\\f186"}.fa-sun{content:"\\f185"}html{--icon:"\uf0c1"}')
    finish_site.drop_rules(tmp_path)
    with TTFont(tmp_path / "fa-solid-900.ttf") as font:
        assert set(font.getBestCmap()) == {0xF186, 0xF0C1}
    assert not (tmp_path / "fa-solid-900.woff2").exists()


CITATION = {
    "authors": [{"name": 'The "posym" authors'}, {"family-names": "Doe", "given-names": "Ann"}],
    "date-released": datetime.date(2026, 1, 31),
}


def test_pages_tell_what_they_are_about_where_they_stand_and_chapters_how_they_are_cited(tmp_path: Path) -> None:
    score = inline("s_&lt;{\\mathrm{POS}}")
    path = write_page(tmp_path, f'<p>A "swap" of <em>two</em>\nblocks: {score}.</p>')
    page, site = path.read_text(encoding="utf-8"), "https://ann.github.io/heads/"
    text = finish_site.describe_page(page, "book/scores.html", site, CITATION)
    for line in (
        '<meta name="description" content="A &quot;swap&quot; of two blocks: s_&lt;POS."/>',
        '<meta property="og:title" content="Scores"/>',
        '<meta property="og:site_name" content="Where and What"/>',
        '<link rel="canonical" href="https://ann.github.io/heads/book/scores.html"/>',
        '<meta property="og:url" content="https://ann.github.io/heads/book/scores.html"/>',
        '<meta property="og:image" content="https://ann.github.io/heads/_static/heads.gif"/>',
        '<meta name="citation_title" content="Scores"/>',
        '<meta name="citation_inbook_title" content="Where and What"/>',
        '<meta name="citation_author" content="The &quot;posym&quot; authors"/>',
        '<meta name="citation_author" content="Doe, Ann"/>',
        '<meta name="citation_publication_date" content="2026/01/31"/>',
        '<meta name="citation_fulltext_html_url" content="https://ann.github.io/heads/book/scores.html"/>',
    ):
        assert text.count(line) == 1, line
    assert text.count('name="viewport"') == 1
    index = finish_site.describe_page(page, "search.html", site, CITATION)
    assert 'href="https://ann.github.io/heads/search.html"' in index
    assert "citation_" not in index


def _repository(root: Path) -> str:
    import yaml

    return yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]


def test_a_whole_site_is_finished(tmp_path: Path, root: Path) -> None:
    write_page(tmp_path, f"<p>{inline('a')}</p>{FIGURE.format(script='draw()')}")
    write_page(tmp_path, '<script src="searchindex.js"></script>', "search.html")
    write_page(tmp_path, '<script src="../searchindex.js"></script>', "book/words.html")
    finish_site.finish(tmp_path, root)
    assert "searchindex" in (tmp_path / "search.html").read_text(encoding="utf-8")
    assert "searchindex" not in (tmp_path / "book" / "words.html").read_text(encoding="utf-8")
    assert "mjx-container" in (tmp_path / "book" / "scores.html").read_text(encoding="utf-8")
    for name in ("search.html", "book/words.html"):
        assert f'href="{finish_site.site_address(_repository(root))}{name}"' in (tmp_path / name).read_text()
    missing = (tmp_path / "404.html").read_text(encoding="utf-8")
    assert "No such page" in missing
    assert finish_site.site_address(_repository(root)) in missing


def test_cells_that_show_a_claim_have_anchors(tmp_path: Path) -> None:
    page = (
        '<div class="cell tag_hide-input tag_shows-u25-7 tag_live-u25-7 docutils container">Figure</div>'
        '<div class="cell tag_hide-input docutils container">Words</div><div class="cell_input docutils container">'
    )
    changed = finish_site.anchors(page)
    assert changed.replace('<span id="shows-u25-7"></span><span id="live-u25-7"></span>', "") == page
    assert changed.index('u25-7"></span>Figure') < changed.index("Words")


def test_a_row_that_a_text_names_has_the_badge_of_the_ledgers_page(tmp_path: Path) -> None:
    badge = '<a class="posym-badge posym-partly" href="{}#claim-c-6" title="So.">C-6<span> partly</span></a>'
    write_page(tmp_path, badge.format("../reference/ledger.html"), "book/reference/ledger.html")
    named = '<a class="posym-claim reference internal" href="../reference/ledger.html#claim-c-6">C-6</a>'
    page = write_page(tmp_path, f"<p>As said. {named}</p>", "book/a/b.html")
    finish_site.fill_badges(tmp_path)
    shown = f'<span class="posym-badges margin">{badge.format("../reference/ledger.html")}</span>'
    assert f"<p>As said. {shown}</p>" in page.read_text(encoding="utf-8")
    write_page(tmp_path, named.replace("c-6", "c-7"), "book/a/b.html")
    with pytest.raises(ValueError, match="ledger's page has no badge for #claim-c-7"):
        finish_site.fill_badges(tmp_path)


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


def test_chapters_say_how_long_they_take(tmp_path: Path) -> None:
    counts = {"book/front": 90, "book/part/a": 90, "book/part/b": 520, "book/reference/c": 900}
    chapters = ", ".join(f"{{file: {name}}}" for name in counts if name != "book/front")
    (tmp_path / "_toc.yml").write_text(f"format: jb-book\nroot: book/front\nchapters: [{chapters}]\n")
    for name, count in counts.items():
        write_page(tmp_path, f"<h1>Not a title</h1><p>{'word ' * count}</p>", f"{name}.html")
        (tmp_path / f"{name}.md").write_text("Its source.")
    finish_site.say_minutes(tmp_path, tmp_path)
    said = {name: (tmp_path / f"{name}.html").read_text(encoding="utf-8") for name in counts}
    assert '<h1>Scores</h1>\n<p class="posym-minutes">1 minute to read</p><h1>Not' in said["book/part/a"]
    assert '<h1>Scores</h1>\n<p class="posym-minutes">3 minutes to read</p><h1>Not' in said["book/part/b"]
    assert "to read" not in said["book/front"] + said["book/reference/c"]
