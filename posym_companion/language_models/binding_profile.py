"""Profile every head of a language model on the binding task: scores, exclusion, shares per plane, accuracy.

Urrutia et al. (2026a, section 4) do this with gemma-2-2b-it at 256 facts. One result a setting is kept under the
setting's name; a setting whose result is there already is not run again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from posym_companion.experiments import SECOND, TAUGHT, Experiment, PromptSetting, load_experiment_model, slug
from posym_companion.head_measurements import PARTS, average_defined, block_tokens, look
from posym_companion.one_head.head_geometry import with_random_weights
from posym_profile.language_models import PACKAGED, choose_answers
from posym_profile.prompts import binding_prompts

# The cross-logit matrix of all keys is kept per head up to this many: beyond, it would dwarf the model.
LONGEST_MATRIX = 300
TEMPLATES = ("likes", "bought", "lives")
FACTS = (16, 64, 128)
# What is done to the prompts so that a swap of keys moves less of the count of sentences; and fewer prompts, of fewer
# lengths, on which the scores without and with it are compared.
FRAMES: Mapping[str, Mapping[str, Any]] = {"none": {}, "lead": {"lead": 8}}
FRAMED = {"none": FACTS[:2], "lead": FACTS[:2]}
FEWER = 12
# Of the other packaged models: few prompts of the fewest facts, and of these what is judged.
LENGTHS: Mapping[str, tuple[int, ...]] = {SECOND: FACTS[:1], TAUGHT: FACTS[:1]}
JUDGED: Mapping[str, Any] = {"prompts": FEWER, "keys": "facts", "kept": "judged"}
SAMPLES: Mapping[str, Mapping[str, Any]] = {SECOND: JUDGED, TAUGHT: JUDGED}
SCORES = ("positional", "symbolic", "entropy", "null_positional", "null_symbolic")
LOGITS = ("variance", "bound", "slack", *(f"{part}_share" for part in PARTS))
PLANES = (*(f"plane_{name}" for name in PARTS[:2]), *(f"plane_{part}_share" for part in PARTS), "plane_energy_share")
# Seeds of random weights, whose planes stand beside the model's.
DRAWS = (0, 1, 2)
DIMS = {
    "correct log_probability alternatives": "prompt",
    "plane_angle": "layer plane",
    "plane_*": "moment layer head plane",
    "positional symbolic entropy null_* variance bound slack *_share": "prompt layer head",
}


@dataclass(frozen=True, kw_only=True)
class BindingProfile(PromptSetting):
    """One setting.

    Attributes:
        template: sentence form, see :func:`posym_profile.binding_prompts`.
        tau: temperature of the weights over pairs of blocks.
        eps: floor of the norms in the cosine.
        lead: facts of the same frame in front, in no block.
        keys: which keys the exclusion and the shares are about: ``"all"`` before the query's own, or the ``"facts"``
            that are swapped.
        kept: everything, or what is ``"judged"`` of another family: scores and, at the fewest facts, means by plane.
        draw: seed of random weights; None for the model's own.
    """

    template: str = "likes"
    prompts: int = 64
    tau: float = 1e-4
    eps: float = 1e-8
    lead: int = 0
    keys: Literal["all", "facts"] = "all"
    kept: Literal["all", "judged"] = "all"
    draw: int | None = None

    @property
    def name(self) -> str:
        keys = "" if self.keys == "all" else "_facts"
        drawn = "" if self.draw is None else f"-random{self.draw}"
        return f"binding_profile/{slug(self.model)}{drawn}_{self.template}_{self.facts}{name_variant(self)}{keys}"


def name_variant(setting: Any) -> str:
    """Return how the name of a result says what is done to its prompts: nothing by default."""
    return f"_lead{setting.lead}" if setting.lead else ""


def full_size(model: str = PACKAGED) -> list[BindingProfile]:
    """Every template at 16, 64 and 128 facts, 64 prompts each; at fewer, behind a lead, without, and random weights."""
    again = [setting for remedy in ("lead", "none") for setting in variant_settings(remedy, model)]
    # Random weights of the taught model are those of the untaught one.
    drawn = [] if model == TAUGHT else random_weight_settings(model)
    return list(dict.fromkeys([*plain_settings(model), *again, *drawn]))


def plain_settings(model: str = PACKAGED, lengths: tuple[int, ...] = FACTS) -> list[BindingProfile]:
    """Return every template at every length, with nothing in front."""
    return _list_settings(model, lengths, **SAMPLES.get(model, {}))


def variant_settings(remedy: str, model: str = PACKAGED, lengths: tuple[int, ...] = FACTS) -> list[BindingProfile]:
    """Return every template at those of the lengths that a lead, or none, is measured with."""
    sample = {"prompts": FEWER, "keys": "facts", **SAMPLES.get(model, {})}
    return _list_settings(model, [facts for facts in FRAMED[remedy] if facts in lengths], **sample, **FRAMES[remedy])


def _list_settings(model: str, lengths: Iterable[int], **options: Any) -> list[BindingProfile]:
    return [
        BindingProfile(model=model, template=template, facts=facts, **options)
        for facts in lengths
        if facts in LENGTHS.get(model, [facts])
        for template in TEMPLATES
    ]


def random_weight_settings(model: str = PACKAGED) -> list[BindingProfile]:
    """Return every template at the fewest facts with each draw of random weights: what their planes are."""
    lists = variant_settings("none", model, FACTS[:1])
    return [replace(one, kept="judged", draw=draw) for draw in DRAWS for one in lists]


def measure(model: Any, tokenizer: Any, setting: BindingProfile, *, progress: bool = True) -> dict[str, np.ndarray]:
    """Return scores, those of the null model, and answers; of short prompts the exclusion and means by plane, too.

    If only what is judged is kept, there is no exclusion, and means by plane are those of the fewest facts.
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
    )
    everything, tokens = setting.kept == "all", prompts.input_ids.shape[1]
    short = tokens <= LONGEST_MATRIX if everything else setting.facts <= FACTS[0]
    # Beside a number of facts that a reader asks for there are no fewer.
    by_plane = short or setting.facts not in FACTS
    arrays = look(
        model,
        prompts,
        (*SCORES, *(LOGITS if short and everything else ()), *(PLANES if by_plane else ())),
        keys=slice(0, tokens - 1) if setting.keys == "all" else block_tokens(prompts),
        taus=(setting.tau,),
        eps=setting.eps,
        seed=setting.seed,
        progress=progress,
    )
    angles = arrays.pop("angles").numpy()
    choices = choose_answers(model, prompts)
    precise = np.float32 if everything else np.float16
    return {
        **{name: average_defined(x.numpy())[None].astype(precise) for name, x in arrays.items() if name in PLANES},
        **{name: x.numpy().astype(np.float32) for name, x in arrays.items() if name not in PLANES},
        "plane_angle": angles,
        "correct": choices.correct.numpy(),
        "log_probability": choices.log_probability.numpy().astype(np.float32),
        "alternatives": choices.alternatives.numpy(),
    }


EXPERIMENT = Experiment(
    settings=full_size, small={"facts": 16, "prompts": 8}, measure=measure, dims=DIMS, load=load_experiment_model
)
