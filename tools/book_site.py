"""A Sphinx extension that keeps the site self-contained and its execution cache honest.

* MathJax is copied into the site from the package that carries it, without the parts that no page can ask for. (The
  last step of `make book` sets the formulas beforehand and drops it; a page built by Sphinx alone needs it.)
* The theme's icons come as a font and, once more, as a script larger than all else on a page; the script is left out.
* The cache of executed chapters lives in a folder named after the package, the results and the lock: jupyter-cache
  itself only looks at the cells, and would show old outputs after a change in the package.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from build_book import execution_cache
from set_formulas import mathjax_folder

MATHJAX_PARTS = (
    "startup.js",
    "core.js",
    "input/tex.js",
    "input/tex",
    "output/chtml.js",
    "output/chtml/fonts/tex.js",
    "output/chtml/fonts/woff-v2",
    "a11y/assistive-mml.js",
)
ICON_SCRIPT = re.compile(r"""\s*<script[^>]*_static/scripts/fontawesome\.js[^>]*></script>""")


def copy_mathjax(app: Any, error: Exception | None) -> None:
    """Put MathJax into the finished site."""
    if error is not None or app.builder.format != "html":
        return
    source, target = mathjax_folder(), Path(app.outdir) / "_static" / "mathjax"
    for part in MATHJAX_PARTS:
        path = target / part
        if path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if (source / part).is_dir():
            shutil.copytree(source / part, path)
        else:
            shutil.copy2(source / part, path)


def trim_theme(app: Any, error: Exception | None) -> None:
    """Take the icon script out of the pages, and files that the theme leaves behind out of the site."""
    if error is not None or app.builder.format != "html":
        return
    site = Path(app.outdir)
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        trimmed = ICON_SCRIPT.sub("", text)
        if trimmed != text:
            page.write_text(trimmed, encoding="utf-8")
    for left_over in ("scripts/fontawesome.js*", "*webpack-macros.html"):
        for path in site.glob(f"_static/{left_over}"):
            path.unlink()


def choose_cache(app: Any, config: Any) -> None:
    """Point myst-nb to the cache of the present package, results and lock."""
    config.nb_execution_cache_path = str(execution_cache(Path(app.srcdir)))


def setup(app: Any) -> dict[str, bool]:
    """Register the steps with Sphinx."""
    # Jupyter Book always sets this value, and its owner, an extension for comment services, is left out of the book.
    app.add_config_value("comments_config", {}, "html", dict)
    app.connect("config-inited", choose_cache)
    app.connect("build-finished", copy_mathjax)
    app.connect("build-finished", trim_theme)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
