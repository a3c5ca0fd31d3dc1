"""Programs that solve Number and Letter: one hop, no hop, and walks of several.

Urrutia et al., *Positional versus Symbolic Attention Heads* (2026), section 3: ``f_NUM`` repeats Index and ``f_LET``
repeats Retrieval until Reflexive keeps what was found.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from posym_core.tasks._number_letter import LetterTask, NumberTask


def apply_index(tokens: Int64[Tensor, "sequence token"], task: NumberTask) -> Int64[Tensor, "sequence token"]:
    """Replace an integer by the token that many positions before it, if that is a letter (Selective Index).

    >>> apply_index(torch.tensor([[4, 8, 9]]), NumberTask(letters=8)).tolist()  # e, 1 back, 2 back
    [[4, 4, 4]]
    """
    target = find_index_targets(tokens, task)
    pointed_at = tokens.gather(1, target.clamp_min(0))
    return torch.where((target >= 0) & (pointed_at < task.letters), pointed_at, tokens)


def apply_retrieval(tokens: Int64[Tensor, "sequence token"], task: LetterTask) -> Int64[Tensor, "sequence token"]:
    """Replace a pair of letters by the earlier pair whose left letter is its right one.

    >>> task = LetterTask(alphabet=3, integers=1, hops=2)  # (a,1) (b,1) (c,1) (a,a) (a,b) ... (c,c)
    >>> [task.token_names[token] for token in apply_retrieval(torch.tensor([[1, 10]]), task)[0]]  # (b,1) (c,b)
    ['(b,1)', '(b,1)']
    """
    target = find_retrieval_targets(tokens, task)
    return torch.where(target >= 0, tokens.gather(1, target.clamp_min(0)), tokens)


def walk(
    tokens: Int64[Tensor, "sequence token"], task: NumberTask | LetterTask, *, hops: int, layers: int
) -> Int64[Tensor, "sequence token"]:
    """Apply Index or Retrieval ``hops`` times, and nothing in the layers that are left; the last token answers."""
    if not 0 <= hops <= layers:
        raise ValueError(f"{layers} layers make from 0 to {layers} hops; got hops={hops}")
    for _ in range(hops):
        tokens = apply_index(tokens, task) if isinstance(task, NumberTask) else apply_retrieval(tokens, task)
    return tokens


def find_index_targets(tokens: Int64[Tensor, "sequence token"], task: NumberTask) -> Int64[Tensor, "sequence token"]:
    """Return where every integer points, -1 for letters and for what points before the first token."""
    _check_tokens(tokens, task)
    steps = tokens - task.letters + 1
    target = torch.arange(tokens.shape[1], device=tokens.device) - steps
    return torch.where(steps > 0, target.clamp_min(-1), -1)


def find_retrieval_targets(
    tokens: Int64[Tensor, "sequence token"], task: LetterTask
) -> Int64[Tensor, "sequence token"]:
    """Return where the last earlier pair stands whose left letter a pair names; -1 where there is none."""
    _check_tokens(tokens, task)
    left, right = split_letters(tokens, task)
    place = torch.arange(tokens.shape[1], device=tokens.device)
    named = (left[:, None, :] == right[:, :, None]) & (place < place[:, None])
    return torch.where(named, place, -1).amax(-1)


def split_letters(
    tokens: Int64[Tensor, "*batch"], task: LetterTask
) -> tuple[Int64[Tensor, "*batch"], Int64[Tensor, "*batch"]]:
    """Return left and right letter of pairs; the right one is -1 where a pair ends with an integer."""
    ends = task.alphabet * task.integers
    pair = tokens - ends
    return (
        torch.where(pair < 0, tokens // task.integers, pair // task.alphabet),
        torch.where(pair < 0, -1, pair % task.alphabet),
    )


def _check_tokens(tokens: Tensor, task: NumberTask | LetterTask) -> None:
    if tokens.ndim != 2 or (tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < task.vocabulary):
        raise ValueError(
            f"tokens must be [sequence, token] with ids from 0 to {task.vocabulary - 1}; got shape "
            f"{tuple(tokens.shape)}" + (f" with ids up to {int(tokens.max())}" if tokens.numel() else "")
        )


def is_valid(tokens: Int64[Tensor, "sequence token"], task: NumberTask | LetterTask) -> Bool[Tensor, "sequence token"]:
    """Return which tokens ask something that has one answer.

    In Number: letters, and integers that point at or behind the first token. In Letter: pairs with an integer, and
    pairs of letters whose right letter is the left one of exactly one earlier pair and not their own.
    """
    if isinstance(task, NumberTask):
        return (tokens < task.letters) | (find_index_targets(tokens, task) >= 0)
    left, right = split_letters(tokens, task)
    place = torch.arange(tokens.shape[1], device=tokens.device)
    times = ((left[:, None, :] == right[:, :, None]) & (place <= place[:, None])).sum(-1)
    return (right < 0) | ((times == 1) & (left != right))
