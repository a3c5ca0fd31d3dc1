"""Is the symbolic part of what heads follow on lists symbol or origin? Judges of C-1 and C-2, this project's own.

The symbolic part of a prompt is the variance of its cross-logit matrix's row means. Over a Latin square of prompts it
is symbol, origin and their interaction, see ``cube_parts``; here each is a share of it, head by
head. A head's share is the mean over prompts, a model's the median over heads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from posym_companion.finding import Measured, Number, Tally, count_cases, lies_beyond
from posym_companion.language_models.origins import (
    ATTRIBUTE,
    BEHIND,
    BLOCK_LENGTH,
    DRAWS,
    FACTS,
    LEAD,
    LEADS,
    LONG,
    NAME,
    PROSE,
    READS,
    WORDINGS,
    Origins,
    full_size,
)
from posym_companion.results import Result, load_result
from posym_core.metrics import Estimate, statistic_interval
from posym_profile.language_models import PACKAGED

Part = Literal["symbol", "origin", "symbol_origin"]
CAUSES: tuple[Part, ...] = ("origin", "symbol")
MODEL = PACKAGED
SHOWN_IN = "book/language_model/what_moves.ipynb"
RESAMPLES = 2000
HALF = 0.5
# What else stands in front has no effect to speak of if it has less than this part of the lead's.
A_THIRD = 1 / 3
# A symbolic part that is less than this part of a head's whole variance is rounding.
ROUNDING = 1e-9
# Of the attention, what makes a head one that attends to the blocks.
ATTENDS = 0.1
BLOCK, AT_NAME, AT_ATTRIBUTE = "block", f"offset {NAME}", f"offset {ATTRIBUTE}"
TOKENS = {AT_NAME: "the name's token", AT_ATTRIBUTE: "the attribute's token"}
FRAME = {f"offset {x}": f"the frame's token {x}" for x in range(BLOCK_LENGTH) if x not in (NAME, ATTRIBUTE)}
# What else may stand in front, by what it is called: as many tokens, or more.
OTHERS: Mapping[str, dict[str, Any]] = {
    "as many tokens of prose": {"front": "prose", "lead": LEAD},
    f"{BLOCK_LENGTH * LONG} tokens of prose": {"front": "prose", "lead": LONG},
    "as many facts of another frame": {"front": "other", "lead": LEAD},
}
# Other lists on which origin's share is measured, by what they are called.
OTHER_LISTS: Mapping[str, dict[str, Any]] = {
    "another square": {"square": 1},
    "8 facts": {"facts": FACTS // 2},
    "32 facts": {"facts": 2 * FACTS},
    "a verb for each fact": {"vary_frame": True},
    "no mark of beginning": {"beginning": False},
}
# What a claim about whole lists of one frame leaves out, as origin's share there is called.
HARDER = {
    "without the first four facts": f"blocks, without the first {BEHIND[-1]} blocks",
    "a verb for each fact": "a verb for each fact",
    "no mark of beginning": "no mark of beginning",
}
# The lead's own tokens without its sentences.
SHUFFLED = "the same tokens in random order"
# What the curve along the list may go with.
LOGARITHM, MARK = "logarithm of the number of facts before", "mark of the first fact"
GROWS = f"what the {LOGARITHM} explains more than the {MARK}"


def origins_result(folder: Path | None, **kind: Any) -> Result:
    """A stored result, by what differs from 16 facts that like, see :class:`Origins`.

    Raises:
        MissingResultError: if it is not there.
    """
    return load_result(Origins(**kind).name, folder=folder)


def part_share(result: Result, part: Part, read: str = BLOCK) -> np.ndarray:
    """One part's share of the symbolic part, ``[prompt, layer, head]``; NaN where that is rounding."""
    place = result["reads"].tolist().index(read)
    sizes = dict(zip(result["variances"].tolist(), result["parts"][place].astype(float), strict=True))
    whole = sum(x for name, x in sizes.items() if name != "prompts")
    both = np.maximum(sizes["symbol_origin"] - sizes["prompts"], 0)
    symbolic = sizes["symbol"] + sizes["origin"] + both
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (both if part == "symbol_origin" else sizes[part]) / symbolic
        return np.where(symbolic > ROUNDING * whole, found, np.nan)


