"""Claims about the exclusion principle: the theorem, and what is said to follow from it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from posym_companion.claims import U25, Look, below, claim, part
from posym_companion.experiments import SECOND
from posym_companion.language_models.binding_profile import plain_settings
from posym_companion.language_models.random_weights import DRAWS, FACTS, WORDINGS, RandomWeights
from posym_core.metrics import Estimate, correlate_heads, exclusion, score_cross_logits
from posym_profile.language_models import PACKAGED

CHAPTER = "where_and_what/exclusion"
KEYS, HEADS, PROMPTS = 8, 72, 8
FIELDS = ("variance", "bound", "slack")


# Theorem 1

# Rounding of float32 sums over the matrix.
ROUNDING = 1e-5


@claim(
    "U25-1",
    "Theorem 1: no head is purely positional and purely symbolic, unless it attends evenly",
    paper=U25,
    at="Theorem 1, and the abstract",
    quote="We provide general definitions of what it means for a head to behave positionally or symbolically, prove "
    "that these are two mutually exclusive behaviors",
    chapter=CHAPTER,
    proof=f"{CHAPTER}#thm-exclusion",
    models=("every square matrix",),
    fixed="before the run",
    history="The search cannot fail where the proof is right: the inequality is an identity with a slack that is a sum "
    "of squares, for whatever matrix. Until now the row had the heads of Gemma alone, as if these were evidence.",
)
def exclusion_holds(look: Look) -> Iterator:
    """Is a head's logit variance at most its squared deviations from both kinds, and the slack the sum of squares?"""
    results = [look.load(setting) for setting in plain_settings(PACKAGED, FACTS[:1])]
    found = {f"Gemma 3, {one.settings['template']}": [one[name] for name in FIELDS] for one in results}
    draw = torch.Generator().manual_seed(0)
    for size in (2, 3, 5, 17):
        noise = exclusion(torch.randn(1000, size, size, generator=draw, dtype=torch.float64))
        found[f"noise of {size} by {size}"] = [getattr(noise, name).numpy() for name in FIELDS]
    for case, (variance, bound, slack) in found.items():
        yield part("the inequality", case), bool((variance <= bound * (1 + ROUNDING)).all())
        yield part("the identity", case), below(float((np.abs(variance + slack - bound) / bound).max()), ROUNDING)
    within = np.concatenate([(one["variance"] <= one["bound"] * (1 + ROUNDING)).ravel() for one in results])
    words = f"{within.sum():,} of {within.size:,}"
    look.headline("heads and prompts of Gemma 3 within the bound", words, control="so is any matrix")


# What follows from it


def draw_scores(seed: int, *, interaction: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return both scores ``[prompt, 1, head]`` of random heads, each of a sharpness of its own, from even to one key.

    Args:
        interaction: noise in every logit, or else a part by position plus a part by content, each of its own size.
    """
    draw = torch.Generator().manual_seed(seed)
    sizes = 10 ** (4 * torch.rand(2, 1, HEADS, 1, 1, generator=draw, dtype=torch.float64) - 2)
    noise = torch.randn(PROMPTS, HEADS, KEYS, KEYS, generator=draw, dtype=torch.float64)
    C = sizes[0] * noise if interaction else sizes[0] * noise[..., :1, :] + sizes[1] * noise[..., :1]
    scores = score_cross_logits(C)
    return scores.positional[:, None].numpy(), scores.symbolic[:, None].numpy()


def correlate_untrained(look: Look, model: str) -> Iterator[tuple[str, Estimate]]:
    """Yield Pearson's r over heads of each draw of random weights, on each kind of prompt."""
    for wording in WORDINGS:
        for facts in FACTS:
            for draw in DRAWS:
                result = look.load(RandomWeights(model=model, wording=wording, facts=facts, draw=draw))
                scores = (result[name][0].astype(float) for name in ("positional", "symbolic"))
                yield f"{model}, {wording}, {facts} facts, draw {draw}", correlate_heads(*scores, draws=500)


@claim(
    "U25-3T",
    "The negative correlation is a direct consequence of Theorem 1",
    paper=U25,
    at="section 4",
    quote="as summarised in our reading: the negative correlation r = -0.91 is no coincidence but a direct consequence "
    "of Theorem 1: attempting to be high in both results in uniform attention",
    chapter=CHAPTER,
    proof=f"{CHAPTER}#thm-exclusion",
    models=("heads that obey Theorem 1, as all do",),
    fixed="before the run",
    history="Heads that are drawn had an interval in the first run, with the same outcome; a draw is what it is.",
)
def correlation_follows(look: Look) -> Iterator:
    """Is r below zero in whatever heads obey Theorem 1: noise, position plus content, and random weights?

    Theorem 1 holds for every matrix of logits. A set of such heads in which r is not negative shows that r does not
    follow from it.
    """
    least, most = [], []
    for seed in DRAWS:
        for name, interaction in (("noise", True), ("position plus content", False)):
            most.append(correlate_heads(*draw_scores(seed, interaction=interaction), draws=2).value)
            yield part("r is negative in heads that are drawn", f"{name}, draw {seed}"), below(most[-1], 0)
    for model in (PACKAGED, SECOND):
        for case, r in correlate_untrained(look, model):
            least.append(r.value)
            yield part("r is negative with random weights", case), below(r, 0)
    words = f"{min(most):.2f} to {max(most):.2f}"
    look.headline(
        "r of drawn heads", words, paper="-0.91", control=f"random weights {min(least):.2f} to {max(least):.2f}"
    )
