"""Figures of the chapters: a module a chapter, a function a figure, with its caption and its alternative text."""

from __future__ import annotations

import base64
import functools
import inspect
import io
from collections.abc import Callable
from html import escape
from typing import Any

from PIL import Image
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from posym_figures import apply_style

HOW = "How this figure is made"


class Picture:
    """A drawing by Matplotlib with its caption and a text for readers who do not see it."""

    def __init__(self, drawing: Any, *, caption: str, alt: str) -> None:
        self.drawing, self.caption, self.alt = drawing, caption, alt

    def __repr__(self) -> str:
        return f"<picture: {self.alt}>"

    def _repr_html_(self) -> str:
        file, few = io.BytesIO(), io.BytesIO()
        self.drawing.savefig(file, format="png", dpi=110, bbox_inches="tight")
        with Image.open(file) as picture:
            width, height = picture.size
            picture.quantize(256, method=Image.Quantize.FASTOCTREE).save(few, format="png", optimize=True)
        source = f"data:image/png;base64,{base64.b64encode(few.getvalue()).decode()}"
        return (
            f'<figure class="posym-picture"><img src="{source}" alt="{escape(self.alt)}" width="{width}" '
            f'height="{height}"><figcaption>{self.caption}</figcaption></figure>'
        )


class Shown:
    """A figure, and behind it the code that made it."""

    def __init__(self, figure: Any, draw: Callable[..., Any]) -> None:
        self.figure, self.draw = figure, draw

    def __repr__(self) -> str:
        return repr(self.figure)

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, display

        display(self.figure)
        code = inspect.getsource(self.draw).partition("\n")[2]
        code = highlight(code, PythonLexer(), HtmlFormatter(cssclass="highlight"))
        display(HTML(f'<details class="posym-fold stay"><summary>{HOW}</summary>\n{code}</details>'))


def shown(draw: Callable[..., Any]) -> Callable[..., Shown]:
    """Return a function that shows what ``draw`` returns, with the code of ``draw`` in a fold below it.

    What Matplotlib draws has the style of all plots, and shows once.
    """

    @functools.wraps(draw)
    def show(*args: Any, **options: Any) -> Shown:
        return Shown(apply_style(draw)(*args, **options), draw)

    return show