def over_heads(x: np.ndarray) -> Estimate:
    """Median over heads of ``[prompt, layer, head]``, with its interval over prompts and layers."""
    return statistic_interval(heads_median, x, draws=RESAMPLES, vectorized=True)


def heads_median(x: np.ndarray) -> np.ndarray:
    """``[draw, prompt, layer, head, ...]``: median over heads of means over prompts, of what is defined."""
    there = ~np.isnan(x)
    with np.errstate(invalid="ignore"):
        mean = np.where(there, x, 0).sum(1) / there.sum(1)
    heads = np.moveaxis(mean.reshape(len(mean), -1, *mean.shape[3:]), 1, -1)
    found = np.full(heads.shape[:-1], np.nan)
    some = ~np.isnan(heads).all(-1)  # NumPy warns of the others
    found[some] = np.nanmedian(heads[some], axis=-1)
    return found


def by_thirds(x: np.ndarray) -> list[float]:
    """The same over the heads of each third of the layers."""
    return [float(heads_median(part[None])[0]) for part in np.array_split(x, 3, axis=1)]


def keep_attending_heads(x: np.ndarray, result: Result) -> np.ndarray:
    """The same with NaN for heads that give all blocks together less than a tenth of their attention."""
    return np.where(result["mass"].mean(0) > ATTENDS, x, np.nan)


def symbolic_part_is_origin(folder: Path | None, model: str = MODEL) -> Measured:
    """C-1: origin's share of the symbolic part on lists and in prose, whole blocks and single tokens."""
    lists = {wording: origins_result(folder, model=model, wording=wording) for wording in WORDINGS}
    prose = origins_result(folder, model=model, wording=PROSE)
    tally = Tally()
    for wording, result in lists.items():
        origin = over_heads(part_share(result, "origin"))
        more = over_heads(part_share(result, "origin") - part_share(result, "symbol"))
        half = {"more than half": lies_beyond(origin, 1, HALF)}
        tally.add("origin's share", wording, origin, half, f"{wording}, origin: {origin}")
        apart = {"more than symbol": lies_beyond(more, 1)}
        tally.add("origin's share less symbol's", wording, more, apart, f"{wording}, origin less symbol: {more}")
        for read, token in TOKENS.items():
            there = over_heads(part_share(result, "origin", read))
            half = {f"more than half at {token}": lies_beyond(there, 1, HALF)}
            tally.add(f"origin's share at {token}", wording, there, half, f"{wording}, origin at {token}: {there}")
        tally.numbers.update(_without_objections(folder, wording, result))
        for what, name in HARDER.items():
            there = tally.numbers.get(f"origin's share, {name} ({wording})")
            held = tally.held.setdefault(f"more than half, {what}", [])
            if isinstance(there, Estimate):
                held.append((wording, lies_beyond(there, 1, HALF)))
                tally.missed.extend([] if held[-1][1] else [f"{wording}, {what}: {there}"])
    drawn = {draw: origins_result(folder, model=model, draw=draw) for draw in DRAWS}
    at_birth = {draw: _at_birth(result) for draw, result in drawn.items()}
    found = over_heads(part_share(lists[WORDINGS[0]], "origin"))
    most = float(np.max(list(at_birth.values())))  # NaN if one is
    learned = Estimate(value=found.value - most, low=found.low - most, high=found.high - most, method=found.method)
    measured = {setting.name for setting in full_size(model)}
    named = [Origins(model=model, draw=draw, wording=PROSE).name for draw in DRAWS]
    random_prose = [load_result(name, folder=folder) for name in named if name in measured]
    ours: dict[str, Number] = {
        **tally.counts("wordings with origin {}"),
        "origin's share in prose": over_heads(part_share(prose, "origin")),
        f"origin's share on lists ({WORDINGS[0]}) above the most of random weights": learned,
        **{f"origin's share (likes, random weights {draw})": value for draw, value in at_birth.items()},
        **{
            f"origin's share at {token} (likes, random weights {draw})": _at_birth(result, read)
            for read, token in TOKENS.items()
            for draw, result in drawn.items()
        },
        **tally.numbers,
        "symbol's share in prose": over_heads(part_share(prose, "symbol")),
        **_thirds(prose, PROSE),
        **{
            f"origin's share in prose, key {read[-1]} of a block": over_heads(part_share(prose, "origin", read))
            for read in READS
            if read in TOKENS or (read in FRAME and read in prose["reads"])
        },
        **{
            f"origin's share in prose (random weights {draw})": _at_birth(result)
            for draw, result in zip(DRAWS, random_prose, strict=False)
        },
    }
    others = [Origins(model=model, wording=one, **kind).name for one in WORDINGS for kind in OTHER_LISTS.values()]
    evidence = [result.name for result in (*lists.values(), prose, *drawn.values(), *random_prose)]
    evidence += [name for name in others if name in measured]
    note = (
        f"{FACTS} facts or blocks. Medians over heads, intervals over prompts and layers. The tokens of the frame are "
        "the same in every fact and can differ in nothing but origin, so that the block's number is partly theirs."
    )
    return Measured(ours=ours, model=model, evidence=[*evidence, SHOWN_IN], fails_in=tally.missed, note=note)


