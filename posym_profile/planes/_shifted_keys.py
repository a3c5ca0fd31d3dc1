"""Keys of a Hugging Face model's attention when tokens stand elsewhere, with everything else as it was.

Two passes suffice. In the first, each attention module notes its hidden states and what it makes of them. In the
second, every row of a batch has other positions. An attention module gets its noted hidden states in each row, is left
as soon as its keys are known, and returns what it returned before. So do norms, MLPs and other modules beside attention
that are given hidden states alone: they are not run again, and the second pass costs the keys' projections.
A model that does not take rows of positions this way is asked for one row after another.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from posym_profile.capture._attention_calls import AttentionInputs
from posym_profile.capture._capturing import ONE_AT_A_TIME, check_model, find_input_device, forward_with_hook
from posym_profile.capture._full_precision import HALF, compute_in_float32
from posym_profile.capture._routes import Route, replace_forward
from posym_profile.capture._wrappers import unwrap
from posym_profile.language_models._refusals import WAY_OUT, UnsupportedModelError, make_unsupported_error

TOKENS = 16
SHIFTS = tuple(8**power for power in range(7))
# Rounding of keys: a few operations in float32, in which models form their angles whatever their type.
EPSILON = torch.finfo(torch.float32).eps
# Functions that look up what indices say: a table's sines, by positions.
LOOK_UPS = (
    *(Tensor.__getitem__, nn.functional.embedding, torch.embedding, torch.index_select, Tensor.index_select),
    *(torch.gather, Tensor.gather, torch.take_along_dim, Tensor.take_along_dim),
)


class ShiftedKeys:
    """Keys ``[row, sample, dim]`` of every attention call: row 0 unmoved, and one moved back by each of ``shifts``.

    The last token stays where a prompt of ``length`` tokens ends, in every row: angles that depend on the largest
    position are the same in all. Weights in half precision are computed with in float32, so that keys are off by the
    rounding of float32, in which models form their angles even in float64. Only sines from a table of half precision
    (GPT-J) keep its rounding, ``table``; 0 elsewhere. Keys come to the CPU in one transfer, in float64.

    Args:
        together: whether to try all rows in one pass; :attr:`together` says whether that was done.
    """

    def __init__(self, model: nn.Module, length: int, *, together: bool = True) -> None:
        check_model(model)
        self.model, self.name = model, type(model).__name__
        vocabulary = model.get_input_embeddings().weight.shape[0]  # pyright: ignore[reportCallIssue]
        generator = torch.Generator().manual_seed(0)
        # The first tokens of a vocabulary are controls, which some models treat apart.
        self.input_ids = torch.randint(vocabulary // 20, vocabulary, (1, TOKENS), generator=generator)
        self.end = max(length, 2) - 1
        # What attention modules were given and returned, by their run; and which module makes each call.
        self.hidden: dict[tuple[nn.Module, int], Any] = {}
        self.returned: dict[tuple[nn.Module, int], Any] = {}
        self.callers: list[nn.Module] = []
        # Modules beside attention that need not run again, see :meth:`find_bypassed`.
        self.bypassed: list[nn.Module] = []
        # Hooks on the model must not meet those of another thread that asks the same model.
        with ONE_AT_A_TIME, compute_in_float32(model):
            self.record()
            self.together = together and self.ask_together()
            if not self.together:
                self.ask(self.one_by_one)

    def record(self) -> None:
        """Run an ordinary pass, keep the hidden states, and check that attention is what it is taken for."""
        backbone: Any = unwrap(getattr(self.model, "base_model", self.model))
        self.parameters = inspect.signature(backbone.forward).parameters
        self.last = self.end
        # Without a mask positions that repeat or have gaps are taken for prompts packed into one row.
        masked = "attention_mask" in self.parameters
        self.inputs = {"attention_mask": torch.ones_like(self.input_ids)} if masked else {}
        inputs: dict[str, Any] = dict(self.inputs)
        if positioned := "position_ids" in self.parameters:
            # No position beyond the prompt's: a longer pass would change angles that depend on the length.
            inputs["position_ids"] = self.positions().clamp_min(0)
        looks_ahead: list[Bool[Tensor, ""]] = []
        # Modules that run at the moment, outermost first: which, how often before in this pass, on what hidden states.
        running: list[tuple[nn.Module, int, Any]] = []
        numbers: dict[nn.Module, int] = {}

        def receive(call: AttentionInputs) -> None:
            looks_ahead.append(call.visible[:, :, 0, 1:].any())
            self.callers.append(call.module)
            for module, number, hidden in reversed(running):
                if module is call.module:
                    self.hidden[module, number] = hidden
                    break

        def run_module(run: Callable, module: nn.Module, *args: Any, **inputs: Any) -> Any:
            if not running:
                numbers.clear()
            number = numbers[module] = numbers.get(module, -1) + 1
            running.append((module, number, inputs.get("hidden_states", args[0] if args else None)))
            try:
                output = run(*args, **inputs)
            finally:
                running.pop()
            if (module, number) in self.hidden or (not inputs and len(args) == 1 and _is_hidden(args[0])):
                self.returned[module, number] = output
            return output

        with replace_forward(self.model.modules(), run_module):
            self.route: Route = forward_with_hook(
                self.model, self.input_ids, receive, rows=(0, -1), verify=True, **inputs
            )
        if any(move_to_cpu(looks_ahead)):
            why = "attends as an encoder: its first token sees those behind it, and prompts are read from their last"
            raise make_unsupported_error(self.name, why)
        if not positioned:
            why = "takes no position_ids, so that its keys cannot be asked for at other positions"
            raise make_unsupported_error(self.name, why, f"{WAY_OUT} that takes position_ids")
        self.bypassed = self.find_bypassed()

    def find_bypassed(self) -> list[nn.Module]:
        """Find modules that are given hidden states alone, hold no buffers, and lie neither in nor around attention."""
        within = {part for caller in self.callers for part in caller.modules()}
        noted = {module for module, _ in self.returned} - within
        callers = set(self.callers)
        return [m for m in noted if not any(map(len, (callers & set(m.modules()), [*m.buffers()])))]

    def ask_together(self) -> bool:
        """Ask for all rows in one pass; return whether the model takes it."""
        try:
            self.ask(self.in_one_batch, out_of_range=_OutOfTableError)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, IndexError):
            # A model that takes no rows of positions is asked row by row, where it fails for good or not.
            return False
        still = [index for index, rows in enumerate(self.keys) if _close(rows[-1], rows[0])]
        if not still:
            return True
        # No position, or positions of one row for all: a row alone tells.
        alone = self.one_by_one(self.shifts[-1:])
        return all(_close(alone[index][0], self.keys[index][0]) for index in still)

    def ask(
        self, keys_of: Callable[[Sequence[int]], list[Tensor]], out_of_range: type[IndexError] = IndexError
    ) -> None:
        """Ask for the keys at the plain positions and shifted back, with the final token where the prompt ends."""
        self.shifts, self.last, self.table = SHIFTS, self.end, 0.0
        try:
            self.keys = keys_of((0, *self.shifts))
            return
        except out_of_range:
            # Sines from a table, as in GPT-J: stay within its positions.
            tables = (buffer.dtype for buffer in self.model.buffers() if buffer.ndim > 1 and buffer.dtype in HALF)
            self.table = max((torch.finfo(dtype).eps for dtype in tables), default=0.0)
            self.last = (getattr(self.model.config, "max_position_embeddings", None) or self.last + 1) - 1
            reach = self.last - TOKENS
            if reach < 8:
                why = f"looks positions up in a table of {self.last + 1} entries, too few to measure rotations"
                raise make_unsupported_error(self.name, why, f"it needs more than {TOKENS + 8}") from None
            self.shifts = (*(shift for shift in SHIFTS if shift < reach), reach)
        try:
            self.keys = keys_of((0, *self.shifts))
        except out_of_range as error:
            raise UnsupportedModelError(f"{self.name} takes no shifted position_ids ({error})") from None

    def positions(self, shifts: Sequence[int] = (0,)) -> Int[Tensor, "row token"]:
        """Return consecutive positions up to the prompt's last, all but the last moved back by a shift in each row."""
        device = find_input_device(self.model)
        behind = torch.tensor(shifts, device=device)[:, None] * (torch.arange(TOKENS, device=device) < TOKENS - 1)
        return torch.arange(self.last - TOKENS + 1, self.last + 1, device=device) - behind

    def one_by_one(self, shifts: Sequence[int]) -> list[Float[Tensor, "row sample dim"]]:
        """Return the keys of all calls by a pass a row, the farthest first."""
        rows = {shift: self.in_one_batch((shift,)) for shift in sorted(shifts, reverse=True)}
        return [torch.cat(call) for call in zip(*(rows[shift] for shift in shifts), strict=True)]

    def in_one_batch(self, shifts: Sequence[int]) -> list[Float[Tensor, "row sample dim"]]:
        """Return the keys of all calls by one pass, whose attention modules alone have rows.

        In each row every token but the final one is moved back by a shift.
        """
        keys: list[Tensor] = []

        def receive(call: AttentionInputs) -> None:
            keys.append(call.keys[:, :, :-1].flatten(1, 2))
            raise _AnsweredError

        inputs: dict[str, Any] = {**self.inputs, "position_ids": self.positions(shifts)}
        # Keys alone count: which of them later queries see may depend on gaps between positions.
        with self.replace_hidden(len(shifts)), _AlikeRowsOnce():
            forward_with_hook(self.model, self.input_ids, receive, rows=(0,), route=self.route, **inputs)
        if [len(rows) for rows in keys] != len(self.callers) * [len(shifts)]:
            raise RuntimeError("the model makes other attention calls than before")
        return [rows.double() for rows in move_to_cpu(keys)]

    @contextlib.contextmanager
    def replace_hidden(self, rows: int) -> Iterator[None]:
        """Give attention modules their noted hidden states in each row within the block, instead of their own.

        They are left once their keys are known, and return what they returned before, as do modules beside them.
        """
        numbers: dict[nn.Module, int] = {}

        def run_module(run: Callable, module: nn.Module, *args: Any, **inputs: Any) -> Any:
            numbers[module] = numbers.get(module, -1) + 1
            place = module, numbers[module]
            if place in self.hidden:
                hidden = self.hidden[place].expand(rows, -1, -1)
                named = "hidden_states" in inputs
                args, inputs = (args, inputs | {"hidden_states": hidden}) if named else ((hidden, *args[1:]), inputs)
                with contextlib.suppress(_AnsweredError):
                    run(*args, **inputs)
            return self.returned[place] if place in self.returned else run(*args, **inputs)

        # Row by row, positions may come by any module, so that none beside attention is spared.
        with replace_forward([*self.callers, *(self.bypassed if rows > 1 else ())], run_module):
            yield


