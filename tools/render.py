"""Let Sphinx render a book to pages: ``python tools/render.py SOURCES PAGES``. Warnings are errors."""

from __future__ import annotations

import sys

from jupyter_book.sphinx import build_sphinx

# This file's folder, which Python searches first, holds the extension ``book_site``.
sources, pages = sys.argv[1:]
status = build_sphinx(
    sources,
    pages,
    path_config=f"{sources}/_config.yml",
    noconfig=True,
    confoverrides={"external_toc_path": f"{sources}/_toc.yml", "latex_individualpages": False, "nitpicky": True},
    warningiserror=True,
    keep_going=True,
)
sys.exit(status if isinstance(status, int) else 1)
