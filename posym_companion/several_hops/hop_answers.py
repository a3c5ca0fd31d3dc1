"""How a language model answers questions of Number and Letter, whose answers are words of any number of tokens."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from posym_companion.several_hops.hop_questions import HopQuestion
from posym_core._checks import require_evaluation
from posym_profile.language_models import Choices, compute_last_logits

# Beginnings of candidates in one forward pass; each of them holds a copy of what the model keeps of the prompt.
BEGINNINGS = 8
# Tokens that a model may say beyond the longest candidate before it must have ended the line.
GRACE = 2


@dataclass(frozen=True, kw_only=True)
class HopAnswers(Choices):
    """Answers of a model to questions.

    Attributes:
        exact: whether greedy decoding says the answer, and nothing else in that line.
        chosen: the most probable candidate, by its place among them.
    """

    exact: Bool[Tensor, " question"]
    chosen: Int64[Tensor, " question"]


def answer_questions(
    model: Any, tokenizer: Any, questions: Sequence[HopQuestion], texts: Sequence[str], *, chat: bool = False
) -> HopAnswers:
    """Let a model answer, one question at a time: greedily, and by choice among each question's candidates.

    A candidate's probability is the product over its tokens. Where the tokens of one candidate begin another's, all are
    taken with the end of the line, so that a short one is not favoured.
    """
    require_evaluation(model)
    if not questions or len(questions) != len(texts):
        raise ValueError(f"every question needs its text and there must be one; got {len(questions)} and {len(texts)}")
    if chat and not getattr(tokenizer, "chat_template", None):
        raise ValueError("this tokenizer has no chat template; pass chat=False or the tokenizer of a chat model")
    prompts = [_prompt_tokens(tokenizer, text, chat) for text in texts]
    exact, log_probabilities = [], []
    with torch.no_grad():
        # Instruction and examples are the same for all and are read once; every prompt keeps a token of its own.
        shared = min(_common(prompts), *(len(prompt) - 1 for prompt in prompts))
        opening = compute_last_logits(model, torch.tensor([prompts[0][:shared]]), None)[1] if shared else None
        for question, text, prompt in zip(questions, texts, prompts, strict=True):
            candidates = encode_candidates(tokenizer, question.candidates, text, chat)
            logits, cache = compute_last_logits(model, torch.tensor([prompt[shared:]]), copy.deepcopy(opening))
            log_probabilities.append(_choose(model, candidates, logits, cache))
            longest = max(map(len, candidates)) + GRACE
            exact.append(_says(model, tokenizer, question.answer, logits, cache, longest))
    chosen = [(x - x.logsumexp(0), question.target) for x, question in zip(log_probabilities, questions, strict=True)]
    return HopAnswers(
        exact=torch.tensor(exact),
        correct=torch.tensor([bool((x[target] > _without(x, target)).all()) for x, target in chosen]),
        chosen=torch.stack([x.argmax() for x, _ in chosen]),
        log_probability=torch.stack([x[target] for x, target in chosen]),
        alternatives=torch.tensor([len(question.candidates) for question in questions]),
    )


def encode_candidates(tokenizer: Any, candidates: Sequence[str], text: str, chat: bool = False) -> list[list[int]]:
    """Return tokens of each candidate behind the text; with the end of the line where one of them begins another."""
    # Behind a text an answer follows a space; a chat model's turn starts with it.
    before, gap = ("", "") if chat else (text.splitlines()[-1], " ")
    opening = tokenizer(before, add_special_tokens=False)["input_ids"] if before else []
    for end in ("", "\n"):
        whole = [tokenizer(before + gap + word + end, add_special_tokens=False)["input_ids"] for word in candidates]
        if any(ids[: len(opening)] != opening or len(ids) == len(opening) for ids in whole):
            raise ValueError(
                f"the text's end {before!r} must be the same tokens with and without an answer behind it, but this "
                "tokenizer joins them; pass chat=True or another tokenizer"
            )
        tokens = [ids[len(opening) :] for ids in whole]
        if not any(a is not b and b[: len(a)] == a for a in tokens for b in tokens):
            return tokens
    raise ValueError(f"the tokens of one candidate begin another's, even with the end of the line: {list(candidates)}")


def _prompt_tokens(tokenizer: Any, text: str, chat: bool) -> list[int]:
    if chat:
        message = [{"role": "user", "content": text}]
        rendered = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
        return tokenizer(rendered, add_special_tokens=False)["input_ids"]
    mark = getattr(tokenizer, "bos_token_id", None)
    return ([] if mark is None else [mark]) + tokenizer(text, add_special_tokens=False)["input_ids"]


def _choose(model: Any, candidates: list[list[int]], logits: Tensor, cache: Any) -> Float[Tensor, " candidate"]:
    """Return log-probability of each candidate behind the prompt whose last logits and cache are given."""
    after: dict[tuple[int, ...], Tensor] = {(): logits[0, -1].double().log_softmax(-1)}
    # One pass over a beginning gives the next token's probabilities behind each of its own beginnings as well.
    needed = {tuple(ids[:-1]) for ids in candidates} - {()}
    needed = sorted(a for a in needed if not any(a != b and b[: len(a)] == a for b in needed))
    for start in range(0, len(needed), BEGINNINGS):
        rows = needed[start : start + BEGINNINGS]
        width = max(map(len, rows))
        # What fills short rows comes after all that is read.
        ids = torch.tensor([[*row, *([row[-1]] * (width - len(row)))] for row in rows])
        grown = copy.deepcopy(cache)
        grown.batch_repeat_interleave(len(rows))
        chosen, _ = compute_last_logits(model, ids, grown, width)
        for row, of_row in zip(rows, chosen.double().log_softmax(-1), strict=True):
            after |= {row[: place + 1]: of_row[place] for place in range(len(row))}

    def whole(ids: list[int]) -> Tensor:
        return torch.stack([after[tuple(ids[:place])][token] for place, token in enumerate(ids)]).sum()

    return torch.stack([whole(ids) for ids in candidates]).cpu()


def _says(model: Any, tokenizer: Any, answer: str, logits: Tensor, cache: Any, longest: int) -> bool:
    """Return whether the first line of greedy decoding is the answer; decoding stops where it departs from it."""
    generation = getattr(model, "generation_config", None)
    stops = None if generation is None else generation.eos_token_id
    stops = set(stops) if isinstance(stops, (list, tuple)) else {stops}
    generated: list[int] = []
    for _ in range(longest):
        token = int(logits[0, -1].argmax())
        text = tokenizer.decode(generated).strip()
        if token in stops:
            return text == answer
        generated.append(token)
        text = tokenizer.decode(generated).lstrip()
        if "\n" in text:
            return text.split("\n")[0].strip() == answer
        if not answer.startswith(text.rstrip()):
            return False
        logits, cache = compute_last_logits(model, torch.tensor([[token]]), cache)
    return False


def _common(rows: list[list[int]]) -> int:
    """Return how many tokens all rows begin with."""
    return next(
        (place for place, tokens in enumerate(zip(*rows, strict=False)) if len(set(tokens)) > 1), min(map(len, rows))
    )


def _without(x: Tensor, place: int) -> Tensor:
    return torch.cat([x[:place], x[place + 1 :]])
