"""Models and metrics of positional and symbolic attention heads with rotary position encodings."""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posym_core.metrics._exclusion_bound import Exclusion, exclusion
    from posym_core.metrics._frequencies import FrequencyShares, frequency_shares, frequency_use
    from posym_core.metrics._logit_matrix import cross_logits
    from posym_core.metrics._rope import rope_angles, rotate
    from posym_core.metrics._swaps import SwapScores, swap_scores

__version__ = "0.1.0"

__all__ = [
    "Exclusion",
    "FrequencyShares",
    "SwapScores",
    "cross_logits",
    "exclusion",
    "frequency_shares",
    "frequency_use",
    "rope_angles",
    "rotate",
    "swap_scores",
]

# Where names are imported from when they are first asked for: the command line says its help without PyTorch, whose
# import takes seconds.
_HOMES = {
    "metrics._exclusion_bound": ("Exclusion", "exclusion"),
    "metrics._frequencies": ("FrequencyShares", "frequency_shares", "frequency_use"),
    "metrics._logit_matrix": ("cross_logits",),
    "metrics._rope": ("rope_angles", "rotate"),
    "metrics._swaps": ("SwapScores", "swap_scores"),
}


def __getattr__(name: str) -> Any:
    """Return a name of the package's face, or one of its modules and rooms."""
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
            return value
    if name.startswith("__") or importlib.util.find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
