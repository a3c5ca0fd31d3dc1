"""Models that are loaded, trained or constructed."""

from posym_core.models.additions import add, added, learning
from posym_core.models.answers import Choices, answer_questions, choice_accuracy
from posym_core.models.classifier import ClassLoss, EncodingModel, ablations
from posym_core.models.decoders import DecoderEnsemble
from posym_core.models.gptj import answers_with, decoder, mean_outputs, right_answers, set_angles
from posym_core.models.language import PACKAGED, load_model, load_tokenizer
from posym_core.models.layers import ModelSettings
from posym_core.models.packaged import packaged_table
from posym_core.models.taught import taught_factors
from posym_core.models.toys import ToyEnsemble
from posym_core.models.training import CosineSettings, TrainingSettings, train

__all__ = [
    "PACKAGED",
    "Choices",
    "ClassLoss",
    "CosineSettings",
    "DecoderEnsemble",
    "EncodingModel",
    "ModelSettings",
    "ToyEnsemble",
    "TrainingSettings",
    "ablations",
    "add",
    "added",
    "answer_questions",
    "answers_with",
    "choice_accuracy",
    "decoder",
    "learning",
    "load_model",
    "load_tokenizer",
    "mean_outputs",
    "packaged_table",
    "right_answers",
    "set_angles",
    "taught_factors",
    "train",
]
