"""The picture that the readme opens with and that links to the site show: ``book/_static/heads.gif``.

It is the slider of the front page, moved from the most positional head to the most symbolic one, and drawn from the
figure of the built page: ``python -m benchmarks.readme_picture`` writes it again after ``make book``.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "book" / "_static" / "heads.gif"
PAGE = ROOT / "_build" / "html" / "book" / "introduction.html"
STEP = 2  # settings of the slider from one frame to the next
MILLISECONDS, PAUSE = 150, 1500  # a frame is seen, and the first and the last one
SHADES = 64


def read_figure(page: Path = PAGE) -> dict[str, Any]:
    """Return the data of the first slider figure of a built page.

    Raises:
        FileNotFoundError: if the page was not built.
        ValueError: if it has no slider figure.
    """
    found = re.search(r'class="posym-data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    if found is None:
        raise ValueError(f"{page} must have a slider figure, whose frames are drawn; it has none")
    return json.loads(found[1])


def list_places(figure: dict[str, Any]) -> list[int]:
    """Return every :data:`STEP`-th setting of the only slider, and the last."""
    last = len(figure["sliders"][0]["keys"]) - 1
    return sorted({*range(0, last, STEP), last})


def draw_frames(figure: dict[str, Any], places: Iterable[int]) -> Iterator[Image.Image]:
    """Draw a plane of points and two panels of stacked bars at some settings of the only slider."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    from posym_figures._frames import get_frame
    from posym_figures.plots import PALETTE

    points, *bars = figure["panels"]
    settings = figure["sliders"][0]["keys"]
    plane = [np.reshape(get_frame(points["frames"], place), (-1, 2)) for place in range(len(settings))]
    drawing = plt.figure(figsize=(7.6, 3.5), dpi=100, facecolor="white")
    left = drawing.add_axes((0.07, 0.14, 0.38, 0.74))
    right = [drawing.add_axes((0.53, bottom, 0.45, 0.25)) for bottom in (0.63, 0.14)]
    for place in places:
        left.clear()
        left.scatter(*plane[place].T, c=points["shades"]["v"], cmap="viridis", s=22, edgecolors="white", linewidths=0.5)
        chosen = plane[place][get_frame(points["highlight"], place)[0]]
        left.plot(*chosen, "o", ms=13, mfc="none", mec="black", mew=1.6, clip_on=False)
        left.set(xlim=points["x_limits"], ylim=points["y_limits"], xlabel=points["x_label"], ylabel=points["y_label"])
        left.set_title(f"{points['title']}: head {settings[place]}", fontsize=10, loc="left")
        for axes, panel in zip(right, bars, strict=True):
            heights = np.reshape(get_frame(panel["frames"], place), (len(panel["series"]), panel["bars"]))
            axes.clear()
            below = np.cumsum(heights, 0) - heights
            for name, colour, height, bottom in zip(panel["series"], panel["colours"], heights, below, strict=True):
                axes.bar(panel["labels"]["v"], height, bottom=bottom, color=PALETTE[colour], label=name)
            axes.set_ylim(panel["y_limits"])
            axes.set_title(panel["title"], fontsize=10, loc="left")
            axes.tick_params(labelsize=8)
        right[1].legend(fontsize=8, frameon=False, loc="upper right", ncols=3, bbox_to_anchor=(1.01, -0.18))
        for axes in (left, *right):
            axes.spines[["top", "right"]].set_visible(False)
        drawn = io.BytesIO()
        drawing.savefig(drawn, format="png", facecolor="white")
        yield Image.open(drawn).convert("RGB")
    plt.close(drawing)


def picture(figure: dict[str, Any]) -> bytes:
    """Return the frames as a GIF without an end."""
    first, *others = draw_frames(figure, list_places(figure))
    palette = first.quantize(SHADES)
    shown = [palette, *(frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in others)]
    durations = [PAUSE, *[MILLISECONDS] * (len(shown) - 2), PAUSE]
    moving = io.BytesIO()
    palette.save(moving, "GIF", save_all=True, append_images=shown[1:], duration=durations, loop=0, optimize=True)
    return moving.getvalue()


if __name__ == "__main__":
    PICTURE.write_bytes(picture(read_figure()))
    print(f"written to {PICTURE.relative_to(ROOT)}")
