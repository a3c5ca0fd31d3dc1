"""Settings of the decoders that solve binding and index: bands of angles, and sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from posym_core.metrics import rope_angles
from posym_core.models import CosineSettings
from posym_core.tasks import FactsTask, Question

BANDS = ("1e2", "1e4", "1e6", "fast", "middle", "slow", "p25", "p75", "none", "pair")
STEPS = 1600
# One band in the first layer, another in the second: one of them forbids a kind of head there.
MIXED = ("none+1e4", "1e4+none", "fast+1e4", "1e4+fast")


@dataclass(frozen=True, kw_only=True)
class TaskSolvers:
    """One ensemble.

    Attributes:
        band: angles of all layers' planes, one of :data:`BANDS`, or two names joined by ``+`` for the first and the
            other layers.
        layers: number of layers.
        heads: heads a layer.
        facts: facts of a prompt.
        questions: kinds of question that are learned together.
        width: of the residual stream; a head has ``width / heads`` dimensions.
        seeds: one model each.
        training: see :class:`posym_core.models.CosineSettings`. A model whose loss is below ``stop_loss``
            has learned the task and is trained no more.
        look_every: steps between looks at accuracy and scores.
        test_prompts: prompts of each kind for accuracy, ablation and patching.
        score_prompts: prompts of each kind for scores.
    """

    band: str = "1e4"
    layers: int = 2
    heads: int = 2
    facts: int = 8
    questions: tuple[Question, ...] = ("binding", "index")
    width: int = 64
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    training: CosineSettings = field(
        default_factory=lambda: CosineSettings(
            steps=STEPS, batch=64, learning_rate=6e-3, warmup=100, betas=(0.9, 0.98), record_every=25, stop_loss=0.05
        )
    )
    look_every: int = 50
    test_prompts: int = 512
    score_prompts: int = 48

    def __post_init__(self):
        unknown = [name for name in self.band.split("+") if name not in BANDS]
        if unknown or self.band.count("+") > 1:
            raise ValueError(f"band must be one of {', '.join(BANDS)}, or two of them joined by +; got {self.band!r}")
        if self.width % (4 * self.heads):
            raise ValueError(
                f"a head needs an even number of planes, so width must be a multiple of {4 * self.heads} for "
                f"{self.heads} heads; got {self.width}"
            )
        if len(self.seeds) < 2 or len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"intervals over seeds need two or more different seeds; got {list(self.seeds)}")

    @property
    def name(self) -> str:
        band, more = self.band.replace("+", "-"), "_last" if "last" in self.questions else ""
        if self.training.steps > STEPS:
            more += "_longer"
        return f"task_solvers/{band}_{self.layers}x{self.heads}_{self.facts}{more}"

    @property
    def task(self) -> FactsTask:
        """Return the task."""
        return FactsTask(facts=self.facts, names=max(32, self.facts), questions=self.questions)

    @property
    def angles(self) -> Float[Tensor, "layer plane"]:
        """Radians per position."""
        planes = self.width // self.heads // 2
        first, *others = (band_angles(name, planes, self.task.context - 1) for name in self.band.split("+"))
        return torch.stack([first, *(others or [first]) * (self.layers - 1)])


def band_angles(band: str, planes: int, length: int) -> Float[Tensor, " plane"]:
    """Return radians per position of a band's planes, fastest first, for contexts of ``length`` tokens.

    * ``1e2``, ``1e4``, ``1e6``: RoPE with this base;
    * ``fast``: from 1 to a whole turn over the context; ``middle``: from there to an eighth; ``slow``: from there to
      1e-4;
    * ``p25``, ``p75``: the fastest quarter or three quarters of base 1e4, the other planes stopped (p-RoPE);
    * ``none``: all stopped;
    * ``pair``: half of the planes stopped, half at a quarter turn over the context.
    """
    turn = 2 * math.pi / length

    def between(fast: float, slow: float) -> Tensor:
        return torch.logspace(math.log10(fast), math.log10(slow), planes, dtype=torch.float64)

    if band in ("1e2", "1e4", "1e6"):
        return rope_angles(2 * planes, float(band))
    if band in ("p25", "p75"):
        angles = rope_angles(2 * planes, 1e4)
        angles[round(int(band[1:]) / 100 * planes) :] = 0
        return angles
    if band == "pair":
        return torch.tensor([turn / 4] * (planes // 2) + [0.0] * (planes - planes // 2), dtype=torch.float64)
    edges = {"fast": (1.0, turn), "middle": (turn, turn / 8), "slow": (turn / 8, 1e-4)}
    return between(*edges[band]) if band in edges else torch.zeros(planes, dtype=torch.float64)


def full_size() -> list[TaskSolvers]:
    """Return the grid, in the order in which it is worth running; there is no ``model`` to choose.

    With 16 facts none of four bands binds within the steps, so more facts are not tried; two bands get three times the
    steps.
    """
    four = ("1e4", "fast", "slow", "none")
    others = tuple(band for band in BANDS if band not in four)
    longer = replace(TaskSolvers().training, steps=3 * STEPS)
    plans: list[dict[str, Any]] = [
        *({"band": band} for band in four + MIXED + others),
        *({"band": band, "layers": 1} for band in BANDS),
        *({"band": band, "questions": get_args(Question)} for band in four),
        *({"band": band, "heads": 4} for band in four),
        *({"band": band, "layers": 4} for band in four),
        *({"band": band, "facts": 16} for band in four),
        *({"band": band, "heads": 1} for band in four),
        *({"band": band, "facts": 16, "training": longer} for band in ("1e4", "slow")),
        *({"band": band, "layers": 4} for band in others),
        *({"band": band, "heads": heads} for heads in (1, 4) for band in others),
    ]
    settings = []
    for plan in plans:
        setting = TaskSolvers(**plan)
        if setting.layers == 1:
            setting = replace(setting, training=replace(setting.training, steps=800))
        settings.append(setting)
    return settings


def small(setting: TaskSolvers | None = None) -> TaskSolvers:
    """Return a run for a chapter: two seeds, few facts, a quarter of the steps; some seconds."""
    setting = setting or TaskSolvers()
    return replace(
        setting,
        facts=4,
        seeds=(0, 1),
        training=replace(setting.training, steps=400),
        test_prompts=128,
        score_prompts=8,
    )
