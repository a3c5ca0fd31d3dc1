"""Read what packaged models were taught: low-rank additions to their attention, which lie in the folder ``taught``.

Gemma is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms, and SmolLM2 under the
Apache License 2.0. The additions modify these models' weights and are derivatives under the same terms; the file NOTICE
beside them says so to whoever passes them on.
"""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import NamedTuple

from torch import Tensor

from posym_profile.language_models._low_rank import read_factors


class _FinetunedModel(NamedTuple):
    """The packaged model that was taught, and the SHA-256 of the file of its additions."""

    base: str
    sha256: str


TAUGHT = {
    "gemma-3-270m-binds": _FinetunedModel(
        "gemma-3-270m", "44661a2351dcca5689c040972a1e18c4e76ce07265582233baa2b6ee4c78b344"
    ),
    "smollm2-135m-binds": _FinetunedModel(
        "smollm2-135m", "e9bfc17dc5e7aa11254105e259fb5b0067dfd09f50f480125e79e0bbac5b2bf3"
    ),
}


def load_finetuned_factors(name: str) -> dict[str, Tensor]:
    """Read the additions of a taught model, checked."""
    with as_file(files("posym_profile.language_models") / "taught" / f"{name}.safetensors") as path:
        return read_factors(path, expected=TAUGHT[name].sha256)
