"""Packages as another would install them: modules and entry points in a folder that Python searches."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from posym_core._extensions import Registry

ROOT = Path(__file__).resolve().parents[2]
Install = Callable[..., Path]


def write_package(folder: Path, name: str, group: str, entries: Mapping[str, str], **modules: str) -> Path:
    """A distribution of version 1.0 with modules, given as code, and its entry points, as pip leaves them."""
    folder.mkdir(exist_ok=True)
    for module, code in modules.items():
        (folder / f"{module}.py").write_text(textwrap.dedent(code), encoding="utf-8")
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    lines = "".join(f"{entry} = {value}\n" for entry, value in entries.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{lines}", encoding="utf-8")
    return folder


@contextmanager
def as_before(registry: Registry, folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """Within the block, packages and modules in a folder may be added; afterwards none is known any more."""
    own, loaded = dict(registry._own), set(registry._loaded)
    with pytest.MonkeyPatch.context() as patch:
        yield patch
    registry._own, registry._loaded, registry._imported = own, loaded, False
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(folder)):
            del sys.modules[name]


def example(heading: str) -> str:
    """The code that CONTRIBUTING.md shows under a heading."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split(f"\n### {heading}\n")[1].split("\n#")[0]
    return re.findall("```python\n(.*?)```", text, re.DOTALL)[0]
