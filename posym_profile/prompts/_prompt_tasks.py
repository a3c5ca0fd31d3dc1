"""Prompt tasks by name: functions that make prompts for language models."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from posym_profile.prompts._binding import SAYS, TEMPLATES, binding_prompts
from posym_profile.prompts._drafts import Prompts
from posym_profile.prompts._lists_and_text import index_prompts, induction_prompts, keyvalue_prompts, text_prompts


@dataclass(frozen=True)
class PromptTask:
    """One task.

    Attributes:
        make: makes its prompts, ``make(tokenizer, *, facts, count, seed=0)``.
        says: what a prompt consists of, in a few words for reports.
        options: further arguments of the function.
    """

    make: Callable[..., Prompts]
    says: str = ""
    options: dict[str, Any] = field(default_factory=dict)


PROMPT_TASKS: dict[str, PromptTask] = {
    "binding": PromptTask(binding_prompts, SAYS),
    **{f"binding-{template}": PromptTask(binding_prompts, SAYS, {"template": template}) for template in TEMPLATES},
    "binding-with-lead": PromptTask(binding_prompts, f"{SAYS}, behind eight more facts", {"lead": 8}),
    "binding-varied": PromptTask(binding_prompts, f"{SAYS}, each with a verb of its own", {"vary_frame": True}),
    "index": PromptTask(index_prompts, "a list of words, and a question about a place in it"),
    "keyvalue": PromptTask(keyvalue_prompts, "keys with values, and a question about one key"),
    "induction": PromptTask(induction_prompts, "a random sequence of words that begins again"),
    "text": PromptTask(text_prompts, "windows of English text, one token a block"),
}
"""Every task that language models can be asked, by name; another goes by ``module:function``."""


def find_prompt_task(name: str) -> Callable[..., Prompts]:
    """Return the function that makes a task's prompts: one of :data:`PROMPT_TASKS`, or ``module:function``.

    Raises:
        ValueError: if there is no such task or function.
    """
    if name in PROMPT_TASKS:
        return PROMPT_TASKS[name].make
    module, _, function = name.partition(":")
    if not function:
        known = ", ".join(map(repr, PROMPT_TASKS))
        raise ValueError(f"task must be one of {known}, or module:function for one of your own; got {name!r}")
    # A script that is installed does not look into this folder, and python -m does.
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"task {name!r} cannot be loaded: {error}. It must be module:function, of a module that Python finds or a "
            "file of this folder, without its ending"
        ) from error


def make_prompts(tokenizer: Any, task: str, *, facts: int, count: int, seed: int = 0) -> Prompts:
    """Make the prompts of a task by name, one of :data:`PROMPT_TASKS` or ``module:function``.

    Raises:
        ValueError: if there is no such task, or a function of one's own returns no :class:`Prompts`, or such as do not
            fit each other.
    """
    options = PROMPT_TASKS[task].options if task in PROMPT_TASKS else {}
    prompts = find_prompt_task(task)(tokenizer, facts=facts, count=count, seed=seed, **options)
    if not isinstance(prompts, Prompts):
        raise ValueError(
            f"{task} must return posym_profile.prompts.Prompts; got {type(prompts).__name__}. Make them with "
            "posym_profile.prompts.draft_prompts, for example"
        )
    _require_shapes(task, prompts, count)
    return prompts


def _require_shapes(task: str, prompts: Prompts, count: int) -> None:
    """Raise if the prompts that a task made do not fit each other, with the rule that is broken."""
    ids, answers, target = prompts.input_ids, prompts.answer_ids, prompts.target
    if {ids.dtype, answers.dtype, target.dtype} != {torch.int64} or (ids.ndim, answers.ndim, target.ndim) != (2, 2, 1):
        raise ValueError(f"input_ids and answer_ids of {task} must be int64 tensors of 2 dimensions, and target of 1")
    numbers = {what: len(getattr(prompts, what)) for what in ("input_ids", "answer_ids", "target")}
    if set(numbers.values()) != {count}:
        raise ValueError(f"{task} was asked for count={count} prompts and must return as many of each; got {numbers}")
    end = prompts.start + prompts.blocks * prompts.block_length
    if min(prompts.blocks - 1, prompts.block_length, prompts.start + 1) < 1 or end >= ids.shape[1]:
        raise ValueError(
            f"blocks of {task} must be at least 2, of 1 token or more each, and leave the last token to the query; got "
            f"blocks={prompts.blocks} of block_length={prompts.block_length} from start={prompts.start} in "
            f"{ids.shape[1]} tokens"
        )
    if answers.shape[1] and not (target.min() >= 0 and target.max() < answers.shape[1]):
        raise ValueError(
            f"target of {task} must be a place among a prompt's {answers.shape[1]} alternatives, from 0 on; got "
            f"{int(target.min())} to {int(target.max())}"
        )
