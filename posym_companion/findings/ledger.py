"""All claims, in the papers' order: U25 and U26 are Urrutia et al. (2026a, 2026b), G26 is Gu et al. (2026)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from posym_companion.findings.finding import Claim, Finding, Row
from posym_core.metrics.stats import Estimate
from posym_core.runs.results import MissingResultError


def ledger(*ids: str, folder: Path | str | None = None) -> list[Row]:
    """Claims with what the results in ``folder`` (default: this checkout's) say about them.

    Args:
        ids: of the claims, for example ``"U25-6"``; all without any. Only their judges are imported and asked.
        folder: of results.

    Raises:
        ValueError: if there is no such claim.
        ResultError: if a result is there but altered or truncated. A missing one makes its claims "not run here".
    """
    if unknown := set(ids) - set(CLAIMS):
        raise ValueError(f"no claim is called {', '.join(sorted(unknown))}; claims are {', '.join(CLAIMS)}")
    return [_row(CLAIMS[one], None if folder is None else Path(folder)) for one in ids or CLAIMS]


def _row(claim: Claim, folder: Path | None) -> Row:
    module, _, judge = claim.judge.rpartition(".")
    try:
        finding = getattr(importlib.import_module(f"posym_companion.findings.{module}"), judge)(folder)
    except MissingResultError as error:
        finding = Finding(ours={}, model="", evidence=[], verdict="not run here", note=str(error))
    return Row(
        id=claim.id,
        claim=claim.claim,
        paper=claim.paper,
        ours={name: _plain(value) for name, value in finding.ours.items()},
        model=finding.model,
        evidence=list(finding.evidence),
        verdict=finding.verdict,
        note=finding.note,
    )


def _plain(value: float | int | str | Estimate) -> Any:
    """What JSON can hold: intervals become lists."""
    if isinstance(value, Estimate):
        return {"value": _rounded(value.value), "interval": [_rounded(value.low), _rounded(value.high)]}
    return _rounded(value) if isinstance(value, float) else value


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")


_CLAIMS = (
    Claim(
        id="U25-1",
        claim="Theorem 1: the variance of a head's logits is bounded by its deviations from positional and symbolic",
        paper="an inequality, proved",
        judge="binding_profile.exclusion_holds",
    ),
    Claim(
        id="U25-2",
        claim="Early layers are positional and late layers symbolic on the binding task",
        paper="median s_POS 0.83 in layers 1-13 and 0.56 in 14-26, s_SYM reversed (gemma-2-2b-it, 256 facts)",
        judge="binding_profile.early_positional_late_symbolic",
    ),
    Claim(
        id="U25-3",
        claim="Positional and symbolic scores correlate negatively over heads",
        paper="Pearson r = -0.91, p <= 1e-4 (gemma-2-2b-it)",
        judge="binding_profile.scores_exclude_each_other",
    ),
    Claim(
        id="U25-4",
        claim="Within a head, low frequencies are symbolic, medium to high ones positional, the highest both (uniform)",
        paper="profile of head 12:0 (gemma-2-2b-it)",
        judge="binding_profile.frequencies_divide_the_work",
    ),
    Claim(
        id="U25-5",
        claim="The same holds across the model families Gemma-2, Qwen-2 and Llama-3",
        paper="shown in figures",
        judge="binding_profile.across_families",
    ),
    Claim(
        id="U25-6",
        claim="Index is learned only with high frequencies, Retrieval only with low ones, Partial induction only with "
        "theta_1 = 0 and a moderate theta_2",
        paper="shown in figures",
        judge="frequency_control.frequency_decides",
    ),
    Claim(
        id="U25-7",
        claim="Lost in the middle: under the wrong frequency accuracy is U-shaped in the answer's position for Index, "
        "and inverse-U for Retrieval",
        paper="shown in figures",
        judge="frequency_control.accuracy_is_bent",
    ),
    Claim(
        id="U25-8",
        claim="After training, the query's angle encodes the target and keys share one direction; heads of Gemma "
        "trace the same curves",
        paper="shown in figures",
        judge="head_geometry.heads_trace_circles",
    ),
    Claim(
        id="U26-1",
        claim="The Number task is learned hop by hop, the Letter task all hops together",
        paper="figure 2A",
        judge="multihop.learned_hop_by_hop",
    ),
    Claim(
        id="U26-2",
        claim="Accuracy is maximal when heads are pure: positional then symbolic in Number, symbolic in Letter",
        paper="figures 2B-C, 6 and 7",
        judge="multihop.pure_at_best",
    ),
    Claim(
        id="U26-3",
        claim="Each layer uses its own band of frequencies",
        paper="Table 1",
        judge="multihop.bands_by_layer",
    ),
    Claim(
        id="U26-4",
        claim="One rotary head implements Index and one Retrieval; their discrepancy is bounded",
        paper="Theorems 3.1 and 3.2",
        judge="hop_theory.heads_hop_within_bounds",
    ),
    Claim(
        id="U26-5",
        claim="Letter generalises to long sequences, Number hardly beyond its training length",
        paper="Letter above 90 % at 850 tokens (figure 5B)",
        judge="hop_length.symbols_travel_further",
    ),
    Claim(
        id="U26-6",
        claim="In language models the letter version beats the number version as length grows",
        paper="Table 3",
        judge="hop_prompts.letter_beats_number",
    ),
    Claim(
        id="U26-7",
        claim="Scoring one model through training takes forward passes with stored attention",
        paper="5 GPU hours, 8.5 CPU hours and about 1 TB a model",
        judge="multihop.cost_of_watching",
    ),
    Claim(
        id="G26-1",
        claim="A Hadamard product with a Toeplitz correlation kernel contracts the spectrum of a Gram matrix",
        paper="theorem",
        judge="gram_spectra.kernels_contract",
    ),
    Claim(
        id="G26-2",
        claim="Encodings differ in accuracy on a position-sensitive (A) and a position-agnostic (B) task",
        paper="A / B: RoPE 92.64 / 69.43, MLA 88.34 / 97.41, NoPE fails / 77.69, ALiBi fails / worst",
        judge="encoding_study.encodings_differ",
    ),
    Claim(
        id="G26-3",
        claim="RoPE deposits position in one head of an early layer; one rotary head suffices; MLA removes the deposit",
        paper="-60 points when the head is removed; about 90 % with one rotary head",
        judge="encoding_study.position_is_deposited",
    ),
)
CLAIMS: Mapping[str, Claim] = {claim.id: claim for claim in _CLAIMS}
