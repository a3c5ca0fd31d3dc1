"""Pretrained language models: loaded, packaged, taught by additions of low rank, asked, or refused with a reason."""

from posym_profile.language_models._answers import Choices, choose_answers, compute_last_logits, run_with_cache
from posym_profile.language_models._loading import PACKAGED, load_model, load_tokenizer
from posym_profile.language_models._low_rank import LoraWeights, add_lora, find_matrix, merge_lora, read_factors
from posym_profile.language_models._packaged import MODELS, NAMES
from posym_profile.language_models._refusals import UnsupportedModelError, make_unsupported_error
from posym_profile.language_models._taught import load_finetuned_factors

__all__ = [
    "MODELS",
    "NAMES",
    "PACKAGED",
    "Choices",
    "LoraWeights",
    "UnsupportedModelError",
    "add_lora",
    "choose_answers",
    "compute_last_logits",
    "find_matrix",
    "load_finetuned_factors",
    "load_model",
    "load_tokenizer",
    "make_unsupported_error",
    "merge_lora",
    "read_factors",
    "run_with_cache",
]
