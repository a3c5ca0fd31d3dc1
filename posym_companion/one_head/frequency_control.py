"""Control of success by frequency: toy heads that own one angle, two, or all, on the three canonical tasks.

Urrutia et al., *Decoupling Positional and Symbolic Attention Behavior in Transformers*: a head that may use one
frequency only does Index with high ones, Retrieval with low ones, and Partial induction with none, but with the pair of
angle 0 and a moderate one. Every *cell* here is one ensemble (one task, one length, a list of angles, all seeds);
within a cell nothing but angle and seed varies, and variants of one seed share weights at the start and all data.

Beyond the paper: three lengths against predicted thresholds, heads that own all planes of a model with dimension 64,
and these heads with bands of planes switched off when tested.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from posym_companion.experiments import Experiment, RunOutput, finish_part
from posym_core.metrics import cross_logits, exclusion, rope_angles, swap_scores
from posym_core.models import ToyEnsemble, TrainingSettings, make_generators, sample_streams, train
from posym_core.store import choose_device
from posym_core.tasks import IndexTask, PartialInductionTask, RetrievalTask, Task

NAME = "frequency_control/full"
TRAINING, TESTING, SCORING = 0, 1, 2  # purposes of data streams
CHUNK = 512  # test inputs per forward pass, which bounds memory
DIMS = {
    "angles": "plane",
    "frequencies": "variant",
    "*/hits": "seed variant position",
    "*/asked": "seed position",
    "*/scores": "seed variant score",
    "*/shares": "seed variant share",
    "*/strength": "seed variant",
    "*/query": "seed variant query dim",
    "*/key": "seed variant part dim",
    "*/plane_variance": "seed plane",
    "*/plane_shares": "seed plane share",
    "*/gated */alone": "seed band",
    "*/fastest */slowest": "seed kept",
    "*/losses": "record seed variant",
    "*/snapshot_query": "snapshot query dim",
    "*/snapshot_key": "snapshot part dim",
    "*/snapshot_steps": "snapshot",
    "*/seconds": "",
}


@dataclass(frozen=True, kw_only=True)
class FrequencyControlSettings:
    """Settings of training and test.

    Attributes:
        lengths: context lengths; every length is a cell per task and kind of angles.
        frequencies: frequency IDs, 1 (fastest) to ``dim / 2``.
        dim: dimension of the model whose angles are used; with ``base`` it gives the angles.
        base: RoPE base.
        seeds: one model per seed and angle.
        attributes: attributes of Retrieval and values of Partial induction.
        repetition: occurrences of the queried symbol in Partial induction.
        few_symbols: an extra cell of Partial induction with this few symbols and single angles; 0 leaves it out.
        all_planes: extra cells whose heads own all planes; bands of ``band`` planes are gated when tested.
        training: see :class:`posym_core.models.TrainingSettings`.
        test_inputs: fresh inputs per seed for accuracy.
        score_inputs: inputs per seed for scores and variance shares.
        snapshot_frequencies: frequency IDs of the Index head and the Retrieval head followed through training.
    """

    lengths: tuple[int, ...] = (32, 16, 64)
    frequencies: tuple[int, ...] = tuple(range(1, 33))
    dim: int = 64
    base: float = 10000.0
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    attributes: int = 8
    repetition: int = 4
    few_symbols: int = 8
    all_planes: bool = True
    band: int = 4
    training: TrainingSettings = field(default_factory=TrainingSettings)
    test_inputs: int = 4096
    score_inputs: int = 64
    snapshot_frequencies: tuple[int, int] = (9, 25)

    def __post_init__(self):
        planes = self.dim // 2
        wrong = [frequency for frequency in self.frequencies if not 1 <= frequency <= planes]
        if wrong or not self.frequencies:
            raise ValueError(
                f"frequency IDs run from 1 to {planes} for dim={self.dim}; got {list(self.frequencies)}. "
                f"Pass some of range(1, {planes + 1})"
            )
        if planes % self.band:
            raise ValueError(f"bands of {self.band} planes do not divide {planes} planes; pass a divisor of {planes}")
        if len(self.seeds) < 2 or len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"intervals over seeds need two or more different seeds; got {list(self.seeds)}")

    @property
    def name(self) -> str:
        return NAME


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One ensemble: a task and the angles its variants own."""

    name: str
    task: Task
    angles: Float[Tensor, "variant plane"]


