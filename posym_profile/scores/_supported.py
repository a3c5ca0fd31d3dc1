"""Find whether a model is supported, from its configuration or its class alone: no weights are loaded.

``decoders.json`` is what the sweep over every causal decoder of transformers found: each kind was built small with
random weights and compared with its own attention weights on keys that were truly moved, or refused.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from posym_profile.language_models._loading import load_config
from posym_profile.language_models._model_summary import find_rope_bases, get_text_config, list_windows
from posym_profile.language_models._refusals import UnsupportedModelError, check_position_settings
from posym_profile.scores._visibility import format_count, format_runs

TABLE = Path(__file__).with_name("decoders.json")
Verdict = Literal["exact", "swapped keys", "refused", "not tried"]


@dataclass(frozen=True, kw_only=True)
class Support:
    """Whether a model is supported.

    Attributes:
        name: what was asked for.
        verdict: ``"exact"``, profiled as its own attention weights are; ``"swapped keys"``, the same, but its keys mix
            neighbouring tokens, so that swapped keys are not those of swapped tokens; ``"refused"``; or ``"not
            tried"``.
        why: of a refusal or of what was not tried; empty otherwise.
        model: class of transformers; empty if it has none.
        since: first version of transformers (5.0.0 or later) in which the sweep knows the class; empty if it does not.
        notes: what its configuration says: size, rotary bases, windows, sparse indexers; none where a class was asked
            for, or it is refused.
    """

    name: str
    verdict: Verdict
    why: str = ""
    model: str = ""
    since: str = ""
    notes: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return the answer in a few lines."""
        known = f"{self.model}{f', from transformers {self.since} on' if self.since else ''}"
        words = {
            "exact": "supported, exact",
            "swapped keys": "supported; its keys mix neighbouring tokens, so that swaps are of keys",
        }
        lines = [f"{self.name}: {words.get(self.verdict, self.verdict)}{f' ({known})' if self.model else ''}"]
        if self.why:
            lines.append(self.why)
        return "\n".join([*lines, *self.notes])


@functools.cache
def read_supported_decoders() -> dict[str, Any]:
    """Read the results of the sweep: ``transformers``, the version, and ``decoders``, a row a kind."""
    return json.loads(TABLE.read_text("utf-8"))


def find_support(name: str) -> Support:
    """Find whether a model, by its name, or an architecture, by its class or kind, is supported.

    Args:
        name: as :func:`posym_profile.load_model` takes it, of which the configuration alone is read; or a class or kind
            of transformers (``"LlamaForCausalLM"``, ``"llama"``), for which nothing is.

    Raises:
        OSError, ValueError: if transformers finds no such model.
    """
    rows = read_supported_decoders()["decoders"]
    called = [row for row in rows if name.casefold() in (row["kind"].casefold(), row["model"].casefold())]
    if called and not os.path.isdir(name):
        # A class may be that of several kinds, of which the oldest gave it its name.
        oldest = min(called, key=lambda row: [int(part) for part in row["since"].split(".")])
        return Support(**_read_row(name, oldest))
    try:
        config = load_config(name)
        check_position_settings(config, name)
    except UnsupportedModelError as error:
        return Support(name=name, verdict="refused", why=str(error).removeprefix(name).strip())
    row = next((row for row in rows if row["kind"] == config.model_type), None)
    if row is None:
        why = (
            f"the kind {config.model_type!r} is newer than the sweep (transformers "
            f"{read_supported_decoders()['transformers']}); a profile either is exact or refuses the model"
        )
        return Support(name=name, verdict="not tried", why=why)
    if row["verdict"] == "refused":
        return Support(**_read_row(name, row))
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Support(**_read_row(name, row), notes=_write_notes(get_text_config(model.config), parameters))


def _read_row(name: str, row: Mapping[str, str]) -> dict[str, Any]:
    return {"name": name, **{field: row[field] for field in ("verdict", "why", "model", "since")}}


def _write_notes(config: Any, parameters: int) -> tuple[str, ...]:
    """Write a model's size and rotary bases, and what matters to prompts: windows, and keys chosen by content."""
    windows = list_windows(config)
    bases = ", ".join(f"{base:,.0f}" for base in find_rope_bases(getattr(config, "rope_parameters", None)))
    size = f"{format_count(parameters, 'parameter')}, {format_count(len(windows), 'layer')}"
    notes = [f"{size}; RoPE base: {bases or 'not named'}"]
    for window in sorted({window for window in windows if window is not None}):
        layers = [layer for layer, size in enumerate(windows) if size == window]
        sees = "sees" if len(layers) == 1 else "see"
        notes.append(
            f"{format_runs(layers, 'Layer')} {sees} {format_count(window, 'token')}; with longer prompts pass "
            "--visible-only"
        )
    covered = getattr(config, "index_topk", None)
    if isinstance(covered, int):
        notes.append(
            f"A sparse indexer chooses keys by content: prompts of up to {format_count(covered, 'token')} alone"
        )
    limit = getattr(config, "max_position_embeddings", None)
    if isinstance(limit, int):
        notes.append(f"Prompts of up to {format_count(limit, 'token')} (max_position_embeddings)")
    return tuple(notes)
