"""Made-up results, to see verdicts come out both ways."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from posym_companion import results
from posym_companion.experiments import SECOND
from posym_companion.language_models.random_weights import full_size
from posym_companion.results import Result, save_result


def save_invented(name: str, arrays: Mapping[str, np.ndarray], folder: Path, **settings: Any) -> Result:
    """A result whose dimensions have no names worth reading; it is kept unpacked, as packing takes longest."""
    dims = {key: " ".join(f"d{number}" for number in range(np.ndim(x))) for key, x in arrays.items()}
    settings = settings or {"seed": 0}
    with patch.object(results, "_packed", _unpacked):
        return save_result(name, arrays, dims=dims, settings=settings, device="CPU", seconds=1, folder=folder)


def _unpacked(arrays: Mapping[str, np.ndarray]) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def invent_random_weights(folder: Path, *, as_claimed: bool = True) -> None:
    """Models whose two scores are opposite beside random weights whose have nothing in common, or the reverse.

    So do the former use faster planes the more positional they are, and the latter any.
    """
    generator = np.random.default_rng(1)
    for setting in (*full_size(), *full_size(SECOND)):
        learned = (setting.weights == "random") != as_claimed
        positional = generator.uniform(size=(2, 3, 18, 4))
        symbolic = 1 - positional + 0.02 * generator.normal(size=positional.shape) if learned else positional[:, ::-1]
        heads = {"positional": positional, "symbolic": symbolic if learned else generator.uniform(size=(2, 3, 18, 4))}
        heads["angles"] = np.broadcast_to(10.0 ** -np.linspace(0, 3, 128), (18, 128))
        lean = (heads["positional"] - heads["symbolic"])[0].mean(0) if learned else generator.uniform(-1, 1, (18, 4))
        heads["energy"] = np.eye(128)[(63.5 - 63 * lean).astype(int)]
        save_invented(setting.name, heads, folder, **asdict(setting))
