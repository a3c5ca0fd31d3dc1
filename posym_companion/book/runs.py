"""Experiments that a page runs for its reader, beside the stored results."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

from posym_companion.experiments import load_experiment, stored_result
from posym_companion.results import Result, find_results_folder
from posym_core.store import record_provenance


def run_experiment(name: str, *, size: str = "small", **options: Any) -> Result:
    """Return the reader's own run of a result; one that is there is read, a small one only if this code made it.

    It is kept in ``my_results`` beside the stored results, from which come trained models that a run measures.

    Args:
        name: of the result; that of its experiment is enough if there is one only.
        size: ``"small"``, too small to judge a claim by, or ``"full"``, which goes on where it was stopped.
        options: of :meth:`posym_companion.experiments.Experiment.run`.

    Raises:
        ValueError: if there is no such result or size.
    """
    if size not in ("small", "full"):
        raise ValueError(f"size must be 'small' or 'full'; got {size!r}")
    experiment, stored = load_experiment(name.partition("/")[0]), find_results_folder()
    settings = {each.name: each for each in experiment.settings()}
    known = [each for each in settings if name in (each, each.partition("/")[0])]
    if len(known) != 1:
        raise ValueError(f"name must be one of {', '.join(map(repr, settings))}; got {name!r}")
    setting, mine = settings[known[0]], stored.with_name("my_results") / size
    if load := experiment.load:
        experiment = replace(experiment, load=lambda *model, **where: load(*model, **where | {"folder": stored}))
    seen = sys.stderr.isatty() or "ipykernel" in sys.modules
    chosen: dict[str, Any] = {"folder": mine, "progress": seen and not os.environ.get("TQDM_DISABLE")}
    if size == "small":
        setting = experiment.shrink(setting)
        found = stored_result(setting, folder=mine)
        code = record_provenance(0)["code_digest"]
        chosen["force"] = found is None or found.provenance["code_digest"] != code
    (result,) = experiment.run([setting], **chosen | options)
    return result
