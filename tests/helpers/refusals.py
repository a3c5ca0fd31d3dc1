"""What a room refuses, as a table: what is called, and words of the error that it ends in."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest


def refuse_each(*rows: tuple[Any, ...], literally: bool = False) -> Callable[..., None]:
    """Return a test of rows ``(call, words)``: each call ends in a ValueError, or the error that a row names third."""

    @pytest.mark.parametrize(("call", "words", "error"), [(*row, ValueError)[:3] for row in rows])
    def test(call: Callable[[], object], words: str, error: type[Exception]) -> None:
        with pytest.raises(error, match=re.escape(words) if literally else words):
            call()

    return test
