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
from posym_profile.language_models._model_summary import ModelSummary, get_text_config, summarize_loaded
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
        notes: what its configuration says that matters to prompts: windows, sparse indexers.
        outline: its size, rotary bases and windows; None where a class was asked for, or it is refused.
    """

    name: str
    verdict: Verdict
    why: str = ""
    model: str = ""
    since: str = ""
    notes: tuple[str, ...] = ()
    outline: ModelSummary | None = None

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
        if self.outline is not None:
            bases = ", ".join(f"{base:,.0f}" for base in self.outline.rope_bases) or "not named"
            lines.append(
                f"{format_count(self.outline.parameters, 'parameter')}, {format_count(self.outline.layers, 'layer')}; "
                f"RoPE base: {bases}"
            )
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
    folder = os.path.isdir(name)
    called = [row for row in rows if name.casefold() in (row["kind"].casefold(), row["model"].casefold())]
    if called and not folder:
        # A class may be that of several kinds, of which the oldest gave it its name.
        oldest = min(called, key=lambda row: [int(part) for part in row["since"].split(".")])
        return Support(**_read_row(name, oldest))
    if not folder and (refused := _refuse_with_pictures(name)) is not None:
        return refused
    row = next((row for row in rows if row["kind"] == _kind_in_folder(name)), None)
    try:
        config = load_config(name)
        check_position_settings(config, name)
    except UnsupportedModelError as error:
        return Support(name=name, verdict="refused", why=str(error).removeprefix(name).strip())
    except (OSError, ValueError):
        import transformers
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

        if row is None or row["kind"] in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
            raise
        why = f"needs transformers {row['since']} or newer, and {transformers.__version__} is installed; install that"
        return Support(name=name, verdict="refused", why=why, model=row["model"], since=row["since"])
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
    summary = summarize_loaded(model)
    return Support(**_read_row(name, row), notes=_write_notes(get_text_config(config), summary), outline=summary)


def _read_row(name: str, row: Mapping[str, str]) -> dict[str, Any]:
    return {"name": name, **{field: row[field] for field in ("verdict", "why", "model", "since")}}


def _refuse_with_pictures(name: str) -> Support | None:
    """Return the refusal of a class that transformers loads with its parts for pictures."""
    from transformers.models.auto import modeling_auto

    for kind, model in modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.items():
        if name.casefold() == str(model).casefold():
            why = (
                f"is a vision-language model ({kind}), which is not loaded by its name; load it by "
                "transformers.AutoModelForImageTextToText and give the model to posym_profile.profile"
            )
            return Support(name=name, verdict="refused", why=why, model=str(model))
    return None


def _kind_in_folder(name: str) -> str | None:
    """Read what the configuration in a folder calls its kind, also if this transformers does not know it."""
    try:
        return json.loads((Path(name) / "config.json").read_text("utf-8")).get("model_type")
    except (OSError, ValueError, AttributeError):
        return None


def _write_notes(config: Any, summary: ModelSummary) -> tuple[str, ...]:
    """Write what matters to prompts: windows, and keys that are chosen by content."""
    notes = []
    for window in sorted({window for window in summary.windows if window is not None}):
        layers = [layer for layer, size in enumerate(summary.windows) if size == window]
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
