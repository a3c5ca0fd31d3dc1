"""What is claimed of planes: which are symbolic, which positional, and how heads' behaviour goes with them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posym_companion.claims import U25, Look, above, below, claim, part
from posym_companion.experiments import SECOND, TAUGHT
from posym_companion.language_models.binding_profile import FACTS, plain_settings, random_weight_settings
from posym_companion.results import Result
from posym_profile.language_models import PACKAGED

CHAPTER = "where_and_what/frequencies"
MODELS = (PACKAGED, SECOND, TAUGHT)


# One head

LAYER, HEAD = 12, 0


def read_profile(result: Result, layer: int, head: int) -> tuple[np.ndarray, np.ndarray]:
    """Return both scores of single planes of a head, mean over prompts, fast planes first; dead ones are left out."""
    both = np.stack([result[f"plane_{name}"][0, layer, head].astype(float) for name in ("positional", "symbolic")])
    positional, symbolic = both[:, np.isfinite(both).all(0)]
    return positional, symbolic


def name_regimes(positional: np.ndarray, symbolic: np.ndarray) -> tuple[float, float, float]:
    """Return how a profile leans, above 0 to symbols: its slowest half and the next to fastest three eighths.

    And the lower score of the fastest eighth.
    """
    eighths = np.array_split(symbolic - positional, 8)
    lower = np.array_split(np.minimum(positional, symbolic), 8)[0]
    return float(np.concatenate(eighths[4:]).mean()), float(np.concatenate(eighths[1:4]).mean()), float(lower.mean())


@claim(
    "U25-4H",
    "One head's planes: slow symbolic, faster positional, fastest both",
    paper=U25,
    at="section 4, the profile of head 12:0 of gemma-2-2b-it at 256 facts",
    quote="as summarised in our reading: decomposing head 12:0 by frequency, low-frequency bands have high symbolic "
    "scores, medium-to-high frequency bands high positional scores, and the highest frequency bands high scores for both",
    chapter=CHAPTER,
    models=(PACKAGED,),
    fixed="before the run",
)
def one_head_profile(look: Look) -> Iterator:
    """Has head 12:0 of Gemma 3, on 16 facts, the three regimes of the paper's head 12:0, and do random weights not?

    The slower half of its planes leans to symbols, the three eighths behind the fastest lean to positions, and in the
    fastest eighth the lower score is above .9.
    """
    found = []
    for setting in plain_settings(look.model, FACTS[:1]):
        slow, fast, lower = name_regimes(*read_profile(look.load(setting), LAYER, HEAD))
        found.append((slow, fast))
        yield part("slow planes lean to symbols", setting.template), above(slow, 0)
        yield part("medium to fast planes lean to positions", setting.template), below(fast, 0)
        yield part("the fastest planes are both", setting.template), above(lower, 0.9)
    for setting in random_weight_settings(look.model):
        slow, fast, lower = name_regimes(*read_profile(look.load(setting), LAYER, HEAD))
        case = f"{setting.template}, draw {setting.draw}"
        yield part("random weights have no such profile", case, asks="control"), slow <= 0 or fast >= 0 or lower <= 0.9
    words = f"{np.mean(found, 0)[0]:.3f} slow, {np.mean(found, 0)[1]:.3f} fast"
    look.headline("s_SYM - s_POS of planes", words)
