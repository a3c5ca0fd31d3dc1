"""Record attention calls as they happen, on either route."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from posym_core._checks import are_finite, require
from posym_profile.capture._attention_calls import AttentionInputs
from posym_profile.capture._routes import PRODUCTS, SOFTMAXES
from posym_profile.language_models._refusals import PLAIN, UnsupportedModelError, make_unsupported_error, name_module

# Additive masks hide keys with the dtype's least value, with -inf or, in older models, with -10,000.
HIDDEN_BELOW = -9_999.0
# Relative rounding of float32 attention, however it is summed up; in half precision some steps of its own come on top.
ROUNDING = 1e3 * torch.finfo(torch.float32).eps


def find_places(rows: Tensor, keys: int, queries: int, causal: bool, window: int | None) -> Bool[Tensor, "row key"]:
    """Return which keys each row sees by their places alone, whatever a mask hides."""
    position, place = rows[:, None] + (keys - queries), torch.arange(keys, device=rows.device)
    seen = place <= position if causal else torch.ones_like(place <= position)
    return seen if window is None else seen & (place > position - window)


class Recorder:
    """Turns the arguments of attention functions into :class:`AttentionInputs` and hands them on."""

    def __init__(
        self,
        model: nn.Module,
        receive: Callable[[AttentionInputs], Any],
        rows: Sequence[int] | None,
        verify: bool,
        tokens: int | None,
    ) -> None:
        self.model, self.receive, self.verify, self.tokens = model, receive, verify, tokens
        self.rows = None if rows is None else [operator.index(row) for row in rows]
        if self.rows == []:
            raise ValueError("rows must name at least one token, or be None for all; pass rows=(-1,) for the last")
        self.dtype = next((x.dtype for x in model.parameters() if x.is_floating_point()), torch.float32)
        self.seen = itertools.count()
        self.rows_by_place: dict[tuple[int, torch.device], Tensor] = {}
        self.find_places = functools.cache(find_places)  # layers ask the same

    def record(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        visible: Callable[[Tensor], Tensor],
        scale: float | None,
        softcap: float | None = None,
        sinks: Tensor | None = None,
    ) -> AttentionInputs:
        """Return what a call computes its weights from; raise if its keys do not stand for the prompt's tokens."""
        queries, keys = query.shape[2], key.shape[2]
        if self.tokens is not None and not queries == keys == self.tokens:
            why = (
                f"has {queries} queries and {keys} keys in a pass over {self.tokens} tokens (keys are compressed or "
                "added, or belong to another sequence), so that keys do not stand for the prompt's tokens"
            )
            raise make_unsupported_error(self.model, why, PLAIN, module=module)
        rows = self.select_rows(queries, query.device)
        call = AttentionInputs(
            index=next(self.seen),
            module=module,
            # Copies, as what is handed over may outlive the pass.
            query=_full_precision(query.detach()[:, :, rows]),
            keys=_full_precision(key.detach().clone()),
            scale=query.shape[-1] ** -0.5 if scale is None else float(scale),
            softcap=None if softcap is None else float(softcap),
            sinks=None if sinks is None else _full_precision(sinks.detach().flatten()),
            visible=visible(rows),
            rows=rows,
        )
        for x in (call.query, call.keys):
            require(are_finite(x), lambda: self.describe_not_finite(module))
        if hasattr(module, "indexer"):
            self.check_sparse(call)
        return call

    def describe_not_finite(self, module: nn.Module) -> str:
        """Return the refusal of a layer whose numbers are NaN or infinite."""
        name = f"{type(self.model).__name__}: {name_module(self.model, module)}"
        return f"{name} yields numbers that are not finite; load the weights again, or in another dtype"

    def select_rows(self, tokens: int, device: torch.device) -> Tensor:
        """Return the chosen rows, counted from 0."""
        if (tokens, device) not in self.rows_by_place:
            chosen = range(tokens) if self.rows is None else self.rows
            if any(not -tokens <= row < tokens for row in chosen):
                raise ValueError(f"rows must lie in [-{tokens}, {tokens}) for {tokens} tokens; got {self.rows}")
            # Not by torch.tensor: a GPU waits for what is copied from the host.
            parts = [torch.arange(row % tokens, row % tokens + 1, device=device) for row in chosen]
            self.rows_by_place[tokens, device] = torch.cat(parts)
        return self.rows_by_place[tokens, device]

    def read_visible(
        self, module: nn.Module, mask: Any, query: Tensor, key: Tensor, causal: bool, window: int | None
    ) -> Callable[[Tensor], Tensor]:
        """Find which keys chosen rows see, from whatever mask the attention function was given."""
        prompts, keys, queries = query.shape[0], key.shape[2], query.shape[2]

        def of_rows(rows: Tensor) -> Tensor:
            if isinstance(mask, Tensor) and mask.ndim == 4:
                part = mask[:, :, rows if mask.shape[2] > 1 else slice(None), :keys]
                part = part.expand(prompts, -1, len(rows), -1)
                if part.dtype == torch.bool:
                    return part
                seen = part > HIDDEN_BELOW
                require(
                    (part.masked_fill(~seen, 0) == 0).all(),
                    lambda: self.make_error(module, "adds a bias to its logits (ALiBi or a learned mask)"),
                )
                return seen
            seen = self.find_places(rows, keys, queries, causal, window)
            if mask is None:
                return seen.expand(prompts, 1, -1, -1)
            if isinstance(mask, Tensor) and mask.ndim == 2:
                return seen & mask[:, None, None, :keys].bool()
            raise self.make_error(module, f"hides keys by a {type(mask).__name__}, which cannot be read row by row")

        return of_rows

    def check_sparse(self, call: AttentionInputs) -> None:
        """Raise if a sparse indexer hides keys: by content, so that what is visible would move with a swap."""
        behind = call.rows[:, None] - torch.arange(call.keys.shape[2], device=call.rows.device)
        window = getattr(call.module, "sliding_window", None)
        seen = behind >= 0 if window is None else (behind >= 0) & (behind < window)
        covered = getattr(call.module.indexer, "index_topk", "fewer")
        why = "hides keys by content (a sparse indexer), so that what is visible would move with a swap"
        way = f"use prompts of at most {covered} tokens, or another model"
        refusal = make_unsupported_error(self.model, why, way, module=call.module)
        require((call.visible == seen).all(), lambda: refusal)

    def make_error(self, module: nn.Module, reason: str) -> UnsupportedModelError:
        """Return the refusal of a module whose logits are made otherwise."""
        why = f"{reason}, so that its logits are not scaled products of rotated queries and keys alone"
        return make_unsupported_error(self.model, why, f"{PLAIN}, on sdpa or eager attention", module=module)

    def check_output(self, call: AttentionInputs, value: Tensor, output: Tensor) -> None:
        """Raise if a call's output ``[prompt, head, row, dim]`` is not the recorded weights times the values."""
        value = _full_precision(value.detach())
        value = value.repeat_interleave(call.query.shape[1] // value.shape[1], dim=1)
        expected, given = call.weights() @ value, _full_precision(output.detach())
        if given.shape != expected.shape:
            return
        if not bool(given.isfinite().all()):
            raise ValueError(self.describe_not_finite(call.module))
        error = (expected - given).abs().max() / expected.abs().max().clamp_min(torch.finfo(expected.dtype).tiny)
        # Rounded logits are off in proportion to their size, and weights by as much as logits.
        largest = float(call.logits().abs().max())
        if not error <= ROUNDING + (4 + largest) * _half_rounding(output):
            raise self.make_error(
                call.module, f"attends otherwise than by a softmax over its keys (relative difference {error:.1g})"
            )

    def around(self, function, module, query, key, value, attention_mask=None, *rest, **options):
        """Call a function of the attention interface and record its arguments."""
        causal = options.get("is_causal")
        causal = bool(getattr(module, "is_causal", True) if causal is None else causal)
        visible = self.read_visible(module, attention_mask, query, key, causal, options.get("sliding_window"))
        scale = options["scaling"] if "scaling" in options else (rest[0] if rest else None)
        sinks = options.get("s_aux", options.get("sinks"))
        if options.get("indices") is not None:
            raise self.make_error(module, "is told by indices which keys it sees, beside its mask")
        if options.get("position_bias") is not None:
            raise self.make_error(module, "adds a bias of the position to its logits")
        if isinstance(sinks, Tensor) and sinks.numel() != query.shape[1]:
            raise self.make_error(module, "has attention sinks that depend on the query")
        call = self.record(module, query, key, visible, scale, options.get("softcap"), sinks)
        output = function(module, query, key, value, attention_mask, *rest, **options)
        if self.verify:
            self.check_output(call, value, output[0][:, call.rows].transpose(1, 2))
        self.receive(call)
        return output


class FunctionReader(TorchFunctionMode):
    """Reads the calls of torch that attention is made of, in the module that runs innermost."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder
        self.running: list[nn.Module] = []
        self.multiplied: tuple[nn.Module, Tensor, Tensor] | None = None

    def run_module(self, run: Callable, module: nn.Module, *args: Any, **inputs: Any) -> Any:
        self.running.append(module)
        try:
            return run(*args, **inputs)
        finally:
            self.running.pop()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        options = kwargs or {}
        output = func(*args, **options)
        if self.running and func is nn.functional.scaled_dot_product_attention:
            self.read_fused(output, *args, **options)
        elif self.running and func in PRODUCTS and output.ndim in (3, 4) and output.shape[-1] == output.shape[-2]:
            # Behind what may be added to their product; some name their operands.
            named = (options[name] for name in ("batch1", "batch2", "other", "mat2") if name in options)
            *_, left, right = *args, *named
            self.multiplied = (self.running[-1], left, right.transpose(-1, -2))
        elif self.multiplied is not None and func in SOFTMAXES and self.multiplied[0] is self.running[-1]:
            self.read_softmax(*self.multiplied, args[0] if args else options["input"])
            self.multiplied = None
        return output

    def read_fused(self, output, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **_):
        """Read a call of ``scaled_dot_product_attention``."""
        module, recorder = self.running[-1], self.recorder
        visible = recorder.read_visible(module, attn_mask, query, key, is_causal, None)
        call = recorder.record(module, query, key, visible, scale)
        if recorder.verify:
            recorder.check_output(call, value, output[:, :, call.rows])
        recorder.receive(call)

    def read_softmax(self, module: nn.Module, query: Tensor, key: Tensor, logits: Tensor) -> None:
        """Read a product and the softmax that follows it, with what the logits say of the scale and visible keys."""
        if logits.ndim != 4 or logits.shape[-1] != key.shape[-2]:
            return
        query, key = (x.detach().reshape(*logits.shape[:1], -1, *x.shape[-2:]) for x in (query, key))
        rows = self.recorder.select_rows(query.shape[2], query.device)
        given = _full_precision(logits.detach()[:, :, rows])
        # Some divide the mask by the root of the dimension together with the logits.
        least = torch.finfo(self.recorder.dtype).min / (2 * query.shape[-1] ** 0.5)
        seen = given > max(HIDDEN_BELOW, least)
        # The scale is applied before or after the product, by multiplying or dividing: read it off the result.
        plain = _full_precision(query[:, :, rows]) @ _full_precision(key).transpose(-1, -2)
        scale = float((plain * given)[seen].sum() / plain[seen].square().sum().clamp_min(1e-30))
        error = (given - scale * plain)[seen].abs().max() / given[seen].abs().max().clamp_min(1e-30)
        if not error <= ROUNDING + 4 * _half_rounding(query, key, logits):
            raise self.recorder.make_error(module, f"adds a bias to its logits (relative difference {error:.1g})")
        self.recorder.receive(self.recorder.record(module, query, key, lambda rows: seen, scale))


def _half_rounding(*tensors: Tensor) -> float:
    """Return the relative rounding of the coarsest of tensors, 0 from float32 on."""
    return max(torch.finfo(x.dtype).eps if x.dtype.itemsize < 4 else 0.0 for x in tensors)


def _full_precision(x: Tensor) -> Tensor:
    return x if x.dtype in (torch.float32, torch.float64) else x.float()
