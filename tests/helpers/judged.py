"""Claims judged on made-up results: what their parts come to."""

from __future__ import annotations

from pathlib import Path

from posym_companion.claims.rows import Answer, judge, load_claims


def judge_made_up(name: str, folder: Path, model: str = "") -> Answer:
    """Return the answer of one model, by default of the first."""
    answers = judge(load_claims()[name], folder).answers
    return answers[model or next(iter(answers))]


def count_parts(answer: Answer) -> dict[str, str]:
    """Return in how many of its cases each part holds."""
    return {one.name: f"{one.held} of {one.told}" for one in answer.parts}


def find_missed(answer: Answer) -> list[str]:
    """Return the parts that do not hold in every case."""
    return [one.name for one in answer.parts if one.held < one.told]


def require_both_sides(claimed: Answer, *others: Answer) -> None:
    """Raise if a part does not hold in every case as claimed, or is missed by none of the others."""
    assert not find_missed(claimed)
    assert all(one.told for one in claimed.parts)
    missed = {name for other in others for name in find_missed(other)}
    assert {one.name for one in claimed.parts} <= missed
