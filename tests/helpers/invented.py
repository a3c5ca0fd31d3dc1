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
from posym_companion.language_models.binding_profile import plain_settings, random_weight_settings
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


def invent_bindings(folder: Path, *, trend: float = 1.0, coupling: float = -1.0, violation: float = 0.0) -> None:
    """Profiles of Gemma with known effects, and planes of random weights that lean to nothing.

    Args:
        folder: of results.
        trend: of early layers to positions; planes lean to symbols where they are slow as far.
        coupling: of the symbolic score to the positional one.
        violation: of the exclusion bound, as a share of it beyond one half.
    """
    generator = np.random.default_rng(0)
    invent_random_weights(folder, as_claimed=coupling < 0)
    shape, slow = (6, 18, 4), np.linspace(-1, 1, 128)
    angles = np.where(np.isin(np.arange(18), [5, 11, 17]), 0.01, 1.0)[:, None] * 10.0 ** -np.linspace(0, 3, 128)
    bound = generator.uniform(1, 2, shape)
    early = np.where(np.arange(18) >= 9, -1.0, 1.0)[None, :, None] * trend
    for setting in plain_settings():
        heads = 0.5 + 0.2 * early + 0.05 * generator.normal(size=(1, 18, 4))
        positional = heads + 0.01 * generator.normal(size=shape)
        lean = {"positional": -0.7 * trend * slow, "symbolic": 0.7 * trend * slow}
        arrays = {
            "positional": positional,
            "symbolic": 0.5 + coupling * (positional - 0.5) + 0.005 * generator.normal(size=shape),
            "null_positional": generator.uniform(size=shape),
            "null_symbolic": generator.uniform(size=shape),
            "variance": bound * (0.5 + violation),
            "slack": bound * (0.5 - violation) + 0.1 * violation,
            "bound": bound,
            "plane_angle": angles,
            "plane_energy_share": np.eye(128)[(64 - 60 * early * trend).astype(int) * np.ones((2, 18, 4), dtype=int)],
            **{f"plane_{name}": np.broadcast_to(0.5 + x, (2, 18, 4, 128)) for name, x in lean.items()},
        }
        save_invented(setting.name, arrays, folder, **asdict(setting))
    for setting in random_weight_settings():
        flat = {f"plane_{name}": np.full((2, 18, 4, 128), 0.5) for name in lean}
        save_invented(setting.name, flat, folder, **asdict(setting))
