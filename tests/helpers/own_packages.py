"""Things of one's own in a registry, for the length of a test, and the examples of CONTRIBUTING.md."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from posym_core._extensions import Registry

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def as_before(registry: Registry, folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """Within the block, modules in a folder may be added; afterwards none is known any more."""
    own = dict(registry._own)
    with pytest.MonkeyPatch.context() as patch:
        yield patch
    registry._own, registry._imported = own, False
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(folder)):
            del sys.modules[name]


def example(heading: str) -> str:
    """The code that CONTRIBUTING.md shows under a heading."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split(f"\n### {heading}\n")[1].split("\n#")[0]
    return re.findall("```python\n(.*?)```", text, re.DOTALL)[0]