def cells(settings: FrequencyControlSettings) -> list[Cell]:
    """Return all ensembles of an experiment, in the order in which they are trained.

    Names are ``task_kind_length``: kind ``single`` (one angle), ``pair`` (0 and one angle), ``few`` (single, with
    ``few_symbols`` symbols) or ``all``.
    """
    every = rope_angles(settings.dim, settings.base)
    single = every[torch.tensor(settings.frequencies) - 1][:, None]
    pair = torch.cat([torch.zeros_like(single), single], dim=1)
    planned = []
    for length in settings.lengths:
        index, retrieval, induction = canonical_tasks(settings, length)
        planned += [
            Cell(name=f"index_single_{length}", task=index, angles=single),
            Cell(name=f"retrieval_single_{length}", task=retrieval, angles=single),
            Cell(name=f"induction_pair_{length}", task=induction, angles=pair),
            Cell(name=f"induction_single_{length}", task=induction, angles=single),
        ]
    length = settings.lengths[0]
    index, retrieval, induction = canonical_tasks(settings, length)
    if settings.few_symbols:
        few = dataclasses.replace(induction, symbols=settings.few_symbols)
        planned.append(Cell(name=f"induction_few_{length}", task=few, angles=single))
    if settings.all_planes:
        for name, task in (("index", index), ("retrieval", retrieval), ("induction", induction)):
            planned.append(Cell(name=f"{name}_all_{length}", task=task, angles=every[None]))
    return planned


def canonical_tasks(
    settings: FrequencyControlSettings, length: int
) -> tuple[IndexTask, RetrievalTask, PartialInductionTask]:
    """Return the three tasks at one length.

    Retrieval needs as many symbols as positions and gets exactly these; the others keep 32 symbols at every length.
    """
    return (
        IndexTask(length=length, symbols=32),
        RetrievalTask(length=length, symbols=length, attributes=settings.attributes),
        PartialInductionTask(length=length, symbols=32, attributes=settings.attributes, repetition=settings.repetition),
    )


def measure(
    settings: FrequencyControlSettings, *, device: str = "auto", work: Path | None = None, progress: bool = True
) -> RunOutput:
    """Train and measure every cell; those in ``work`` are not trained again."""
    chosen, seconds = choose_device(device), 0.0
    arrays: dict[str, np.ndarray] = {
        "angles": rope_angles(settings.dim, settings.base).numpy(),
        "frequencies": np.array(settings.frequencies),
    }
    for cell in cells(settings):
        train_cell = partial(run_cell, cell, settings, device=chosen, work=work, progress=progress)
        measured = finish_part(work, cell.name, train_cell)
        if work is not None:
            (work / f"{cell.name}.safetensors").unlink(missing_ok=True)  # a finished cell's checkpoint
        seconds += float(measured["seconds"])
        arrays |= {f"{cell.name}/{key}": value for key, value in measured.items()}
    return RunOutput(arrays=arrays, seconds=seconds)


def run_cell(
    cell: Cell,
    settings: FrequencyControlSettings,
    *,
    device: torch.device,
    work: Path | None = None,
    progress: bool = True,
) -> dict[str, np.ndarray]:
    """Train one ensemble and measure it."""
    model = ToyEnsemble(cell.task, cell.angles, seeds=settings.seeds).to(device)
    history = train(
        model,
        lambda count, generators: sample_streams(cell.task, count, generators),
        generators=make_generators(settings.seeds, device, purpose=TRAINING),
        settings=settings.training,
        observe=snapshots(cell, settings),
        checkpoint=work / f"{cell.name}.safetensors" if work is not None else None,
        identity=describe(cell, settings),
        progress=progress,
        label=cell.name,
    )
    measured = measure_heads(model, settings)
    measured["losses"] = history.losses.half().numpy()
    if history.observations:
        measured |= {key: value.half().numpy() for key, value in history.observations.items()}
        measured["snapshot_steps"] = history.observed_at.numpy()
    return measured


@torch.no_grad()
def measure_heads(model: ToyEnsemble, settings: FrequencyControlSettings) -> dict[str, np.ndarray]:
    """Return right answers by position, scores, shares, unrotated queries and keys, and strength of trained heads.

    With more than two planes also what :func:`measure_planes` does.
    """
    hits, asked = count_hits(model, settings)
    measured = {"hits": hits, "asked": asked}
    device = model.embedding.device
    batch = sample_streams(model.task, settings.score_inputs, make_generators(model.seeds, device, purpose=SCORING))
    scores, shares = [], []
    for variant in range(model.ensemble[1]):
        query, keys = model.query_and_keys(batch.tokens, variant)
        angles = model.angles[variant]
        score = swap_scores(query, keys, angles, scale=model.scale)
        scores.append(torch.stack([score.positional, score.symbolic, score.entropy], dim=-1).mean(1))
        C = cross_logits(query, keys, angles, scale=model.scale)[..., :-1, :-1]
        parts = exclusion(C)
        part = torch.stack([parts.positional_share, parts.symbolic_share, parts.interaction_share], dim=-1)
        shares.append(part.nanmean(1))
    measured["scores"] = torch.stack(scores, dim=1).float().cpu().numpy()
    measured["shares"] = torch.stack(shares, dim=1).float().cpu().numpy()
    query = model.query_table()
    token_keys = model.key_table()[:, :, : model.task.context_vocabulary]
    strength = query.norm(dim=-1).mean(-1) * token_keys.norm(dim=-1).mean(-1) * model.scale
    measured["strength"] = strength.cpu().numpy()
    measured["query"] = query.half().cpu().numpy()
    measured["key"] = (model.embedding @ model.key_map).half().cpu().numpy()
    if model.angles.shape[1] > 2:
        measured |= measure_planes(model, settings, batch.tokens)
    return measured


