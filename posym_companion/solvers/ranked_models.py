"""The models whose heads are ranked, and then removed in that order: taught language models, and small decoders.

The small decoders are ensembles of :mod:`posym_companion.solvers.task_solvers`, trained once more and kept in the
cache, so that the heads that are removed are those that were ranked. They have two layers of four heads: of fewer heads
no order says much.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from posym_companion.experiments import load_experiment_model
from posym_companion.solvers.solver_settings import TaskSolvers
from posym_companion.solvers.solver_settings import small as small_solver
from posym_companion.solvers.task_solvers import train_ensemble
from posym_core.models import DecoderEnsemble
from posym_core.store import cache_folder, choose_device, find_cache_root, list_library_versions
from posym_profile.language_models import NAMES

# Models that bind; one that is not installed here is left out.
LANGUAGE_MODELS = ("gemma-3-270m-binds", "smollm2-135m-binds")
# Bands of which most seeds solve both kinds of question in the stored runs of task_solvers.
BANDS = ("1e4", "1e6", "pair", "middle")
LAYERS, HEADS = 2, 4
WEIGHTS = "weights.safetensors"
ROOM = 100_000_000


def _solvers() -> Mapping[str, TaskSolvers]:
    full = [TaskSolvers(band=band, layers=LAYERS, heads=HEADS) for band in BANDS]
    return {one.name.partition("/")[2]: one for one in (*full, *map(small_solver, full))}


SOLVERS = _solvers()
"""Ensembles by name, at full size and at one for trying out."""


def ranked_names() -> list[str]:
    """Return names of all models at full size, language models first."""
    packaged = [name for name in LANGUAGE_MODELS if name in NAMES]
    return [*packaged, *list(SOLVERS)[: len(BANDS)]]


def load_ranked(name: str, *, device: str = "auto", folder: Path | str | None = None) -> tuple[Any, Any]:
    """Return a language model and its tokenizer, or an ensemble of :data:`SOLVERS` and nothing."""
    if name not in SOLVERS:
        return load_experiment_model(name, device=device)
    return load_kept_solver(SOLVERS[name], device=device), None


def load_kept_solver(solver: TaskSolvers, *, device: str = "auto", root: Path | None = None) -> DecoderEnsemble:
    """Return an ensemble after its training, trained if the cache has none of these settings and libraries."""
    chosen = choose_device(device)
    key = {"settings": json.dumps(asdict(solver), sort_keys=True), "device": chosen.type, **list_library_versions()}

    def build(place: Path) -> None:
        model, _ = train_ensemble(solver, device=device, work=None, progress=False)
        save_file({name: x.detach().cpu().contiguous() for name, x in model.named_parameters()}, place / WEIGHTS)

    name = f"solver-{solver.name.partition('/')[2]}"
    folder = cache_folder(name, key, build, root=root or find_cache_root(), room=ROOM)
    model = DecoderEnsemble(solver.task, solver.angles[None], seeds=solver.seeds, heads=solver.heads)
    model.load_state_dict(load_file(folder / WEIGHTS))
    return model.to(chosen).requires_grad_(False)


def weights_digest(model: nn.Module) -> str:
    """Return SHA-256 of all parameters: what tells one model's heads from another's."""
    digest = hashlib.sha256()
    for name, x in sorted(model.named_parameters()):
        digest.update(f"{name} {x.dtype} {tuple(x.shape)}\n".encode())
        digest.update(x.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()
