"""The Number and the Letter task with one hop, as text for language models.

Urrutia et al., *Positional versus Symbolic Attention Heads* (2026b), appendix H, ask language models for one hop in
sequences of 12 to 300 items, with reasoning off, and count exact answers. The wording, the solved examples and the
ways in which a question grows are ours. So is the screening: the material this project was made from says that the
paper screens but not how, and here :func:`screen_accuracy` keeps a question for the longer lengths only if the model
answers it at the shortest one. For that to mean anything, a question's longer versions contain its shorter ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float

from posym_core._checks import require_counts
from posym_core.tasks import LetterTask, NumberTask

HopTask = Literal["number", "letter"]
HOP_TASKS: tuple[HopTask, ...] = ("number", "letter")
# Items of a sequence, the query's among them, as in the paper.
LENGTHS = (12, 16, 24, 32, 48, 64, 80, 100, 200, 300)
SHORTEST = 4
INSTRUCTIONS: dict[HopTask, str] = {
    "number": "Each sequence has letters and then numbers. The last number says how many places to step back from it. "
    "The answer is the letter at that place.",
    "letter": "Each sequence has pairs. The second letter of the last pair is the first letter of a pair with a digit. "
    "The answer is that pair.",
}


@dataclass(frozen=True, kw_only=True)
class HopQuestion:
    """One sequence with its answer.

    Attributes:
        items: the sequence as people write it; the last one is the query.
        candidates: the different items of the target window, in order of first appearance.
        target: which candidate is right.
    """

    items: tuple[str, ...]
    candidates: tuple[str, ...]
    target: int

    @property
    def answer(self) -> str:
        """Return the right candidate."""
        return self.candidates[self.target]


def count_window(length: int) -> int:
    """Return items of the target window in a sequence of so many: half of them; the query and the others follow.

    >>> count_window(12), count_window(17)
    (6, 8)
    """
    return length // 2


def draw_hop_questions(
    task: HopTask, *, count: int, lengths: Sequence[int] = LENGTHS, seed: int = 0
) -> dict[int, list[HopQuestion]]:
    """Draw questions at several lengths: number ``i`` of one length contains number ``i`` of every smaller one.

    A longer version has more items in the target window and more between it and the query, in between those of the
    shorter version; the answer stays. In Number the query's integer follows the answer's place, and integers off the
    path, which never matter, point anywhere before themselves, drawn again at each length.
    """
    if task not in HOP_TASKS:
        raise ValueError(f"task must be one of {', '.join(map(repr, HOP_TASKS))}; got {task!r}")
    if not lengths:
        raise ValueError("lengths must name at least one length; got none")
    require_counts(count=(count, 1), **{f"length {length}": (length, SHORTEST) for length in lengths})
    longest = max(lengths)
    window = count_window(longest)
    sizes = {"window": window, "steps": longest - 1 - window, "hops": 1}
    drawn = NumberTask(**sizes) if task == "number" else LetterTask(**sizes)
    generator = torch.Generator().manual_seed(seed)
    # Places are dealt out in order and then shuffled: of less than a whole round, only the first would come.
    batch = drawn.sample(-(-count // window) * window, generator=generator)
    names = drawn.token_names
    questions: dict[int, list[HopQuestion]] = {length: [] for length in lengths}
    for tokens, place in zip(batch.tokens[:count].tolist(), batch.path[:count, 1].tolist(), strict=True):
        others = [i for i in torch.randperm(window, generator=generator).tolist() if i != place]
        between = (window + torch.randperm(longest - 1 - window, generator=generator)).tolist()
        for length, made in questions.items():
            ends = sorted([place, *others[: count_window(length) - 1]])
            rest = sorted(between[: length - 1 - len(ends)])
            asked = ends.index(place)
            items = [names[tokens[i]] for i in (*ends, *rest, longest - 1)]
            if task == "number":
                steps = (torch.rand(len(rest), generator=generator) * (len(ends) + torch.arange(len(rest)))).long() + 1
                items[len(ends) :] = map(str, [*steps.tolist(), length - 1 - asked])
            candidates = tuple(dict.fromkeys(items[: len(ends)]))
            made.append(HopQuestion(items=tuple(items), candidates=candidates, target=candidates.index(items[asked])))
    return questions


def write_hop_text(task: HopTask, question: HopQuestion, examples: Sequence[HopQuestion] = ()) -> str:
    """Write instruction, solved examples and a question, up to the word that its answer follows.

    >>> question = HopQuestion(items=("b", "k", "3", "3"), candidates=("b", "k"), target=0)
    >>> print(write_hop_text("number", question).splitlines()[-2])
    Sequence: b k 3 3
    """
    parts = [INSTRUCTIONS[task]]
    parts += [f"Sequence: {' '.join(shown.items)}\nAnswer: {shown.answer}" for shown in examples]
    parts.append(f"Sequence: {' '.join(question.items)}\nAnswer:")
    return "\n\n".join(parts)


def screen_accuracy(
    correct: Bool[np.ndarray, "*batch length question"] | Float[np.ndarray, "*batch length question"],
) -> Float[np.ndarray, "*batch length"]:
    """Return accuracy over the questions that are answered at the shortest length, which comes first.

    NaN marks what was not asked, and comes back where nothing that was kept has been asked. The first length is 1 by
    construction and says nothing; and a model that guesses passes some questions by luck, so that chance is the same
    as without screening at every other length.
    """
    answers = np.asarray(correct, dtype=np.float64)
    counted = np.isfinite(answers) & (answers[..., :1, :] == 1)
    asked = counted.sum(-1)
    right = np.where(counted, answers, 0).sum(-1)
    return np.where(asked > 0, right / np.maximum(asked, 1), np.nan)
