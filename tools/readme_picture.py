"""The picture that the readme opens with and that links to the site show: ``book/_static/heads.png``.

Drawn from stored results: ``python tools/readme_picture.py`` writes it anew.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "book" / "_static" / "heads.png"
RESULT = "origins/gemma-3-270m-binds_likes_16"


def picture(root: Path = ROOT) -> bytes:
    """Every head of the Gemma that was taught to bind: by its scores, and by what its logits follow."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    import numpy as np

    from posym_companion.results import load_result
    from posym_figures.plots import score_plane, share_triangle

    found = load_result(RESULT, folder=root / "results")
    scores = [found[name].mean(0) for name in ("positional", "symbolic")]  # [layer, head]
    layers = np.arange(scores[0].shape[0]).repeat(scores[0].shape[1])
    variances = found["variances"].tolist()
    whole = found["parts"][found["reads"].tolist().index("block")].mean(1)  # [part, layer, head]
    shares = [whole[variances.index(name)].ravel() for name in ("symbol", "origin", "place")]
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), gridspec_kw={"wspace": 0.25})
    score_plane(*(score.ravel() for score in scores), layers=layers, title="Scores of its heads", ax=axes[0])
    share_triangle(*shares, layers=layers, title="What their logits follow", ax=axes[1])
    drawn, few = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=120, bbox_inches="tight", facecolor="white")
    plt.close(figure)
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(128).save(few, format="PNG", optimize=True)
    return few.getvalue()


def main() -> int:
    """Command line."""
    PICTURE.write_bytes(picture())
    print(f"written to {PICTURE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
