"""Positional and symbolic attention heads of pretrained language models, and the command ``posym``."""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posym_profile.interventions._head_patching import ablate_heads as ablate_heads
    from posym_profile.interventions._head_patching import patch_heads as patch_heads
    from posym_profile.language_models._answers import choose_answers as choose_answers
    from posym_profile.language_models._loading import load_model as load_model
    from posym_profile.language_models._loading import load_tokenizer as load_tokenizer
    from posym_profile.prompts._binding import binding_prompts as binding_prompts
    from posym_profile.report._explored import explore as explore
    from posym_profile.scores._cubes import origin_cube as origin_cube
    from posym_profile.scores._head_table import top_heads as top_heads
    from posym_profile.scores._profiling import profile as profile
    from posym_profile.scores._visibility import HiddenBlocksWarning as HiddenBlocksWarning

# Where names are imported from when they are first asked for: the command line says its help without PyTorch, whose
# import takes seconds.
_HOMES = {
    "interventions._head_patching": ("ablate_heads", "patch_heads"),
    "language_models._loading": ("load_model", "load_tokenizer"),
    "language_models._answers": ("choose_answers",),
    "prompts._binding": ("binding_prompts",),
    "report._explored": ("explore",),
    "scores._cubes": ("origin_cube",),
    "scores._head_table": ("top_heads",),
    "scores._profiling": ("profile",),
    "scores._visibility": ("HiddenBlocksWarning",),
}
__all__ = [name for names in _HOMES.values() for name in names]  # pyright: ignore[reportUnsupportedDunderAll]


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
