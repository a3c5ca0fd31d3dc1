"""Profile every head of a language model on the binding task: scores, exclusion, shares per plane, accuracy.

Urrutia et al. (2026a, section 4) do this with gemma-2-2b-it at 256 facts. One result a setting is kept under the
setting's name; a setting whose result is there already is not run again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from posym_companion.loop import SECOND, Experiment, load_experiment_model, slug
from posym_companion.one_head.head_geometry import with_random_weights
from posym_core.metrics import BlockLayout, exclusion, simulate_random_swaps
from posym_profile.language_models import choose_answers
from posym_profile.prompts import binding_prompts
from posym_profile.scores import LayerHeads, map_layers

# The cross-logit matrix of all keys is kept per head up to this many: beyond, it would dwarf the model.
LONGEST_MATRIX = 300
TEMPLATES = ("likes", "bought", "lives")
FACTS = (16, 64, 128)
# What is done to the prompts so that a swap of keys moves less of the count of sentences; and fewer prompts, of fewer
# lengths, on which the scores without and with it are compared.
FRAMES: Mapping[str, Mapping[str, Any]] = {"none": {}, "lead": {"lead": 8}, "varied": {"varied": True}}
FRAMED = {"none": FACTS[:2], "lead": FACTS[:2], "varied": FACTS[:1]}
FEWER = 12
# Seeds of random weights, whose planes stand beside the model's.
DRAWS = (0, 1, 2)
DIMS = {
    "correct log_probability alternatives": "prompt",
    "plane_angle": "layer plane",
    "plane_*": "moment layer head plane",
    "positional symbolic entropy null_* variance bound slack *_share": "prompt layer head",
}


@dataclass(frozen=True, kw_only=True)
class BindingProfile:
    """One setting.

    Attributes:
        model: name for :func:`posym_profile.load_model`.
        template: sentence form, see :func:`posym_profile.binding_prompts`.
        facts: facts per prompt; each is one block.
        prompts: how many prompts.
        seed: of the prompts.
        tau: temperature of the weights over pairs of blocks.
        eps: floor of the norms in the cosine.
        lead: facts of the same frame in front, in no block.
        varied: whether each fact has a verb of its own.
        keys: which keys the exclusion and the shares are about: ``"all"`` before the query's own, or the ``"facts"``
            that are swapped.
        kept: everything, or what is ``"judged"`` of another family: scores and, at the fewest facts, means by plane.
        draw: seed of random weights; None for the model's own.
    """

    model: str = "gemma-3-270m"
    template: str = "likes"
    facts: int = 16
    prompts: int = 64
    seed: int = 0
    tau: float = 1e-4
    eps: float = 1e-8
    lead: int = 0
    varied: bool = False
    keys: Literal["all", "facts"] = "all"
    kept: Literal["all", "judged"] = "all"
    draw: int | None = None

    @property
    def name(self) -> str:
        kept = "" if self.keys == "all" else "_facts"
        drawn = "" if self.draw is None else f"-random{self.draw}"
        return f"binding_profile/{slug(self.model)}{drawn}_{self.template}_{self.facts}{name_variant(self)}{kept}"


def name_variant(setting: Any) -> str:
    """How the name of a result says what is done to its prompts: nothing by default."""
    return f"{f'_lead{setting.lead}' if setting.lead else ''}{'_varied' if setting.varied else ''}"


def full_size(model: str = "gemma-3-270m") -> list[BindingProfile]:
    """Every template at 16, 64 and 128 facts, 64 prompts each; and, at fewer, with remedies, without, and with random
    weights.

    Of the second packaged model the fewest facts alone, with few prompts.
    """
    again = [setting for remedy in ("lead", "none", "varied") for setting in variant_settings(remedy, model)]
    return list(dict.fromkeys([*plain_settings(model), *again, *random_weight_settings(model)]))


def choose_lengths(model: str, lengths: tuple[int, ...] = FACTS) -> tuple[int, ...]:
    """At which of some numbers of facts a model is measured; the second packaged one at the fewest."""
    return tuple(facts for facts in lengths if facts == FACTS[0]) if model == SECOND else lengths


def plain_settings(model: str = "gemma-3-270m", lengths: tuple[int, ...] = FACTS) -> list[BindingProfile]:
    """Every template at every length, with nothing in front."""
    lengths = choose_lengths(model, lengths)
    few: dict[str, Any] = {"prompts": FEWER, "keys": "facts", "kept": "judged"} if model == SECOND else {}
    return [BindingProfile(model=model, template=each, facts=facts, **few) for facts in lengths for each in TEMPLATES]


def variant_settings(
    remedy: str, model: str = "gemma-3-270m", lengths: tuple[int, ...] = FACTS
) -> list[BindingProfile]:
    """Every template at those of the lengths that a remedy, or none, is measured at."""
    few: dict[str, Any] = {"prompts": FEWER, "keys": "facts", "kept": "judged" if model == SECOND else "all"}
    return [
        BindingProfile(model=model, template=template, facts=facts, **few, **FRAMES[remedy])
        for facts in choose_lengths(model, FRAMED[remedy])
        if facts in lengths
        for template in TEMPLATES
    ]


def random_weight_settings(model: str = "gemma-3-270m") -> list[BindingProfile]:
    """Every template at the fewest facts with each draw of random weights: what their planes are."""
    lists = variant_settings("none", model, FACTS[:1])
    return [replace(one, kept="judged", draw=draw) for draw in DRAWS for one in lists]


def measure(
    model: torch.nn.Module, tokenizer: Any, setting: BindingProfile, *, progress: bool = True
) -> dict[str, np.ndarray]:
    """All arrays of one setting.

    Returns:
        ``positional``, ``symbolic``, ``entropy`` ``[prompt, layer, head]``, and ``null_positional``, ``null_symbolic``
        of the null model of :func:`posym_core.metrics.simulate_random_swaps`; for prompts of up to 300
        tokens ``variance``, ``bound``, ``slack`` and the three shares of the matrix over the setting's keys,
        ``[prompt, layer, head]``, and, per plane, mean over prompts ``[1, layer, head, plane]``
        of the softmax scores, the shares and the part of the head's energy;
        ``plane_angle`` ``[layer, plane]``; ``correct`` and ``log_probability`` of the right answer among the named
        ``alternatives``, ``[prompt]``. If only what is judged is kept, the scores, the null model's and, at the fewest
        facts, means by plane, ``[1, layer, head, plane]``.
    """
    if setting.draw is not None:
        model = with_random_weights(model, setting.draw)
    prompts = binding_prompts(
        tokenizer,
        facts=setting.facts,
        count=setting.prompts,
        seed=setting.seed,
        template=setting.template,
        lead=setting.lead,
        vary_frame=setting.varied,
    )
    swaps = BlockLayout(**prompts.layout, tau=setting.tau, eps=setting.eps)
    everything = setting.kept == "all"
    short = prompts.input_ids.shape[1] <= LONGEST_MATRIX if everything else setting.facts <= FACTS[0]
    facts = slice(prompts.start, prompts.start + prompts.blocks * prompts.block_length)
    keys = slice(0, prompts.input_ids.shape[1] - 1) if setting.keys == "all" else facts
    angles: dict[int, Tensor] = {}
    generator = torch.Generator().manual_seed(setting.seed)

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        angles[heads.layer] = heads.angles.cpu()
        scores = heads.swap_scores(swaps)
        measured = {name: getattr(scores, name) for name in ("positional", "symbolic", "entropy")}
        measured["null_positional"], measured["null_symbolic"] = simulate_random_swaps(
            scores.attention, tau=setting.tau, generator=generator
        )
        if not short:
            return measured
        if everything:
            measured |= vars(exclusion(heads.cross_logits(keys)))
        planes = heads.swap_scores(swaps, per_frequency=True)
        measured |= {"plane_positional": planes.positional, "plane_symbolic": planes.symbolic}
        shares = heads.frequency_shares(keys)
        measured |= {f"plane_{name}": x for name, x in vars(shares).items() if name != "energy"}
        measured["plane_energy_share"] = shares.energy / shares.energy.sum(-1, keepdim=True)
        return measured

    found = map_layers(model, prompts.input_ids, one_layer, progress=progress)
    arrays = {}
    for name, x in found.items():
        x = x.numpy()
        if name.startswith("plane_"):
            with np.errstate(invalid="ignore"):
                x = _nan_mean(x)[None]
        arrays[name] = x.astype(np.float32 if everything or not name.startswith("plane_") else np.float16)
    arrays["plane_angle"] = _padded([angles[layer].numpy() for layer in sorted(angles)])
    choices = choose_answers(model, prompts)
    arrays["correct"] = choices.correct.numpy()
    arrays["log_probability"] = choices.log_probability.numpy().astype(np.float32)
    arrays["alternatives"] = choices.alternatives.numpy()
    return arrays


def small(setting: BindingProfile | None = None) -> BindingProfile:
    """A size that runs in a build: few prompts of 16 facts."""
    return replace(setting or BindingProfile(), facts=16, prompts=8)


def _nan_mean(x: np.ndarray) -> np.ndarray:
    """Mean over prompts of what is defined; NaN where nothing is."""
    counted = np.isfinite(x)
    total = np.where(counted, x, 0).sum(0)
    return np.where(counted.any(0), total / np.maximum(counted.sum(0), 1), np.nan)


def _padded(rows: list[np.ndarray]) -> np.ndarray:
    """Rows of unequal length as one array, NaN at the end."""
    width = max(len(row) for row in rows)
    return np.stack([np.pad(row, (0, width - len(row)), constant_values=np.nan) for row in rows])


EXPERIMENT = Experiment(settings=full_size, small=small, measure=measure, dims=DIMS, load=load_experiment_model)
