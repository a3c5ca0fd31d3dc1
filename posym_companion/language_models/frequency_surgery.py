"""Surgery by frequency on a language model: does the causal claim for toys hold in a trained one?

Urrutia et al. (2026a, section 5) give toy heads one angle or two: a positional task (Index) is learned with fast
planes, a symbolic one (Retrieval) with slow ones. Here nothing is trained. Planes of a trained model are set to angle
0, removed, or given another base, in all layers or in a few heads, and its answers to a positional and a symbolic
task are compared with those before. The question, its statistic and the rule of decision stand in :func:`verdict`
and were fixed before the run.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posym_companion.experiments import Experiment, RunOutput, finish_part, load_experiment_model, slug
from posym_companion.head_measurements import look, pad_angles
from posym_core.metrics import mean_interval
from posym_profile.interventions import (
    Intervention,
    change_base,
    edit_rope,
    freeze_rotation,
    remove_planes,
    select_by_angle,
    select_by_id,
    select_fastest,
    select_slowest,
)
from posym_profile.language_models import choose_answers
from posym_profile.planes import Planes, find_planes
from posym_profile.prompts import Prompts, make_prompts, read_reference_text
from posym_profile.scores import profile

# For each role the tasks that may fill it, in order of preference.
CANDIDATES = {
    "positional": ("index",),
    "symbolic": ("keyvalue", "binding-lives", "binding-likes"),
    "mixed": ("induction",),
}
# A task counts as solved from this multiple of chance on, if the accuracy's interval excludes chance as well.
SOLVED = 2.0
# Fastest and slowest share of every layer's planes that the verdict compares.
OUTER = 0.25
SIDES = {"fastest": select_fastest, "slowest": select_slowest}
DIMS = {
    "candidate_names candidate_chance": "candidate",
    "candidate_correct": "candidate prompt",
    "task_names": "task",
    "angles": "layer plane",
    "rank_*": "layer head",
    "energy_share_*": "layer head plane",
    "conditions seconds": "condition",
    "log_probability correct": "condition task prompt",
    "text_loss": "condition window",
    "positional symbolic": "condition layer head",
}


@dataclass(frozen=True, kw_only=True)
class FrequencySurgery:
    """One model under the knife.

    Attributes:
        model: name for :func:`posym_profile.load_model`.
        facts: blocks per prompt of every task; with as many alternatives all tasks share one scale.
        prompts: per task, for the conditions that the verdict needs; the same before and after every intervention.
        other_prompts: per task, for all other conditions: the first of them.
        windows: of running text.
        window: tokens per window.
        score_prompts: of the symbolic task, for scores after the intervention.
        rank_facts: facts per prompt of those that rank the heads.
        rank_prompts: how many of them.
        heads: how many of the most positional and of the most symbolic heads are operated on alone.
        controls: random sets of heads and random sets of planes.
        shares: of planes, slowest or fastest, that are stopped.
        bands: edges of angle bands, fast to slow, radians per position; the last band has no lower end.
        bases: factors of the base.
        seed: of prompts, windows, and controls.
    """

    model: str = "gemma-3-270m"
    facts: int = 4
    prompts: int = 64
    other_prompts: int = 32
    windows: int = 6
    window: int = 32
    score_prompts: int = 8
    rank_facts: int = 16
    rank_prompts: int = 8
    heads: int = 8
    controls: int = 2
    shares: tuple[float, ...] = (0.25, 0.5, 0.75)
    bands: tuple[float, ...] = (1.0, 0.1, 0.01, 0.001)
    bases: tuple[float, ...] = (0.01, 100.0)
    seed: int = 0

    @property
    def name(self) -> str:
        return f"frequency_surgery/{slug(self.model)}"


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One operation.

    Attributes:
        name: what it is called.
        interventions: what is done; none for the model as it is.
        full: whether all prompts are asked, or the first of them.
    """

    name: str
    interventions: tuple[Intervention, ...] = ()
    full: bool = False


@dataclass(frozen=True, kw_only=True)
class PreparedModel:
    """A model with everything that does not change between conditions."""

    model: Any
    planes: list[Planes]
    tasks: dict[str, Prompts]
    text: Tensor
    positional: np.ndarray
    symbolic: np.ndarray


def full_size(model: str = "gemma-3-270m") -> list[FrequencySurgery]:
    """Return the run whose result is stored."""
    return [FrequencySurgery(model=model)]


