"""Number and Letter with one hop, put to a language model as text, at growing length.

Urrutia et al. (2026b, appendix H and Table 3) do this with hosted models. Here any local model can be asked; wording,
examples and screening are those of :mod:`posym_companion.several_hops.hop_questions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from posym_companion.experiments import Experiment, load_experiment_model, slug
from posym_companion.several_hops.hop_answers import answer_questions
from posym_companion.several_hops.hop_questions import (
    HOP_TASKS,
    LENGTHS,
    HopTask,
    draw_hop_questions,
    screen_accuracy,
    write_hop_text,
)

# A question costs in proportion to its length: fewer of the long ones.
QUESTIONS = (6, 5, 4, 3, 2, 2, 1, 1, 1, 1)
DIMS = {
    "lengths": "length",
    "exact choice log_probability alternatives": "task length run question",
    "chance *accuracy": "task length run",
}


@dataclass(frozen=True, kw_only=True)
class HopPrompts:
    """One setting.

    Attributes:
        model: name for :func:`posym_profile.load_model`.
        lengths: items per sequence, the shortest first.
        questions: how many of each length, per task and run; never more than of a shorter one.
        runs: repetitions, each with questions and examples of its own.
        shown: solved examples before each question.
        shown_length: items of an example's sequence.
        chat: use the tokenizer's chat template.
        seed: of questions and examples.
    """

    model: str = "gemma-3-270m"
    lengths: tuple[int, ...] = LENGTHS
    questions: tuple[int, ...] = QUESTIONS
    runs: int = 5
    shown: int = 4
    shown_length: int = 12
    chat: bool = False
    seed: int = 0

    def __post_init__(self):
        if len(self.questions) != len(self.lengths) or min(self.questions, default=0) < 1:
            raise ValueError(
                f"every length needs a number of questions of at least 1; got {list(self.questions)} for lengths "
                f"{list(self.lengths)}"
            )
        if list(self.lengths) != sorted(set(self.lengths)) or list(self.questions) != sorted(self.questions)[::-1]:
            raise ValueError(
                "lengths must grow and numbers of questions must not, so that every question is asked at the shortest "
                f"length; got {list(self.lengths)} and {list(self.questions)}"
            )

    @property
    def name(self) -> str:
        return f"hop_prompts/{slug(self.model)}" + ("_chat" if self.chat else "")


def full_size(model: str = "gemma-3-270m") -> list[HopPrompts]:
    """Return both tasks at ten lengths, five runs."""
    return [HopPrompts(model=model)]


def measure(model: Any, tokenizer: Any, setting: HopPrompts, *, progress: bool = True) -> dict[str, np.ndarray]:
    """Return all arrays of one setting; tasks are in the order of ``HOP_TASKS``: number, letter.

    Returns:
        ``lengths`` ``[length]``; ``exact``, ``choice``, ``log_probability`` and ``alternatives``
        ``[task, length, run, question]`` with NaN where a length has fewer questions; and over questions, each
        ``[task, length, run]``: ``accuracy`` (exact answers), ``choice_accuracy``, ``chance`` of the choice, and
        ``screened_accuracy`` and ``screened_choice_accuracy`` (over questions solved at the shortest length, NaN where
        there is none).
    """
    shape = (len(HOP_TASKS), len(setting.lengths), setting.runs, setting.questions[0])
    names = ("exact", "choice", "log_probability", "alternatives")
    arrays = {name: np.full(shape, np.nan) for name in names}
    work: list[tuple[HopTask, int]] = [(task, run) for run in range(setting.runs) for task in HOP_TASKS]
    for task, run in tqdm(work, desc="tasks and runs", disable=not progress):
        seed = 2 * (setting.seed * setting.runs + run)
        questions = draw_hop_questions(task, count=setting.questions[0], lengths=setting.lengths, seed=seed)
        examples = draw_hop_questions(task, count=max(1, setting.shown), lengths=(setting.shown_length,), seed=seed + 1)
        shown = examples[setting.shown_length][: setting.shown]
        for place, (length, count) in enumerate(zip(setting.lengths, setting.questions, strict=True)):
            asked = questions[length][:count]
            texts = [write_hop_text(task, question, shown) for question in asked]
            answers = answer_questions(model, tokenizer, asked, texts, chat=setting.chat)
            given = (answers.exact, answers.correct, answers.log_probability, answers.alternatives)
            for name, values in zip(names, given, strict=True):
                arrays[name][HOP_TASKS.index(task), place, run, :count] = values.double().numpy()
    by_run = {name: np.moveaxis(arrays[name], 1, 2) for name in ("exact", "choice")}
    return {
        "lengths": np.array(setting.lengths),
        **{name: x.astype(np.float32) for name, x in arrays.items()},
        "accuracy": np.nanmean(arrays["exact"], axis=-1),
        "choice_accuracy": np.nanmean(arrays["choice"], axis=-1),
        "chance": np.nanmean(1 / arrays["alternatives"], axis=-1),
        "screened_accuracy": np.moveaxis(screen_accuracy(by_run["exact"]), 1, 2),
        "screened_choice_accuracy": np.moveaxis(screen_accuracy(by_run["choice"]), 1, 2),
    }


EXPERIMENT = Experiment(
    settings=full_size,
    small={"lengths": LENGTHS[:2], "questions": (3, 2), "runs": 2},
    measure=measure,
    dims=DIMS,
    load=load_experiment_model,
)
