"""A Sphinx extension that keeps the site self-contained and its execution cache honest.

* MathJax is copied into the site from the package that carries it, without the parts that no page can ask for.
* The cache of executed chapters lives in a folder named after the package, the results and the lock: jupyter-cache
  itself only looks at the cells, and would show old outputs after a change in the package.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

from build_book import execution_cache

MATHJAX_PARTS = ("tex-chtml.js", "input/tex", "output/chtml/fonts/woff-v2", "a11y", "sre", "ui")


def mathjax_folder() -> Path:
    """Where the installed MathJax files are."""
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the book serves MathJax from its own site; pip install 'posym-core[book]'")
    return Path(spec.submodule_search_locations[0]) / "static" / "mathjax"


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


def choose_cache(app: Any, config: Any) -> None:
    """Point myst-nb to the cache of the present package, results and lock."""
    config.nb_execution_cache_path = str(execution_cache(Path(app.srcdir)))


def setup(app: Any) -> dict[str, bool]:
    """Register the two steps with Sphinx."""
    app.connect("config-inited", choose_cache)
    app.connect("build-finished", copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
