"""Positional and symbolic attention heads in transformers with rotary position encodings."""

from typing import TYPE_CHECKING

from posym_core.extensions import on_demand

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
else:
    # The command line says its help without PyTorch, whose import takes seconds.
    __getattr__, __dir__ = on_demand(__name__)

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
