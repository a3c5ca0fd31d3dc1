"""Positional and symbolic attention heads in transformers with rotary position encodings."""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posym_core.inspection.cubes import Cube, origin_cube
    from posym_core.inspection.profiling import Profile, profile
    from posym_core.inspection.visibility import HiddenBlocksWarning, LongPromptWarning
    from posym_core.metrics.exclusion_bound import Exclusion, exclusion
    from posym_core.metrics.frequencies import FrequencyShares, frequency_shares, frequency_use
    from posym_core.metrics.logit_matrix import cross_logits
    from posym_core.metrics.rope import rope_angles, rotate
    from posym_core.metrics.swaps import SwapScores, swap_scores
    from posym_core.models.language import load_model, load_tokenizer
    from posym_core.tasks.binding import BindingPrompts, binding_prompts

__version__ = "0.1.0"

__all__ = [
    "BindingPrompts",
    "Cube",
    "Exclusion",
    "FrequencyShares",
    "HiddenBlocksWarning",
    "LongPromptWarning",
    "Profile",
    "SwapScores",
    "binding_prompts",
    "cross_logits",
    "exclusion",
    "frequency_shares",
    "frequency_use",
    "load_model",
    "load_tokenizer",
    "origin_cube",
    "profile",
    "rope_angles",
    "rotate",
    "swap_scores",
]

# Where names are imported from when they are first asked for: the command line says its help without PyTorch, whose
# import takes seconds.
_HOMES = {
    "inspection.cubes": ("Cube", "origin_cube"),
    "inspection.profiling": ("Profile", "profile"),
    "inspection.visibility": ("HiddenBlocksWarning", "LongPromptWarning"),
    "metrics.exclusion_bound": ("Exclusion", "exclusion"),
    "metrics.frequencies": ("FrequencyShares", "frequency_shares", "frequency_use"),
    "metrics.logit_matrix": ("cross_logits",),
    "metrics.rope": ("rope_angles", "rotate"),
    "metrics.swaps": ("SwapScores", "swap_scores"),
    "models.language": ("load_model", "load_tokenizer"),
    "tasks.binding": ("BindingPrompts", "binding_prompts"),
}


def __getattr__(name: str) -> Any:
    """A name of the package's face, or one of its modules and rooms."""
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
            return value
    if name.startswith("__") or importlib.util.find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
