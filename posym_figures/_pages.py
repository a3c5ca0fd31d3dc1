"""Figures as pieces of HTML that need neither a kernel nor a network: templates, styles and scripts put together."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

STATIC = "POSYM_STATIC"
"""Environment variable: where it is set, figures show themselves without a kernel, as on built pages."""
# What a script of static/ takes from and gives to its siblings: they stand in one closure on a page.
HERE = Path(__file__).with_name("static")
SCRIPTS = ("core.js", "drawings.js", "keep.js", "guess.js", "figure.js")
"""Of a slider figure, on a page and beside a kernel."""
MODULE_WORDS = re.compile(r"^(?:import [^;]*;\n|export (?!default ))", re.MULTILINE)
DEFAULT = re.compile(r"^export default ", re.MULTILINE)
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
ALONE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
</head>
<body>
{figure}
</body>
</html>
"""


@dataclass(frozen=True, eq=False, repr=False)
class Figure:
    """A finished figure as a piece of HTML: displays itself in notebooks and on built pages."""

    html: str
    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return {"text/html": self.html, "text/plain": self.text}

    def page(self, title: str = "") -> str:
        """Return the figure as a page that stands alone: for an ``<iframe>``, or for a talk without a network."""
        title = escape(title or self.text.strip("<>").partition(":")[0])
        return ALONE.format(title=title, figure=CAPTION.sub(lambda match: write_plain_maths(match[0]), self.html))

    def save(self, path: str | Path) -> Path:
        """Write :meth:`page` to a file, whole or not at all, and return where it is."""
        path = Path(path)
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            fresh.write_text(self.page(), encoding="utf-8")
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)
        return path


class LiveFigure(Figure, ABC):
    """A figure that shows itself as a widget where a kernel runs, if it ``lives``."""

    @property
    @abstractmethod
    def lives(self) -> bool:
        """Return whether a kernel gives the figure what a page cannot."""

    @abstractmethod
    def widget(self) -> Any:
        """Return a new widget of this figure; an ImportError where anywidget is not installed."""

    def markup(self) -> str:
        """Return the figure without its script; nothing sets formulas in a widget."""
        bare = re.sub(r"<script>.*?</script>\s*", "", self.html, flags=re.DOTALL)
        return CAPTION.sub(lambda match: write_plain_maths(match[0]), bare)

    @property
    def _live(self) -> bool:
        return self.lives and _kernel_runs() and importlib.util.find_spec("anywidget") is not None

    def _repr_html_(self) -> Any:
        # Colab is given the widget alone; elsewhere a stored notebook still shows something when its kernel is gone.
        return None if self._live and "google.colab" in sys.modules else self.html

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        if not self._live:
            return super()._repr_mimebundle_(include, exclude)
        bundle, about = self.widget()._repr_mimebundle_() or ({}, {})
        texts = {"text/html": self._repr_html_(), "text/plain": self.text}
        return bundle | {kind: text for kind, text in texts.items() if text is not None}, about


def _kernel_runs() -> bool:
    if STATIC in os.environ or "IPython" not in sys.modules:
        return False
    return hasattr(sys.modules["IPython"].get_ipython(), "kernel")


def _read_static(name: str | Path) -> str:
    """Return the text of a file of static/, or of another folder, by its whole path."""
    return (HERE / name).read_text("utf-8")


def join_scripts(*names: str | Path) -> str:
    """Return scripts as one classic script, which sets no globals and ignores AMD loaders on the page.

    What a script exports by default is known to those after it by the script's name.
    """
    texts = (DEFAULT.sub(f"const {Path(name).stem} = ", MODULE_WORDS.sub("", _read_static(name))) for name in names)
    return f'(function posym() {{\n"use strict";\n{"".join(texts)}}})();\n'


def join_module(*names: str | Path) -> str:
    """Join scripts into one ES module with the default export of the last.

    Where nothing is exported by default this is a classic script, too, whose functions all are globals.
    """
    return "".join(MODULE_WORDS.sub("", _read_static(name)) for name in names)


def require_texts(**texts: str) -> None:
    """Raise if a text says nothing."""
    for name, text in texts.items():
        if not text.strip():
            raise ValueError(f"{name} must say what is seen; got an empty text")


def render_page(
    template: str | Path,
    data: Any,
    *,
    limit: int,
    too_much: str,
    scripts: Sequence[str | Path],
    styles: Sequence[str | Path],
    **fields: Any,
) -> str:
    """Return the HTML of a figure, with ``data`` as JSON in it; ``too_much`` refuses data of more bytes than ``limit``.

    Template, scripts and styles are named as :func:`_read_static` takes them.
    """
    packed = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    if (size := len(packed.encode())) > limit:
        raise ValueError(too_much.format(size=size / 1e6, limit=limit / 1e6))
    for sign in "<>&":
        packed = packed.replace(sign, f"\\u{ord(sign):04x}")
    return TEMPLATES.get_template(str(template)).render(
        style=Markup("".join(map(_read_static, styles))),
        script=Markup(join_scripts(*scripts)),
        data=Markup(packed),
        **fields,
    )


def _maths(text: str) -> str:
    # The built page and notebooks share the bracketed form only.
    return re.sub(r"\$([^$]+)\$", r"\\(\1\\)", text)


CAPTION = re.compile(r"<figcaption.*?</figcaption>", re.DOTALL)


def write_plain_maths(text: str) -> str:
    """Return a text with short formulas, for a page on which nothing sets them.

    >>> write_plain_maths(r"Where $\\theta n^2$ is \\(10^{-4}\\).")
    'Where θ n² is 10⁻⁴.'
    """

    def letter(match: re.Match[str]) -> str:
        try:
            return unicodedata.lookup(f"GREEK SMALL LETTER {match[1]}")
        except KeyError:
            return match[1]

    def formula(match: re.Match[str]) -> str:
        raised = re.sub(r"\^\{?(-?\d+)\}?", lambda power: power[1].translate(SUPERSCRIPTS), match[1])
        return re.sub(r"\\([A-Za-z]+)", letter, raised).replace("{", "").replace("}", "")

    return re.sub(r"\\\((.+?)\\\)", formula, _maths(text))


TEMPLATES = Environment(
    loader=FunctionLoader(_read_static),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {"maths": _maths, "json": lambda value: json.dumps(value, ensure_ascii=False)}
