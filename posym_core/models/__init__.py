"""Models of one or a few layers that are trained here, and how they are trained."""

from posym_core.models._checkpoints import History
from posym_core.models._classifier import ClassLoss, EncodingModel, ablate_each_head, predict_classes
from posym_core.models._decoders import DecoderEnsemble, rotate_neighbours
from posym_core.models._ensembles import make_generators, sample_streams, stack_streams
from posym_core.models._layers import Layer, LayerAttention, LayerHead, ModelSettings, replace_heads
from posym_core.models._toys import ToyEnsemble
from posym_core.models._training import CosineSettings, LinearSettings, Observer, TrainingSettings, train

__all__ = [
    "ClassLoss",
    "CosineSettings",
    "DecoderEnsemble",
    "EncodingModel",
    "History",
    "Layer",
    "LayerAttention",
    "LayerHead",
    "LinearSettings",
    "ModelSettings",
    "Observer",
    "ToyEnsemble",
    "TrainingSettings",
    "ablate_each_head",
    "make_generators",
    "predict_classes",
    "replace_heads",
    "rotate_neighbours",
    "sample_streams",
    "stack_streams",
    "train",
]
