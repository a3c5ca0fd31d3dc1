"""Made-up results, to see verdicts come out both ways."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from posym_core.runs.results import Result, save_result


def save_invented(name: str, arrays: Mapping[str, np.ndarray], folder: Path, **settings: Any) -> Result:
    """A result whose dimensions have no names worth reading."""
    dims = {key: " ".join(f"d{number}" for number in range(np.ndim(x))) for key, x in arrays.items()}
    settings = settings or {"seed": 0}
    return save_result(name, arrays, dims=dims, settings=settings, device="CPU", seconds=1, folder=folder)
