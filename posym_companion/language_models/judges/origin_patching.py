"""Do attention and answers follow the origin of keys? Of what an exchange of whole keys does, the part of each part.

A part of the keys *is followed* as far as its exchange does what an exchange of the whole keys does: the slope, through
zero, of its effects on the whole exchange's, over all prompts and pairs (and heads), with an interval over prompts. It
is 1 if the part alone does the same, and 0 if what it does has nothing to do with it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posym_companion.judging import Look, Yielded, judge
from posym_companion.language_models.judges.origins import SHOWN_IN
from posym_companion.language_models.origin_patching import MIDDLE, RUNS, WORDINGS, OriginPatching
from posym_companion.results import Result
from posym_companion.score_statistics import divide_sums
from posym_companion.verdicts import format_number
from posym_core.metrics import Estimate, statistic_interval
from posym_profile.language_models import PACKAGED

# What is added to a model's name.
KINDS = {"plain": "", "taught": "-binds"}
DRAWS = 2000
# What follows which part; the logits do beside the attention that they make.
FOLLOWS = {"attention": ("origin", "symbol"), "answer": ("origin", "symbol"), "logits": ("origin",)}
CONTROLS = ("other origins", "random")
UNDEFINED = Estimate(value=np.nan, low=np.nan, high=np.nan)


def measure_exchange(result: Result, what: str, exchange: str, layers: str = "all") -> np.ndarray:
    """Return what an exchange changes, ``[prompt, ...]``.

    Of ``"attention"``, every head's to the asked fact less that to the other; of ``"logits"``, the logarithm of the one
    over the other; of the ``"answer"``, the log-odds of the two attributes.
    """
    array = result[{"attention": "attention", "logits": "log_ratio", "answer": "log_probability"}[what]].astype(float)
    both = array if what == "logits" else array[..., 0] - array[..., 1]
    changed = both[:, :, RUNS.index((exchange, layers))] - both[:, :, 0]
    return changed.reshape(len(changed), -1)


def share_followed(result: Result, what: str, exchange: str, layers: str = "all", than: str | None = None) -> Estimate:
    """Return how far an exchange of a part does what one of whole keys does in the same layers; see the module.

    The slope of the exchange ``than`` is taken off. NaN where whole keys change nothing, or something is undefined.
    """
    whole = measure_exchange(result, what, "whole", layers)
    part = measure_exchange(result, what, exchange, layers)
    part = part - measure_exchange(result, what, than, layers) if than else part
    return divide_sums((part * whole).sum(1), (whole**2).sum(1), draws=DRAWS)


def median_followed(result: Result, exchange: str) -> Estimate:
    """Return the same of the median of all heads whose attention whole keys move, with an interval over prompts."""
    heads = np.prod(result["log_ratio"].shape[-2:])
    whole, part = (
        measure_exchange(result, "attention", each).reshape(len(result["asked"]), -1, heads)
        for each in ("whole", exchange)
    )
    # Heads are one place of the layout, so that prompts alone are drawn.
    sums = np.stack([(whole * part).sum(1), (whole**2).sum(1)], -1)[:, None]
    if not (np.isfinite(sums).all() and (sums[..., 1] > 0).any()):
        return UNDEFINED

    def median(x: np.ndarray) -> np.ndarray:
        over = x.sum(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.where(over[..., 1] > 0, over[..., 0] / over[..., 1], np.nan)
        return np.nanmedian(slopes.reshape(len(slopes), -1), axis=-1)

    return statistic_interval(median, sums, draws=DRAWS, vectorized=True)


def find_greatest_head(result: Result) -> tuple[str, float]:
    """Return the head whose attention whole keys move most, and its part of what they move; NaN if they move none."""
    shape = result["log_ratio"].shape[-2:]
    moved = (measure_exchange(result, "attention", "whole").reshape(-1, *shape) ** 2).sum(0)
    layer, head = np.unravel_index(moved.argmax(), shape)
    return f"{layer}:{head}", float(moved.max() / moved.sum()) if moved.sum() > 0 else np.nan


@judge(SHOWN_IN, model=PACKAGED)
def patched_origins(look: Look) -> Iterator[Yielded]:
    """C-3: what attention and answer of a model follow, plain and taught to bind, in two wordings."""
    look.measured_on, notes = f"{look.model}, plain and taught to bind", ["Sums over heads are largely one head's"]
    for kind in KINDS:
        moves = []
        for wording in WORDINGS:
            result = look.load(OriginPatching(model=look.model + KINDS[kind], wording=wording))
            where = f"{kind}, {wording}"
            for what, parts in FOLLOWS.items():
                for part in parts:
                    yield f"{what} that follows {part}", where, share_followed(result, what, part)
            # A sum over heads is largely one head's.
            median = median_followed(result, "origin")
            yield "attention that follows origin, median head", where, median
            moves.append(float(np.abs(measure_exchange(result, "answer", "whole")).mean()))
            if kind == "taught":
                continue
            for control in CONTROLS:
                for what in ("attention", "answer"):
                    more = share_followed(result, what, "origin", than=control)
                    yield f"following origin less {control}", f"{where}, {what}", more
            head, part = find_greatest_head(result)
            yield "part of the attention that whole keys move, of the head that moves most", where, part
            if not np.isnan(part):
                middle = share_followed(result, "attention", "origin", MIDDLE)
                notes.append(
                    f"In {wording} head {head} of the plain model makes {format_number(part)} of them, the median head "
                    f"follows origins with {format_number(median.value)}, and where the middle third of layers alone "
                    f"is exchanged, attention does with {format_number(middle)}"
                )
        yield f"nats that whole keys move the answer, {kind}, at least", "", min(moves)
    look.note = ". ".join(notes)
