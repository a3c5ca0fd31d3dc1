"""A Sphinx extension that keeps the site self-contained.

* MathJax is copied into the site from the package that carries it, without the parts that no page can ask for. (The
  last step of `make book` sets the formulas beforehand and drops it; a page built by Sphinx alone needs it.)
* The theme's icons come as a font and, once more, as a script larger than all else on a page; the script is left out.
* The papers that the book is about are cited by their tags (``citations.py``).
* Objects of the reference link to their lines in the repository, and public names lead to where they are defined.
"""

from __future__ import annotations

import importlib
import inspect
import re
import shutil
from pathlib import Path
from typing import Any

import yaml
from citations import register_styles
from reads import PACKAGES, ROOT
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


def source_address(repository: str, branch: str, root: Path, info: dict[str, str]) -> str | None:
    """Where an object of the package stands in the public repository, down to its lines."""
    thing: Any = importlib.import_module(info["module"])
    for name in info["fullname"].split("."):
        thing = getattr(thing, name, None)
    thing = inspect.unwrap(thing.fget if isinstance(thing, property) else thing) if thing is not None else None
    try:
        file = inspect.getsourcefile(thing)
        lines, first = inspect.getsourcelines(thing)
    except TypeError:  # a value: only classes and functions have lines
        return None
    if file is None or not Path(file).is_relative_to(root):
        return None
    return f"{repository}/blob/{branch}/{Path(file).relative_to(root).as_posix()}#L{first}-L{first + len(lines) - 1}"


def link_sources(app: Any, config: Any) -> None:
    """Give sphinx.ext.linkcode the addresses of the repository that ``_config.yml`` names."""
    settings = yaml.safe_load((Path(app.srcdir) / "_config.yml").read_text(encoding="utf-8"))["repository"]

    def resolve(domain: str, info: dict[str, str]) -> str | None:
        known = domain == "py" and info["module"]
        return source_address(settings["url"], settings["branch"], ROOT, info) if known else None

    config.linkcode_resolve = resolve


def find_public_name(app: Any, environment: Any, node: Any, content: Any) -> Any:
    """Lead a name of a package's face, such as ``posym_profile.profile``, to its entry in the face of its room."""
    package, _, name = node.get("reftarget", "").rpartition(".")
    thing = getattr(importlib.import_module(package), name, None) if package in PACKAGES else None
    if node.get("refdomain") != "py" or not hasattr(thing, "__qualname__"):
        return None
    target = f"{thing.__module__.partition('._')[0]}.{thing.__qualname__}"
    page = node.get("refdoc", environment.docname)
    domain = environment.get_domain("py")
    return domain.resolve_xref(environment, page, app.builder, node["reftype"], target, node, content)


def write_in_parallel(app: Any, environment: Any) -> None:
    """Write pages in two processes, once all are read: sphinx_proof cannot be read in parallel, which would warn."""
    app.parallel = 2


def setup(app: Any) -> dict[str, bool]:
    """Register the steps with Sphinx."""
    register_styles()
    # Jupyter Book always sets this value, and its owner, an extension for comment services, is left out of the book.
    app.add_config_value("comments_config", {}, "html", dict)
    app.connect("config-inited", link_sources)
    app.connect("env-updated", write_in_parallel)
    app.connect("missing-reference", find_public_name)
    app.connect("build-finished", copy_mathjax)
    app.connect("build-finished", trim_theme)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
