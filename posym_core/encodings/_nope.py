"""No positional encoding."""

from __future__ import annotations

from posym_core.encodings._base import Encoding


class NoPE(Encoding):
    """No positional encoding: the logit is the scaled dot product, and every head is symbolic.

    In a causal layer position can still be told from the number of tokens that a query sees, but not by a logit.
    """

    source = "Haviv et al. (2022), Transformer Language Models without Positional Encodings"

    def _cross_logits(self, query, keys, at, places, inputs):
        rows = self.content_row(query, keys)
        return rows[..., None].expand(*rows.shape, len(places)).clone()