def move_to_cpu(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return tensors on the CPU, in one transfer from each device."""
    moved = list(tensors)
    for device in {x.device for x in tensors if x.device.type != "cpu"}:
        places = [place for place, x in enumerate(tensors) if x.device == device]
        together = torch.cat([tensors[place].flatten().double() for place in places]).cpu()
        parts = together.split([tensors[place].numel() for place in places])
        for place, part in zip(places, parts, strict=True):
            moved[place] = part.to(tensors[place].dtype).view(tensors[place].shape)
    return moved


def _is_hidden(x: Any) -> bool:
    """Return whether an argument is hidden states of the tokens, and neither ids, positions nor angles."""
    return isinstance(x, Tensor) and x.is_floating_point() and x.ndim == 3 and x.shape[:2] == (1, TOKENS)


def _close(one: Tensor, other: Tensor) -> bool:
    """Return whether keys are equal but for rounding."""
    return bool((one - other).abs().max() <= 30 * EPSILON * other.abs().max())


class _AnsweredError(Exception):
    """The keys of a call are known; the rest of its module is not needed."""


class _OutOfTableError(IndexError):
    """A position lies beyond a table's end."""


class _AlikeRowsOnce(TorchFunctionMode):
    """Multiplies rows that are one row of memory by a matrix once, and looks nothing up out of range."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is nn.functional.linear and args and args[0].ndim == 3 and len(args[0]) > 1 and not args[0].stride(0):
            return func(args[0][:1], *args[1:], **(kwargs or {})).expand(len(args[0]), -1, -1)
        # To watch every operation takes as long as a tenth of a pass.
        with _IndicesInRange() if func in LOOK_UPS else contextlib.nullcontext():
            return func(*args, **(kwargs or {}))


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
        if not index.numel():
            return
        low, high = torch.stack(index.aminmax()).tolist()
        if low < least or high >= table.shape[dim]:
            raise _OutOfTableError(f"position out of a table of {table.shape[dim]} entries")
