"""Reach a model's attention, to look on or to step in, on one of two routes.

* *interface*: transformers dispatches attention through mappings from names such as ``"sdpa"`` to functions. Each
  mapping that the model's own modelling modules hold is overridden for a time, whatever name is in force. Nothing about
  the model changes, so masks, sinks and sliding windows are built as always. (Registering an implementation under a
  new name would not do: several models compare the name and take other paths.)
* *functions*: GPT-J, CodeGen, Falcon and some others bypass the interface and call torch; there the calls to
  ``scaled_dot_product_attention``, or a matrix product followed by a softmax, are watched. Planes of these models
  cannot be edited.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn

from posym_profile.language_models._refusals import make_unsupported_error

Route = Literal["interface", "functions"]
ROUTES: tuple[Route, ...] = ("interface", "functions")

PRODUCTS = (*(torch.matmul, Tensor.matmul, Tensor.__matmul__), *(torch.bmm, Tensor.bmm, torch.baddbmm, Tensor.baddbmm))
SOFTMAXES = (nn.functional.softmax, torch.softmax, Tensor.softmax)


@contextlib.contextmanager
def wrap_interface(model: nn.Module, modules: Collection[nn.Module], around: Callable[..., Any]) -> Iterator[None]:
    """Let ``modules`` attend within the block by ``around(function, module, query, key, value, mask, ...)``.

    ``function`` is the one that they look up; other modules call it as ever, and so does every other thread.
    """
    owner = threading.get_ident()

    def wrapped(original: Callable | None) -> Callable:
        def attend(module: nn.Module, *args: Any, **options: Any) -> Any:
            function = original or _eager_attention(module)
            if module in modules and threading.get_ident() == owner:
                return around(function, module, *args, **options)
            return function(module, *args, **options)

        return attend

    saved: list[tuple[Any, str, Callable | None]] = []
    try:
        for mapping in _attention_mappings(model):
            for name in {"eager", *mapping}:
                # A mapping is a local layer over a shared one; only what stood in the local layer is put back.
                saved.append((mapping, name, mapping._local_mapping.get(name)))
                mapping[name] = wrapped(mapping.get(name))
        yield
    finally:
        for mapping, name, local in reversed(saved):
            if local is not None:
                mapping[name] = local
            else:
                with contextlib.suppress(KeyError):
                    del mapping[name]


def _attention_mappings(model: nn.Module) -> list[Any]:
    """List the attention interfaces that the model's modelling modules hold; some keep one of their own (Doge)."""
    from transformers import AttentionInterface

    kinds = {type(module) for module in model.modules()}
    sources = {cls.__module__ for kind in kinds for cls in kind.__mro__}
    values = (value for source in sources for value in vars(sys.modules[source]).values())
    # Thousands of values: isinstance would ask an abstract class each time.
    return list({id(value): value for value in values if AttentionInterface in type(value).__mro__}.values())


def _eager_attention(module: nn.Module) -> Callable:
    """Find the eager function of the file that defines the module, which the interface only knows as a default."""
    for cls in type(module).__mro__:
        function = getattr(sys.modules[cls.__module__], "eager_attention_forward", None)
        if function is not None:
            return function
    why = "uses eager attention, but its file defines no eager_attention_forward"
    raise make_unsupported_error(module, why, 'load the model with attn_implementation="sdpa"')


def limit_to_thread(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook that leaves passes in other threads alone: hooks belong to a model, not to who set them."""
    owner = threading.get_ident()

    @functools.wraps(hook)
    def guarded(*args: Any, **options: Any) -> Any:
        return hook(*args, **options) if threading.get_ident() == owner else None

    return guarded


@contextlib.contextmanager
def replace_forward(modules: Iterable[nn.Module], instead: Callable[..., Any]) -> Iterator[None]:
    """Let modules run by ``instead(run, module, ...)`` within the block, in this thread; ``run`` is their own forward.

    Blocks of several threads undo each other: hold ``ONE_AT_A_TIME`` around one.
    """
    owner = threading.get_ident()

    def run_module(run: Callable, module: nn.Module, *args: Any, **inputs: Any) -> Any:
        return instead(run, module, *args, **inputs) if threading.get_ident() == owner else run(*args, **inputs)

    with contextlib.ExitStack() as stack:
        for module in dict.fromkeys(modules):
            # Not by setattr, which some wrappers hand on to what they wrap.
            fields, run = vars(module), module.forward
            if "forward" in fields:
                stack.callback(fields.update, forward=run)
            else:
                stack.callback(fields.pop, "forward")
            fields["forward"] = functools.wraps(run)(functools.partial(run_module, run, module))
        yield
