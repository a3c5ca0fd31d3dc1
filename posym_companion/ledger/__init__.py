"""The ledger: all claims with what results say of them, and numbers that the book names."""

from posym_companion.old_claims import load_claim
from posym_companion.ledger.badges import draw_wall, make_badge, show_verdicts, verdict_list
from posym_companion.ledger.named_values import NAMED_VALUES, NamedValue, named_value
from posym_companion.ledger.rows import ledger
from posym_companion.verdicts import VERDICTS, Cases, Claim, Line, Measured, Row, Rule

__all__ = [
    "NAMED_VALUES",
    "VERDICTS",
    "Cases",
    "Claim",
    "Line",
    "Measured",
    "NamedValue",
    "Row",
    "Rule",
    "draw_wall",
    "ledger",
    "load_claim",
    "make_badge",
    "named_value",
    "show_verdicts",
    "verdict_list",
]
