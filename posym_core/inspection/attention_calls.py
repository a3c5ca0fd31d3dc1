"""Attention calls of Hugging Face models: what they are made of, and the routes on which they are seen."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

# Additive masks hide keys with the dtype's least value, with -inf or, in older models, with -10,000.
HIDDEN_BELOW = -9_999.0


class UnsupportedModelError(ValueError):
    """The model's attention is not a softmax over rotary logits that could be captured; the message says why."""


@dataclass(frozen=True, kw_only=True)
class AttentionCall:
    """What one attention call of a forward pass computes its weights from.

    Attributes:
        index: number of the call within the forward pass, from 0; the layer, unless layers lack attention.
        module: the attention module that called.
        query: post-rotary queries of the chosen rows, float32 or float64.
        keys: post-rotary keys of all tokens; head ``h`` uses key head ``h // (heads / key heads)``.
        scale: what the dot products are multiplied with.
        softcap: logits are ``softcap * tanh(logit / softcap)``; None for none.
        sinks: logit of an attention sink per head, or None.
        visible: which keys each chosen row sees; ``one`` is 1 or the number of heads.
        rows: the chosen rows, counted from 0.
    """

    index: int
    module: nn.Module
    query: Float[Tensor, "prompt head row dim"]
    keys: Float[Tensor, "prompt key_head key dim"]
    scale: float
    softcap: float | None
    sinks: Float[Tensor, " head"] | None
    visible: Bool[Tensor, "prompt one row key"]
    rows: Int[Tensor, " row"]

    def logits(self) -> Float[Tensor, "prompt head row key"]:
        """Logits of the chosen rows, scaled and capped, of visible and invisible keys alike."""
        prompts, heads, rows, dim = self.query.shape
        grouped = self.query.reshape(prompts, self.keys.shape[1], -1, dim)
        logits = (grouped @ self.keys.transpose(-1, -2)).reshape(prompts, heads, rows, -1) * self.scale
        return logits if self.softcap is None else self.softcap * torch.tanh(logits / self.softcap)

    def weights(self) -> Float[Tensor, "prompt head row key"]:
        """Attention weights of the chosen rows."""
        logits = self.logits().masked_fill(~self.visible, -torch.inf)
        if self.sinks is None:
            return logits.softmax(-1)
        sinks = self.sinks.to(logits.dtype)[:, None, None].expand(*logits.shape[:-1], 1)
        return torch.cat([logits, sinks], dim=-1).softmax(-1)[..., :-1]


