"""Judges of U25-8: the geometry of trained heads, in toys with one angle (a) and in a language model (b).

The rule for the model was narrowed twice after a look at it: first to planes that go half a turn or more, then to more
than random weights do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from posym_companion.judging import Look, Yielded, judge
from posym_companion.one_head.frequency_control import NAME
from posym_companion.one_head.head_geometry import KINDS, full_size
from posym_companion.one_head.judges.frequency_control import FAILED, MODEL, SOLVED, accuracy
from posym_companion.one_head.plane_geometry import alignment, concentration
from posym_companion.results import Result
from posym_core.metrics import Estimate, mean_interval, statistic_interval

SHOWN_IN = "book/one_head/trained_geometry.ipynb"
# Phases follow above this.
SHARED = 0.9
# A wave is traced if it explains more than this of the mean logits of prompts that it was not fitted on.
TRACED = 0.5
# Planes whose mean phase is below this go around far enough to hold position; see dirichlet_kernel.
TURNS = 0.5
DRAWS = 1000


def load_arrows(result: Result, name: str) -> torch.Tensor:
    """Stored queries or keys of toys with one plane as complex numbers ``[seed, angle, token]``."""
    return torch.view_as_complex(torch.from_numpy(result[name].astype(np.float64)))


def index_geometry(result: Result, length: int = 32) -> dict[str, np.ndarray]:
    """Toys trained on Index, ``[seed, angle]``: what their keys and queries do in their plane.

    ``concentration`` of the symbols' keys; ``alignment`` of the queries' phases with those of Theorem 3's
    construction, ``phase(mean key) + (j - n) angle``, without any free constant; ``pointed``, the share of queries
    that point closer to their target's key than to any other position's.
    """
    cell = f"index_single_{length}"
    query, key = load_arrows(result, f"{cell}/query"), load_arrows(result, f"{cell}/key")
    key = key[..., : key.shape[-1] - length]  # without the index tokens' own
    angle, target = torch.from_numpy(result["angles"])[:, None], torch.arange(length)
    mean = key.sum(-1, keepdim=True)
    phase = angle * (target - length)
    turn = torch.exp(-1j * phase)[:, None]  # [angle, 1, position]
    nearest = (query * mean.conj())[..., None].mul(turn).real.argmax(-1)
    return {
        "concentration": concentration(key).numpy(),
        "alignment": alignment(query * mean.conj(), phase).numpy(),
        "pointed": (nearest == target).double().mean(-1).numpy(),
    }


def retrieval_geometry(result: Result, length: int = 32) -> dict[str, np.ndarray]:
    """Toys trained on Retrieval, ``[seed, angle]``, the contrast.

    ``concentration`` of the symbols' keys (each with the mean attribute's); ``alignment`` of each query's phase with
    its own symbol's key, as it would be for a match in the middle of the context; ``centre``, the position at which a
    match counts most.
    """
    cell = f"retrieval_single_{length}"
    query, parts = load_arrows(result, f"{cell}/query"), load_arrows(result, f"{cell}/key")
    symbols = query.shape[-1]
    attributes = parts.shape[-1] - 2 * symbols - 1
    key = parts[..., :symbols] + parts[..., symbols : symbols + attributes].mean(-1, keepdim=True)
    angle = torch.from_numpy(result["angles"])
    match = query * key.conj()
    middle = angle * ((length - 1) / 2 - length)
    return {
        "concentration": concentration(key).numpy(),
        "alignment": alignment(match, middle[:, None]).numpy(),
        "centre": (length + (match / match.abs()).mean(-1).angle() / angle).numpy(),
    }


def select_dominant_plane(result: Result, name: str, kind: str) -> np.ndarray:
    """A measurement per plane at each head's dominant plane of a kind, ``[layer, head]``."""
    plane = result["dominant"][KINDS.index(kind)].astype(np.int64)
    return np.take_along_axis(result[name].astype(np.float64), plane[..., None], -1)[..., 0]


