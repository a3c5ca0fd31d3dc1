"""Theorems 2 to 7 and Corollary 1 of the first paper: searches for counter-examples. The proofs are in the chapters.

A search that a theorem's own head could not fail says nothing of the search, so each pair of inputs is shown to a head
of the other kind as well, which must tell the two apart.
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

from posym_companion.claims import U25, Look, Outcome, claim, part
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
from posym_core.tasks import IndexTask, PartialInductionTask, RetrievalTask, TaskBatch

TASKS, GEOMETRY = "one_head/three_tasks", "one_head/trained_geometry"
HEADS, LENGTHS = 60, (3, 5, 8)
# A head is tried this much within a limit that the chapter computes.
WITHIN = 1.001
# Scores of two inputs that a head cannot tell apart differ by rounding only.
ROUNDING = 1e-9
Head = Callable[[Tensor], Tensor]
theorem = partial(claim, paper=U25, models=("one-layer attention-only heads",), chapter=TASKS, fixed="before the run")


def random_symbolic(task: IndexTask | PartialInductionTask, seed: int) -> Head:
    """Return a head of random content, no position, and a random perceptron that sees the mixture and the query."""
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
    """Return a head of random weights by query and position, and a perceptron that sees attributes and the query."""
    draw = torch.Generator().manual_seed(seed)
    shapes = ((task.queries, task.length), (task.attributes + task.queries, 64), (64, task.attributes))
    logits, first, second = (3 * torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes)

    def head(tokens: Tensor) -> Tensor:
        asked = tokens[:, -1] - task.context_vocabulary
        attribute = one_hot(tokens[:, :-1] % task.attributes, task.attributes).double()
        mixture = (logits[asked].softmax(-1)[..., None] * attribute).sum(1)
        return torch.cat([mixture, one_hot(asked, task.queries)], dim=1).matmul(first).relu() @ second

    return head


def count(held: list[bool]) -> str:
    """Return how many hold, of how many."""
    return f"{sum(held)} of {len(held)}"


def is_caught(pair: Any) -> bool:
    """Return whether a head's scores coincide on two inputs with different answers."""
    return pair.coincides(ROUNDING) and pair.right <= 1


def is_always_right(head: Head, inputs: TaskBatch) -> bool:
    """Return whether a head is right on every input."""
    return bool(is_right(head, inputs).all())


def build_index_head(task: IndexTask, angle: float) -> PositionalIndexHead:
    """Return the head of Theorem 3 just above its smallest strength."""
    return PositionalIndexHead(task, angle=angle, beta=WITHIN * find_positional_beta(task.length, angle))


def build_retrieval_head(task: RetrievalTask) -> SymbolicRetrievalHead:
    """Return the head of Theorem 5 just above its smallest strength."""
    return SymbolicRetrievalHead(task, beta=WITHIN * find_symbolic_beta(task.length))


@theorem(
    "U25-T2",
    "Theorem 2: a symbolic head cannot do Index",
    at="Theorem 2",
    proof=f"{TASKS}#thm-symbolic-index",
    quote="as summarised in our reading: no symbolic head does Index, whatever its values and read-out",
)
def symbolic_fails_index(look: Look) -> Iterator:
    """Do random symbolic heads give two inputs with different answers the same scores, and a positional head not?"""
    caught = []
    for length, seed in itertools.product(LENGTHS, range(HEADS)):
        task = IndexTask(length=length, symbols=length)
        pair = make_index_collision(random_symbolic(task, seed), task, target=seed % (length - 1))
        caught.append(is_caught(pair))
        yield part("Index is out of reach", f"{length} positions, seed {seed}"), caught[-1]
    for length in LENGTHS:
        task = IndexTask(length=length, symbols=length)
        apart = make_index_collision(build_index_head(task, 0.7), task).right == 2
        yield part("a positional head tells the pair apart", f"{length} positions", asks="control"), apart
    look.headline("symbolic heads that cannot tell two inputs apart", count(caught))


@theorem(
    "U25-T3",
    "Theorem 3: a positional head with one angle does Index",
    at="Theorem 3",
    proof=f"{TASKS}#thm-positional-index",
    quote="as summarised in our reading: single-angle RoPE positional heads succeed on Index",
    history="That the smallest strength is exact, and fails below, is this project's own.",
)
def positional_does_index(look: Look) -> Iterator:
    """Is the constructed head right on every input just above the smallest strength, and wrong on one just below?"""
    right = []
    for length, angle in ((3, 0.05), (3, 2.0), (5, 0.05), (5, 0.7), (5, 2.0)):
        task = IndexTask(length=length, symbols=3)
        beta, case = find_positional_beta(length, angle), f"{length} positions, {angle} rad"
        weak = PositionalIndexHead(task, angle=angle, beta=beta / WITHIN)
        right.append(is_always_right(build_index_head(task, angle), list_inputs(task)))
        yield part("the head is right on every input", case), right[-1]
        yield part("a weaker head is not", case, asks="control"), not is_always_right(weak, list_inputs(task))
    look.headline("angles and lengths at which the head is right on every input", count(right))


