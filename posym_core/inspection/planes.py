"""Rotation planes and angles of a Hugging Face model, found by asking the model.

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

import contextlib
import inspect
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from posym_core.inspection.attention_calls import AttentionCall, UnsupportedModelError
from posym_core.inspection.capture import check_attention_kind, forward, input_device, watched_forward
from posym_core.inspection.routes import Route
from posym_core.metrics.rope import turn

TOKENS = 32
SHIFTS = tuple(8**power for power in range(7))
# A frequency of the model is taken for a fitted angle when they agree to this relative difference.
SAME_ANGLE = 2e-3


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
        """Keys in the ``"halves"`` layout, turning rigidly by :attr:`angles`."""
        return self._ordered(keys) * self.gain.to(keys)

    def arrange_query(self, query: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Queries to go with :meth:`arrange_keys`."""
        return self._ordered(query) / self.gain.to(query)

    def _ordered(self, x: Tensor) -> Tensor:
        if len(self.order) > x.shape[-1]:
            x = nn.functional.pad(x, (0, len(self.order) - x.shape[-1]))
        return x[..., self.order.to(x.device)]


def find_planes(model: nn.Module, length: int) -> list[Planes]:
    """Rotation planes and angles of every attention call, for prompts of ``length`` tokens.

    Takes nine forward passes over 32 tokens. The model is asked anew each time, because its angles may have been
    changed in between, on purpose or by a longer prompt.

    Args:
        model: a Hugging Face decoder in evaluation mode.
        length: tokens of the prompts in question; matters where the angles depend on it.

    Returns:
        One :class:`Planes` per attention call in the order of a forward pass.

    Raises:
        UnsupportedModelError: if the model takes no positions, no key depends on them, or keys depend on them
            otherwise than by rotations of planes.
    """
    return _Question(model, length).answer()


