"""Find whether a model is supported, from its configuration or its class alone: no weights are loaded.

``decoders.json`` is what the sweep over every causal decoder of transformers found: each kind was built small with
random weights and compared with its own attention weights on keys that were truly moved, or refused.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
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
    """

    name: str
    verdict: Verdict
    why: str = ""
    model: str = ""
    since: str = ""

    def describe(self) -> str:
        """Return the answer in one line or two."""
        known = f" ({self.model}, from transformers {self.since} on)" if self.model else ""
        return "\n".join(filter(None, [f"{self.name}: {WORDS.get(self.verdict, self.verdict)}{known}", self.why]))


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
    if not called or os.path.isdir(name):
        config = load_config(name)
        for setting, (values, why) in REFUSED_SETTINGS.items():
            if getattr(config, setting, "") in values:
                return Support(name=name, verdict="refused", why=f"{why} ({setting} in its configuration)")
        called = [row for row in rows if row["kind"] == config.model_type]
        if not called:
            version = read_supported_decoders()["transformers"]
            why = f"{config.model_type!r} is none of the {len(rows)} causal decoders of transformers {version}"
            return Support(name=name, verdict="not tried", why=f"{why}; a profile is exact or refuses the model")
    # A class may be that of several kinds, of which the oldest gave it its name.
    row = min(called, key=lambda row: [int(part) for part in row["since"].split(".")])
    return Support(name=name, **{field: row[field] for field in ("verdict", "why", "model", "since")})
