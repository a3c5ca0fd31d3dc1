"""Judge of U25-10: do toys err where they err because of the shape of their attention?

The toys' queries and keys are stored, so that the attention of every trained toy to its target can be computed by the
target's position, and set beside its accuracy there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.one_head.frequency_control import NAME
from posym_companion.one_head.judges.frequency_control import MODEL, bent_angles, u_index
from posym_companion.one_head.judges.head_geometry import SHOWN_IN, load_arrows
from posym_companion.results import Result
from posym_companion.theory import compute_positional_peak, compute_symbolic_peak
from posym_core.metrics import mean_interval

LENGTH, INPUTS = 32, 64
BUILT: dict[str, Callable] = {"index": compute_positional_peak, "retrieval": compute_symbolic_peak}


def attention_to_target(result: Result, task: str, seed: int, variant: int) -> np.ndarray:
    """Mean attention of a trained toy to its target over random inputs, ``[position]`` of the target."""
    angle, place = float(result["angles"][variant]), np.arange(LENGTH)
    query, key = (
        load_arrows(result, f"{task}_single_{LENGTH}/{name}")[seed, variant].numpy() for name in ("query", "key")
    )
    asking = query * np.exp(1j * angle * LENGTH)
    generator = np.random.default_rng(0)
    symbols = result.settings["dim"] // 2 if len(query) != LENGTH else LENGTH
    total = np.zeros(LENGTH)
    for _ in range(INPUTS):
        if task == "index":
            content, asks = key[generator.integers(0, symbols, LENGTH)], asking
        else:
            named = generator.permutation(len(query))[:LENGTH]
            attributes = generator.integers(0, result.settings["attributes"], LENGTH)
            content, asks = key[named] + key[len(query) + attributes], asking[named]
        logits = (asks.conj()[:, None] * (content * np.exp(1j * angle * place))[None]).real / math.sqrt(2)
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        total += weights[place, place] / weights.sum(-1)
    return total / INPUTS


def bend(curve: np.ndarray) -> float:
    """Mean of the outer quarter of positions minus that of the middle quarter."""
    eighth, middle = len(curve) // 8, len(curve) // 2
    return float(np.r_[curve[:eighth], curve[-eighth:]].mean() - curve[middle - eighth : middle + eighth].mean())


@judge(
    SHOWN_IN,
    measured_on=MODEL,
    note="No run changes the shape of the attention and leaves the rest, so that *because* is tested by agreement "
    f"only. {LENGTH} positions; intervals over seeds.",
)
def because_of_attention(look: Look) -> Iterator[Yielded]:
    """U25-10: attention to the target and accuracy by the target's position, at angles that solve a task in part."""
    from scipy.stats import spearmanr

    result = look.load(NAME)
    for task, sign in (("index", 1), ("retrieval", -1)):
        cell, name = f"{task}_single_{LENGTH}", task.capitalize()
        accuracy, strength = result[f"{cell}/hits"] / result[f"{cell}/asked"][:, None], result[f"{cell}/strength"]
        angles = np.flatnonzero(bent_angles(result, cell, LENGTH))
        bent, along, built = (np.empty((len(accuracy), len(angles))) for _ in range(3))
        for seed, place in np.ndindex(bent.shape):
            k = int(angles[place])
            weights = attention_to_target(result, task, seed, k)
            bent[seed, place] = sign * bend(weights)
            along[seed, place] = spearmanr(weights, accuracy[seed, k])[0]  # pyright: ignore
            peak = BUILT[task](LENGTH, float(result["angles"][k]), float(strength[seed, k]))
            built[seed, place] = bend(peak.numpy())
        trained = u_index(result, cell)[:, angles].mean(1)
        yield f"{name}: bend of the attention, times the paper's sign", "", mean_interval(bent.mean(1))
        agreement = mean_interval(along.mean(1))
        yield f"{name}: rank correlation of attention and accuracy over positions", "", agreement
        size = mean_interval(built.mean(1) / trained)
        yield f"{name}: bend of Theorem 7's head of the toy's strength over that of its accuracy", "", size
