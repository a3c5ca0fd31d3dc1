"""Every head, every plane, at many lengths: where planes turn from symbol to position, and where the logits' energy is.

Urrutia et al. (2026a, section 4) show one head's profile at one length. Here every head of a model reads windows of
running text from 16 to 1,024 tokens, and the language tasks; each task and length is a result of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posym_companion.loop import SECOND, Experiment, load_experiment_model, slug
from posym_core.metrics import BlockLayout
from posym_profile.prompts import make_prompts
from posym_profile.scores import LayerHeads, map_layers

# 500 is the longest at which a window of 512 still shows the first token, 512 the first at which it does not.
LENGTHS = (16, 32, 64, 128, 256, 500, 512, 1024)
# Other tasks, at one size each.
TASKS = {"binding-lives": 16, "index": 32, "keyvalue": 16, "induction": 64}
# Scores compare this many blocks at every length, so that they differ in nothing but what the blocks hold.
BLOCKS = 16
BANDS = 8
SHARES = ("positional", "symbolic", "interaction")
# Measurements of whole heads, kept per prompt.
WHOLE = ("positional", "symbolic", "far_positional", "far_symbolic", "entropy")
DIMS = {
    "positional symbolic far_* entropy": "prompt layer head",
    "energy": "prompt layer head band",
    "*_share kept use plane_*": "layer head plane",
    "angles": "layer plane",
    "seen": "layer",
}


@dataclass(frozen=True, kw_only=True)
class PlaneProfile:
    """One task at one size.

    Attributes:
        model: name for :func:`posym_profile.load_model`.
        task: one of ``PROMPT_TASKS``.
        facts: blocks of a prompt; with ``"text"`` the number of tokens.
        prompts: how many prompts.
        seed: of the prompts.
    """

    model: str = "gemma-3-270m"
    task: str = "text"
    facts: int = 64
    prompts: int = 16
    seed: int = 0

    @property
    def name(self) -> str:
        return f"plane_profile/{slug(self.model)}_{self.task}_{self.facts}"


def full_size(model: str = "gemma-3-270m") -> list[PlaneProfile]:
    """Running text at eight lengths, and the other tasks; of the second packaged model text of 64 tokens."""
    if model == SECOND:
        return [PlaneProfile(model=model, prompts=8)]
    texts = [PlaneProfile(model=model, facts=length) for length in LENGTHS]
    return texts + [PlaneProfile(model=model, task=task, facts=facts) for task, facts in TASKS.items()]


def small(setting: PlaneProfile | None = None) -> PlaneProfile:
    """A size that runs in a build."""
    return replace(setting or PlaneProfile(), facts=32, prompts=4)


def measure(
    model: torch.nn.Module, tokenizer: Any, setting: PlaneProfile, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """All arrays of one setting.

    Returns:
        ``positional``, ``symbolic``, ``entropy`` ``[prompt, layer, head]``, and ``far_positional`` and
        ``far_symbolic``, the scores without the block that stands last; means over prompts
        ``[layer, head, plane]`` of the three shares (``positional_share`` and so on), of ``kept``, the part of the
        contents' variance that is symbol, ``S / (S + I)``, of ``energy_share``, the plane's part of the sum of all
        planes' variances, of ``use`` (:func:`posym_core.frequency_use`) and of the planes' own scores
        ``plane_positional`` and ``plane_symbolic``; ``energy`` ``[prompt, layer, head, band]`` in eight bands of
        planes, fast to slow; ``angles`` ``[layer, plane]``; ``seen`` ``[layer]``, how many keys take part.
    """
    prompts = make_prompts(tokenizer, setting.task, facts=setting.facts, count=setting.prompts, seed=setting.seed)
    length = prompts.block_length
    if setting.task == "text":
        length = max(1, setting.facts // BLOCKS)
    angles: dict[int, Tensor] = {}
    seen: dict[int, int] = {}

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        # A window hides the leading keys: what takes no part in the attention takes none in the shares.
        visible = heads.visible.flatten(0, -2)
        first = int(visible[0].int().argmax())
        if not bool((visible.any(0) == visible.all(0)).all() and visible[0, first:].all()):
            raise ValueError(
                f"layer {heads.layer} does not see the same unbroken run of keys on every prompt, so that its planes "
                "have no common range of positions; measure one prompt at a time"
            )
        # Neither does the mark of beginning take part: it is never swapped, and its key is unlike all others.
        first = max(first, prompts.start)
        last = heads.keys.shape[-2] - 1
        angles[heads.layer], seen[heads.layer] = heads.angles.cpu(), last - first
        shares = heads.frequency_shares(slice(first, last))
        found = {f"{name}_share": getattr(shares, f"{name}_share") for name in SHARES}
        contents = shares.symbolic_share + shares.interaction_share
        found["kept"] = torch.where(contents > 0, shares.symbolic_share / contents, torch.nan)
        found["energy_share"] = shares.energy / shares.energy.sum(-1, keepdim=True)
        found["use"] = heads.frequency_use(slice(first, last))
        # As many blocks as the task has or the window leaves; in running text they end at the query's neighbour.
        if setting.task == "text":
            blocks = min(BLOCKS, (last - first) // length)
            start = last - blocks * length
        else:
            start = first
            blocks = min(prompts.blocks, (last - start) // length)
        swaps = BlockLayout(start=start, block_length=length, blocks=blocks)
        whole = heads.swap_scores(swaps)
        found |= {name: getattr(whole, name) for name in ("positional", "symbolic", "entropy")}
        far = heads.swap_scores(replace(swaps, blocks=blocks - 1))
        found |= {"far_positional": far.positional, "far_symbolic": far.symbolic}
        planes = heads.swap_scores(swaps, per_frequency=True, products=torch.float32)
        return found | {"plane_positional": planes.positional, "plane_symbolic": planes.symbolic}

    measured = map_layers(model, prompts.input_ids, one_layer, progress=progress)
    arrays = {name: measured.pop(name).numpy() for name in WHOLE}
    bands = np.array_split(np.nan_to_num(measured["energy_share"].numpy()), BANDS, axis=-1)
    arrays["energy"] = np.stack([band.sum(-1) for band in bands], axis=-1)
    arrays |= {name: values.nanmean(0).numpy() for name, values in measured.items()}
    width = max(len(row) for row in angles.values())
    arrays["angles"] = np.stack(
        [
            np.pad(angles[layer].numpy(), (0, width - len(angles[layer])), constant_values=np.nan)
            for layer in sorted(angles)
        ]
    )
    arrays["seen"] = np.array([seen[layer] for layer in sorted(seen)])
    small_enough = ("energy_share", "use", "angles", "seen")
    return {name: values if name in small_enough else values.astype(np.float16) for name, values in arrays.items()}


EXPERIMENT = Experiment(settings=full_size, small=small, measure=measure, dims=DIMS, load=load_experiment_model)
