"""This book's own claims about what a symbolic head follows: the symbol, or the origin where its key was computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from posym_companion.claims import OWN, Look, Outcome, above, below, claim, part, untold
from posym_companion.experiments import SECOND
from posym_companion.language_models.origin_patching import RUNS, OriginPatching
from posym_companion.language_models.origins import (
    ATTRIBUTE,
    BEHIND,
    DRAWS,
    LEAD,
    NAME,
    PROSE,
    WORDINGS,
    Origins,
    full_size,
)
from posym_companion.results import Result
from posym_companion.score_statistics import divide_sums
from posym_companion.solvers import reader_heads
from posym_core.metrics import AXES, Estimate, mean_interval, statistic_interval
from posym_profile.language_models import PACKAGED

CHAPTER = "language_model/what_moves"
RESAMPLES = 2000
UNDEFINED = Estimate(value=np.nan, low=np.nan, high=np.nan)

# Shares of the symbolic part

Part = Literal["symbol", "origin", "symbol_origin"]
BLOCK = "block"
TOKENS = {f"offset {NAME}": "the name's token", f"offset {ATTRIBUTE}": "the attribute's token"}
# What a claim about whole lists of one frame leaves out: what is read, and of which other lists.
HARDER: Mapping[str, tuple[str, dict[str, Any]]] = {
    "without the first four facts": (f"{BLOCK}, behind {BEHIND}", {}),
    "with a verb for each fact": (BLOCK, {"vary_frame": True}),
    "without the mark of beginning": (BLOCK, {"beginning": False}),
    "behind eight facts of the same frame": (BLOCK, {"lead": LEAD}),
}


def find_share(result: Result, which: Part, read: str = BLOCK) -> np.ndarray:
    """Return one part's share of the symbolic part, ``[prompt, layer, head]``; NaN where that is rounding."""
    place = result["reads"].tolist().index(read)
    sizes = dict(zip(result["variances"].tolist(), result["parts"][place].astype(float), strict=True))
    whole = sum(x for name, x in sizes.items() if name != "prompts")
    both = np.maximum(sizes["symbol_origin"] - sizes["prompts"], 0)
    symbolic = sizes["symbol"] + sizes["origin"] + both
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (both if which == "symbol_origin" else sizes[which]) / symbolic
        return np.where(symbolic > 1e-9 * whole, share, np.nan)


def find_median(x: np.ndarray) -> np.ndarray:
    """Return of ``[draw, prompt, layer, head]`` the median over heads of means over prompts, of what is defined."""
    defined = ~np.isnan(x)
    with np.errstate(invalid="ignore"):
        heads = (np.where(defined, x, 0).sum(1) / defined.sum(1)).reshape(len(x), -1)
    median, some = np.full(len(x), np.nan), ~np.isnan(heads).all(-1)  # NumPy warns of the others
    median[some] = np.nanmedian(heads[some], axis=-1)
    return median


def over_heads(x: np.ndarray) -> Estimate:
    """Return the median over heads of ``[prompt, layer, head]``, with its interval over prompts and layers."""
    return statistic_interval(find_median, x, draws=RESAMPLES, vectorized=True)


@claim(
    "C-1",
    "On lists heads follow origin, not symbol",
    paper=OWN,
    at=CHAPTER,
    quote="On lists of facts of one frame most of the symbolic part of what heads of a language model follow is "
    "origin, the place where a key was computed, and not symbol; in prose next to none of it is",
    models=(PACKAGED, SECOND),
    chapter=CHAPTER,
    fixed="after a look",
    history="The first rule (after a look) was without harder lists and gave *partly*; it asked whole lists of one "
    "frame behind a mark of beginning alone. What stands in front of the facts was a row of its own (C-2).",
)
def symbolic_part_is_origin(look: Look):
    """Is origin more than half of the symbolic part for whole facts, at the tokens that differ, and on harder lists?"""
    lists = {wording: look.load(Origins(model=look.model, wording=wording)) for wording in WORDINGS}
    shares = {wording: over_heads(find_share(result, "origin")) for wording, result in lists.items()}
    prose = over_heads(find_share(look.load(Origins(model=look.model, wording=PROSE)), "origin"))
    random = max(find_share_at_birth(look.load(Origins(model=look.model, draw=draw))) for draw in DRAWS)
    words = ", ".join(f"{each} ({wording})" for wording, each in shares.items())
    look.headline(
        "origin's share for whole facts", words, control=f"{random:.2f} random weights, {prose.value:.2f} prose"
    )
    for wording, result in lists.items():
        yield part("origin is more than half of it", wording), above(shares[wording], 0.5)
        less = find_share(result, "origin") - find_share(result, "symbol")
        yield part("origin is more than symbol", wording), above(over_heads(less), 0)
        for read, token in TOKENS.items():
            yield (
                part(f"more than half at {token}", wording, asks="size"),
                above(over_heads(find_share(result, "origin", read)), 0.5),
            )
        yield from ask_harder_lists(look, wording)
    yield part("in prose it is next to nothing"), below(prose, 0.1)
    yield part("more than with random weights", WORDINGS[0], asks="control"), above(shares[WORDINGS[0]], random)


