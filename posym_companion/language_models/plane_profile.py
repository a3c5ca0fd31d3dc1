"""Every head, every plane, at many lengths: where planes turn from symbol to position, and where the logits' energy is.

Urrutia et al. (2026a, section 4) show one head's profile at one length. Here every head of a model reads windows of
running text from 16 to 1,024 tokens, and the language tasks; each task and length is a result of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from posym_companion.experiments import SECOND, TAUGHT, Experiment, PromptSetting, load_experiment_model, slug
from posym_companion.head_measurements import PARTS, LayerLook, gather_bands, look
from posym_core.metrics import BlockLayout
from posym_profile.language_models import PACKAGED
from posym_profile.prompts import make_prompts
from posym_profile.scores import LayerHeads

# 500 is the longest at which a window of 512 still shows the first token, 512 the first at which it does not.
LENGTHS = (16, 32, 64, 128, 256, 500, 512, 1024)
# Sizes of each task; of the other packaged models one, with few prompts.
SIZES = {"text": LENGTHS, "binding-lives": (16,), "index": (32,), "keyvalue": (16,), "induction": (64,)}
SMALLER = ({"text": (64,)}, 8)
FEWER: dict[str, tuple[dict[str, tuple[int, ...]], int]] = {SECOND: SMALLER, TAUGHT: SMALLER}
# Scores compare this many blocks at every length, so that they differ in nothing but what the blocks hold.
BLOCKS = 16
DIMS = {
    "positional symbolic far_* entropy": "prompt layer head",
    "energy": "prompt layer head band",
    "*_share kept use plane_*": "layer head plane",
    "angles": "layer plane",
    "seen": "layer",
}


@dataclass(frozen=True, kw_only=True)
class PlaneProfile(PromptSetting):
    """One task at one size.

    Attributes:
        task: one of ``PROMPT_TASKS``.
        facts: blocks of a prompt; with ``"text"`` the number of tokens.
    """

    task: str = "text"
    facts: int = 64
    prompts: int = 16

    @property
    def name(self) -> str:
        return f"plane_profile/{slug(self.model)}_{self.task}_{self.facts}"


def full_size(model: str = PACKAGED) -> list[PlaneProfile]:
    """Return running text at eight lengths, and the other tasks."""
    sizes, prompts = FEWER.get(model, (SIZES, PlaneProfile.prompts))
    return [
        PlaneProfile(model=model, task=task, facts=facts, prompts=prompts)
        for task, lengths in sizes.items()
        for facts in lengths
    ]


def find_visible_keys(heads: LayerHeads, start: int) -> slice:
    """Return the keys before the query's own that take part in a layer's attention, from ``start`` on.

    A window hides the leading keys: what takes no part in the attention takes none in the shares.
    """
    visible = heads.visible.flatten(0, -2)
    first = int(visible[0].int().argmax())
    if not bool((visible.any(0) == visible.all(0)).all() and visible[0, first:].all()):
        raise ValueError(
            f"layer {heads.layer} does not see the same unbroken run of keys on every prompt, so that its planes "
            "have no common range of positions; measure one prompt at a time"
        )
    # Neither does the mark of beginning take part: it is never swapped, and its key is unlike all others.
    return slice(max(first, start), heads.keys.shape[-2] - 1)


def measure(model: Any, tokenizer: Any, setting: PlaneProfile, *, progress: bool = True) -> dict[str, np.ndarray]:
    """Return all arrays of one setting: scores, ``far_*`` without the block that stands last, and means by plane.

    ``kept`` is the part of the contents' variance that is symbol, ``energy`` is in eight bands of planes from fast to
    slow, and ``seen`` how many keys take part in each layer.
    """
    prompts = make_prompts(tokenizer, setting.task, facts=setting.facts, count=setting.prompts, seed=setting.seed)
    text = setting.task == "text"
    length = max(1, setting.facts // BLOCKS) if text else prompts.block_length
    seen: dict[int, int] = {}

    def find_keys(heads: LayerHeads) -> slice:
        keys = find_visible_keys(heads, prompts.start)
        seen[heads.layer] = keys.stop - keys.start
        return keys

    def choose_blocks(heads: LayerHeads) -> BlockLayout:
        # As many blocks as the task has or the window leaves; in running text they end at the query's neighbour.
        keys = find_visible_keys(heads, prompts.start)
        blocks = min(BLOCKS if text else prompts.blocks, (keys.stop - keys.start) // length)
        start = keys.stop - blocks * length if text else keys.start
        return BlockLayout(start=start, block_length=length, blocks=blocks)

    def score_far(name: str) -> Callable[[LayerLook], torch.Tensor]:
        return lambda at: getattr(at.heads.swap_scores(replace(at.layout, blocks=at.layout.number - 1)), name)

    wanted: dict[str, Any] = {name: name for name in ("positional", "symbolic", "entropy")}
    wanted |= {f"far_{name}": score_far(name) for name in PARTS[:2]}
    planes = {name: name for name in ("kept", "use", "plane_positional", "plane_symbolic")}
    planes |= {"energy_share": "plane_energy_share"} | {f"{part}_share": f"plane_{part}_share" for part in PARTS}
    measured = look(
        model,
        prompts,
        wanted | planes,
        layout=choose_blocks,
        keys=find_keys,
        products=torch.float32,
        progress=progress,
    )
    precise = {name: measured[name].nanmean(0).numpy() for name in ("energy_share", "use")}
    return {
        **{name: measured[name].numpy().astype(np.float16) for name in wanted},
        **{name: measured[name].nanmean(0).numpy().astype(np.float16) for name in planes},
        "energy": gather_bands(np.nan_to_num(measured["energy_share"].numpy()), np.sum).astype(np.float16),
        **precise,
        "angles": measured["angles"].numpy(),
        "seen": np.array([seen[layer] for layer in sorted(seen)]),
    }


EXPERIMENT = Experiment(
    settings=full_size, small={"facts": 32, "prompts": 4}, measure=measure, dims=DIMS, load=load_experiment_model
)
