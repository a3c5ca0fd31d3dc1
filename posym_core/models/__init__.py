"""Models of one or a few layers that are trained here, and how they are trained."""

from posym_core.models.classifier import ClassLoss, EncodingModel, ablate_each_head
from posym_core.models.decoders import DecoderEnsemble
from posym_core.models.layers import ModelSettings
from posym_core.models.toys import ToyEnsemble
from posym_core.models.training import CosineSettings, TrainingSettings, train

__all__ = [
    "ClassLoss",
    "CosineSettings",
    "DecoderEnsemble",
    "EncodingModel",
    "ModelSettings",
    "ToyEnsemble",
    "TrainingSettings",
    "ablate_each_head",
    "train",
]
