"""Find whether a model is supported, from its configuration or its class alone: no weights are loaded."""

from __future__ import annotations

import os
from typing import Literal

from posym_profile.language_models._loading import load_config
from posym_profile.language_models._refusals import find_refused_setting, read_supported_decoders

Verdict = Literal["exact", "swapped keys", "refused", "not tried"]
WORDS = {
    "exact": "supported, exact",
    "swapped keys": "supported; its keys mix neighbouring tokens, so that swaps are of keys",
}


def find_support(name: str) -> tuple[Verdict, str]:
    """Find whether a model, by its name, or an architecture, by its class or kind, is supported.

    Args:
        name: as :func:`posym_profile.load_model` takes it, of which the configuration alone is read; or a class or kind
            of transformers (``"LlamaForCausalLM"``, ``"llama"``), for which nothing is.

    Returns:
        ``"exact"``, profiled as its own attention weights are; ``"swapped keys"``, the same, but its keys mix
        neighbouring tokens, so that swapped keys are not those of swapped tokens; ``"refused"``; or ``"not tried"``;
        and the answer in a line or two.

    Raises:
        OSError, ValueError: if transformers finds no such model.
    """
    table = read_supported_decoders()
    rows = table["decoders"]
    called = [row for row in rows if name.casefold() in (row["kind"].casefold(), row["model"].casefold())]
    if not called or os.path.isdir(name):
        try:
            config = load_config(name)
        except OSError as error:
            if "/" in name or os.path.lexists(name):
                raise
            kinds = f"one of {len(rows)} kinds of transformers, asked for as llama or LlamaForCausalLM"
            raise OSError(f"{error}, nor {kinds}: posym_profile.scores.read_supported_decoders() lists them") from error
        if why := find_refused_setting(config):
            return "refused", f"{name}: refused\n{why}"
        called = [row for row in rows if row["kind"] == config.model_type]
        if not called:
            decoders = f"the {len(rows)} causal decoders of transformers {table['transformers']}"
            why = f"{config.model_type!r} is none of {decoders}; a profile is exact or refuses the model"
            return "not tried", f"{name}: not tried\n{why}"
    # A class may be that of several kinds, of which the oldest gave it its name.
    row = min(called, key=lambda row: [int(part) for part in row["since"].split(".")])
    said = WORDS.get(row["verdict"], row["verdict"])
    answer = f"{name}: {said} ({row['model']}, from transformers {row['since']} on)\n{row['why']}"
    return row["verdict"], answer.strip()
