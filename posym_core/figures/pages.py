"""Figures as pieces of HTML that need neither a kernel nor a network: templates, styles and scripts put together."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

# What a script of static/ takes from and gives to its siblings: they stand in one closure on a page.
MODULE_WORDS = re.compile(r"^(?:import [^;]*;\n|export )", re.MULTILINE)


@dataclass(frozen=True, eq=False, repr=False)
class SliderFigure:
    """A finished figure: displays itself in notebooks and on built pages."""

    html: str
    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}


def static(name: str) -> str:
    """The text of a file of static/."""
    return (resources.files("posym_core.figures") / "static" / name).read_text("utf-8")


def script(*names: str) -> str:
    """Scripts of static/ as one classic script, which sets no globals and ignores AMD loaders on the page."""
    inner = "".join(MODULE_WORDS.sub("", static(name)) for name in names)
    return f'(() => {{\n"use strict";\n{inner}}})();\n'


def require_said(**texts: str) -> None:
    """Refuse texts that say nothing."""
    for name, text in texts.items():
        if not text.strip():
            raise ValueError(f"{name} must say what is seen; got an empty text")


def page(
    template: str, data: Any, *, limit: int, too_much: str, scripts: Sequence[str], styles: Sequence[str], **fields: Any
) -> str:
    """The HTML of a figure, with ``data`` as JSON in it; ``too_much`` refuses data of more bytes than ``limit``."""
    packed = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    if (size := len(packed.encode())) > limit:
        raise ValueError(too_much.format(size=size / 1e6, limit=limit / 1e6))
    for sign in "<>&":
        packed = packed.replace(sign, f"\\u{ord(sign):04x}")
    return TEMPLATES.get_template(template).render(
        style=Markup("".join(map(static, styles))), script=Markup(script(*scripts)), data=Markup(packed), **fields
    )


def _maths(text: str) -> str:
    # The built page and notebooks share the bracketed form only.
    return re.sub(r"\$([^$]+)\$", r"\\(\1\\)", text)


TEMPLATES = Environment(
    loader=FunctionLoader(static), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
TEMPLATES.filters |= {"maths": _maths, "json": lambda value: json.dumps(value, ensure_ascii=False)}
