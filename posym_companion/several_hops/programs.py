"""Which program a trained head runs: agreement of its attention with where Index, Retrieval or Reflexive would look.

Urrutia et al., *Positional versus Symbolic Attention Heads* (2026), section 3, name the functions of trained heads from
plots of their attention. Here a head's function is the program that its largest weight agrees with most often, over
all tokens that have somewhere to go, with the agreement as its score. Programs of two and more hops are candidates
too: a head that looks straight at the station after the next has found a shortcut.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from posym_core._checks import require_count
from posym_core.tasks import LetterTask, NumberTask, find_index_targets, find_retrieval_targets, is_valid

# A head has a function if it agrees with a program on more than half of the tokens on which programs differ.
AGREES = 0.5
NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Where each program looks from every token.

    Attributes:
        names: ``reflexive`` looks at itself, ``hop 1`` where the token points, ``hop 2`` where that one points and so
            on; ``previous`` and ``first`` are no programs of the tasks but what heads often do.
        target: position looked at, -1 where a program has none.
        asks: tokens at which the programs can be told apart: those that point somewhere, to one place.
    """

    names: tuple[str, ...]
    target: Int64[Tensor, "candidate sequence token"]
    asks: Bool[Tensor, "sequence token"]

    def attention(self, name: str) -> Float[Tensor, "sequence token token"]:
        """Return the program as an attention matrix; a token without a target looks at itself."""
        if name not in self.names:
            raise ValueError(f"the candidates are {', '.join(map(repr, self.names))}; got {name!r}")
        target = self.target[self.names.index(name)]
        places = torch.arange(target.shape[1], device=target.device)
        looked = torch.where(target < 0, places, target)
        return torch.nn.functional.one_hot(looked, target.shape[1]).float()


def candidates(tokens: Int64[Tensor, "sequence token"], task: NumberTask | LetterTask, *, hops: int = 4) -> Candidates:
    """Return targets of all candidates, with programs of up to ``hops`` hops in one layer."""
    require_count("hops", hops, 1)
    points = find_index_targets(tokens, task) if isinstance(task, NumberTask) else find_retrieval_targets(tokens, task)
    points = torch.where(is_valid(tokens, task), points, -1)
    places = torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape)
    names, targets = ["reflexive", "previous", "first"], [places, places - 1, places * 0]
    target = places
    for hop in range(1, 1 + hops):
        target = torch.where(target < 0, -1, points.gather(1, target.clamp_min(0)))
        names.append(f"hop {hop}")
        targets.append(target)
    return Candidates(names=tuple(names), target=torch.stack(targets), asks=points >= 0)


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How often heads look where a program does.

    Attributes:
        names: of the candidates.
        hits: share of tokens whose largest weight is on the candidate's target and no other candidate's.
    """

    names: tuple[str, ...]
    hits: Float[Tensor, "layer head candidate"]

    def function(self, layer: int, head: int) -> tuple[str, float]:
        """Return the candidate with most hits and its share, ``"none"`` where that is no more than half."""
        best = int(self.hits[layer, head].nan_to_num(0).argmax())
        share = float(self.hits[layer, head, best])
        return (self.names[best] if share > AGREES else NONE), share


def agreement(
    attention: Float[Tensor, "sequence layer head query key"],
    tokens: Int64[Tensor, "sequence token"],
    task: NumberTask | LetterTask,
    *,
    hops: int = 4,
) -> Agreement:
    """Compare heads with :func:`candidates`.

    Each candidate is judged on the tokens at which it has a target that no other candidate shares. A tie for the
    largest weight is no hit.

    Raises:
        ValueError: if attention and tokens do not fit.
    """
    sequences, length = tokens.shape
    if attention.shape[0] != sequences or attention.shape[-2:] != (length, length):
        raise ValueError(
            f"attention must be [{sequences}, layer, head, {length}, {length}] for these tokens; "
            f"got {tuple(attention.shape)}"
        )
    programs = candidates(tokens, task, hops=hops)
    best = attention.amax(-1)
    single = (attention == best[..., None]).sum(-1) == 1
    looked = attention.argmax(-1)  # [sequence, layer, head, query]
    hits = []
    for number, target in enumerate(programs.target):
        others = torch.cat([programs.target[:number], programs.target[number + 1 :]])
        judged = programs.asks & (target >= 0) & (others != target).all(0)
        rows = judged[:, None, None].expand_as(looked)
        hit = single & (looked == target[:, None, None])
        hits.append((hit & rows).sum((0, 3)) / rows.sum((0, 3)))
    return Agreement(names=programs.names, hits=torch.stack(hits, -1))
