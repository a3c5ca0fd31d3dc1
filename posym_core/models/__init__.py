"""Models that are loaded, trained or constructed."""

from posym_core.models.answers import Choices, answer_questions, choice_accuracy
from posym_core.models.classifier import ClassLoss, EncodingModel, ablations
from posym_core.models.gptj import answers_with, decoder, mean_outputs, right_answers, set_angles
from posym_core.models.language import PACKAGED, load_model
from posym_core.models.layers import ModelSettings
from posym_core.models.toys import ToyEnsemble
from posym_core.models.training import CosineSettings, TrainingSettings, train

__all__ = [
    "PACKAGED",
    "Choices",
    "ClassLoss",
    "CosineSettings",
    "EncodingModel",
    "ModelSettings",
    "ToyEnsemble",
    "TrainingSettings",
    "ablations",
    "answer_questions",
    "answers_with",
    "choice_accuracy",
    "decoder",
    "load_model",
    "mean_outputs",
    "right_answers",
    "set_angles",
    "train",
]
