"""Let Sphinx render a book to pages: ``python tools/render.py SOURCES PAGES``. Warnings are errors."""

from __future__ import annotations

import sys

from jupyter_book.sphinx import build_sphinx


def main() -> int:
    """Command line; this file's folder holds the extension ``book_site``."""
    sources, pages = sys.argv[1:]
    settings = {"external_toc_path": f"{sources}/_toc.yml", "latex_individualpages": False, "nitpicky": True}
    config = f"{sources}/_config.yml"
    status = build_sphinx(
        sources,
        pages,
        path_config=config,
        noconfig=True,
        confoverrides=settings,
        warningiserror=True,
        keep_going=True,
    )
    return status if isinstance(status, int) else 1


if __name__ == "__main__":
    sys.exit(main())
