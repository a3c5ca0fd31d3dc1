"""Pretrained language models: loaded, packaged, taught by additions of low rank, asked, or refused with a reason."""

from posym_profile.language_models.answers import Choices, choose_answers
from posym_profile.language_models.loading import PACKAGED, load_model, load_tokenizer
from posym_profile.language_models.low_rank import add_lora, merge_lora
from posym_profile.language_models.packaged import write_packaged_table
from posym_profile.language_models.refusals import UnsupportedModelError
from posym_profile.language_models.taught import load_finetuned_factors

__all__ = [
    "PACKAGED",
    "Choices",
    "UnsupportedModelError",
    "add_lora",
    "choose_answers",
    "load_finetuned_factors",
    "load_model",
    "load_tokenizer",
    "merge_lora",
    "write_packaged_table",
]
