"""What holds of all judges: where a rule fails is said from numbers, and never whatever they are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import posym_companion

FILES = sorted(Path(posym_companion.__file__).parent.glob("*/judges/*.py"))
FAILURES = {"fails_in", "fails", "missed"}


def fixed(node: ast.AST) -> bool:
    """Whether a list of failures is given, to a call or a name, in which one stands under no condition."""
    if isinstance(node, ast.keyword):
        named = node.arg in FAILURES
    elif isinstance(node, ast.Assign):
        named = any(isinstance(target, ast.Name) and target.id in FAILURES for target in node.targets)
    else:
        return False
    return named and isinstance(node.value, ast.List) and any(not isinstance(x, ast.Starred) for x in node.value.elts)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("Measured(fails_in=['always'])", True),
        ("Measured(fails_in=[*missed, f'{always}'])", True),
        ("fails = [always]", True),
        ("Measured(fails_in=[f'{x}' for x in found if x < 0])", False),
        ("Measured(fails_in=['sometimes'] if lost else [])", False),
        ("fails = []", False),
    ],
)
def test_what_a_fixed_sentence_is(code, expected):
    assert any(map(fixed, ast.walk(ast.parse(code)))) == expected


def test_no_judge_says_where_a_rule_fails_whatever_its_numbers_are():
    assert len(FILES) > 40
    lines = [
        f"{path.parent.parent.name}/judges/{path.name}:{node.lineno}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if fixed(node)
    ]
    assert not lines, f"say a failure only where numbers show it: {', '.join(lines)}"