def conditions(setting: FrequencySurgery, subject: PreparedModel) -> list[Condition]:
    """Return all operations of a setting, those that the verdict needs first."""
    # Conditions are called in stored results what they are called here.
    planned: dict[str, Sequence[Intervention]] = {"none": ()}
    for action, change in (("removed", remove_planes), ("still", freeze_rotation)):
        planned |= {f"{action} {which} {OUTER:g}": [change(select(OUTER))] for which, select in SIDES.items()}
    full = tuple(planned)
    for share in setting.shares:
        planned |= {f"still {which} {share:g}": [freeze_rotation(select(share))] for which, select in SIDES.items()}
    planned["still all"] = [freeze_rotation()]
    generator = torch.Generator().manual_seed(setting.seed)
    for control in range(setting.controls):
        planned[f"removed random {control}"] = drawn = []
        for layer, planes in enumerate(subject.planes):
            count = int((planes.angles > 0).sum())
            chosen = 1 + torch.randperm(count, generator=generator)[: round(OUTER * count)]
            drawn.append(remove_planes(select_by_id(chosen.tolist()), layers=[layer]))
    for name, heads in chosen_heads(setting, subject, generator).items():
        planned[f"still heads {name}"] = [freeze_rotation(heads=heads)]
    for name, heads in chosen_heads(setting, subject, torch.Generator().manual_seed(setting.seed + 1)).items():
        planned[f"removed heads {name}"] = [remove_planes(heads=heads)]
    edges = [np.inf, *setting.bands[1:], 0.0]
    for band in range(len(setting.bands)):
        planned[f"removed band {band}"] = [remove_planes(select_by_angle(edges[band + 1], edges[band]))]
    planned |= {f"base times {factor:g}": [change_base(times=factor)] for factor in setting.bases}
    return [Condition(name=name, interventions=tuple(x), full=name in full) for name, x in planned.items()]


def chosen_heads(
    setting: FrequencySurgery, subject: PreparedModel, generator: torch.Generator
) -> dict[str, list[tuple[int, int]]]:
    """Return the heads that score most positional and most symbolic on the uncut model, and as many at random."""
    lean = np.where(np.isfinite(subject.positional), subject.positional - subject.symbolic, 0.0)
    every = [(int(layer), int(head)) for layer, head in np.argwhere(np.isfinite(subject.positional))]
    order = sorted(every, key=lambda place: lean[place])
    chosen = {"positional": order[-setting.heads :], "symbolic": order[: setting.heads]}
    for control in range(setting.controls):
        drawn = torch.randperm(len(every), generator=generator)[: setting.heads]
        chosen[f"random {control}"] = [every[i] for i in drawn.tolist()]
    return chosen


def find_candidate_tasks(
    model: Any, tokenizer: Any, setting: FrequencySurgery
) -> dict[str, tuple[Prompts, np.ndarray, float]]:
    """Return prompts of every candidate task, whether each is answered right, and the accuracy of a blind choice."""
    candidates = {}
    for name in dict.fromkeys(name for names in CANDIDATES.values() for name in names):
        prompts = make_prompts(tokenizer, name, facts=setting.facts, count=setting.prompts, seed=setting.seed)
        choices = choose_answers(model, prompts)
        candidates[name] = prompts, choices.correct.numpy(), choices.chance
    return candidates


def is_solved(correct: np.ndarray, chance: float) -> bool:
    """Return whether the stated rule is met: at least :data:`SOLVED` times chance, and an interval above chance."""
    accuracy = mean_interval(correct.astype(float))
    return accuracy.value >= SOLVED * chance and accuracy.low > chance


def prepare(model: Any, tokenizer: Any, setting: FrequencySurgery) -> tuple[PreparedModel, dict[str, np.ndarray]]:
    """Choose a task for every role, profile the model as it is, and cut the text into windows."""
    candidates = find_candidate_tasks(model, tokenizer, setting)
    tasks = {}
    for role, names in CANDIDATES.items():
        passed = [name for name in names if is_solved(*candidates[name][1:])]
        if not passed and role != "mixed":
            rates = ", ".join(
                f"{name} {candidates[name][1].mean():.2f} (chance {candidates[name][2]:.2f})" for name in names
            )
            raise ValueError(
                f"the effect of an intervention shows on tasks that the model solves, at least {SOLVED:g} times "
                f"chance; the {role} role has {rates}. Pass a larger model, or fewer facts than {setting.facts}"
            )
        tasks |= {name: candidates[name][0] for name in passed[:1]}
    planes = find_planes(model, max(prompts.input_ids.shape[1] for prompts in tasks.values()))
    ranking = make_prompts(
        tokenizer, list(tasks)[1], facts=setting.rank_facts, count=setting.rank_prompts, seed=setting.seed
    )
    scores = profile(model, ranking.input_ids, **ranking.layout, progress=False)
    subject = PreparedModel(
        model=model,
        planes=planes,
        tasks=tasks,
        text=draw_text_windows(tokenizer, setting),
        positional=scores.positional.mean("prompt", dtype=np.float64).values,
        symbolic=scores.symbolic.mean("prompt", dtype=np.float64).values,
    )
    used = {}
    for role, name in zip(("positional", "symbolic"), tasks, strict=False):
        found_energy = look(model, _first(tasks[name], setting.score_prompts), ["plane_energy_share"], keys=slice(-1))
        shares = found_energy["plane_energy_share"].double().numpy()
        used[f"energy_share_{role}"] = np.nanmean(shares, 0).astype(np.float32)
    arrays = {
        "candidate_names": np.array(list(candidates)),
        "candidate_correct": np.stack([correct for _, correct, _ in candidates.values()]),
        "candidate_chance": np.array([chance for *_, chance in candidates.values()]),
        "task_names": np.array(list(tasks)),
        "angles": pad_angles([p.angles for p in planes], 0.0).numpy(),
        "rank_positional": subject.positional.astype(np.float32),
        "rank_symbolic": subject.symbolic.astype(np.float32),
        **used,
    }
    return subject, arrays