class _Question:
    """Keys of a model's attention calls at shifted positions, and what they tell."""

    def __init__(self, model: nn.Module, length: int) -> None:
        check_attention_kind(model)
        self.model, self.name = model, type(model).__name__
        vocabulary = model.get_input_embeddings().weight.shape[0]  # pyright: ignore[reportCallIssue]
        generator = torch.Generator().manual_seed(0)
        # The first tokens of a vocabulary are controls, which some models treat apart.
        self.input_ids = torch.randint(vocabulary // 20, vocabulary, (1, TOKENS), generator=generator)
        self.hidden: dict[tuple[nn.Module, int], Tensor] = {}
        self.last = max(length, 2) - 1
        calls = self.record()
        self.epsilon = max(torch.finfo(dtype).eps for dtype in (calls[0].keys.dtype, _dtype(model)))
        self.ask()

    def record(self) -> list[AttentionCall]:
        """An ordinary pass that keeps the hidden states, and checks that attention is what it is taken for."""
        backbone: Any = getattr(self.model, "base_model", self.model)
        inputs = {}
        if positioned := "position_ids" in inspect.signature(backbone.forward).parameters:
            # No position beyond the prompt's: a longer pass would change angles that depend on the length.
            inputs["position_ids"] = self.positions().clamp_min(0)
        calls: list[AttentionCall] = []
        self.route: Route = watched_forward(self.model, self.input_ids, calls.append, verify=True, **inputs)
        if not positioned:
            raise UnsupportedModelError(
                f"{self.name} takes no position_ids (position comes from a bias or from the order of a recurrence), so "
                "it has no rotary encoding to be asked for; use a decoder with rotary attention"
            )
        self.modules = list(dict.fromkeys(call.module for call in calls))
        with self.replayed(keep=True):
            forward(self.model, self.input_ids, **inputs)
        return calls

    def ask(self) -> None:
        """Keys at the plain positions and shifted back, with the final token fixed where the prompt ends."""
        self.shifts = SHIFTS
        try:
            with _IndicesInRange():
                self.keys_at(-SHIFTS[-1])
        except IndexError:
            # Sines from a table, as in GPT-J: stay within its positions.
            self.last = (getattr(self.model.config, "max_position_embeddings", None) or self.last + 1) - 1
            reach = self.last - TOKENS
            if reach < 8:
                raise UnsupportedModelError(
                    f"{self.name} looks positions up in a table of {self.last + 1} entries, too few to measure "
                    f"rotations; it needs more than {TOKENS + 8}"
                ) from None
            self.shifts = (*(shift for shift in SHIFTS if shift < reach), reach)
        try:
            with _IndicesInRange():
                self.unmoved = self.keys_at(0)
                self.moved = [self.keys_at(-shift) for shift in self.shifts]
        except IndexError as error:
            raise UnsupportedModelError(f"{self.name} takes no shifted position_ids ({error})") from None

    def positions(self) -> Int[Tensor, "1 token"]:
        """Consecutive positions up to the prompt's last."""
        return torch.arange(self.last - TOKENS + 1, self.last + 1, device=input_device(self.model))[None]

    def keys_at(self, shift: int) -> list[Float[Tensor, "sample dim"]]:
        """Keys of all calls with every token but the final one moved by ``shift``."""
        positions = self.positions()
        positions[:, :-1] += shift
        keys: list[Tensor] = []

        def receive(call: AttentionCall) -> None:
            keys.append(call.keys[:, :, :-1].flatten(0, 2).double().cpu())

        with self.replayed(keep=False):
            watched_forward(self.model, self.input_ids, receive, route=self.route, position_ids=positions)
        return keys

    @contextlib.contextmanager
    def replayed(self, *, keep: bool) -> Iterator[None]:
        """Within the block attention modules note their hidden states, or get the noted ones instead of their own."""
        runs: dict[nn.Module, int] = {}

        def enter(module: nn.Module, args: tuple, inputs: dict) -> tuple[tuple, dict] | None:
            runs[module] = runs.get(module, -1) + 1
            place = module, runs[module]
            if keep:
                self.hidden[place] = inputs["hidden_states"] if "hidden_states" in inputs else args[0]
                return None
            if "hidden_states" in inputs:
                return args, inputs | {"hidden_states": self.hidden[place]}
            return (self.hidden[place], *args[1:]), inputs

        hooks = [module.register_forward_pre_hook(enter, with_kwargs=True) for module in self.modules]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def answer(self) -> list[Planes]:
        buffers = {
            name: buffer.detach().double().cpu().abs()
            for name, buffer in self.model.named_buffers()
            if buffer.is_floating_point() and buffer.ndim == 1 and buffer.numel()
        }
        found = []
        for index, unmoved in enumerate(self.unmoved):
            fit = _Fit(unmoved, [moved[index] for moved in self.moved], self.shifts, self.last, self.epsilon)
            try:
                found.append(fit.planes(buffers))
            except _NoRotationError as error:
                raise UnsupportedModelError(f"{self.name}, attention call {index}: {error}") from None
        if not any(planes.rotated for planes in found):
            raise UnsupportedModelError(
                f"{self.name} has no rotary encoding: its keys do not depend on the positions in any layer; use a "
                "decoder with rotary attention"
            )
        return found


class _NoRotationError(ValueError):
    """Keys change with their positions otherwise than by rotations of planes."""


class _Fit:
    """Planes of one attention call from its keys at shifted positions."""

    def __init__(
        self, unmoved: Tensor, moved: list[Tensor], shifts: tuple[int, ...], last: int, epsilon: float
    ) -> None:
        self.unmoved, self.moved, self.last, self.epsilon = unmoved, moved, last, epsilon
        self.steps = [-shift for shift in shifts]
        self.dim = unmoved.shape[1]

    def planes(self, buffers: dict[str, Tensor]) -> Planes:
        first, second, ratio = self.pairs()
        if len(first) == 0:
            return self.arranged(first, second, torch.empty(0).double(), ratio, "no rotation")
        angles = self.angles(first, second, ratio)
        first, second = torch.where(angles < 0, second, first), torch.where(angles < 0, first, second)
        ratio, angles = torch.where(angles < 0, 1 / ratio, ratio), angles.abs()
        source, entry, frequencies = self.matching_buffer(angles, buffers)
        seen = len(first)
        if frequencies is not None:
            if seen < len(frequencies):
                first, second = self.completed(first, second, ratio, entry, len(frequencies))
                ratio, angles = torch.ones(len(first)).double(), frequencies
            else:
                angles = frequencies[entry]
        planes = self.arranged(first, second, angles, ratio, self.describe(first, second, ratio, seen, source))
        self.check(planes)
        return planes

    def pairs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Dimensions that share a plane, and the factor of the second that makes the plane turn rigidly."""
        every = torch.stack([self.unmoved, *self.moved])
        size = every.abs().amax((0, 1)).clamp_min(torch.finfo(torch.float64).tiny)
        change = (every[1:] - self.unmoved).abs().amax((0, 1)) / size
        noise = 30 * self.epsilon
        turning = (change > noise).nonzero().flatten()
        if len(turning) == 0:
            return turning, turning, torch.empty(0).double()
        # On a plane k1^2 + ratio^2 k2^2 stays, so the changes of its two squares are opposite in every sample.
        growth = (every[1:, :, turning].square() - self.unmoved[:, turning].square()).flatten(0, 1)
        norm = growth.norm(dim=0)
        likeness = ((growth / norm).T @ (growth / norm)).fill_diagonal_(1)
        opposite, partner = likeness.min(1)
        own = torch.arange(len(turning))
        paired = (partner[partner] == own) & (opposite < -0.95)
        clear = change[turning] > 100 * noise
        if not paired.any() or (clear & ~paired).any():
            worst = opposite[clear & ~paired].max() if (clear & ~paired).any() else opposite.max()
            raise _NoRotationError(
                f"keys change with their position, but not as rotations of planes (the squares of two dimensions "
                f"should change oppositely, correlation -1; found {worst:.2f})"
            )
        one = own[paired & (own < partner)]
        ratio = (norm[one] / norm[partner[one]]).sqrt()
        # The less a plane turns, the less its ratio says.
        weak = torch.minimum(change[turning[one]], change[turning[partner[one]]]).clamp_max(1)
        ratio = torch.where((ratio - 1).abs() < 100 * noise / weak, 1, ratio)
        return turning[one], turning[partner[one]], ratio

    def angles(self, first: Tensor, second: Tensor, ratio: Tensor) -> Float[Tensor, " plane"]:
        """Signed radians per position, refined from shift to shift."""
        before = torch.complex(self.unmoved[:, first], ratio * self.unmoved[:, second])
        angles = torch.zeros(len(first)).double()
        for step, moved in zip(self.steps, self.moved, strict=True):
            after = torch.complex(moved[:, first], ratio * moved[:, second])
            phase = (before.conj() * after).sum(0).angle() - angles * step
            angles = angles + (torch.remainder(phase + math.pi, 2 * math.pi) - math.pi) / step
        return angles

    def matching_buffer(self, angles: Tensor, buffers: dict[str, Tensor]) -> tuple[str, Tensor, Tensor | None]:
        """The model's own frequencies, where a buffer holds all that were found: they are free of fitting noise."""
        best: tuple[float, str, Tensor, Tensor | None] = (math.inf, "fitted", torch.empty(0), None)
        for name, frequencies in buffers.items():
            distance, entry = (angles[:, None] - frequencies).abs().min(1)
            off = float((distance / (angles + 1e-2 / abs(self.steps[-1]))).max())
            if off < min(best[0], max(SAME_ANGLE, 100 * self.epsilon)) and len(entry.unique()) == len(entry):
                best = off, f"angles from {name}", entry, frequencies
        return best[1:]

    def completed(self, first: Tensor, second: Tensor, ratio: Tensor, entry: Tensor, number: int):
        """All planes of a buffer's frequencies, where those too slow to be seen continue the seen ones' layout."""
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

    def arranged(self, first: Tensor, second: Tensor, angles: Tensor, ratio: Tensor, description: str) -> Planes:
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
        """Turn the keys by what was found and compare with the model's: the answer must explain every dimension."""
        unmoved = planes.arrange_keys(self.unmoved)
        size = torch.stack([self.unmoved, *self.moved]).abs().amax((0, 1))
        size = planes.arrange_keys(size).unflatten(-1, (2, -1)).amax(-2).clamp_min(torch.finfo(torch.float64).tiny)
        for step, moved in zip(self.steps, self.moved, strict=True):
            there = turn(
                unmoved, torch.full(unmoved.shape[:1], float(step), dtype=torch.float64), planes.angles, "halves"
            )
            error = (there - planes.arrange_keys(moved)).unflatten(-1, (2, -1)).abs().amax((0, 1)) / size
            # The model rounds position times angle to its own precision, so that phases are off in proportion.
            reach = max(abs(self.last), abs(self.last + step - TOKENS))
            error = float((error / (1 + reach * planes.angles)).max())
            if not error <= 60 * self.epsilon:
                raise _NoRotationError(
                    f"keys are not a pure rotation of their position (planes found, relative difference {error:.1g})"
                )


class _IndicesInRange(TorchDispatchMode):
    """Raises IndexError before a look-up out of range, which on a GPU would end the whole process's use of it."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.embedding.default:
            self.check(args[0], args[1], 0)
        elif func in (torch.ops.aten.gather.default, torch.ops.aten.index_select.default):
            self.check(args[0], args[2], args[1])
        elif func is torch.ops.aten.index.Tensor:
            for dim, index in enumerate(args[1]):
                if index is not None and index.dtype != torch.bool:
                    self.check(args[0], index, dim, least=-args[0].shape[dim])
        return func(*args, **(kwargs or {}))

    def check(self, table: Tensor, index: Tensor, dim: int, least: int = 0) -> None:
        if index.numel() and (int(index.min()) < least or int(index.max()) >= table.shape[dim]):
            raise IndexError(f"position out of a table of {table.shape[dim]} entries")


def _dtype(model: nn.Module) -> torch.dtype:
    return next(parameter.dtype for parameter in model.parameters() if parameter.is_floating_point())