def _at_birth(result: Result, read: str = BLOCK) -> float:
    """Origin's share, NaN where nothing varies."""
    return float(heads_median(part_share(result, "origin", read)[None])[0])


def _without_objections(folder: Path | None, wording: str, result: Result) -> dict[str, Number]:
    """What a sceptic would ask: the frame's tokens, the first blocks, idle heads, the square, logits, the length."""
    ours: dict[str, Number] = _thirds(result, wording)

    def add(what: str, read: str) -> None:
        if read in result["reads"]:
            ours[f"origin's share, {what} ({wording})"] = over_heads(part_share(result, "origin", read))

    everything = {BLOCK: "blocks", **TOKENS}
    for read, token in FRAME.items():
        add(token, read)
    for first in BEHIND:
        for read, what in everything.items():
            without = f"without the first {'block' if first == 1 else f'{first} blocks'}"
            add(f"{what}, {without}", f"{read}, behind {first}")
    for read, what in everything.items():
        attend = keep_attending_heads(part_share(result, "origin", read), result)
        ours[f"origin's share, {what}, heads that attend to the blocks ({wording})"] = _or_none(attend)
        add(f"{what}, crossed queries", f"{read}, crossed")
    ours[f"heads that attend to the blocks ({wording})"] = count_cases((result["mass"].mean(0) > ATTENDS).ravel())
    ours[f"origin's share, heads weighed by their attention to the blocks ({wording})"] = _weighed(result)
    add("attention in place of logits", "attention")
    model = result.settings["model"]
    measured = {setting.name for setting in full_size(model)}
    for what, kind in OTHER_LISTS.items():
        setting = Origins(model=model, wording=wording, **kind)
        if setting.name in measured:
            share = part_share(load_result(setting.name, folder=folder), "origin")
            ours[f"origin's share, {what} ({wording})"] = over_heads(share)
    return ours


def _or_none(x: np.ndarray) -> Number:
    """Over heads, if there is one: a model may have none that attends to the blocks."""
    return over_heads(x) if np.isfinite(x).any() else "no head"


def _weighed(result: Result) -> float:
    """Mean over heads and prompts of origin's share, weighed by the attention to the blocks."""
    origin, mass = part_share(result, "origin"), result["mass"].astype(float)
    there = np.isfinite(origin)
    return float((origin[there] * mass[there]).sum() / mass[there].sum())


