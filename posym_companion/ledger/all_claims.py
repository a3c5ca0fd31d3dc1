"""All claims, in the papers' order: U25 and U26 are Urrutia et al. (2026a, 2026b), G26 is Gu et al. (2026).

T are the claims of U25 once more, on models that solve the task they are measured on. L are claims of later papers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from posym_companion.finding import Cases, Claim, Measured, Number, Row
from posym_core.metrics.stats import Estimate
from posym_core.runs.results import MissingResultError

# Where each claim is judged: file and name below posym_companion, imported only when its row is asked for.
CLAIMS: Mapping[str, str] = {
    "U25-1": "language_models.judges.binding_profile.EXCLUSION",
    "U25-2": "language_models.judges.binding_profile.LAYER_TREND",
    "U25-3": "language_models.judges.binding_profile.CORRELATION",
    "U25-4a": "language_models.judges.binding_planes.SLOW_SYMBOLIC",
    "U25-4b": "language_models.judges.binding_planes.FAST_POSITIONAL",
    "U25-4c": "language_models.judges.binding_planes.FASTEST_BOTH",
    "U25-5": "language_models.judges.binding_profile.FAMILIES",
    "U25-6": "one_head.judges.frequency_control.FREQUENCY_DECIDES",
    "U25-7": "one_head.judges.frequency_control.LOST_IN_THE_MIDDLE",
    "U25-8a": "one_head.judges.head_geometry.TOYS_TRACE",
    "U25-8b": "one_head.judges.head_geometry.MODEL_TRACES",
    "U25-9": "language_models.judges.plane_profile.ALL_HEADS",
    "U25-10": "one_head.judges.frequency_attention.BECAUSE_OF_ATTENTION",
    "U25-T2": "one_head.judges.canonical_theory.SYMBOLIC_FAILS_INDEX",
    "U25-T3": "one_head.judges.canonical_theory.POSITIONAL_DOES_INDEX",
    "U25-T4": "one_head.judges.canonical_theory.POSITIONAL_FAILS_RETRIEVAL",
    "U25-T5": "one_head.judges.canonical_theory.SYMBOLIC_DOES_RETRIEVAL",
    "U25-T6": "one_head.judges.canonical_theory.TWO_ANGLES_DO_INDUCTION",
    "U25-T7": "one_head.judges.canonical_theory.PEAKS_BEND",
    "U26-1": "several_hops.judges.multihop.HOP_BY_HOP",
    "U26-2": "several_hops.judges.multihop.PURE_HEADS",
    "U26-3": "several_hops.judges.multihop.FREQUENCY_USE",
    "U26-4a": "several_hops.judges.hop_theory.CONSTRUCTIONS",
    "U26-4b": "several_hops.judges.hop_theory.BOUNDS",
    "U26-5": "several_hops.judges.hop_length.REACH",
    "U26-6": "several_hops.judges.hop_prompts.LETTER_BEATS_NUMBER",
    "U26-7": "several_hops.judges.multihop.COST",
    "U26-8": "several_hops.judges.hop_mechanism.ROLES",
    "U26-9": "several_hops.judges.hop_variants.NECESSITY",
    "G26-1a": "encodings.judges.gram_spectra.THEOREM",
    "G26-1b": "encodings.judges.gram_spectra.LOGITS",
    "G26-1c": "encodings.judges.encoding_optimisation.OPTIMISATION",
    "G26-2": "encodings.judges.encoding_study.ORDER",
    "G26-2b": "encodings.judges.encoding_study.ROTARY_COUNTS",
    "G26-3": "encodings.judges.encoding_study.DEPOSIT",
    "G26-3b": "encodings.judges.encoding_study.DEPOSIT_BY_MEAN",
    "G26-4": "encodings.judges.encoding_speed.SPEED",
    "T-0": "solvers.judges.task_solvers.EXPECTED",
    "T-0G": "solvers.judges.taught_gemma.FIRST_LOOK",
    "T-1": "solvers.judges.solver_heads.LAYER_TREND",
    "T-1G": "solvers.judges.taught_gemma.LAYER_TREND",
    "T-2": "solvers.judges.solver_heads.ANTICORRELATION",
    "T-2G": "solvers.judges.taught_gemma.CORRELATION",
    "T-3": "solvers.judges.solver_heads.PLANE_LAW",
    "T-3G": "solvers.judges.taught_gemma.PLANES",
    "T-4": "solvers.judges.solver_heads.ALL_HEADS",
    "T-4G": "solvers.judges.taught_gemma.ALL_HEADS",
    "T-5": "solvers.judges.solver_roles.ROLES",
    "T-5G": "solvers.judges.taught_gemma.ROLES",
    "T-6": "solvers.judges.task_solvers.BEYOND_ONE_LAYER",
    "T-6G": "solvers.judges.taught_gemma.MISSING",
    "T-7": "solvers.judges.family_solvers.ARCHITECTURES",
    "T-8G": "solvers.judges.binding_direction.BOTH_ORDERS",
    "L-1a": "later.judges.later_claims.ORDER",
    "L-1b": "later.judges.later_claims.BASE",
    "L-1c": "later.judges.later_claims.SYMBOLS",
    "L-2": "later.judges.later_claims.SUMS",
    "L-3": "later.judges.later_claims.RETRIEVAL",
    "L-4": "later.judges.later_claims.BIRTH",
    "L-4b": "later.judges.later_claims.SOURCES",
    "L-5": "later.judges.later_claims.MASSIVE",
    "L-6": "later.judges.later_claims.BINDING",
}


def claim(name: str) -> Claim:
    """A claim by its id; imports the file that judges it.

    Raises:
        ValueError: if there is none.
    """
    if name not in CLAIMS:
        raise ValueError(f"no claim is called {name}; claims are {', '.join(CLAIMS)}")
    module, _, constant = CLAIMS[name].rpartition(".")
    return getattr(importlib.import_module(f"posym_companion.{module}"), constant)


def ledger(*ids: str, folder: Path | str | None = None) -> list[Row]:
    """Claims with what the results in ``folder`` (default: this checkout's) say about them.

    Args:
        ids: of the claims, for example ``"U25-6"``; all without any. Only their judges are imported and asked.
        folder: of results.

    Raises:
        ValueError: if there is no such claim.
        ResultError: if a result is there but altered or truncated. A missing one makes its claims "not run here".
    """
    measured = cache(partial(_measured, None if folder is None else Path(folder)))  # some claims share a measurement
    return [decided(one, measured(one.measure)) for one in map(claim, ids or CLAIMS)]


def row(judged: Claim, folder: Path | None = None) -> Row:
    """A claim measured and decided."""
    return decided(judged, _measured(folder, judged.measure))


def _measured(folder: Path | None, measure: Callable[[Path | None], Measured] | None) -> Measured | str:
    """What was measured, or why nothing is."""
    if measure is None:
        return "no experiment of this project measures it yet"
    try:
        return measure(folder)
    except MissingResultError as error:
        return str(error)


def decided(judged: Claim, found: Measured | str) -> Row:
    """A claim decided by what was measured, or with the reason why nothing was."""
    rule, first = judged.rule, judged.first_rule
    common: dict[str, Any] = {
        **{name: getattr(judged, name) for name in ("id", "short", "claim", "paper", "kind", "rule_fixed", "changes")},
        "rule": rule.says,
        "first_rule": first.says if first else "",
        "first_rule_fixed": judged.first_rule_fixed,
        "changed_because": judged.changed_because,
    }
    if isinstance(found, str):
        return Row(**common, verdict="not run here", command=judged.command, note=found)
    verdict = rule.verdict(found.ours)
    return Row(
        **common,
        verdict=verdict,
        first_rule_verdict=first.verdict(found.ours) if first else _unwritten(judged),
        numbers={name: plain(found.ours[name]) for name in rule.names},
        parts=rule.parts(found.ours),
        found=rule.found(found.ours),
        fails_in=list(found.fails_in),
        ours={name: plain(value) for name, value in found.ours.items()},
        model=found.model,
        evidence=list(found.evidence),
        command=judged.command if verdict == "not testable" else "",
        note=found.note,
    )


def _unwritten(judged: Claim) -> str:
    return "none was written" if judged.rule_fixed == "after a first look" else ""


def plain(value: Number) -> Any:
    """What JSON can hold: intervals become lists, counts texts."""
    if isinstance(value, Estimate):
        return {"value": _rounded(value.value), "interval": [_rounded(value.low), _rounded(value.high)]}
    return _rounded(value) if isinstance(value, float) else str(value) if isinstance(value, Cases) else value


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")