def draw_text_windows(tokenizer: Any, setting: FrequencySurgery) -> Tensor:
    """Return windows ``[window, token]`` of the text that Python brings along, each behind the mark of beginning."""
    stream = torch.tensor(tokenizer(read_reference_text(), add_special_tokens=False)["input_ids"])
    rows = stream[: len(stream) // setting.window * setting.window].view(-1, setting.window)
    generator = torch.Generator().manual_seed(setting.seed)
    rows = rows[torch.randperm(len(rows), generator=generator)[: setting.windows]]
    mark = getattr(tokenizer, "bos_token_id", None)
    return rows if mark is None else torch.cat([torch.full((len(rows), 1), mark), rows], 1)


def measure_condition(setting: FrequencySurgery, subject: PreparedModel, condition: Condition) -> dict[str, np.ndarray]:
    """Return what the operated model does: answers, loss on text, scores."""
    with edit_rope(subject.model, *condition.interventions, planes=subject.planes) as operated:
        count = setting.prompts if condition.full else setting.other_prompts
        choices = [choose_answers(subject.model, _first(prompts, count)) for prompts in subject.tasks.values()]
        ids = subject.text.to(subject.model.get_input_embeddings().weight.device)
        losses = []
        for batch in ids.split(4):
            with torch.no_grad():
                logits = subject.model(batch, use_cache=False).logits[:, :-1].float()
            token_loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), batch[:, 1:], reduction="none")
            losses.append(token_loss.mean(1).cpu())
        scored = list(subject.tasks.values())[1]
        ids = scored.input_ids[: setting.score_prompts]
        scores = operated.profile(ids, **scored.layout)
    return {
        "log_probability": _asked([choice.log_probability for choice in choices], setting.prompts),
        "correct": _asked([choice.correct for choice in choices], setting.prompts),
        "text_loss": torch.cat(losses).numpy().astype(np.float32),
        "positional": scores.positional.mean("prompt", dtype=np.float64).values.astype(np.float32),
        "symbolic": scores.symbolic.mean("prompt", dtype=np.float64).values.astype(np.float32),
    }


def _first(prompts: Prompts, count: int) -> Prompts:
    """Return the first prompts alone."""
    parts = {name: getattr(prompts, name)[:count] for name in ("input_ids", "answer_ids", "target", "texts")}
    return replace(prompts, **parts)


def _asked(values: list[Tensor], prompts: int) -> np.ndarray:
    """Return ``[task, prompt]``, NaN for prompts that were not asked."""
    rows = np.stack([x.double().numpy() for x in values]).astype(np.float32)
    return np.pad(rows, ((0, 0), (0, prompts - rows.shape[1])), constant_values=np.nan)


def measure(
    setting: FrequencySurgery, *, device: str = "auto", work: Path | None = None, progress: bool = True
) -> RunOutput:
    """Return all conditions one after the other; those in ``work`` are not measured again."""
    from tqdm import tqdm

    began = time.perf_counter()
    model, tokenizer = load_experiment_model(setting.model, device=device)
    subject, arrays = prepare(model, tokenizer, setting)
    planned, seconds = conditions(setting, subject), time.perf_counter() - began
    parts = [
        finish_part(work, f"{number:03}", partial(measure_condition, setting, subject, condition))
        for number, condition in enumerate(tqdm(planned, disable=not progress))
    ]
    arrays |= {name: np.stack([part[name] for part in parts]) for name in parts[0]}
    arrays["conditions"] = np.array([condition.name for condition in planned])
    return RunOutput(arrays=arrays, seconds=seconds + float(arrays["seconds"].sum()))


# A size for a build: few prompts, no bands, one control.
SMALL = {
    "prompts": 8,
    "other_prompts": 8,
    "windows": 2,
    "score_prompts": 2,
    "rank_facts": 8,
    "rank_prompts": 2,
    "heads": 2,
    "controls": 1,
    "shares": (OUTER,),
    "bands": (),
    "bases": (),
}
EXPERIMENT = Experiment(settings=full_size, small=SMALL, measure=measure, dims=DIMS)