def _thirds(result: Result, where: str) -> dict[str, Number]:
    parts: Iterable[Part] = ("origin", "symbol", "symbol_origin")
    return {
        f"{part.replace('_', ' x ')}'s share by thirds of the layers{of} ({where})": ", ".join(
            f"{x:.2f}" for x in by_thirds(part_share(result, part, read))
        )
        for read, of in {BLOCK: "", **{read: f", {token}" for read, token in TOKENS.items()}}.items()
        if where != PROSE or read == BLOCK
        for part in parts
    }


def origin_remembers(folder: Path | None, model: str = MODEL) -> Measured:
    """C-2: origin's share behind facts of the same frame, beside their tokens alone and as much of something else."""
    tally, evidence, thirds = Tally(), [], {}
    for wording in WORDINGS:
        leads = [origins_result(folder, model=model, wording=wording, lead=lead) for lead in LEADS]
        others = {what: origins_result(folder, model=model, wording=wording, **kind) for what, kind in OTHERS.items()}
        others[SHUFFLED] = origins_result(folder, model=model, wording=wording, front="shuffled", lead=LEAD)
        evidence += [result.name for result in (*leads, *others.values())]
        plain, behind = leads[0], leads[LEADS.index(LEAD)]
        shares = [part_share(result, "origin") for result in leads]
        for lead, x in zip(LEADS, shares, strict=True):
            tally.numbers[f"origin's share behind {lead} facts ({wording})"] = over_heads(x)
        for one, other, before, after in zip(LEADS, LEADS[1:], leads, leads[1:], strict=False):
            step = measure_drop(before, after)
            where = f"{wording}, {one} to {other} facts"
            holds = {"each longer lead lowers it further": lies_beyond(step, 1)}
            tally.add("origin's share lowered", where, step, holds, missed("origin's share lowered", where, step))
        for what, result in others.items():
            tally.numbers[f"origin's share behind {what} ({wording})"] = over_heads(part_share(result, "origin"))
        for read in (BLOCK, *TOKENS):
            _beside_the_lead(tally, wording, read, plain, behind, others)
        tally.numbers.update(_left(wording, plain, behind))
        for name, found in correlate_shape(plain).items():
            holds = {"origin is a count": lies_beyond(found, 1)} if name == GROWS else {}
            tally.add(name, wording, found, holds, missed(name, wording, found))
        thirds |= _thirds(behind, f"{wording}, behind {LEAD} facts")
    shuffled = [tally.numbers[f"part of the lead's effect that {SHUFFLED} have ({wording})"] for wording in WORDINGS]
    mean = float(np.mean([x.value if isinstance(x, Estimate) else np.nan for x in shuffled]))
    tally.numbers[f"part of the lead's effect that {SHUFFLED} have, mean over wordings"] = mean
    return Measured(
        ours={**tally.counts("cases in which {}"), **tally.numbers, **thirds},
        model=model,
        evidence=[*evidence, SHOWN_IN],
        fails_in=tally.missed,
        note=f"{FACTS} facts behind what stands in front, the same facts whatever a lead is; all heads. The curve "
        "along the list is that without anything in front; what explains it has a squared correlation with it.",
    )


def _beside_the_lead(
    tally: Tally, wording: str, read: str, plain: Result, behind: Result, others: Mapping[str, Result]
) -> None:
    """What a lead does to origin's share, and which part of that anything else in front does, of what is read."""
    token, where = TOKENS.get(read, ""), " at the tokens that differ" if read in TOKENS else ""
    at = f", at {token}" if token else ""
    lowered = measure_drop(plain, behind, read)
    held, number = (
        {f"a lead of {LEAD} lowers origin's share{where}": lies_beyond(lowered, 1)},
        "origin's share lowered by",
    )
    number += f" {LEAD} facts{at}"
    tally.add(number, wording, lowered, held, missed(number, wording, lowered))
    for what, result in others.items():
        more = what == SHUFFLED
        asked = f"{what} have {'more than half' if more else 'less than a third'} of that{where}"
        number = f"part of the lead's effect that {what} have{at}"
        if lies_beyond(lowered, 1):
            part = effect_part(plain, behind, result, read)
            holds = {asked: part.low > HALF if more else part.high < A_THIRD}
            tally.add(number, wording, part, holds, missed(number, wording, part, HALF if more else A_THIRD))
        else:
            tally.numbers[f"{number} ({wording})"] = "the lead has none"
            tally.held.setdefault(asked, [])