def find_share_at_birth(result: Result) -> float:
    """Return origin's share with random weights, NaN where nothing varies."""
    return float(find_median(find_share(result, "origin")[None])[0])


def ask_harder_lists(look: Look, wording: str):
    """Yield whether origin is also more than half on lists that are less alike, where these are measured."""
    measured = {setting.name for setting in full_size(look.model)}
    for what, (read, kind) in HARDER.items():
        setting = Origins(model=look.model, wording=wording, **kind)
        if setting.name in measured and read in (result := look.load(setting))["reads"]:
            share = over_heads(find_share(result, "origin", read))
            yield part(f"also {what}", wording, asks="size"), above(share, 0.5)


# Exchanged parts of keys

ARRAYS = {"attention": "attention", "answer": "log_probability"}
CONTROLS = {"other origins": "more than other facts' origins", "random": "more than random directions"}


def measure_exchange(result: Result, what: str, exchange: str) -> np.ndarray:
    """Return what an exchange in all layers changes in the asked fact less the other, ``[prompt, ...]``.

    Args:
        result: of one model on one wording.
        what: every head's ``"attention"``, or the log-odds of the ``"answer"``.
        exchange: what is exchanged.
    """
    array = result[ARRAYS[what]].astype(float)
    both = array[..., 0] - array[..., 1]
    changed = both[:, :, RUNS.index((exchange, "all"))] - both[:, :, 0]
    return changed.reshape(len(changed), -1)


def find_followed(result: Result, what: str, exchange: str, than: str | None = None) -> Estimate:
    """Return how far an exchange of a part does what one of whole keys does, less the exchange ``than``.

    The slope through zero over all prompts and pairs (and heads), with an interval over prompts; NaN where whole keys
    change nothing, or something is undefined.
    """
    whole, moved = (measure_exchange(result, what, each) for each in ("whole", exchange))
    moved = moved - measure_exchange(result, what, than) if than else moved
    return divide_sums((moved * whole).sum(1), (whole**2).sum(1), draws=RESAMPLES)


