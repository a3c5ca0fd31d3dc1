"""What heads read that carry the answer of a taught model: the symbol that is asked for, or its origin.

On the prompts of :mod:`posym_companion.language_models.origins` four heads of SmolLM2, taught to bind, carry the answer
and look at the facts. All are purely symbolic by the papers' scores, but two of them, in a later layer, go with the
origin of the fact that is asked about more than with its symbol. Here these heads, and the one of Gemma, are looked at
on other prompts and in every run of :mod:`posym_companion.solvers.taught_gemma`: by crossed queries, and by an exchange
of parts of keys as in :mod:`posym_companion.language_models.origin_patching`, in a third of all layers, and for every
head in its own layer alone, so that nothing before it has changed. This project's own; that models first
look for a fact and then for its ordering is found, by other means, by Prakash et al. (2026).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from posym_companion.experiments import SECOND, Experiment, PromptSetting, name_prefix
from posym_companion.language_models import origins
from posym_companion.language_models.origin_patching import EXCHANGES as ALONE
from posym_companion.language_models.origin_patching import RUNS, exchange_layer_alone, make_pairs, measure_prompt
from posym_companion.language_models.origins import Origins
from posym_companion.solvers.binding_direction import kept_factors, load_taught
from posym_companion.solvers.taught_gemma import TaughtGemma
from posym_profile.language_models import PACKAGED, merge_lora
from posym_profile.planes import find_planes

WORDINGS = ("likes", "bought")
TAUGHT = (0, 1, 2)
# Of an exchange in a head alone: eight prompts leave its slopes to the one or two that whole keys move most.
ALONE_PROMPTS, ALONE_SEED = 32, 5000
# What is exchanged in the third of the layers in which a head stands; nothing first.
EXCHANGES = ("whole", "origin", "symbol", "other origins")
# What is exchanged in a head's own layer, behind nothing.
KEPT_ALONE = ("none", *ALONE)
KEPT = (("none", "all"), *((exchange, layers) for layers in ("middle", "late") for exchange in EXCHANGES))
DIMS = {
    "contrasts": "factor prompt layer head",
    "log_ratio": "prompt pair exchange layer head",
    "positional symbolic": "prompt layer head",
    "correct": "prompt",
}


@dataclass(frozen=True, kw_only=True)
class ReaderHeads(PromptSetting):
    """One taught model on one wording.

    Attributes:
        taught: seed of the run of :mod:`posym_companion.solvers.taught_gemma` that it was taught in.
        wording: of the binding prompts.
        prompts: how many; each has Latin squares of its own.
        pairs: other facts that the asked one exchanges parts of its keys with, one after another.
        seed: of the prompts, which no other experiment has.
        alone: exchange parts of keys in each head's own layer alone, and measure nothing else.
    """

    taught: int = 0
    wording: str = "likes"
    facts: int = origins.FACTS
    prompts: int = 8
    pairs: int = 2
    seed: int = 4000
    alone: bool = False

    @property
    def name(self) -> str:
        return f"reader_heads/{name_prefix(self.model)}{self.taught}_{self.wording}{'_alone' if self.alone else ''}"


def full_size() -> list[ReaderHeads]:
    """Every run of both families in two wordings, in two ways; there is no ``model`` to choose."""
    alone: dict[str, Any] = {"alone": True, "prompts": ALONE_PROMPTS, "seed": ALONE_SEED}
    return [
        ReaderHeads(model=model, taught=taught, wording=wording, **way)
        for way in ({}, alone)
        for model in (SECOND, PACKAGED)
        for taught in TAUGHT
        for wording in WORDINGS
    ]


def measure(
    model: Any, tokenizer: Any, folder: Path, setting: ReaderHeads, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """All arrays of one setting.

    Returns:
        ``contrasts [factor, prompt, layer, head]``, of the symbol asked for, of its origin and of the place, as in
        :func:`posym_companion.language_models.origins.measure`, over whole blocks; ``log_ratio [prompt, pair, exchange,
        layer, head]``, the logarithm of the last token's attention to the asked fact over that to the other, by
        :data:`KEPT`; the scores ``positional`` and ``symbolic [prompt, layer, head]``; ``correct [prompt]``. With
        ``alone`` nothing but ``log_ratio``, by :data:`KEPT_ALONE`.
    """
    asked = Origins(
        model=setting.model,
        wording=setting.wording,
        facts=setting.facts,
        asked=True,
        prompts=setting.prompts,
        seed=setting.seed,
        reads="few",
    )
    prompts = origins.draw_prompts(tokenizer, asked)
    generator = torch.Generator().manual_seed(setting.seed)
    with merge_lora(model, kept_factors(TaughtGemma(model=setting.model, seed=setting.taught), folder)):
        planes = find_planes(model, prompts.input_ids.shape[1])
        drawn = planes, setting.pairs, generator
        if setting.alone:
            alone = [
                [
                    exchange_layer_alone(model, pair, prompts, planes)
                    for pair in make_pairs(model, prompts, number, *drawn)
                ]
                for number in range(setting.prompts)
            ]
            return {"log_ratio": np.array(alone, dtype=np.float16)}
        read = origins.measure(model, tokenizer, asked, progress=False)
        rows = [
            measure_prompt(model, prompts, number, *drawn)["log_ratio"]
            for number in tqdm(range(setting.prompts), desc=setting.name, disable=not progress)
        ]
    chosen = [RUNS.index(run) for run in KEPT]
    return {
        "contrasts": read["contrasts"][read["curves"].tolist().index("block")].astype(np.float16),
        "log_ratio": torch.stack(rows)[:, :, chosen].cpu().numpy().astype(np.float16),
        "positional": read["positional"].astype(np.float16),
        "symbolic": read["symbolic"].astype(np.float16),
        "correct": read["correct"],
    }


EXPERIMENT = Experiment(
    settings=full_size, small={"facts": 6, "prompts": 2, "pairs": 1}, measure=measure, dims=DIMS, load=load_taught
)