def missed(number: str, where: str, found: Estimate, line: float = 0.0) -> str:
    """What a case that is not as asked is called; it is undecided if its interval holds the line."""
    undecided = f", undecided about {line:.2g}" if found.low <= line <= found.high else ""
    return f"{number} ({where}): {found}{undecided}"


def correlate_shape(result: Result) -> dict[str, Estimate]:
    """What the mean logit along the origins goes with, medians over heads: parts of its variance that are explained.

    Of the logarithm of how many facts came before, of that number itself, and of whether one is the first; and what the
    logarithm explains beyond the first fact's mark. Heads whose curve is rounding do not count.
    """
    curve = result["by_origin"][result["curves"].tolist().index(BLOCK)].astype(float)
    sizes = result["parts"][result["reads"].tolist().index(BLOCK)].astype(float).mean(1)
    whole = sizes[[name != "prompts" for name in result["variances"].tolist()]].sum(0)
    there = curve.var(-1) > ROUNDING * whole
    count = np.arange(curve.shape[-1])
    curve = curve - curve.mean(-1, keepdims=True)
    explained = {}
    for what, x in {LOGARITHM: np.log1p(count), "number itself": count, MARK: (count == 0).astype(float)}.items():
        x = x - x.mean()
        with np.errstate(divide="ignore", invalid="ignore"):
            r2 = (curve @ x) ** 2 / ((curve**2).sum(-1) * (x**2).sum())
        explained[what] = np.where(there, r2, np.nan)[None]
    found = {
        f"part of the curve along the list that the {what} explains": over_heads(x) for what, x in explained.items()
    }
    return {**found, GROWS: over_heads(explained[LOGARITHM] - explained[MARK])}


def _left(wording: str, plain: Result, behind: Result) -> dict[str, Number]:
    """What a lead leaves of both variances, of whole facts and at the tokens in which they differ."""
    return {
        f"{part}'s variance behind {LEAD} facts, part of that without{f', at {token}' if token else ''} ({wording})": (
            _rest(plain, behind, part, read)
        )
        for read, token in {BLOCK: "", **TOKENS}.items()
        for part in CAUSES
    }


def measure_drop(before: Result, after: Result, read: str = BLOCK) -> Estimate:
    """By how much origin's share is lower, median over heads less median over heads; the prompts are the same."""
    pair = np.stack([part_share(result, "origin", read) for result in (before, after)], -1)
    return statistic_interval(
        lambda x: -np.diff(heads_median(x), axis=-1)[:, 0], pair, draws=RESAMPLES, vectorized=True
    )


def effect_part(plain: Result, behind: Result, other: Result, read: str = BLOCK) -> Estimate:
    """What something else in front changes, as a part of what facts of the same frame change."""
    three = np.stack([part_share(result, "origin", read) for result in (plain, behind, other)], -1)

    def part(x: np.ndarray) -> np.ndarray:
        nothing, facts, else_ = np.moveaxis(heads_median(x), -1, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return (nothing - else_) / (nothing - facts)

    return statistic_interval(part, three, draws=RESAMPLES, vectorized=True)


def _rest(plain: Result, behind: Result, part: Part, read: str) -> Estimate:
    """Median over heads of a part's variance behind a lead, as a part of that without; logarithms are averaged."""
    row = plain["variances"].tolist().index(part)
    before, after = (one["parts"][one["reads"].tolist().index(read), row] for one in (plain, behind))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(after.astype(float) / before)
    found = over_heads(np.where(np.isfinite(ratio), ratio, np.nan))
    return Estimate(
        value=float(np.exp(found.value)),
        low=float(np.exp(found.low)),
        high=float(np.exp(found.high)),
        method=found.method,
    )