def find_median_followed(result: Result, exchange: str) -> Estimate:
    """Return the same of the median of all heads whose attention whole keys move, with an interval over prompts."""
    heads = np.prod(result["log_ratio"].shape[-2:])
    moved = (measure_exchange(result, "attention", each) for each in ("whole", exchange))
    whole, some = (x.reshape(len(x), -1, heads) for x in moved)
    # Heads are one place of the layout, so that prompts alone are drawn.
    sums = np.stack([(whole * some).sum(1), (whole**2).sum(1)], -1)[:, None]
    if not (np.isfinite(sums).all() and (sums[..., 1] > 0).any()):
        return UNDEFINED

    def find_slope(x: np.ndarray) -> np.ndarray:
        over = x.sum(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.where(over[..., 1] > 0, over[..., 0] / over[..., 1], np.nan)
        return np.nanmedian(slopes.reshape(len(slopes), -1), axis=-1)

    return statistic_interval(find_slope, sums, draws=RESAMPLES, vectorized=True)


@claim(
    "C-3",
    "Attention and answer follow a patched origin",
    paper=OWN,
    at=CHAPTER,
    quote="In lists of one repeated sentence frame, attention and answer follow the origin of a fact's key, patched "
    "into another fact's, in a plain model and not in one that was taught to bind",
    models=(PACKAGED, SECOND),
    chapter=CHAPTER,
    fixed="after a look",
    history="The first rule (before the run) asked for attention summed over all heads and was without random "
    "directions, and gave *partly*; one head makes most of that sum, and other facts' origins are beaten by nothing at"
    " all.",
)
def patched_origins(look: Look):
    """Does an exchange of origins alone do more than half of what one of whole keys does, plain and not taught?"""
    medians = {}
    for wording in WORDINGS:
        plain, taught = (look.load(OriginPatching(model=look.model + end, wording=wording)) for end in ("", "-binds"))
        medians[wording] = find_median_followed(plain, "origin")
        yield part("attention follows the origin in the plain model", wording), above(medians[wording], 0.5)
        yield part("the answer follows the origin in the plain model", wording), ask_answer(plain, above)
        less = below(find_median_followed(taught, "origin"), 0.5)
        yield part("attention does not in the taught model", wording), less
        yield part("the answer does not in the taught model", wording), ask_answer(taught, below)
        for control, name in CONTROLS.items():
            for what in ARRAYS:
                more = find_followed(plain, what, "origin", than=control)
                yield part(name, f"{wording}, {what}", asks="control"), above(more, 0)
    words = ", ".join(f"{each} ({wording})" for wording, each in medians.items())
    look.headline("followed by the attention of the median head", words)


def ask_answer(result: Result, compare: Any) -> Outcome:
    """Return on which side of a half the answer follows origins, where whole keys move it by a tenth of a nat."""
    moved = float(np.abs(measure_exchange(result, "answer", "whole")).mean())
    return (
        compare(find_followed(result, "answer", "origin"), 0.5) if moved > 0.1 else untold(f"moved by {moved:.2f} nats")
    )


# What purely symbolic heads read

# Heads that carry the answer and look at the facts, by model and by what they read; named on other prompts.
READERS: Mapping[str, Mapping[str, tuple[tuple[int, int], ...]]] = {
    SECOND: {"symbol": ((18, 6), (18, 7)), "origin": ((23, 2), (23, 7))},
    PACKAGED: {"symbol": ((11, 2),)},
}
OTHER = {"symbol": "origin", "origin": "symbol"}


def measure_contrast(result: Result, factor: str, head: tuple[int, int]) -> np.ndarray:
    """Return how much the symbol, or origin, asked for stands out in a head's logits, less the other ``[prompt]``."""
    one, other = (result["contrasts"][AXES.index(name)][:, *head].astype(float) for name in (factor, OTHER[factor]))
    return one - other


def find_followed_logits(alone: Result, which: str, head: tuple[int, int], than: str) -> Estimate:
    """Return how far a head's logits do on an exchange of a part of keys what they do on one of whole keys.

    The slope through zero over prompts and pairs, less that of ``than``, with an interval over prompts.
    """
    logits = alone["log_ratio"][..., *head].astype(float)
    moved = {name: logits[..., at] - logits[..., 0] for at, name in enumerate(reader_heads.EXCHANGES)}
    more = moved[which] - moved[than]
    return divide_sums((more * moved["whole"]).sum(1), (moved["whole"] ** 2).sum(1), draws=RESAMPLES)


def ask_head(result: Result, alone: Result, factor: str, head: tuple[int, int]) -> Iterator[tuple[str, Outcome]]:
    """Yield what is asked of one head: its scores, crossed queries, and keys exchanged in its layer alone."""
    symbolic, positional = (float(result[name][:, *head].astype(float).mean()) for name in ("symbolic", "positional"))
    words = f"s_SYM {symbolic:.2f}, s_POS {positional:.2f}"
    yield "the scores call all of them symbolic", Outcome(symbolic > 0.9 and positional < 0.1, words)
    apart = measure_contrast(result, factor, head)
    # A prompt without a number would be left out of a mean in silence.
    mean = mean_interval(apart, over="prompts") if np.isfinite(apart).all() else UNDEFINED
    yield f"{factor}s stand out for readers of {factor}s", above(mean, 0)
    more = find_followed_logits(alone, factor, head, than=OTHER[factor])
    yield f"readers of {factor}s follow exchanged {factor}s", above(more, 0)
    if factor == "origin":
        yield "more than other facts' origins", above(find_followed_logits(alone, factor, head, "other origins"), 0)


@claim(
    "C-6",
    "Purely symbolic heads that read origins",
    paper=OWN,
    at=CHAPTER,
    quote="Of the heads that carry the answer in SmolLM2, taught to bind, and are purely symbolic by the papers' "
    "scores, two find the fact by its symbol, and two of a later layer find it by its origin; the one of Gemma by its "
    "symbol",
    models=(" and ".join(f"{model}, taught to bind" for model in READERS),),
    chapter=CHAPTER,
    fixed="after a look",
    history="The first rule (before the run) exchanged keys in a third of the layers, asked for right answers over "
    "both families together and gave *partly*; ten layers at once change a head's own query. Prakash et al. (2026) "
    "tell of models that first find a fact and then look up its ordering.",
)
def symbolic_heads_read(look: Look):
    """Does what each head is said to read stand out more than the other, and is it followed more where exchanged?"""
    pairs = [
        (setting, look.load(setting), look.load(replace(setting, alone=True, prompts=reader_heads.ALONE_PROMPTS)))
        for setting in reader_heads.full_size()
        if not setting.alone
    ]
    least = min(float(result["correct"].astype(float).mean()) for _, result, _ in pairs)
    look.require(f"every model answers more than half of the prompts ({least:.2f} at least)", least > 0.5)
    counted: dict[str, list[bool]] = {"symbol": [], "origin": []}
    for setting, result, alone in pairs:
        for factor, heads in READERS[setting.model].items():
            for head in heads:
                case = f"{setting.model}, {head[0]}:{head[1]}, run {setting.taught}, {setting.wording}"
                for name, held in ask_head(result, alone, factor, head):
                    yield part(name, case), held
                    counted[factor] += [bool(held.held)] if "follow" in name else []
    words = " and ".join(f"{sum(each)} of {len(each)} ({factor}s)" for factor, each in counted.items())
    look.headline("cases of head, run and wording that follow what the head is said to read", words)
