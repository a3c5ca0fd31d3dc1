"""Keys of a Hugging Face model's attention when tokens stand elsewhere, with everything else as it was."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from posym_core.inspection.attention_calls import AttentionCall, UnsupportedModelError
from posym_core.inspection.capturing import ONE_AT_A_TIME, check_model, forward, input_device, watched_forward
from posym_core.inspection.full_precision import HALF, in_float32
from posym_core.inspection.routes import Route, in_this_thread

TOKENS = 32
SHIFTS = tuple(8**power for power in range(7))


class ShiftedKeys:
    """Keys ``[sample, dim]`` of every attention call of a model: ``unmoved``, and ``moved`` back by each of ``shifts``.

    The last token stays where a prompt of ``length`` tokens ends. Weights in half precision are computed with in
    float32, so that keys are off by the rounding of float32, in which models form their angles even in float64. Only
    sines from a table of half precision (GPT-J) keep its rounding, ``table``; 0 elsewhere.
    """

    def __init__(self, model: nn.Module, length: int) -> None:
        check_model(model)
        self.model, self.name = model, type(model).__name__
        vocabulary = model.get_input_embeddings().weight.shape[0]  # pyright: ignore[reportCallIssue]
        generator = torch.Generator().manual_seed(0)
        # The first tokens of a vocabulary are controls, which some models treat apart.
        self.input_ids = torch.randint(vocabulary // 20, vocabulary, (1, TOKENS), generator=generator)
        self.hidden: dict[tuple[nn.Module, int], Tensor] = {}
        self.last, self.table = max(length, 2) - 1, 0.0
        # Hooks on the model must not meet those of another thread that asks the same model.
        with ONE_AT_A_TIME, in_float32(model):
            self.record()
            self.ask()

    def record(self) -> None:
        """An ordinary pass that keeps the hidden states, and checks that attention is what it is taken for."""
        backbone: Any = getattr(self.model, "base_model", self.model)
        inputs = {}
        if positioned := "position_ids" in inspect.signature(backbone.forward).parameters:
            # No position beyond the prompt's: a longer pass would change angles that depend on the length.
            inputs["position_ids"] = self.positions().clamp_min(0)
        calls: list[AttentionCall] = []
        ends = (0, -1)
        self.route: Route = watched_forward(self.model, self.input_ids, calls.append, rows=ends, verify=True, **inputs)
        if any(bool(call.visible[:, :, 0, 1:].any()) for call in calls):
            raise UnsupportedModelError(
                f"{self.name} attends as an encoder: its first token sees those behind it, and prompts are read from "
                "their last; use a decoder with rotary attention"
            )
        if not positioned:
            raise UnsupportedModelError(
                f"{self.name} takes no position_ids, so that its keys cannot be asked for at other positions (its own "
                "are vectors added to the embeddings, a bias, the order of a recurrence, or a rotation by the tokens' "
                "order); use a decoder with rotary attention that takes position_ids"
            )
        self.modules = list(dict.fromkeys(call.module for call in calls))
        with self.replayed(keep=True):
            forward(self.model, self.input_ids, **inputs)

    def ask(self) -> None:
        """Keys at the plain positions and shifted back, with the final token fixed where the prompt ends."""
        self.shifts = SHIFTS
        try:
            with _IndicesInRange():
                self.keys_at(-SHIFTS[-1])
        except IndexError:
            # Sines from a table, as in GPT-J: stay within its positions.
            tables = (buffer.dtype for buffer in self.model.buffers() if buffer.ndim > 1 and buffer.dtype in HALF)
            self.table = max((torch.finfo(dtype).eps for dtype in tables), default=0.0)
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
            # Keys alone count: which of them later queries see may depend on gaps between positions.
            watched_forward(self.model, self.input_ids, receive, rows=(0,), route=self.route, position_ids=positions)
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

        guarded = in_this_thread(enter)
        hooks = [module.register_forward_pre_hook(guarded, with_kwargs=True) for module in self.modules]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


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
