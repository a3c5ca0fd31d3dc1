"""Positional and symbolic attention heads of pretrained language models, and the command ``posym``."""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posym_profile.interventions._head_patching import ablate_heads, patch_heads
    from posym_profile.language_models._loading import load_model, load_tokenizer
    from posym_profile.prompts._binding import BindingPrompts, binding_prompts
    from posym_profile.scores._cubes import KeyAnova, origin_cube
    from posym_profile.scores._profiling import Profile, profile
    from posym_profile.scores._visibility import HiddenBlocksWarning, LongPromptWarning

__all__ = [
    "BindingPrompts",
    "HiddenBlocksWarning",
    "KeyAnova",
    "LongPromptWarning",
    "Profile",
    "ablate_heads",
    "binding_prompts",
    "load_model",
    "load_tokenizer",
    "origin_cube",
    "patch_heads",
    "profile",
]

# Where names are imported from when they are first asked for: the command line says its help without PyTorch, whose
# import takes seconds.
_HOMES = {
    "interventions._head_patching": ("ablate_heads", "patch_heads"),
    "language_models._loading": ("load_model", "load_tokenizer"),
    "prompts._binding": ("BindingPrompts", "binding_prompts"),
    "scores._cubes": ("KeyAnova", "origin_cube"),
    "scores._profiling": ("Profile", "profile"),
    "scores._visibility": ("HiddenBlocksWarning", "LongPromptWarning"),
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