def count_hits(
    model: ToyEnsemble, settings: FrequencyControlSettings, gates: Tensor | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return right answers ``[seed, variant, position]`` and inputs ``[seed, position]`` of a fresh test set."""
    device = model.embedding.device
    generators = make_generators(model.seeds, device, purpose=TESTING)
    seeds, variants = model.ensemble
    hits = torch.zeros(seeds, variants, model.task.length, device=device)
    asked = torch.zeros(seeds, model.task.length, device=device)
    remaining = settings.test_inputs
    while remaining:
        batch = sample_streams(model.task, min(CHUNK, remaining), generators)
        remaining -= batch.tokens.shape[1]
        right = (model(batch.tokens, gates).argmax(-1) == batch.answer[:, None]).float()
        hits.scatter_add_(2, batch.position[:, None].expand_as(right), right)
        asked.scatter_add_(1, batch.position, torch.ones_like(batch.position, dtype=asked.dtype))
    return hits.short().cpu().numpy(), asked.short().cpu().numpy()


def measure_planes(model: ToyEnsemble, settings: FrequencyControlSettings, tokens: Tensor) -> dict[str, np.ndarray]:
    """Return which planes an ensemble of one variant uses: by variance, shares, and accuracy without or with them
    alone.
    """
    query, keys = model.query_and_keys(tokens, 0)
    variances, shares = [], []
    # one input at a time: planes x content x position is large
    for number in range(tokens.shape[1]):
        C = cross_logits(query[:, number], keys[:, number], model.angles[0], scale=model.scale, per_frequency=True)[
            ..., :-1, :-1
        ]
        variances.append(C.diagonal(dim1=-2, dim2=-1).var(-1, correction=0))
        parts = exclusion(C)
        shares.append(torch.stack([parts.positional_share, parts.symbolic_share, parts.interaction_share], dim=-1))
    planes = model.angles.shape[1]
    bands = planes // settings.band
    band = torch.arange(planes) // settings.band

    def accuracy(keep: Tensor) -> np.ndarray:
        hits, asked = count_hits(model, settings, keep.to(model.embedding))
        return hits[:, 0].sum(-1) / asked.sum(-1)

    return {
        "plane_variance": torch.stack(variances).mean(0).float().cpu().numpy(),
        "plane_shares": torch.stack(shares).nanmean(0).float().cpu().numpy(),
        "gated": np.stack([accuracy(band != b) for b in range(bands)], axis=1),
        "alone": np.stack([accuracy(band == b) for b in range(bands)], axis=1),
        "fastest": np.stack([accuracy(band < chosen) for chosen in range(bands + 1)], axis=1),
        "slowest": np.stack([accuracy(band >= bands - chosen) for chosen in range(bands + 1)], axis=1),
    }


def snapshots(cell: Cell, settings: FrequencyControlSettings):
    """Return an observer of one Index and one Retrieval head of the first length and seed, or ``None``."""
    followed = [f"{kind}_{settings.lengths[0]}" for kind in ("index_single", "retrieval_single")]
    frequency = settings.snapshot_frequencies[followed.index(cell.name)] if cell.name in followed else 0
    if frequency not in settings.frequencies:
        return None
    variant = settings.frequencies.index(frequency)
    # denser at first, where most happens
    steps = {round(settings.training.steps * (i / 48) ** 2) for i in range(49)}

    def observe(step: int, model: ToyEnsemble) -> Mapping[str, Tensor] | None:
        if step not in steps:
            return None
        with torch.no_grad():
            return {
                "snapshot_query": model.query_table()[0, variant],
                "snapshot_key": (model.embedding @ model.key_map)[0, variant],
            }

    return observe


def describe(cell: Cell, settings: FrequencyControlSettings) -> dict[str, Any]:
    """Return what decides a cell's numbers, as JSON."""
    return {
        "cell": cell.name,
        "task": type(cell.task).__name__,
        **dataclasses.asdict(cell.task),
        "angles": cell.angles.tolist(),
        "seeds": list(settings.seeds),
    }


def full_size() -> list[FrequencyControlSettings]:
    """One run with all cells; there is no ``model`` to choose."""
    return [FrequencyControlSettings()]


# One length, four angles, two seeds, a fifth of the steps: some seconds on one core.
SMALL = {
    "lengths": (32,),
    "frequencies": (1, 9, 17, 25),
    "seeds": (0, 1),
    "few_symbols": 0,
    "all_planes": False,
    "training": TrainingSettings(steps=300, batch=64),
    "test_inputs": 512,
    "score_inputs": 8,
}
EXPERIMENT = Experiment(settings=full_size, small=SMALL, measure=measure, dims=DIMS)