def median_of_positional_heads(result: Result, values: np.ndarray) -> Estimate:
    """Median of ``values`` ``[layer, head]`` over the most positional quarter of heads, interval over layers.

    Positional is a head by the positional share of its whole matrix, on the prompts that waves are fitted on.
    """
    share = result["head_positional_share"][0].astype(np.float64)

    def median(x: np.ndarray) -> np.ndarray:
        positional, value = x.reshape(len(x), -1, 2).transpose(2, 0, 1)
        chosen = positional >= np.quantile(positional, 0.75, axis=1, keepdims=True)
        return np.nanmedian(np.where(chosen, value, np.nan), axis=1)

    return statistic_interval(median, np.stack([share, values], axis=-1)[None], draws=DRAWS, vectorized=True)


def concentration_predicts_position(result: Result) -> Estimate:
    """Rank correlation of key concentration and positional share, over planes that turn far enough and are not dead."""
    from scipy.stats import spearmanr

    share = result["positional_share"].astype(np.float64)
    kernel = np.broadcast_to(result["kernel"][:, None], share.shape)
    fields = np.stack([result["concentration"].astype(np.float64), share, kernel], axis=-1)[None]

    def correlation(x: np.ndarray) -> float:
        concentrated, positional, slow = x.reshape(-1, 3).T
        counted = (slow < TURNS) & np.isfinite(concentrated) & np.isfinite(positional)
        return float(spearmanr(concentrated[counted], positional[counted])[0])  # pyright: ignore[reportArgumentType]

    return statistic_interval(correlation, fields, draws=DRAWS // 5)


@judge(SHOWN_IN, measured_on=MODEL)
def toys_trace_circles(look: Look) -> Iterator[Yielded]:
    """U25-8a: keys and queries of toys that solve Index, and of those that do not."""
    toys = look.load(NAME)
    index, reached = index_geometry(toys), accuracy(toys, "index_single_32").mean(0)
    solved, failed = reached > SOLVED, reached < FAILED

    def average(name: str, angles: np.ndarray) -> Estimate:
        if not angles.any():
            return Estimate(value=np.nan, low=np.nan, high=np.nan)
        return mean_interval(index[name][:, angles].mean(1))

    yield "Index solved: concentration of keys", "", average("concentration", solved)
    yield "Index solved: alignment of queries", "", average("alignment", solved)
    yield "Index solved: queries that point at their target", "", average("pointed", solved)
    yield "Index not solved: queries that point at their target", "", average("pointed", failed)
    look.note = "Intervals over seeds."
    turning = failed & (index["alignment"].mean(0) > SHARED)
    if turning.any():
        least, most = reached[turning].min(), reached[turning].max()
        look.note = (
            f"Queries turn with the target (alignment above {SHARED}) at {turning.sum()} angles, too, at which Index "
            f"fails, with accuracies from {least:.2f} to {most:.2f}. {look.note}"
        )


@judge(SHOWN_IN, measured_on="gemma-3-270m")
def model_traces_waves(look: Look) -> Iterator[Yielded]:
    """U25-8b: waves in the language model's heads, and whether its query follows the target."""
    turning: dict[tuple[str, bool], Estimate] = {}
    for setting in full_size():
        result = look.load(setting)
        wave, turning[setting.task, setting.trained] = (
            median_of_positional_heads(result, select_dominant_plane(result, "r2_test", kind))
            for kind in ("positional", "turning")
        )
        if setting.trained:
            yield "R2 of the wave at positional planes of any speed", setting.task, wave
        if setting.task == "index":
            followed, unmoved = (
                result[name].astype(float).mean((1, 2)) for name in ("place_followed", "place_unmoved")
            )
            for place, cosine in enumerate(followed - unmoved, start=2):
                yield "cosine with an angle that follows less that with one that stays", f"name {place}", float(cosine)
    lead = turning["text", True].low - turning["text", False].high
    yield "running text: R2 above that of random weights by", "", float(lead)
    traced = [wave.low > TRACED for (_, trained), wave in turning.items() if trained]
    look.note = (
        "For a time the rule asked only for planes that go half a turn; by it the wave is there in "
        f"{sum(traced)} of {len(traced)} kinds of prompt. Intervals over layers."
    )
