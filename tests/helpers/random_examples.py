"""What tests import of hypothesis; without it, tests of random examples are skipped, and others of their files run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

try:
    from hypothesis import given, settings
    from hypothesis import strategies as st
    from hypothesis.extra.numpy import arrays
except ImportError:

    class _Strategy:
        """Every strategy, and whatever is made from it."""

        def __getattr__(self, name: str) -> _Strategy:
            return self

        def __call__(self, *_: Any, **__: Any) -> _Strategy:
            return self

    st = arrays = _Strategy()

    def given(*examples: Any, **named: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
        def skipped(test: Callable[..., None]) -> Callable[..., None]:
            asked = [x for name, x in inspect.signature(test).parameters.items() if name not in named]

            @pytest.mark.skip(reason="needs hypothesis")
            def stub(**_: Any) -> None: ...

            stub.__name__ = test.__name__
            # Examples fill the last arguments; pytest fills the others.
            stub.__signature__ = inspect.Signature(asked[: len(asked) - len(examples)])  # pyright: ignore
            return stub

        return skipped

    def settings(**_: Any) -> Callable[[Any], Any]:
        return lambda test: test


__all__ = ["arrays", "given", "settings", "st"]