class Recorder:
    """Turns the arguments of attention functions into :class:`AttentionCall` and hands them on."""

    def __init__(
        self,
        model: nn.Module,
        receive: Callable[[AttentionCall], Any],
        rows: Sequence[int] | None,
        keep: bool,
        verify: bool,
    ) -> None:
        self.name = type(model).__name__
        self.receive, self.rows, self.keep, self.verify = receive, rows, keep, verify
        self.modules = {id(module) for module in model.modules()}
        self.seen = itertools.count()

    def record(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        visible: Callable[[Tensor], Tensor],
        scale: float | None,
        softcap: float | None = None,
        sinks: Tensor | None = None,
    ) -> AttentionCall:
        rows = self.chosen(query.shape[2], query.device)
        kept = query.detach()[:, :, rows]
        return AttentionCall(
            index=next(self.seen),
            module=module,
            query=_full_precision(kept),
            keys=_full_precision(key.detach().clone() if self.keep else key.detach()),
            scale=query.shape[-1] ** -0.5 if scale is None else float(scale),
            softcap=None if softcap is None else float(softcap),
            sinks=None if sinks is None else _full_precision(sinks.detach().flatten()),
            visible=visible(rows),
            rows=rows,
        )

    def chosen(self, tokens: int, device: torch.device) -> Tensor:
        if self.rows is None:
            return torch.arange(tokens, device=device)
        if any(not -tokens <= row < tokens for row in self.rows):
            raise ValueError(f"rows must lie in [-{tokens}, {tokens}) for {tokens} tokens; got {list(self.rows)}")
        return torch.tensor([row % tokens for row in self.rows], device=device)

    def visible(self, module: nn.Module, mask: Any, query: Tensor, key: Tensor, causal: bool, window: int | None):
        """Which keys chosen rows see, read from whatever mask the attention function was given."""
        prompts, keys, queries = query.shape[0], key.shape[2], query.shape[2]

        def of_rows(rows: Tensor) -> Tensor:
            if isinstance(mask, Tensor) and mask.ndim == 4:
                part = mask[:, :, rows if mask.shape[2] > 1 else slice(None), :keys]
                part = part.expand(prompts, -1, len(rows), -1)
                if part.dtype == torch.bool:
                    return part
                seen = part > HIDDEN_BELOW
                if (part.masked_fill(~seen, 0) != 0).any():
                    raise self.unsupported(module, "adds a bias to its logits (ALiBi or a learned mask)")
                return seen
            position, place = rows + (keys - queries), torch.arange(keys, device=rows.device)
            seen = place <= position[:, None] if causal else torch.ones_like(place <= position[:, None])
            if window is not None and mask is None:
                seen = seen & (place > position[:, None] - window)
            if mask is None:
                return seen.expand(prompts, 1, -1, -1)
            if isinstance(mask, Tensor) and mask.ndim == 2:
                return seen & mask[:, None, None, :keys].bool()
            raise self.unsupported(module, f"hides keys by a {type(mask).__name__}, which cannot be read row by row")

        return of_rows

    def unsupported(self, module: nn.Module, reason: str) -> UnsupportedModelError:
        return UnsupportedModelError(
            f"{self.name} ({type(module).__name__}) {reason}, so that its logits are not scaled products of rotated "
            "queries and keys alone; use a model with plain rotary attention, on sdpa or eager attention"
        )

    def check_output(self, call: AttentionCall, value: Tensor, output: Tensor) -> None:
        """Refuse a call whose output ``[prompt, head, row, dim]`` is not the recorded weights times the values."""
        value = _full_precision(value.detach())
        value = value.repeat_interleave(call.query.shape[1] // value.shape[1], dim=1)
        expected, found = call.weights() @ value, _full_precision(output.detach())
        if found.shape != expected.shape:
            return
        error = (expected - found).abs().max() / expected.abs().max().clamp_min(torch.finfo(expected.dtype).tiny)
        if not error <= 1e3 * torch.finfo(output.dtype).eps:
            raise self.unsupported(
                call.module, f"attends otherwise than by a softmax over its keys (relative difference {error:.1g})"
            )


@contextlib.contextmanager
def interface_route(model: nn.Module, recorder: Recorder) -> Iterator[None]:
    def tapped(original: Callable | None) -> Callable:
        def attend(module, query, key, value, attention_mask=None, *rest, **options):
            function = original or eager_attention(module)
            if id(module) not in recorder.modules:
                return function(module, query, key, value, attention_mask, *rest, **options)
            causal = options.get("is_causal")
            call = recorder.record(
                module,
                query,
                key,
                recorder.visible(
                    module,
                    attention_mask,
                    query,
                    key,
                    bool(getattr(module, "is_causal", True) if causal is None else causal),
                    options.get("sliding_window"),
                ),
                options["scaling"] if "scaling" in options else (rest[0] if rest else None),
                options.get("softcap"),
                options.get("s_aux", options.get("sinks")),
            )
            output = function(module, query, key, value, attention_mask, *rest, **options)
            if recorder.verify:
                recorder.check_output(call, value, output[0][:, call.rows].transpose(1, 2))
            recorder.receive(call)
            return output

        return attend

    with attention_functions_wrapped(model, tapped):
        yield


@contextlib.contextmanager
def attention_functions_wrapped(model: nn.Module, wrapped: Callable[[Callable | None], Callable]) -> Iterator[None]:
    """Within the block every attention function that the model may look up is ``wrapped(function)``.

    ``wrapped`` gets None for eager attention, which only the model's own file holds; see :func:`eager_attention`.
    """
    saved: list[tuple[Any, str, Callable | None]] = []
    try:
        for mapping in _attention_mappings(model):
            for name in {"eager", *mapping}:
                original = mapping.get(name)
                # A mapping is a local layer over a shared one; only what stood in the local layer is put back.
                try:
                    del mapping[name]
                    local = original
                except KeyError:
                    local = None
                saved.append((mapping, name, local))
                mapping[name] = wrapped(original)
        yield
    finally:
        for mapping, name, local in reversed(saved):
            if local is not None:
                mapping[name] = local
            else:
                with contextlib.suppress(KeyError):
                    del mapping[name]


def _attention_mappings(model: nn.Module) -> list[Any]:
    """Every attention interface that the model's modelling modules hold; some keep one of their own (Doge)."""
    from transformers import AttentionInterface

    found = {}
    for source in {cls.__module__ for module in model.modules() for cls in type(module).__mro__}:
        for value in vars(sys.modules[source]).values():
            if isinstance(value, AttentionInterface):
                found[id(value)] = value
    return list(found.values())


def eager_attention(module: nn.Module) -> Callable:
    """The eager function of the file that defines the module, which the interface only knows as a default."""
    for cls in type(module).__mro__:
        function = getattr(sys.modules[cls.__module__], "eager_attention_forward", None)
        if function is not None:
            return function
    raise UnsupportedModelError(
        f"{type(module).__name__} uses eager attention, but its file defines no eager_attention_forward; "
        'load the model with attn_implementation="sdpa"'
    )


@contextlib.contextmanager
def functions_route(model: nn.Module, recorder: Recorder) -> Iterator[None]:
    running: list[nn.Module] = []
    hooks = []

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        running.pop()

    try:
        for module in model.modules():
            hooks.append(module.register_forward_pre_hook(lambda module, args: running.append(module)))
            hooks.append(module.register_forward_hook(leave, always_call=True))
        with _WatchedFunctions(recorder, running):
            yield
    finally:
        for hook in hooks:
            hook.remove()


class _WatchedFunctions(TorchFunctionMode):
    """Sees calls of torch functions made by the module that is ``running`` innermost."""

    SUMMED_PRODUCTS = (torch.baddbmm, Tensor.baddbmm)
    PRODUCTS = (torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, *SUMMED_PRODUCTS)
    SOFTMAXES = (nn.functional.softmax, torch.softmax, Tensor.softmax)

    def __init__(self, recorder: Recorder, running: list[nn.Module]) -> None:
        super().__init__()
        self.recorder, self.running = recorder, running
        self.product: tuple[nn.Module, Tensor, Tensor] | None = None

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        args = (*args, *(kwargs[name] for name in ("batch1", "batch2") if name in kwargs))
        if not self.running:
            return output
        if func is nn.functional.scaled_dot_product_attention:
            self.fused(output, *args, **kwargs)
        elif func in self.PRODUCTS and output.ndim in (3, 4) and output.shape[-1] == output.shape[-2]:
            query, key = args[1:3] if func in self.SUMMED_PRODUCTS else args[:2]
            self.product = (self.running[-1], query, key.transpose(-1, -2))
        elif func in self.SOFTMAXES and self.product is not None and self.product[0] is self.running[-1]:
            self.softmax(args[0])
        return output

    def fused(self, output, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **options):
        module, recorder = self.running[-1], self.recorder
        visible = recorder.visible(module, attn_mask, query, key, is_causal, None)
        call = recorder.record(module, query, key, visible, scale)
        if recorder.verify:
            recorder.check_output(call, value, output[:, :, call.rows])
        recorder.receive(call)

    def softmax(self, logits: Tensor) -> None:
        module, query, key = self.product  # pyright: ignore[reportGeneralTypeIssues]
        self.product = None
        if logits.ndim != 4 or logits.shape[-1] != key.shape[-2]:
            return
        query, key = (x.detach().reshape(*logits.shape[:1], -1, *x.shape[-2:]) for x in (query, key))
        rows = self.recorder.chosen(query.shape[2], query.device)
        given = _full_precision(logits.detach()[:, :, rows])
        seen = given > HIDDEN_BELOW
        # The scale is applied before or after the product, by multiplying or dividing: read it off the result.
        plain = _full_precision(query[:, :, rows]) @ _full_precision(key).transpose(-1, -2)
        scale = float((plain * given)[seen].sum() / plain[seen].square().sum().clamp_min(1e-30))
        error = (given - scale * plain)[seen].abs().max() / given[seen].abs().max().clamp_min(1e-30)
        if not error <= 1e3 * torch.finfo(logits.dtype).eps:
            raise self.recorder.unsupported(module, f"adds a bias to its logits (relative difference {error:.1g})")
        self.recorder.receive(self.recorder.record(module, query, key, lambda rows: seen, scale))


def _full_precision(x: Tensor) -> Tensor:
    return x if x.dtype in (torch.float32, torch.float64) else x.float()
