"""Effects of an encoding on optimisation: the largest stable learning rate, and the sharpness of the loss.

Gu et al., *Deconstructing Positional Information* (2026), expect in their first version that rotary models train more
stably, because a product with a kernel contracts spectra. Models of :mod:`posym_companion.encodings.encoding_study` on
Distance, equal in all but the encoding, are trained with ever larger rates until one makes the loss blow up, and once
more as the study trains them, with looks at the largest eigenvalue of the Hessian and at the accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from posym_companion.encodings.curvature import sharpness
from posym_companion.encodings.encoding_study import TESTING, EncodingStudy, train_model
from posym_companion.experiments import Experiment
from posym_core.models import ClassLoss, CosineSettings, predict_classes
from posym_core.tasks import SentenceBatch

ENCODINGS = ("rope", "nope", "sinusoidal", "learned", "alibi", "t5")
BLOWN_UP = 1.1
"""A training whose loss, averaged over ten steps, is ever so many times that of the untrained model has blown up."""
DIMS = {
    "rates": "rate",
    "peak": "seed rate",
    "looks": "look",
    "bends": "bend",
    "eigenvalue residual loss": "seed bend",
    "accuracy": "seed look",
}


@dataclass(frozen=True, kw_only=True)
class SteadyRate(CosineSettings):
    """AdamW with a linear rise and then one rate."""

    def rate(self, step: int) -> float:
        return self.learning_rate * min(1.0, (step + 1) / self.warmup)


@dataclass(frozen=True, kw_only=True)
class EncodingOptimisation:
    """One encoding, with every seed.

    Attributes:
        encoding: one of :data:`ENCODINGS`.
        seeds: of weights and sentences.
        rates: learning rates, rising; those above the first that blows up are not tried.
        rate_steps: steps of a training at one rate, a tenth of them to reach it.
        steps: of the training that is looked at; its schedule is the study's.
        looks: after how many of its steps the accuracy is looked at.
        bends: after how many of its steps the Hessian is.
        sentences: that the Hessian is of.
        test: sentences for the accuracy.
    """

    encoding: str
    seeds: tuple[int, ...] = (0, 1, 2)
    rates: tuple[float, ...] = tuple(8e-3 * 2 ** (k / 2) for k in range(11))
    rate_steps: int = 150
    steps: int = 600
    looks: tuple[int, ...] = (0, 25, 50, 75, 100, 125, 150, 200, 250, 300, 400, 500, 600)
    bends: tuple[int, ...] = (0, 25, 50, 100, 200, 400, 600)
    sentences: int = 128
    test: int = 500

    def __post_init__(self):
        if self.encoding not in ENCODINGS:
            raise ValueError(f"encoding must be one of {', '.join(map(repr, ENCODINGS))}; got {self.encoding!r}")
        if any(low >= high for low, high in zip(self.rates, self.rates[1:], strict=False)):
            raise ValueError(f"rates are tried from low to high, so they must rise; got {list(self.rates)}")

    @property
    def name(self) -> str:
        return f"encoding_optimisation/{self.encoding}"

    @property
    def study(self) -> EncodingStudy:
        """Model, task and schedule."""
        return EncodingStudy(task="distance", setup=self.encoding, steps=self.steps)

    def draw(self, count: int, seed: int, purpose: int) -> SentenceBatch:
        """Return sentences that no training of this seed sees."""
        return self.study.make_task().sample(
            count, generator=torch.Generator().manual_seed(TESTING * (11 + purpose) + seed)
        )


def full_size() -> list[EncodingOptimisation]:
    """Return all encodings; there is no ``model`` to choose."""
    return [EncodingOptimisation(encoding=encoding) for encoding in ENCODINGS]


def blow_up(
    setting: EncodingOptimisation, seed: int, rate: float, *, device: str = "auto", checkpoint: Path | None = None
) -> float:
    """Train at one rate.

    Returns:
        The largest recorded loss, each a mean over ten steps, over the loss of the untrained model; infinite if a loss
        is not finite.
    """
    every = min(10, setting.rate_steps)
    schedule = SteadyRate(
        steps=setting.rate_steps,
        batch=setting.study.batch,
        learning_rate=rate,
        warmup=max(1, setting.rate_steps // 10),
        betas=(0.9, 0.98),
        record_every=every,
    )
    fresh = setting.draw(setting.sentences, seed, 0)

    def start(step: int, trained: ClassLoss) -> dict[str, Tensor] | None:
        if step:
            return None
        with torch.no_grad():
            return {"loss": _loss(trained, fresh)}

    try:
        _, history = train_model(
            setting.study, seed, schedule=schedule, observe=start, device=device, checkpoint=checkpoint
        )
    except FloatingPointError:
        return math.inf
    return float((history.losses / history.observations["loss"][0]).max())


def _loss(trained: ClassLoss, batch: SentenceBatch) -> Tensor:
    place = trained.model.embedding.weight.device
    return trained.losses(SentenceBatch(tokens=batch.tokens.to(place), answer=batch.answer.to(place)))


def observe_model(setting: EncodingOptimisation, seed: int):
    """Return what to see of a model after so many steps, for :func:`posym_core.models.train`."""
    batches = [setting.draw(count, seed, purpose) for purpose, count in enumerate((setting.sentences, setting.test))]

    def look(step: int, trained: ClassLoss) -> Mapping[str, Tensor] | None:
        observed: dict[str, Any] = {}
        trained.eval()
        if step in setting.bends:
            loss = _loss(trained, batches[0])
            bent = sharpness(loss, [p for p in trained.parameters() if p.requires_grad])
            observed.update(eigenvalue=bent.value, residual=bent.residual, loss=loss.detach())
        if step in setting.looks:
            observed["accuracy"] = (
                (predict_classes(trained.model, batches[1]) == batches[1].answer.cpu()).double().mean()
            )
        trained.train()
        return {name: torch.as_tensor(value, dtype=torch.float64) for name, value in observed.items()} or None

    return look


def measure(
    setting: EncodingOptimisation, *, device: str = "auto", work: Path | None = None, progress: bool = False
) -> dict[str, np.ndarray]:
    """Train and look at the models of one encoding.

    Returns:
        ``rates [rate]``; ``peak [seed, rate]`` of :func:`blow_up`, NaN for rates above the first that blows up;
        ``looks [look]`` and ``bends [bend]``; ``eigenvalue``, ``residual`` and ``loss`` ``[seed, bend]``; and
        ``accuracy [seed, look]``.
    """
    rates = np.array(setting.rates)
    peak = np.full((len(setting.seeds), len(rates)), np.nan)
    seen: list[dict[str, np.ndarray]] = []
    for number, seed in enumerate(setting.seeds):
        checkpoint = work / f"{seed}.safetensors" if work is not None else None
        _, history = train_model(
            setting.study,
            seed,
            observe=observe_model(setting, seed),
            device=device,
            checkpoint=checkpoint,
            progress=progress,
        )
        seen.append({name: x.numpy() for name, x in history.observations.items()})
        for place, rate in enumerate(tqdm(setting.rates, disable=not progress, desc=f"{setting.encoding} {seed}")):
            checkpoint = work / f"{seed}_{place}.safetensors" if work is not None else None
            peak[number, place] = blow_up(setting, seed, rate, device=device, checkpoint=checkpoint)
            if peak[number, place] > BLOWN_UP:
                break
    return {
        "rates": rates,
        "peak": peak,
        "looks": np.array(setting.looks),
        "bends": np.array(setting.bends),
        **{name: np.stack([each[name] for each in seen]).astype(np.float64) for name in seen[0]},
    }


EXPERIMENT = Experiment(
    settings=full_size,
    small={
        "seeds": (0, 1),
        "rates": (0.003, 3.0),
        "rate_steps": 10,
        "steps": 10,
        "looks": (0, 5, 10),
        "bends": (0,),
        "sentences": 10,
        "test": 20,
    },
    measure=measure,
    dims=DIMS,
)
