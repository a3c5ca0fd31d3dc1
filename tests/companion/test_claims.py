"""The file of claims: entries fit or are refused by name, and other models are asked beside the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from posym_companion import claims
from posym_companion.verdicts import Line, Rule

ENTRY = """
[X-1]
short = "Heads are heads"
paper = "none"
judge = "one_head.judges.canonical_theory:peaks_bend"
changes = "A head that is none."
rule.says = "All heads are."
rule.whole = "reproduced"
rule.lines.heads = "heads that are > 0.5"
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A file of claims in place of ours."""

    def write(text: str) -> None:
        (tmp_path / "claims.toml").write_text(text, encoding="utf-8")
        monkeypatch.setattr(claims, "FILE", tmp_path / "claims.toml")
        for function in (claims.read_entries, claims.load_claim):
            function.cache_clear()

    yield write
    monkeypatch.undo()
    for function in (claims.read_entries, claims.load_claim):
        function.cache_clear()


def test_every_claim_has_a_judge_that_is_there():
    for name in claims.read_entries():
        found = claims.load_claim(name)
        assert found.id == name
        assert callable(found.measure)


def test_a_claim_is_one_entry(written):
    written(ENTRY)
    found = claims.load_claim("X-1")
    heads = Line(part="heads", of="heads that are", above=0.5)
    assert (found.short, found.rule) == ("Heads are heads", Rule(says="All heads are.", lines=(heads,)))
    assert found.measure.__name__ == "peaks_bend"
    with pytest.raises(ValueError, match=r"^no claim is called U25-1; claims are X-1$"):
        claims.load_claim("U25-1")


LINE = r'claims.toml, X-1: \'heads\' asks a number, or one and a threshold as in "accuracy > 0.9", not '


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('changes = "A', 'chages = "A', r"claims.toml, X-1: no Claim has chages; its keys are id, short, claim, "),
        ("says", "sais", r"claims.toml, X-1: no Rule has sais; its keys are says, lines, whole, able"),
        ("are > 0.5", "are >0.5", LINE + "'heads that are >0.5'"),
        ('"heads that are > 0.5"', "0.5", LINE + "0.5"),
        (".heads", "", r"claims.toml, X-1: a rule's lines stand by the part that each decides"),
        (
            "changes =",
            'remedies.lead = "first"\nchanges =',
            r"X-1: remedies stand in lists by when .*, and are none, lead",
        ),
        ('paper = "none"', "", r"claims.toml, X-1: .* missing 1 required keyword-only argument: 'paper'"),
        (":peaks_bend", ":peaks", r"claims.toml, X-1: judge is 'one_head.*:peaks', but module .* 'peaks'"),
    ],
)
def test_an_entry_that_does_not_fit_is_refused(written, old, new, message):
    written(ENTRY.replace(old, new))
    with pytest.raises(ValueError, match=message):
        claims.load_claim("X-1")
