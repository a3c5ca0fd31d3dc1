"""Do attention and answers follow the origin of keys? Of what an exchange of whole keys does, the part of each part.

A part of the keys *is followed* as far as its exchange does what an exchange of the whole keys does: the slope, through
zero, of its effects on the whole exchange's, over all prompts and pairs (and heads), with an interval over prompts. It
is 1 if the part alone does the same, and 0 if what it does has nothing to do with it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float

from posym_companion.finding import Measured, Number, count_cases, format_number, lies_beyond
from posym_companion.language_models.judges.origins import SHOWN_IN
from posym_companion.language_models.origin_patching import EXCHANGES, LAYERS, RUNS, WORDINGS, OriginPatching
from posym_companion.results import MissingResultError, Result, load_result
from posym_core.metrics import Estimate, mean_interval, statistic_interval
from posym_profile.language_models import PACKAGED

# What is added to a model's name.
KINDS = {"plain": "", "taught": "-binds"}
# What is followed: more than half of what whole keys do.
FOLLOWED = 0.5
DRAWS = 2000
HOLDS = {"plain": "follows", "taught": "does not follow"}
CONTROLS = ("other origins", "random")
ASKED = {
    "plain": "wordings in which {} follows it{}, plain",
    "taught": "wordings in which {} does not follow it{}, taught",
}
MEDIAN_HEAD = ", median head"
ABOVE = "cases in which it is followed more than {}, plain"
HEAD = "the head that moves most ({})"
MEDIAN = "attention that follows origin, median over heads ({})"
MOST = "part of the attention that whole keys move, of the head that moves most ({})"
MOVES = "nats that whole keys move the answer, {}, at least"


def measure_exchange(result: Result, what: str, exchange: str, layers: str = "all") -> np.ndarray:
    """What an exchange changes, ``[prompt, ...]``.

    Args:
        result: of the experiment ``origin_patching``.
        what: ``"attention"``: of every head to the asked fact, less that to the other; ``"logits"``: of every head,
            the logarithm of the one attention over the other; ``"answer"``: the log-odds of the two attributes.
        exchange: one of ``EXCHANGES`` of :mod:`posym_companion.language_models.origin_patching`.
        layers: one of its ``LAYERS``.
    """
    array = result[{"attention": "attention", "logits": "log_ratio", "answer": "log_probability"}[what]].astype(float)
    both = array if what == "logits" else array[..., 0] - array[..., 1]
    found = both[:, :, RUNS.index((exchange, layers))] - both[:, :, 0]
    return found.reshape(len(found), -1)


def share_followed(result: Result, what: str, exchange: str, layers: str = "all", than: str | None = None) -> Estimate:
    """How far an exchange of a part does what one of whole keys does in the same layers; see the module.

    Args:
        result: see :func:`measure_exchange`.
        what: see there.
        exchange: see there.
        layers: see there.
        than: an exchange whose slope is taken off.

    Returns:
        NaN where whole keys change nothing, or something is undefined.
    """
    whole = measure_exchange(result, what, "whole", layers)
    part = measure_exchange(result, what, exchange, layers)
    part = part - measure_exchange(result, what, than, layers) if than else part
    sums = np.stack([(part * whole).sum(1), (whole**2).sum(1)], -1)[:, None]
    if not (np.isfinite(sums).all() and sums[..., 1].sum() > 0):
        return Estimate(value=np.nan, low=np.nan, high=np.nan)
    return statistic_interval(
        lambda x: x[..., 0].sum((-1, -2)) / x[..., 1].sum((-1, -2)), sums, draws=DRAWS, vectorized=True
    )


def share_followed_by_head(result: Result, exchange: str) -> Float[np.ndarray, "layer head"]:
    """How far the attention of each head follows a part exchanged in all layers, NaN where whole keys do nothing."""
    shape = result["log_ratio"].shape[-2:]
    whole, part = (measure_exchange(result, "attention", each).reshape(-1, *shape) for each in ("whole", exchange))
    moved = (whole**2).sum(0)
    return (whole * part).sum(0) / np.where(moved > 0, moved, np.nan)


def median_followed(result: Result, exchange: str) -> Estimate:
    """The same of the median of all heads whose attention whole keys move, with an interval over prompts."""
    shape = result["log_ratio"].shape[-2:]
    whole, part = (
        measure_exchange(result, "attention", each).reshape(len(result["asked"]), -1, *shape)
        for each in ("whole", exchange)
    )
    sums = np.stack([(whole * part).sum(1), (whole**2).sum(1)], -1)
    if not (np.isfinite(sums).all() and (sums[..., 1] > 0).any()):
        return Estimate(value=np.nan, low=np.nan, high=np.nan)

    def median(x: np.ndarray) -> np.ndarray:
        over = x.sum(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.where(over[..., 1] > 0, over[..., 0] / over[..., 1], np.nan)
        return np.nanmedian(slopes.reshape(len(slopes), -1), axis=-1)

    # Heads are one place of the layout, so that prompts alone are drawn.
    heads = sums.reshape(len(sums), 1, -1, 2)
    return statistic_interval(median, heads, draws=DRAWS, vectorized=True)


def patching_result(
    kind: str, wording: str, lead: int = 0, folder: Path | None = None, *, model: str = PACKAGED
) -> Result:
    """The stored result of a model, ``"plain"`` or ``"taught"``, on a wording."""
    setting = OriginPatching(model=f"{model}{KINDS[kind]}", wording=wording, lead=lead)
    return load_result(setting.name, folder=folder)


def list_numbers(result: Result, where: str) -> dict[str, Number]:
    """All numbers of one result."""
    ours: dict[str, Number] = {}
    for what in ("attention", "logits", "answer"):
        for exchange in EXCHANGES[1:]:
            for layers in LAYERS:
                called = "" if layers == "all" else f" of {layers} layers"
                name = f"{what} that follows {exchange}{called} ({where})"
                ours[name] = share_followed(result, what, exchange, layers)
    by_head = {exchange: share_followed_by_head(result, exchange) for exchange in ("origin", "symbol")}
    for exchange, slopes in by_head.items():
        if np.isfinite(slopes).any():
            ours[f"attention that follows {exchange}, median over heads ({where})"] = float(np.nanmedian(slopes))
    moved = (measure_exchange(result, "attention", "whole").reshape(-1, slopes.size) ** 2).sum(0)
    if moved.sum() > 0:
        layer, head = np.unravel_index(moved.argmax(), slopes.shape)
        ours[MOST.format(where)] = float(moved.max() / moved.sum())
        ours[HEAD.format(where)] = f"{layer}:{head}"
        ours[f"attention that follows origin, of the head that moves most ({where})"] = float(
            by_head["origin"][layer, head]
        )
    behind = (result["asked"][:, None] > 0) & (result["other"] > 0)
    for number, exchange in enumerate(("none", *EXCHANGES)):
        said = {"asked fact's": 0, "other fact's": 1}
        probability = np.exp(result["log_probability"][:, :, number].astype(float))
        for fact, place in said.items():
            found = mean_interval(probability[..., place].mean(1), over="prompts", draws=DRAWS)
            ours[f"probability of the {fact} attribute, exchange of {exchange} ({where})"] = found
        right = result["correct"][:, :, number].astype(float)
        ours[f"accuracy, exchange of {exchange} ({where})"] = mean_interval(right.mean(1), over="prompts", draws=DRAWS)
    for what in ("attention", "answer"):
        whole, part = (measure_exchange(result, what, exchange) for exchange in ("whole", "origin"))
        kept = np.repeat(behind, whole.shape[1] // behind.shape[1], axis=1)
        if (whole[kept] ** 2).sum() > 0:
            slope = float((part * whole)[kept].sum() / (whole**2)[kept].sum())
            ours[f"{what} that follows origin, pairs without the first fact ({where})"] = slope
    return ours


def patched_origins(folder: Path | None, model: str = PACKAGED) -> Measured:
    """C-3: what attention and answer of a model follow, plain and taught to bind, in two wordings."""
    ours: dict[str, Number] = {}
    held: dict[str, list[bool]] = {}
    fails, evidence = [], []
    moves = {kind: [] for kind in KINDS}
    for kind in KINDS:
        for wording in WORDINGS:
            result = patching_result(kind, wording, folder=folder, model=model)
            evidence.append(result.name)
            where = f"{kind}, {wording}"
            ours |= list_numbers(result, where)
            moves[kind].append(float(np.abs(measure_exchange(result, "answer", "whole")).mean()))
            for what in ("attention", "answer"):
                # A sum over heads is largely one head's.
                ways = {"": share_followed(result, what, "origin")}
                if what == "attention":
                    ways[MEDIAN_HEAD] = median_followed(result, "origin")
                    ours[f"attention that follows origin{MEDIAN_HEAD} ({where})"] = ways[MEDIAN_HEAD]
                for way, found in ways.items():
                    kept = found.low > FOLLOWED if kind == "plain" else found.high < FOLLOWED
                    held.setdefault(ASKED[kind].format(what, way), []).append(kept)
                found = [*ways.values()][-1]
                if not lies_beyond(found, 1 if kind == "plain" else -1, FOLLOWED if kind == "plain" else -FOLLOWED):
                    fails.append(f"{what}, {where}: {found}")
                for control in CONTROLS if kind == "plain" else ():
                    more = share_followed(result, what, "origin", than=control)
                    ours[f"{what} that follows origin rather than {control} ({where})"] = more
                    held.setdefault(ABOVE.format(control), []).append(more.low > 0)
    for kind, sizes in moves.items():
        ours[MOVES.format(kind)] = min(sizes)
    remedy = []
    for kind in KINDS:
        for wording in WORDINGS:
            try:
                result = patching_result(kind, wording, lead=8, folder=folder, model=model)
            except MissingResultError:
                continue
            evidence.append(result.name)
            where = f"{kind}, {wording}, behind eight facts"
            ours |= list_numbers(result, where)
            behind = {part: ours[f"attention that follows {part} ({where})"] for part in ("origin", "symbol")}
            remedy.append(f"{kind}, {wording}: {', '.join(f'{part} {format_number(x)}' for part, x in behind.items())}")
    note = "Sums over heads are largely one head's"
    for wording in WORDINGS:
        where = f"plain, {wording}"
        if MEDIAN.format(where) in ours:
            note += (
                f". In {wording} head {ours[HEAD.format(where)]} of the plain model makes "
                f"{format_number(ours[MOST.format(where)])} of them, the median head follows origins with "
                f"{format_number(ours[MEDIAN.format(where)])}, and where the middle third of layers alone is "
                "exchanged, "
                f"attention does with "
                f"{format_number(ours[f'attention that follows origin of middle layers ({where})'])}"
            )
    if remedy:
        note += f". Attention behind eight facts of the same frame follows ({'; '.join(remedy)})"
    return Measured(
        ours={**{name: count_cases(each) for name, each in held.items()}, **ours},
        model=f"{model}, plain and taught to bind",
        evidence=[*evidence, SHOWN_IN],
        fails_in=fails,
        note=note,
    )
