"""Positional encodings compared: what is run, and what only it needs."""

from posym_companion.encodings.abilities import ability_table
from posym_companion.encodings.known_heads import QUESTIONS

__all__ = [
    "QUESTIONS",
    "ability_table",
]
