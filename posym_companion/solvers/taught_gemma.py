"""Gemma learns to bind: a language model taught the task on which the papers score its heads, watched on the way.

Urrutia et al. (2026a, section 4) score heads on binding prompts. The packaged Gemma 3 is near chance on them. Here
low-rank additions to its attention are trained on prompts of one wording until it binds; its heads are scored before,
on the way and after, and their outputs are patched and silenced, so that one knows which heads do the task. Again with
a quarter of every layer's planes stopped throughout, and with two controls of as many steps on the same prompts: wrong
answers, from which nothing can be learned, and the attribute of the third fact, another rule that can. Another model is
taught alike under a name of its own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from posym_companion.experiments import SECOND, Experiment, RunOutput, finish_part, load_experiment_model, name_prefix
from posym_companion.solvers.low_rank_training import encode_factors, factor_change, train_lora, train_matrices
from posym_companion.solvers.prompt_roles import answer_pairs, patched_heads, silenced_everywhere, silenced_heads
from posym_companion.solvers.prompt_scores import measure_head_scores, measure_plane_scores
from posym_profile.interventions import (
    EditedModel,
    Intervention,
    edit_rope,
    freeze_rotation,
    select_fastest,
    select_slowest,
)
from posym_profile.language_models import PACKAGED, choose_answers, merge_lora
from posym_profile.planes import find_planes
from posym_profile.prompts import Prompts, binding_prompts

WORDINGS = ("likes", "bought", "lives")
FACTS = (8, 16, 64)
# Of a prompt of 16 facts in the wording that is taught, of both models.
TOKENS = 73
OUTER = 0.25
BANDS = {
    "none": (),
    "fastest": (freeze_rotation(select_fastest(OUTER)),),
    "slowest": (freeze_rotation(select_slowest(OUTER)),),
}
# Projections of the attention that additions are made to.
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
# The place, counted from 0, of the fact whose attribute is the answer under the rule "third".
THIRD = 2
# Seeds of prompts stand this far apart, so that no two runs and no two purposes share one.
APART = 100_000
# Planes are scored as heads of their own on so many prompts.
PLANE_PROMPTS = 4
DIMS = {
    "losses": "step",
    "steps": "snapshot",
    "correct": "snapshot wording length prompt",
    "angles": "layer plane",
    "plane_*": "moment layer head plane",
    "band_*": "snapshot wording layer head band",
    "*_whole": "moment pair",
    "*_patched": "moment pair layer head",
    "kept": "moment prompt",
    "lost lost_everywhere": "moment prompt layer head",
    "*": "snapshot wording prompt layer head",
}


@dataclass(frozen=True, kw_only=True)
class TaughtGemma:
    """One run.

    Attributes:
        model: name for :func:`posym_profile.load_model`.
        stopped: which quarter of every layer's planes is stopped before, while and after the model is taught, one of
            :data:`BANDS`.
        right: whether it is taught the right attribute, or another that the prompt names, drawn at random.
        rule: which attribute is right: that of the fact asked about, or always that of the third fact.
        seed: of everything that is drawn.
        rank: of the additions.
        whole: whether whole matrices are taught and the additions of this rank that are nearest to their change are
            kept and measured; else the additions themselves are taught.
        rate: learning rate of AdamW.
        falling: whether the rate falls in a straight line, to 0 behind the last step; else it is constant.
        steps: of teaching.
        eased: first steps, on prompts of half as many facts.
        batch: prompts a step.
        facts: of the prompts it is taught on and scored on.
        snapshots: numbers of steps after which it is measured, 0 and ``steps`` among them.
        prompts: on which it is scored at each snapshot and asked, per wording.
        long: prompts of the greatest length that it is asked, which are costly.
        pairs: of prompts between which heads are patched, and those on which they are silenced at the last token; 0 to
            leave heads' roles unasked.
        everywhere: prompts on which every head is silenced at all tokens.
        files_kept: whether the result is whole only with its additions; those of others are read by
            :mod:`posym_companion.solvers.taught_profile` and may then be left out.
    """

    model: str = PACKAGED
    stopped: str = "none"
    right: bool = True
    rule: Literal["asked", "third"] = "asked"
    seed: int = 0
    rank: int = 4
    whole: bool = False
    rate: float = 5e-4
    falling: bool = False
    steps: int = 16
    eased: int = 0
    batch: int = 6
    facts: int = 16
    snapshots: tuple[int, ...] = (0, 2, 4, 6, 8, 16)
    prompts: int = 12
    long: int = 8
    pairs: int = 10
    everywhere: int = 2
    files_kept: bool = True

    @property
    def name(self) -> str:
        kind = "all" if self.plain else "wrong" if not self.right else "third" if self.rule == "third" else self.stopped
        return f"taught_gemma/{name_prefix(self.model)}{kind}_{self.seed}"

    @property
    def plain(self) -> bool:
        """Whether it is neither a control nor a model with planes stopped."""
        return self.right and self.rule == "asked" and self.stopped == "none"

    @property
    def first(self) -> bool:
        """Whether all is asked before teaching too: once, since the untaught model is always the same."""
        return self.plain and self.seed == 0

    @property
    def interventions(self) -> tuple[Intervention, ...]:
        """What is done to the planes.

        Raises:
            ValueError: if there is no such band.
        """
        if self.stopped not in BANDS:
            raise ValueError(f"stopped must be one of {', '.join(map(repr, BANDS))}; got {self.stopped!r}")
        return BANDS[self.stopped]


SEEDS = (0, 1, 2)
STOPPED = ("fastest", "slowest")
CONTROLS: tuple[Mapping[str, Any], ...] = ({"rule": "third"}, {"right": False})


def _list_lessons() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """What runs are, by model: three seeds with all planes and two or three of everything else.

    The first seed is watched most closely. SmolLM2 takes a longer lesson, which begins with short lists and moves whole
    matrices, since additions that were taught themselves answered less well in wordings that no lesson had.
    """
    fewer = {"snapshots": (0, 4, 8, 16), "prompts": 8, "long": 4, "pairs": 6, "everywhere": 0}
    short = {**fewer, "steps": 12, "snapshots": (0, 12), "long": 2, "files_kept": False}
    equal = {**short, "steps": 16, "snapshots": (0, 4, 8, 12, 16)}
    longer = {"whole": True, "rate": 2e-4, "falling": True, "steps": 90, "eased": 30}
    longer |= {"everywhere": 0, "long": 4, "pairs": 6}
    ends = {**longer, "snapshots": (0, 90), "prompts": 8, "files_kept": False}
    return {
        PACKAGED: [
            {},
            *({"seed": seed, **fewer} for seed in SEEDS[1:]),
            *({"stopped": band, "seed": seed, **short} for seed in SEEDS for band in STOPPED),
            *({"seed": seed, **kind, **equal} for kind in CONTROLS for seed in SEEDS),
        ],
        SECOND: [
            {"snapshots": (0, 15, 30, 90), "prompts": 12, **longer},
            *({"seed": seed, "snapshots": (0, 30, 90), "prompts": 8, **longer} for seed in SEEDS[1:]),
            *({"seed": seed, **kind, **ends} for kind in CONTROLS for seed in SEEDS),
            *({"seed": seed, "stopped": band, **ends, "pairs": 0} for seed in SEEDS[:2] for band in STOPPED),
        ],
    }


LESSONS = _list_lessons()


def full_size(model: str = PACKAGED) -> list[TaughtGemma]:
    """All runs of a model."""
    return [TaughtGemma(model=model, **lesson) for lesson in LESSONS.get(model, LESSONS[PACKAGED])]


def measure(
    setting: TaughtGemma, *, device: str = "auto", work: Path | None = None, progress: bool = True
) -> RunOutput:
    """Teach and measure; what is in ``work`` is not done again.

    Returns:
        ``losses [step]`` of teaching and ``steps [snapshot]``. With a leading ``snapshot`` and ``wording``, NaN where
        it was not asked: ``correct [.., length, prompt]`` among the named attributes, by the rule that is taught;
        ``positional``, ``symbolic``,
        ``entropy``, ``null_positional``, ``null_symbolic``, ``facts_attention`` and ``asked_attention`` (of the last
        token on all facts and on the one asked about), ``positional_share``, ``symbolic_share``,
        ``interaction_share`` and ``spread`` (standard deviation of the logits over the facts' tokens)
        ``[.., prompt, layer, head]``; ``band_*_share`` and ``band_energy_share`` ``[.., layer, head, band]``, means
        over the planes and sums, in eight bands, fast to slow. Of the first and last snapshot: ``plane_*``
        ``[moment, layer, head, plane]`` on the taught wording. Of the last, and once of the first too:
        ``clean_whole``, ``other_whole`` and ``answer_patched``, the difference of the two answers' logits on both
        prompts of a pair and on the second with a head's output from the first; ``kept`` and ``lost``: log-probability
        of the right answer, and what it loses when a head says its mean at the last token. ``lost_everywhere``: the
        same at all tokens, of the last. ``angles [layer, plane]``, with the stopped ones 0. The additions after the
        last step are kept beside the result.
    """
    began = time.perf_counter()
    model, tokenizer = load_experiment_model(setting.model, device=device)
    part = partial(finish_part, work)
    with edit_rope(model, *setting.interventions, planes=find_planes(model, 512)) as operated:
        taught = part("teaching", lambda: teach(model, tokenizer, setting, progress=progress))
        snapshots = []
        for number, step in enumerate(setting.snapshots):
            factors = _snapshot(taught, number)
            with merge_lora(model, factors):
                snapshots.append(
                    part(f"step_{step}", lambda step=step: measure_snapshot(operated, tokenizer, setting, step))
                )
            if progress:
                print(f"{setting.name}: step {step}, {time.perf_counter() - began:.0f} s", flush=True)
    arrays = {"losses": taught["losses"], "steps": np.array(setting.snapshots)}
    arrays["angles"] = np.stack([angles[0].numpy() for angles in operated.angles])
    for name in snapshots[-1]:
        name_of = [one[name] for one in snapshots if name in one]
        arrays |= {name: np.stack(name_of)} if name != "seconds" else {}
    additions = encode_factors(_snapshot(taught, -1), base=setting.model, made_by=setting.name)
    return RunOutput(
        arrays=arrays,
        files={".safetensors": additions},
        seconds=float(taught["seconds"] + sum(one["seconds"] for one in snapshots)),
    )


def teach(model: Any, tokenizer: Any, setting: TaughtGemma, *, progress: bool = False) -> dict[str, np.ndarray]:
    """Train the additions; ``losses [step]`` and, under their names, all factors at the snapshots in float16."""
    from tqdm import tqdm

    names = [name for name, _ in model.named_modules() if name.rpartition(".")[2] in PROJECTIONS]
    stored: dict[str, list[np.ndarray]] = {}
    losses = []
    with _learning(model, names, setting) as (trained, factors):
        optimiser = torch.optim.AdamW(trained, lr=setting.rate, weight_decay=0.0)
        for step in tqdm(range(setting.steps + 1), desc=setting.name, disable=not progress):
            if step in setting.snapshots:
                for name, x in factors().items():
                    stored.setdefault(name, []).append(x.detach().half().cpu().numpy())
            if step < setting.steps:
                optimiser.param_groups[0]["lr"] = setting.rate * (1 - step / setting.steps * setting.falling)
                losses.append(teaching_step(model, optimiser, *draw_lesson(tokenizer, setting, step)))
    return {"losses": np.array(losses, dtype=np.float32), **{name: np.stack(x) for name, x in stored.items()}}


@contextlib.contextmanager
def _learning(
    model: Any, names: list[str], setting: TaughtGemma
) -> Iterator[tuple[list[Tensor], Callable[[], Mapping[str, Tensor]]]]:
    """What is trained, and what gives the factors of the moment."""
    if not setting.whole:
        generator = torch.Generator().manual_seed(setting.seed)
        with train_lora(model, names, rank=setting.rank, generator=generator) as factors:
            yield list(factors.values()), lambda: factors
        return
    with train_matrices(model, names) as before:
        weights = {name: model.get_submodule(name).weight for name in names}

        def nearest() -> dict[str, Tensor]:
            changes = {name: weight.detach() - before[name] for name, weight in weights.items()}
            parts = {name: factor_change(change, setting.rank) for name, change in changes.items()}
            return {
                f"{name}.{part}": x
                for name, both in parts.items()
                for part, x in zip(("up", "down"), both, strict=True)
            }

        yield list(weights.values()), nearest


def draw_lesson(tokenizer: Any, setting: TaughtGemma, step: int) -> tuple[Tensor, Tensor]:
    """Prompts of a step and the tokens that are to follow."""
    seed = APART * (1 + setting.seed) + step
    facts = setting.facts // (2 if step < setting.eased else 1)
    prompts = apply_rule(binding_prompts(tokenizer, facts=facts, count=setting.batch, seed=seed), setting)
    target = prompts.target
    if not setting.right:
        generator = torch.Generator().manual_seed(seed)
        target = (target + torch.randint(1, facts, target.shape, generator=generator)) % facts
    return prompts.input_ids, prompts.answer_ids.gather(1, target[:, None])[:, 0]


def teaching_step(model: Any, optimiser: torch.optim.Optimizer, input_ids: Tensor, answer: Tensor) -> float:
    """One step on the cross-entropy of the answer behind the prompts, over the whole vocabulary; the loss before it."""
    optimiser.zero_grad()
    device = model.get_input_embeddings().weight.device
    logits = model(input_ids.to(device), use_cache=False, logits_to_keep=1).logits[:, -1]
    loss = torch.nn.functional.cross_entropy(logits.float(), answer.to(device))
    loss.backward()
    optimiser.step()
    return loss.item()


def measure_snapshot(operated: EditedModel, tokenizer: Any, setting: TaughtGemma, step: int) -> dict[str, np.ndarray]:
    """All measurements of one snapshot; wordings not taught, planes and heads' roles at the ends alone."""
    end = step == setting.steps or (step == 0 and setting.plain)
    profiles: list[dict[str, np.ndarray]] = []
    correct = np.full((len(WORDINGS), len(FACTS), setting.prompts), np.nan, np.float16)
    for place, wording in enumerate(WORDINGS):
        prompts = draw_untaught_prompts(
            tokenizer, setting, wording, setting.facts, setting.prompts // (1 if end or place == 0 else 2)
        )
        if end or place == 0:
            profiles.append(measure_head_scores(operated, prompts, seed=setting.seed))
        for length, facts in enumerate(FACTS):
            count = setting.long if facts == max(FACTS) else setting.prompts
            if facts == setting.facts or step == setting.steps or (step == 0 and setting.first):
                questions = (
                    prompts
                    if facts == setting.facts
                    else draw_untaught_prompts(tokenizer, setting, wording, facts, count)
                )
                answered = choose_answers(operated.model, questions).correct.numpy()
                correct[place, length, : len(answered)] = answered
    missing = {name: np.full_like(x, np.nan) for name, x in profiles[0].items()}
    arrays = {
        name: np.stack([one[name] for one in (*profiles, *[missing] * (len(WORDINGS) - len(profiles)))])
        for name in missing
    }
    arrays["correct"] = correct
    if end:
        prompts = draw_untaught_prompts(tokenizer, setting, WORDINGS[0], setting.facts, setting.prompts)
        arrays |= measure_plane_scores(operated, prompts, PLANE_PROMPTS)
        if setting.pairs and (step or setting.first):
            arrays |= measure_head_roles(operated.model, prompts, setting, step)
    return arrays


def draw_untaught_prompts(tokenizer: Any, setting: TaughtGemma, wording: str, facts: int, count: int) -> Prompts:
    """Prompts that the model was never taught on, the same at every snapshot."""
    prompts = binding_prompts(tokenizer, facts=facts, count=count, seed=APART * (51 + setting.seed), template=wording)
    return apply_rule(prompts, setting)


def apply_rule(prompts: Prompts, setting: TaughtGemma) -> Prompts:
    """Prompts with the answers of the setting's rule."""
    if setting.rule == "asked":
        return prompts
    return replace(prompts, target=torch.full_like(prompts.target, THIRD))


def measure_head_roles(model: Any, prompts: Prompts, setting: TaughtGemma, step: int) -> dict[str, np.ndarray]:
    """What every head is needed for; see :mod:`posym_companion.solvers.prompt_roles`."""
    generator = torch.Generator().manual_seed(setting.seed)
    roles = patched_heads(model, answer_pairs(prompts, generator), setting.pairs) | silenced_heads(
        model, prompts, setting.pairs
    )
    return roles | silenced_everywhere(model, prompts, setting.everywhere if step else 0)


def _snapshot(taught: dict[str, np.ndarray], number: int) -> dict[str, Tensor]:
    """Factors at a snapshot."""
    return {name: torch.from_numpy(x[number]) for name, x in taught.items() if name.endswith((".up", ".down"))}


EXPERIMENT = Experiment(
    settings=full_size,
    small={
        "steps": 3,
        "batch": 2,
        "facts": 4,
        "snapshots": (0, 3),
        "prompts": 2,
        "long": 2,
        "pairs": 2,
        "everywhere": 0,
    },
    measure=measure,
    dims=DIMS,
)
