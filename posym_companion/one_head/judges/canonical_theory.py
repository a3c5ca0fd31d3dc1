"""Theorems 2 to 7 and Corollary 1 of Urrutia et al. (2026a), on the canonical tasks: searches for counter-examples.

The proofs are in the chapters. What is counted here is how many cases were tried, and whether any contradicts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from posym_companion.judging import Look, Yielded, judge
from posym_companion.one_head.index_retrieval_collisions import (
    make_index_collision,
    make_induction_collisions,
    make_retrieval_collision,
)
from posym_companion.theory import (
    PartialInductionHead,
    PositionalIndexHead,
    SymbolicRetrievalHead,
    compute_positional_peak,
    compute_symbolic_peak,
    find_positional_beta,
    find_recency_limit,
    find_smallest_match,
    find_smallest_recency,
    find_symbolic_beta,
    is_right,
    list_inputs,
    list_worst_inputs,
)
from posym_companion.verdicts import count_cases
from posym_core.tasks import IndexTask, PartialInductionTask, RetrievalTask, TaskBatch

TASKS, GEOMETRY = "book/one_head/three_tasks.ipynb", "book/one_head/trained_geometry.ipynb"
HEADS, LENGTHS = 60, (3, 5, 8)
# A head is tried this much within a limit that the chapter computes.
WITHIN = 1.001
# Scores of two inputs that a head cannot tell apart differ by rounding only.
ROUNDING = 1e-9
Head = Callable[[Tensor], Tensor]
theorem = partial(
    judge,
    measured_on="one-layer attention-only heads, random and constructed",
    note="Proved in the chapter; counted here is the search for a counter-example. The exact limits are this "
    "project's.",
)


def random_symbolic(task: IndexTask | PartialInductionTask, seed: int) -> Head:
    """Random content, no position, and a random perceptron that sees the mixture and the query."""
    draw = torch.Generator().manual_seed(seed)
    shapes = ((task.vocabulary, 16), (16, 16), (32, 64), (64, task.classes))
    table, metric, first, second = (torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes)

    def head(tokens: Tensor) -> Tensor:
        x = table[tokens]
        weights = (x @ metric @ x[:, -1, :, None])[..., 0].softmax(-1)
        mixture = (weights[..., None] * x).sum(1)
        return torch.cat([mixture, x[:, -1]], dim=1).matmul(first).relu() @ second

    return head


def random_positional(task: RetrievalTask | PartialInductionTask, seed: int) -> Head:
    """Random weights by query and position, and a random perceptron that sees attributes and the query."""
    draw = torch.Generator().manual_seed(seed)
    shapes = ((task.queries, task.length), (task.attributes + task.queries, 64), (64, task.attributes))
    logits, first, second = (3 * torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes)

    def head(tokens: Tensor) -> Tensor:
        asked = tokens[:, -1] - task.context_vocabulary
        attribute = one_hot(tokens[:, :-1] % task.attributes, task.attributes).double()
        mixture = (logits[asked].softmax(-1)[..., None] * attribute).sum(1)
        return torch.cat([mixture, one_hot(asked, task.queries)], dim=1).matmul(first).relu() @ second

    return head


def all_right(head: Head, inputs: TaskBatch) -> bool:
    """Whether a head is right on every input."""
    return bool(is_right(head, inputs).all())


@theorem(TASKS)
def symbolic_fails_index(look: Look) -> Iterator[Yielded]:
    """Theorem 2: random symbolic heads on two inputs that differ by an exchange."""
    fails = []
    for length in LENGTHS:
        task = IndexTask(length=length, symbols=length)
        for seed in range(HEADS):
            pair = make_index_collision(random_symbolic(task, seed), task, target=seed % (length - 1))
            fails.append(is_caught(pair))
    yield "symbolic heads that cannot tell the pair apart", "", count_cases(fails)


@theorem(TASKS)
def positional_does_index(look: Look) -> Iterator[Yielded]:
    """Theorem 3: the constructed head on every input, just above the smallest strength."""
    right = []
    for length, angle in ((3, 0.05), (3, 2.0), (5, 0.05), (5, 0.7), (5, 2.0)):
        task = IndexTask(length=length, symbols=3)
        head = PositionalIndexHead(task, angle=angle, beta=WITHIN * find_positional_beta(length, angle))
        right.append(all_right(head, list_inputs(task)))
    yield "angles and lengths at which the head is right on every input", "", count_cases(right)


@theorem(TASKS)
def positional_fails_retrieval(look: Look) -> Iterator[Yielded]:
    """Theorem 4: random positional heads on two inputs that differ by an exchange of symbols."""
    tasks = [RetrievalTask(length=length, symbols=length, attributes=3) for length in LENGTHS]
    pairs = (make_retrieval_collision(random_positional(task, seed), task) for task in tasks for seed in range(HEADS))
    yield "positional heads that cannot tell the pair apart", "", count_cases(map(is_caught, pairs))
    look.note += (
        " The theorem is about read-outs that see attributes and the query; the chapter has one that sees more."
    )


@theorem(TASKS)
def symbolic_does_retrieval(look: Look) -> Iterator[Yielded]:
    """Theorem 5: the constructed head on every or every worst input, just above the smallest strength."""
    right = []
    for task in (RetrievalTask(length=3, symbols=4, attributes=2), RetrievalTask(length=64, symbols=64)):
        inputs = list_inputs(task) if task.length < 5 else list_worst_inputs(task)
        right.append(all_right(SymbolicRetrievalHead(task, beta=WITHIN * find_symbolic_beta(task.length)), inputs))
    yield "lengths at which the head is right on every input", "", count_cases(right)


@theorem(TASKS)
def two_angles_do_induction(look: Look) -> Iterator[Yielded]:
    """Corollary 1 and Theorem 6: pure heads are caught; two angles work inside the limits."""
    task = PartialInductionTask(length=6, symbols=3, attributes=3)
    symbolic = [make_induction_collisions(random_symbolic(task, seed), task)[0] for seed in range(HEADS)]
    positional = [make_induction_collisions(random_positional(task, seed), task)[1] for seed in range(HEADS)]
    yield "pure heads of either kind that fail one pair", "", count_cases(map(is_caught, [*symbolic, *positional]))
    right = []
    for length in (3, 4):
        small = PartialInductionTask(length=length, symbols=2, attributes=2, repetition=2)
        for part in (0.25, 0.5, 0.9):
            angle = part * find_recency_limit(length)
            recency = 1.5 * find_smallest_recency(length, angle)
            match = WITHIN * find_smallest_match(length, angle, recency)
            head = PartialInductionHead(small, angle=angle, match=match, recency=recency)
            right.append(all_right(head, list_inputs(small)))
    yield "two-angle heads within the limits that are right on every input", "", count_cases(right)


def bends(weight: Tensor, sign: int) -> bool:
    """Whether a curve over positions falls to the middle and rises after it (``sign`` 1), or the reverse (-1)."""
    step = sign * weight.diff()
    middle = len(step) // 2
    return bool((step[:middle] <= ROUNDING).all() and (step[len(step) - middle :] >= -ROUNDING).all())


@theorem(GEOMETRY)
def peaks_bend(look: Look) -> Iterator[Yielded]:
    """Theorem 7: the largest attention weight by target over lengths, angles and strengths."""
    settings = list(itertools.product((4, 7, 16, 33, 64), (0.05, 0.3, 0.7, 1.0), (0.1, 1.0, 10.0, 100.0)))
    for quantity, weight, sign in (
        ("settings in which the positional head's weight is U-shaped", compute_positional_peak, 1),
        ("settings in which the symbolic head's weight is inverse-U", compute_symbolic_peak, -1),
    ):
        shapes = (bends(weight(length, part * math.pi / length, beta), sign) for length, part, beta in settings)
        yield quantity, "", count_cases(shapes)


def is_caught(pair: Any) -> bool:
    """Whether a head's scores coincide on two inputs with different answers."""
    return pair.coincides(ROUNDING) and pair.right <= 1
