"""Pages that earlier editions published under another address: each stays, as a page that leads on."""

from __future__ import annotations

import os.path
from pathlib import Path

# Where a page stood, and where its text stands now.
MOVED = {
    "book/language_model/explorer.html": "book/language_model/language_model.html#the-head-explorer",
    "book/language_model/gemma_learns.html": "book/language_model/task_solvers.html#gemma-learns-to-bind",
    "book/language_model/what_scores_predict.html": "book/language_model/task_solvers.html#what-scores-predict",
    "book/one_head/train_it.html": "book/one_head/success_by_frequency.html#train-it-yourself",
    "book/language_model/surgery.html": "book/language_model/language_model.html#changing-the-angles",
    "book/package/api/companion.html": "book/reference/ledger.html#experiments-and-commands",
    "book/package/api/companion_solvers.html": "book/reference/ledger.html#experiments-and-commands",
    "book/package/from_scores_to_causes.html": "book/package/your_model.html#from-scores-to-causes",
    "book/reference/conventions.html": "book/reference/ledger.html#conventions",
    "book/reference/every_head.html": "book/language_model/language_model.html#the-same-head-on-a-longer-prompt",
    "book/reference/reproduce.html": "book/reference/ledger.html#experiments-and-commands",
    "book/several_hops/ask_the_models.html": "book/several_hops/multihop_tasks.html#ask-the-models-yourself",
    "book/what_survives.html": "book/reference/ledger.html#what-survives-in-other-models",
}
# The head explorer keeps a reader's view behind the #, so that an anchor is handed on where there is one.
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Moved</title><meta name="robots" content="noindex">
<script>location.replace(location.hash ? "{page}" + location.hash : "{to}")</script>
<noscript><meta http-equiv="refresh" content="0; url={to}"></noscript></head>
<body><p>This page has moved: <a href="{to}">go on</a>.</p></body></html>
"""


def write_moved(site: Path) -> None:
    """Write a page that leads on to each address at which one stood."""
    for old, new in MOVED.items():
        to = os.path.relpath(new, os.path.dirname(old))
        path = site / old
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PAGE.format(to=to, page=to.partition("#")[0]), encoding="utf-8")