@theorem(
    "U25-T4",
    "Theorem 4: a positional head cannot do Retrieval",
    at="Theorem 4",
    proof=f"{TASKS}#thm-positional-retrieval",
    quote="as summarised in our reading: no positional head does Retrieval if values are the identity and the read-out "
    "is a projection",
    history="Read-outs that see more than attributes and the query are not the theorem's; the chapter has one.",
)
def positional_fails_retrieval(look: Look) -> Iterator:
    """Do random positional heads give two inputs with different answers the same scores, and a symbolic head not?"""
    caught = []
    for length, seed in itertools.product(LENGTHS, range(HEADS)):
        task = RetrievalTask(length=length, symbols=length, attributes=3)
        caught.append(is_caught(make_retrieval_collision(random_positional(task, seed), task)))
        yield part("Retrieval is out of reach", f"{length} positions, seed {seed}"), caught[-1]
    for length in LENGTHS:
        task = RetrievalTask(length=length, symbols=length, attributes=3)
        apart = make_retrieval_collision(build_retrieval_head(task), task).right == 2
        yield part("a symbolic head tells the pair apart", f"{length} positions", asks="control"), apart
    look.headline("positional heads that cannot tell two inputs apart", count(caught))


@theorem(
    "U25-T5",
    "Theorem 5: a symbolic head without position does Retrieval",
    at="Theorem 5",
    proof=f"{TASKS}#thm-symbolic-retrieval",
    quote="as summarised in our reading: NoPE symbolic heads succeed on Retrieval",
    history="That the smallest strength is exact, and fails below, is this project's own.",
)
def symbolic_does_retrieval(look: Look) -> Iterator:
    """Is the constructed head right on every input just above the smallest strength, and wrong on one just below?"""
    right = []
    for task in (RetrievalTask(length=3, symbols=4, attributes=2), RetrievalTask(length=64, symbols=64)):
        inputs = list_inputs(task) if task.length < 5 else list_worst_inputs(task)
        weak = SymbolicRetrievalHead(task, beta=find_symbolic_beta(task.length) / WITHIN)
        right.append(is_always_right(build_retrieval_head(task), inputs))
        yield part("the head is right on every input, or every worst one", f"{task.length} positions"), right[-1]
        case = f"{task.length} positions"
        yield part("a weaker head is not", case, asks="control"), not is_always_right(weak, inputs)
    look.headline("lengths at which the head is right on every input", count(right))


@theorem(
    "U25-T6",
    "Corollary 1 and Theorem 6: no pure head does Partial induction, but two angles do",
    at="Corollary 1 and Theorem 6",
    proof=f"{TASKS}#thm-induction-head",
    quote="as summarised in our reading: neither pure positional nor symbolic heads can solve Partial induction; a "
    "dual-angle head with theta_1 = 0 and a moderate theta_2 is required",
)
def two_angles_do_induction(look: Look) -> Iterator:
    """Are pure heads of either kind caught by a pair of inputs, and are two angles within the limits right on all?"""
    task, caught, right = PartialInductionTask(length=6, symbols=3, attributes=3), [], []
    for seed in range(HEADS):
        symbolic, _ = make_induction_collisions(random_symbolic(task, seed), task)
        _, positional = make_induction_collisions(random_positional(task, seed), task)
        for kind, pair in (("symbolic", symbolic), ("positional", positional)):
            caught.append(is_caught(pair))
            yield part("pure heads fail", f"{kind}, seed {seed}"), caught[-1]
    for length, share in itertools.product((3, 4), (0.25, 0.5, 0.9)):
        small = PartialInductionTask(length=length, symbols=2, attributes=2, repetition=2)
        angle = share * find_recency_limit(length)
        recency = 1.5 * find_smallest_recency(length, angle)
        match = WITHIN * find_smallest_match(length, angle, recency)
        head, case = PartialInductionHead(small, angle=angle, match=match, recency=recency), f"{length}, {share:g}"
        right.append(is_always_right(head, list_inputs(small)))
        yield part("two angles do it", f"{length} positions, {share:g} of the limit"), right[-1]
        free = not any(map(is_caught, make_induction_collisions(head, small)))
        yield part("a head of two angles is not caught", case, asks="control"), free
    look.headline("pure heads that cannot tell two inputs apart", count(caught), control=f"two angles: {count(right)}")


def bends(weight: Tensor, sign: int) -> bool:
    """Return whether a curve over positions falls to the middle and rises after it, for a sign of 1, or the reverse."""
    step = sign * weight.diff()
    middle = len(step) // 2
    return bool((step[:middle] <= ROUNDING).all() and (step[len(step) - middle :] >= -ROUNDING).all())


@theorem(
    "U25-T7",
    "Theorem 7: attention to the target is U-shaped positional, inverse-U symbolic",
    at="Theorem 7",
    chapter=GEOMETRY,
    proof=f"{GEOMETRY}#thm-u",
    quote="as summarised in our reading: the maximum attention weight of the positional head is U-shaped, while that "
    "of a simplified symbolic head is inverse U-shaped",
    history="Both hold while length times angle is at most half a turn, as the chapter asks.",
)
def peaks_bend(look: Look) -> Iterator:
    """Has the largest weight by the target's place the claimed shape, and the reverse one nowhere, at every setting?"""
    settings = list(itertools.product((4, 7, 16, 33, 64), (0.05, 0.3, 0.7, 1.0), (0.1, 1.0, 10.0, 100.0)))
    shapes = []
    heads = (("positional: U", compute_positional_peak, 1), ("symbolic: inverse-U", compute_symbolic_peak, -1))
    for name, weight, sign in heads:
        for length, share, beta in settings:
            shape = weight(length, share * math.pi / length, beta)
            case = f"{length} positions, {share:g} of half a turn, strength {beta:g}"
            shapes.append(bends(shape, sign))
            yield part(name, case), shapes[-1]
            flat = float(shape.max() - shape.min()) < ROUNDING
            yield part("the reverse is seen nowhere", case, asks="control"), Outcome(flat or not bends(shape, -sign))
    look.headline("settings of both heads with the claimed shape", count(shapes))
