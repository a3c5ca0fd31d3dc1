"""Find whether a model is supported, from its configuration or its class alone: no weights are loaded.

``decoders.json`` is what the sweep over every causal decoder of transformers found: each kind was built small with
random weights and compared with its own attention weights on keys that were truly moved, or refused.
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any, Literal

from posym_profile.language_models._loading import load_config

TABLE = Path(__file__).with_name("decoders.json")
Verdict = Literal["exact", "swapped keys", "refused", "not tried"]
WORDS = {
    "exact": "supported, exact",
    "swapped keys": "supported; its keys mix neighbouring tokens, so that swaps are of keys",
}
# Values of settings with which a profile refuses a model of any kind, and why.
REFUSED_SETTINGS: dict[str, tuple[tuple[Any, ...], str]] = {
    "is_causal": ((False,), "attends as an encoder"),
    "use_bidirectional_attention": ((True,), "attends as an encoder"),
    "alibi": ((True,), "adds a bias to its logits"),
    "position_embedding_type": ((None, "absolute", "nope"), "has no rotary encoding"),
}


@functools.cache
def read_supported_decoders() -> dict[str, Any]:
    """Read the results of the sweep: ``transformers``, the version, and ``decoders``, a row a kind."""
    return json.loads(TABLE.read_text("utf-8"))


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
        config = load_config(name)
        for setting, (values, why) in REFUSED_SETTINGS.items():
            if getattr(config, setting, "") in values:
                return "refused", f"{name}: refused\n{why} ({setting} in its configuration)"
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
