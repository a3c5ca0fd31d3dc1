"""The claims ledger: what the papers say, what was measured here, and the verdict, computed from stored results."""

from posym_core.claims.ledger import VERDICTS, Claim, Finding, Row, ledger

__all__ = ["VERDICTS", "Claim", "Finding", "Row", "ledger"]
