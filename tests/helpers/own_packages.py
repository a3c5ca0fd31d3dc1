"""The examples of CONTRIBUTING.md."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def example(heading: str) -> str:
    """The code that CONTRIBUTING.md shows under a heading."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split(f"\n### {heading}\n")[1].split("\n#")[0]
    return re.findall("```python\n(.*?)```", text, re.DOTALL)[0]
