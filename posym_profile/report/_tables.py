"""Write tables of a profile, one row a head and one row a prompt, and say what its prompts are like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from scipy.stats import binom

from posym_profile.prompts._repeated_frames import Frame, find_frame
from posym_profile.report._prompt_files import BlockedPrompt
from posym_profile.scores._head_table import tabulate_heads
from posym_profile.scores._visibility import format_count

if TYPE_CHECKING:
    from pandas import DataFrame
    from xarray import Dataset


def describe_frames(prompts: Sequence[BlockedPrompt]) -> list[Frame]:
    """Describe what the blocks of each prompt have in common."""
    return [find_frame(prompt.input_ids, **prompt.layout) for prompt in prompts]


def describe_lists(prompts: Sequence[BlockedPrompt], *, cube: bool = False) -> str:
    """Say what follows if all prompts are lists of one frame with none of it in front, and the ways out."""
    frames = describe_frames(prompts)
    if not frames or not all(frame.repeats and frame.lead == 0 for frame in frames):
        return ""
    shared = sorted({f"{len(frame.offsets)} of {format_count(frame.block_length, 'token')}" for frame in frames})
    tell = "the shares of symbol and origin tell how much of it that is" if cube else "add --cube to see how much"
    return (
        f"all prompts are lists of one frame (blocks share {' or '.join(shared)}) without a lead, so a high symbolic "
        "score can mean that a head follows how many such blocks came before a key, and not what its block says. Put "
        "some of the same frame in front (as --task binding-with-lead). To vary the frame (--task binding-varied) or "
        f"to read the one token that differs (posym_profile.origin_cube with read) helps less; {tell}"
    )


def describe_answers(scores: Dataset) -> str:
    """Say how often a model is right, and what a blind choice would reach; nothing for prompts without answers."""
    if "correct" not in scores:
        return ""
    right, prompts = int(scores.correct.sum()), scores.sizes["prompt"]
    chance = float((1 / scores.alternatives).mean())  # of a blind choice among each prompt's alternatives
    words = f"right on {right} of {format_count(prompts, 'prompt')}, {right / prompts:.0%}; chance {chance:.0%}"
    # As many would be right by chance in one set of prompts of twenty.
    return words if binom.sf(right - 1, prompts, chance) < 0.05 else f"{words}, from which it cannot be told apart"


def write_heads_table(scores: Dataset) -> bytes:
    """Write :func:`posym_profile.scores.tabulate_heads` as CSV."""
    return _write_csv(tabulate_heads(scores))


def write_table_of_models(scores: Mapping[str, Dataset]) -> bytes:
    """Write the same of several models as one table, whose first column names the model."""
    import pandas

    tables = [tabulate_heads(x).assign(model=name) for name, x in scores.items()]
    columns = ["model", *dict.fromkeys(name for table in tables for name in table if name != "model")]
    return _write_csv(pandas.concat(tables).loc[:, columns])


def _write_csv(table: DataFrame) -> bytes:
    return table.to_csv(index=False, float_format="%.7g", lineterminator="\n").encode(errors="backslashreplace")
