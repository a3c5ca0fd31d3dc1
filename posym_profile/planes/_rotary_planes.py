"""Find rotation planes and angles of a Hugging Face model by asking the model.

Every attention module is run again on the hidden states it had, with shifted position ids. Whatever the rotary code
looks like, a key that moves by ``s`` positions then turns by ``s`` times its planes' angles. So the planes are the
pairs of dimensions whose squares change oppositely, the angles are the phases by which they turn, and what does not
change is not rotated: the rest of a partial rotary head, the content part of latent attention, layers without
position. No table of architectures is needed, and scaled angles, QK-norm, attention factors and grouped queries are
in the captured vectors already.

Two things make this exact. Shifts grow by factors of 8 up to 262,144, so that a slow plane turns visibly and each
shift refines the angle that the previous one determined to within a turn. And the last token stays at the end of the
prompt, so that encodings whose angles depend on the length (dynamic, longrope) are asked at the length in question.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posym_core._checks import is_asynchronous, require_count
from posym_core.metrics import rotate_unchecked
from posym_profile.capture._capturing import check_model
from posym_profile.capture._wrappers import unwrap
from posym_profile.language_models._refusals import UnsupportedModelError, make_unsupported_error, name_module
from posym_profile.planes._model_state import ModelState, describe_state
from posym_profile.planes._shifted_keys import EPSILON, TOKENS, ShiftedKeys, move_to_cpu

# A frequency of the model is taken for a fitted angle when they agree to this relative difference.
SAME_ANGLE = 2e-3
# Fitted angles are off by this, so that frequencies nearer to one another cannot be told apart.
FITTED = 1e-5


@dataclass(frozen=True, kw_only=True)
class Planes:
    """Rotation planes of one attention call, as an order of its heads' dimensions.

    Attributes:
        order: puts the dimensions of a head into the ``"halves"`` layout: plane ``i`` is dimension ``i`` and
            ``i + len(order) / 2`` of ``x[..., order]``. Planes are sorted from fast to slow; unrotated dimensions come
            last in each half, paired with each other at angle 0. When their number is odd, the last entry is the index
            one past the head's dimensions, for a dimension of zeros (:meth:`arrange_keys` adds it).
        angles: radians per position, one per plane, fastest first; float64.
        gain: factor of each ordered dimension that makes the planes turn rigidly; 1 except where a norm with weights
            follows the rotation. Keys are multiplied by it and queries divided, which leaves their products alone.
        rotated: number of planes that rotate (those found; the rest have angle 0).
        description: layout, number of planes and where the angles come from, for people.
    """

    order: Int[Tensor, " dim"]
    angles: Float[Tensor, " plane"]
    gain: Float[Tensor, " dim"]
    rotated: int
    description: str

    def arrange_keys(self, keys: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Bring keys into the ``"halves"`` layout, turning rigidly by :attr:`angles`."""
        return self._arrange(keys, torch.mul)

    def arrange_query(self, query: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Bring queries into the layout of :meth:`arrange_keys`."""
        return self._arrange(query, torch.div)

    def _arrange(self, x: Tensor, apply_gain: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        if self._plain and len(self.order) == x.shape[-1]:
            return x
        if len(self.order) > x.shape[-1]:
            x = nn.functional.pad(x, (0, len(self.order) - x.shape[-1]))
        return apply_gain(x[..., self.order.to(x.device)], self.gain.to(x))

    @cached_property
    def _plain(self) -> bool:
        """Return whether nothing is to be done; not asked where asking would be to wait."""
        ordered = not is_asynchronous(self.gain.device) and torch.equal(self.order, torch.arange(len(self.order)))
        return ordered and bool((self.gain == 1).all())


def find_planes(model: nn.Module, length: int) -> list[Planes]:
    """Find rotation planes and angles of every attention call, for prompts of ``length`` tokens.

    Takes a forward pass over 16 tokens and a part of one, or nine where a model takes no rows of position ids. What was
    found is kept as long as the model lives, and given again while its parameters, buffers, configuration, hooks and
    replaced forward functions are what they were.

    Args:
        model: a Hugging Face decoder in evaluation mode, or what :func:`posym_profile.capture.unwrap` finds one in.
        length: tokens of the prompts in question; matters where the angles depend on it.

    Returns:
        One :class:`Planes` per attention call in the order of a forward pass.

    Raises:
        UnsupportedModelError: if the model takes no positions, no key depends on them, or keys depend on them
            otherwise than by rotations of planes.
    """
    model = unwrap(model)
    length = require_count("length", length, 1, "tokens of the prompts in question")
    check_model(model)
    state = describe_state(model)
    kept = _KEPT.get(model)
    planes = kept[1] if kept is not None and state is not None and kept[0] == state else {}
    if length not in planes:
        found, after = _ask_planes(model, length), describe_state(model)
        # A pass may move buffers to where its prompt wants them; then what other prompts were told no longer holds.
        planes = {**(planes if after == state else {}), length: found}
        _KEPT[model] = after, planes
    return list(planes[length])


# Planes of models in use by the length of the prompts, and the state in which a model was when they were found.
_KEPT: WeakKeyDictionary[nn.Module, tuple[ModelState | None, dict[int, list[Planes]]]] = WeakKeyDictionary()


def _ask_planes(model: nn.Module, length: int) -> list[Planes]:
    """Ask the model for its planes."""
    keys = ShiftedKeys(model, length)
    try:
        return _fit_planes(model, keys)
    except UnsupportedModelError:
        if not keys.together:
            raise
    # What rows of one batch do not tell, rows on their own may.
    return _fit_planes(model, ShiftedKeys(model, length, together=False))


def _fit_planes(model: nn.Module, keys: ShiftedKeys) -> list[Planes]:
    """Fit the planes of every call to its keys at shifted positions."""
    name = type(model).__name__
    rows = {key: x.detach() for key, x in model.named_buffers() if x.is_floating_point() and x.ndim == 1 and x.numel()}
    moved = zip(rows, move_to_cpu(list(rows.values())), strict=True)
    buffers = {key: x.double().abs() for key, x in moved}
    planes: list[Planes] = []
    different: list[Planes] = []
    for index in range(len(keys.keys)):
        fit = _Fit(keys, index)
        try:
            # Most layers turn as one before them does, which is soon checked.
            alike = next((other for other in different if fit.is_explained(other)), None)
            if alike is None:
                different.append(fit.fit(buffers))
            planes.append(different[-1] if alike is None else alike)
        except _NoRotationError as error:
            raise UnsupportedModelError(f"{name}, {name_module(model, keys.callers[index])}: {error}") from None
    if not any(plane.rotated for plane in planes):
        raise make_unsupported_error(
            name,
            "has no rotary encoding: in no layer do position ids turn the keys (vectors of positions that are added to "
            "embeddings are contents to attention)",
        )
    return planes


class _NoRotationError(ValueError):
    """Keys change with their positions otherwise than by rotations of planes."""


class _Fit:
    """Planes of one attention call from its keys at shifted positions."""

    def __init__(self, keys: ShiftedKeys, index: int) -> None:
        rows = keys.keys[index]
        self.unmoved, self.moved = rows[0], rows[1:]
        self.size = rows.abs().amax((0, 1)).clamp_min(torch.finfo(torch.float64).tiny)
        self.steps, self.last = -torch.tensor(keys.shifts, dtype=torch.float64), keys.last
        # What turns by sines from a table in half precision is off by twice their rounding.
        self.table = 2 * keys.table
        self.dim = self.unmoved.shape[1]

    def fit(self, buffers: dict[str, Tensor]) -> Planes:
        first, second, ratio = self.find_pairs()
        if len(first) == 0:
            return self.arrange(first, second, torch.empty(0).double(), ratio, "no rotation")
        angles = self.fit_angles(first, second, ratio)
        first, second = torch.where(angles < 0, second, first), torch.where(angles < 0, first, second)
        ratio, angles = torch.where(angles < 0, 1 / ratio, ratio), angles.abs()
        source, entry, frequencies = self.match_buffer(angles, buffers)
        seen = len(first)
        if frequencies is not None:
            if seen < len(frequencies):
                first, second = self.complete(first, second, ratio, entry, len(frequencies))
                ratio, angles = torch.ones(len(first)).double(), frequencies
            else:
                angles = frequencies[entry]
        planes = self.arrange(first, second, angles, ratio, self.describe(first, second, ratio, seen, source))
        self.check(planes)
        return planes

    def find_pairs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Find the dimensions that share a plane, and the factor of the second that makes the plane turn rigidly."""
        change = (self.moved - self.unmoved).abs().amax((0, 1)) / self.size
        noise = 30 * EPSILON + self.table
        turning = (change > noise).nonzero().flatten()
        if len(turning) == 0:
            return turning, turning, torch.empty(0).double()
        # On a plane k1^2 + ratio^2 k2^2 stays, so the changes of its two squares are opposite in every sample.
        growth = (self.moved[..., turning].square() - self.unmoved[:, turning].square()).flatten(0, 1)
        norm = growth.norm(dim=0)
        likeness = (growth.T @ growth / norm / norm[:, None]).fill_diagonal_(1)
        opposite, partner = likeness.min(1)
        itself = torch.arange(len(turning))
        paired = (partner[partner] == itself) & (opposite < -0.95)
        clear = change[turning] > 100 * noise
        if not paired.any() or (clear & ~paired).any():
            worst = opposite[clear & ~paired].max() if (clear & ~paired).any() else opposite.max()
            raise _NoRotationError(
                f"keys change with their position, but not as rotations of planes (the squares of two dimensions "
                f"should change oppositely, correlation -1; found {worst:.2f})"
            )
        one = itself[paired & (itself < partner)]
        ratio = (norm[one] / norm[partner[one]]).sqrt()
        # The less a plane turns, the less its ratio says. Without a norm behind the rotation all ratios are 1.
        weak = torch.minimum(change[turning[one]], change[turning[partner[one]]]).clamp_max(1)
        if ((ratio - 1).abs() < noise / weak).all():
            ratio = torch.ones_like(ratio)
        return turning[one], turning[partner[one]], ratio

    def fit_angles(self, first: Tensor, second: Tensor, ratio: Tensor) -> Float[Tensor, " plane"]:
        """Fit signed radians per position, refined from shift to shift."""
        before = torch.complex(self.unmoved[:, first], ratio * self.unmoved[:, second])
        after = torch.complex(self.moved[..., first], ratio * self.moved[..., second])
        angles = torch.zeros(len(first)).double()
        for step, turned in zip(self.steps, (before.conj() * after).sum(1).angle(), strict=True):
            off = torch.remainder(turned - angles * step + math.pi, 2 * math.pi) - math.pi
            angles = angles + off / step
        return angles

    def match_buffer(self, angles: Tensor, buffers: dict[str, Tensor]) -> tuple[str, Tensor, Tensor | None]:
        """Find the model's own frequencies, where a buffer holds all that were fitted: they have no fitting noise."""
        matching: list[tuple[float, int, str, Tensor]] = []
        for name, frequencies in buffers.items():
            distance, entry = (angles[:, None] - frequencies).abs().min(1)
            off = float((distance / (angles + 1e-2 / abs(self.steps[-1]))).max())
            if off < max(SAME_ANGLE, 10 * self.table) and len(entry.unique()) == len(entry):
                matching.append((off, len(frequencies), name, entry))
        if not matching:
            return "fitted", torch.empty(0), None
        # Another part's frequencies (a tower for pictures) may hold these among others: the fewest are the own ones.
        nearest = min(off for off, *_ in matching)
        _, _, name, entry = min((m for m in matching if m[0] <= nearest + FITTED), key=lambda match: match[1])
        return f"angles from {name}", entry, buffers[name]

    def complete(self, first: Tensor, second: Tensor, ratio: Tensor, entry: Tensor, number: int):
        """Complete the planes of a buffer's frequencies: those too slow to be seen continue the others' layout."""
        if (ratio != 1).any():
            raise _NoRotationError("a norm with weights follows the rotation, and some planes are too slow to be seen")
        every = torch.arange(number)
        lines = []
        for dimension in (first, second):
            low, high = int(entry.argmin()), int(entry.argmax())
            slope = (dimension[high] - dimension[low]) // max(1, int(entry[high] - entry[low]))
            line = dimension[low] + slope * (every - entry[low])
            if len(entry) < 2 or (line[entry] != dimension).any():
                raise _NoRotationError("some planes are too slow to be seen, and the others follow no regular layout")
            lines.append(line)
        both = torch.cat(lines)
        if both.min() < 0 or both.max() >= self.dim or len(both.unique()) < len(both):
            raise _NoRotationError("some planes are too slow to be seen and have no place beside the others")
        return lines[0], lines[1]

    def arrange(self, first: Tensor, second: Tensor, angles: Tensor, ratio: Tensor, description: str) -> Planes:
        fast = angles.argsort(descending=True, stable=True)
        unrotated = torch.ones(self.dim, dtype=torch.bool)
        unrotated[first], unrotated[second] = False, False
        rest = unrotated.nonzero().flatten()
        if len(rest) % 2:
            rest = torch.cat([rest, torch.tensor([self.dim])])
        rest_first, rest_second = rest.chunk(2) if len(rest) else (rest, rest)
        none = torch.ones(len(rest_first)).double()
        return Planes(
            order=torch.cat([first[fast], rest_first, second[fast], rest_second]),
            angles=torch.cat([angles[fast], 0 * none]),
            gain=torch.cat([torch.ones(len(first)).double(), none, ratio[fast], none]),
            rotated=len(first),
            description=description,
        )

    def describe(self, first: Tensor, second: Tensor, ratio: Tensor, seen: int, source: str) -> str:
        gap = second - first
        kind = "irregular pairs"
        if len(gap) > 1 and (gap.abs() == 1).all():
            kind = "neighbours"
        elif (gap == gap[0]).all() and abs(int(gap[0])) == len(gap):
            kind = "halves"
        start = int(torch.minimum(first, second).min())
        text = f"{kind}, {2 * len(first)} of {self.dim} dimensions rotated"
        text += f" from dimension {start}" if start else ""
        text += f", {len(first) - seen} planes too slow to be seen" if len(first) > seen else ""
        text += ", a norm with weights follows" if (ratio != 1).any() else ""
        return f"{text}, {source}"

    def check(self, planes: Planes) -> None:
        """Raise unless what was found explains every dimension."""
        off = self.measure_error(planes)
        if not off <= 60 * EPSILON + self.table:
            raise _NoRotationError(
                f"keys are not a pure rotation of their position (planes found, relative difference {off:.1g})"
            )

    def is_explained(self, planes: Planes) -> bool:
        """Return whether another call's planes explain every dimension of this one."""
        return len(planes.order) // 2 == (self.dim + 1) // 2 and self.measure_error(planes) <= 60 * EPSILON + self.table

    def measure_error(self, planes: Planes) -> float:
        """Turn the keys by these planes and measure the largest relative difference from the model's."""
        turned = rotate_unchecked(planes.arrange_keys(self.unmoved), self.steps[:, None], planes.angles, "halves")
        error = (turned - planes.arrange_keys(self.moved)).abs().amax(1)
        # The largest of a plane's two dimensions.
        error, size = (x.unflatten(-1, (2, -1)).amax(-2) for x in (error, planes.arrange_keys(self.size)))
        # The model rounds position times angle to its own precision, so that phases are off in proportion.
        reach = torch.maximum(torch.tensor(self.last).abs(), (self.last + self.steps - TOKENS).abs())
        return float((error / size / (1 + reach[:, None] * planes.angles)).max())
