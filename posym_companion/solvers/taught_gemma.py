"""Gemma learns to bind: a language model taught the task on which the papers score its heads, watched on the way.

Urrutia et al. (2026a, section 4) score heads on binding prompts. The packaged Gemma 3 is near chance on them. Here
low-rank additions to its attention are trained on prompts of one wording until it binds; its heads are scored before,
on the way and after, and their outputs are patched and silenced, so that one knows which heads do the task. SmolLM2 is
taught alike, in a longer lesson. The packages carry the additions of the first seed of both.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from posym_companion.experiments import SECOND, Experiment, RunOutput, finish_part, load_experiment_model, name_prefix
from posym_companion.head_measurements import gather_bands, look
from posym_companion.results import find_attached_file, load_result
from posym_companion.solvers.low_rank_training import encode_factors, factor_change, train_lora, train_matrices
from posym_companion.solvers.prompt_roles import answer_pairs, patched_heads, silenced_heads
from posym_profile.language_models import PACKAGED, choose_answers, merge_lora, read_factors
from posym_profile.prompts import Prompts, binding_prompts

WORDINGS = ("likes", "bought", "lives")
FACTS = (8, 16, 64)
# Projections of the attention that additions are made to.
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
# Seeds of prompts stand this far apart, so that no two runs and no two purposes share one.
APART = 100_000
SCORES = ("positional", "symbolic", "facts_attention", "asked_attention")
DIMS = {
    "losses": "step",
    "steps": "snapshot",
    "correct": "snapshot wording length prompt",
    "band_energy_share": "snapshot layer head band",
    "*_whole": "moment pair",
    "*_patched": "moment pair layer head",
    "kept": "moment prompt",
    "lost": "moment prompt layer head",
    "*": "snapshot prompt layer head",
}


@dataclass(frozen=True, kw_only=True)
class TaughtGemma:
    """One run.

    Attributes:
        model: name for :func:`posym_profile.load_model`.
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
        pairs: of prompts between which heads are patched, and those on which they are silenced at the last token.
    """

    model: str = PACKAGED
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

    @property
    def name(self) -> str:
        return f"taught_gemma/{name_prefix(self.model)}all_{self.seed}"


SEEDS = (0, 1, 2)
FEWER = {"snapshots": (0, 4, 8, 16), "prompts": 8, "long": 4, "pairs": 6}
# SmolLM2 takes a longer lesson, which begins with short lists and moves whole matrices, since additions that were
# taught themselves answered less well in wordings that no lesson had.
LONGER = {"whole": True, "rate": 2e-4, "falling": True, "steps": 90, "eased": 30, "long": 4, "pairs": 6}
LESSONS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    PACKAGED: [{}, *({"seed": seed, **FEWER} for seed in SEEDS[1:])],
    SECOND: [
        {"snapshots": (0, 15, 30, 90), "prompts": 12, **LONGER},
        *({"seed": seed, "snapshots": (0, 30, 90), "prompts": 8, **LONGER} for seed in SEEDS[1:]),
    ],
}


def full_size(model: str = PACKAGED) -> list[TaughtGemma]:
    """Return all runs of a model; the first seed is watched most closely."""
    return [TaughtGemma(model=model, **lesson) for lesson in LESSONS.get(model, LESSONS[PACKAGED])]


def kept_factors(run: TaughtGemma, folder: Path) -> dict[str, Tensor]:
    """Return the additions that a run left behind."""
    taught = load_result(run.name, folder=folder)
    return read_factors(find_attached_file(taught, f"{taught.name.partition('/')[2]}.safetensors", folder=folder))


def load_taught(name: str, *, device: str, folder: Path) -> tuple[Any, Any, Path]:
    """Return a language model, its tokenizer, and where the additions that it was taught are kept."""
    return *load_experiment_model(name, device=device), folder


def measure(
    setting: TaughtGemma, *, device: str = "auto", work: Path | None = None, progress: bool = True
) -> RunOutput:
    """Teach and measure; what is in ``work`` is not done again.

    Returns:
        ``losses [step]`` of teaching and ``steps [snapshot]``. With a leading ``snapshot``, on the taught wording:
        ``positional``, ``symbolic``, ``facts_attention`` and ``asked_attention`` (of the last token on all facts and on
        the one asked about) ``[.., prompt, layer, head]``, and ``band_energy_share [.., layer, head, band]``, in eight
        bands of planes, fast to slow. ``correct [snapshot, wording, length, prompt]`` among the named attributes, NaN
        where it was not asked. Of the last snapshot, and of the first seed's first, too: ``clean_whole``,
        ``other_whole`` and ``answer_patched``, the difference of the two answers' logits on both prompts of a pair and
        on the second with a head's output from the first; ``kept`` and ``lost``: log-probability of the right answer,
        and what it loses when a head says its mean at the last token. The additions are kept beside the result.
    """
    began = time.perf_counter()
    model, tokenizer = load_experiment_model(setting.model, device=device)
    part = partial(finish_part, work)
    taught = part("teaching", lambda: teach(model, tokenizer, setting, progress=progress))
    snapshots = []
    for number, step in enumerate(setting.snapshots):
        with merge_lora(model, _snapshot(taught, number)):
            snapshots.append(part(f"step_{step}", lambda step=step: measure_snapshot(model, tokenizer, setting, step)))
        if progress:
            print(f"{setting.name}: step {step}, {time.perf_counter() - began:.0f} s", flush=True)
    arrays = {"losses": taught["losses"], "steps": np.array(setting.snapshots)}
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
    """Return what is trained, and what gives the factors of the moment."""
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
    """Return the prompts of a step and the tokens that are to follow."""
    facts = setting.facts // (2 if step < setting.eased else 1)
    seed = APART * (1 + setting.seed) + step
    prompts = binding_prompts(tokenizer, facts=facts, count=setting.batch, seed=seed)
    return prompts.input_ids, prompts.answer_ids.gather(1, prompts.target[:, None])[:, 0]


def teaching_step(model: Any, optimiser: torch.optim.Optimizer, input_ids: Tensor, answer: Tensor) -> float:
    """One step on the cross-entropy of the answer behind the prompts, over the whole vocabulary; the loss before it."""
    optimiser.zero_grad()
    device = model.get_input_embeddings().weight.device
    logits = model(input_ids.to(device), use_cache=False, logits_to_keep=1).logits[:, -1]
    loss = torch.nn.functional.cross_entropy(logits.float(), answer.to(device))
    loss.backward()
    optimiser.step()
    return loss.item()


def measure_snapshot(model: Any, tokenizer: Any, setting: TaughtGemma, step: int) -> dict[str, np.ndarray]:
    """Return all measurements of one snapshot; other lengths, and what heads are needed for, at the ends alone."""
    end = step == setting.steps or (step == 0 and setting.seed == 0)
    prompts = draw_untaught_prompts(tokenizer, setting, WORDINGS[0], setting.facts, setting.prompts)
    wanted = {name: name for name in SCORES} | {"band_energy_share": "plane_energy_share"}
    measured = {name: x.numpy() for name, x in look(model, prompts, wanted, seed=setting.seed).items()}
    arrays = {name: measured[name].astype(np.float16) for name in SCORES}
    energy = np.nanmean(measured["band_energy_share"], 0)
    arrays["band_energy_share"] = gather_bands(energy, np.nansum).astype(np.float16)
    correct = np.full((len(WORDINGS), len(FACTS), setting.prompts), np.nan, np.float16)
    for place in np.ndindex(correct.shape[:2]):
        wording, facts = WORDINGS[place[0]], FACTS[place[1]]
        if end or facts == setting.facts:
            count = setting.long if facts == max(FACTS) else setting.prompts
            questions = draw_untaught_prompts(tokenizer, setting, wording, facts, count)
            correct[place][:count] = choose_answers(model, questions).correct.numpy()
    arrays["correct"] = correct
    if end and setting.pairs:
        generator = torch.Generator().manual_seed(setting.seed)
        arrays |= patched_heads(model, answer_pairs(prompts, generator), setting.pairs)
        arrays |= silenced_heads(model, prompts, setting.pairs)
    return arrays


def draw_untaught_prompts(tokenizer: Any, setting: TaughtGemma, wording: str, facts: int, count: int) -> Prompts:
    """Return prompts that the model was never taught on, the same at every snapshot."""
    return binding_prompts(tokenizer, facts=facts, count=count, seed=APART * (51 + setting.seed), template=wording)


def _snapshot(taught: dict[str, np.ndarray], number: int) -> dict[str, Tensor]:
    """Return the factors of a snapshot."""
    return {name: torch.from_numpy(x[number]) for name, x in taught.items() if name.endswith((".up", ".down"))}


EXPERIMENT = Experiment(
    settings=full_size,
    small={"steps": 3, "batch": 2, "facts": 4, "snapshots": (0, 3), "prompts": 2, "long": 2, "pairs": 2},
    measure=measure,
    dims=DIMS,
)
