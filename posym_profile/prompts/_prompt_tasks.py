"""Prompt tasks by name: functions that make prompts for language models."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from posym_core.metrics import BlockLayout
from posym_profile.prompts._binding import TEMPLATES, binding_prompts
from posym_profile.prompts._drafts import Prompts
from posym_profile.prompts._lists_and_text import index_prompts, induction_prompts, keyvalue_prompts, text_prompts

PROMPT_TASKS: dict[str, Callable[..., Prompts]] = {
    "binding": binding_prompts,
    **{f"binding-{template}": partial(binding_prompts, template=template) for template in TEMPLATES},
    "binding-with-lead": partial(binding_prompts, lead=8),
    "binding-varied": partial(binding_prompts, vary_frame=True),
    "index": index_prompts,
    "keyvalue": keyvalue_prompts,
    "induction": induction_prompts,
    "text": text_prompts,
}
"""Every task that language models can be asked, by name; another goes by ``module:function``."""


def find_prompt_task(name: str) -> Callable[..., Prompts]:
    """Return the function that makes a task's prompts: one of :data:`PROMPT_TASKS`, or ``module:function``.

    Raises:
        ValueError: if there is no such task or function.
    """
    if name in PROMPT_TASKS:
        return PROMPT_TASKS[name]
    module, _, function = name.partition(":")
    if not function:
        known = ", ".join(map(repr, PROMPT_TASKS))
        raise ValueError(f"task must be one of {known}, or module:function for one of your own; got {name!r}")
    # A script that is installed does not look into this folder, and python -m does.
    if not {"", os.getcwd()} & set(sys.path):
        sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, SyntaxError) as error:
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
    prompts = find_prompt_task(task)(tokenizer, facts=facts, count=count, seed=seed)
    if not isinstance(prompts, Prompts):
        raise ValueError(
            f"{task} must return posym_profile.prompts.Prompts; got {type(prompts).__name__}. Make them with "
            "posym_profile.prompts.draft_prompts, for example"
        )
    try:
        _require_fit(prompts, count, len(tokenizer))
    except ValueError as error:
        raise ValueError(f"prompts of the task {task!r} do not fit: {error}") from error
    return prompts


def _require_fit(prompts: Prompts, count: int, known: int) -> None:
    """Raise if prompts do not fit each other or a tokenizer that knows so many tokens."""
    tensors = prompts.input_ids, prompts.answer_ids, prompts.target
    if [(x.dtype, x.shape[:1], x.ndim) for x in tensors] != [(torch.int64, (count,), ndim) for ndim in (2, 2, 1)]:
        raise ValueError(f"input_ids, answer_ids and target must be int64, with {count} rows of 2, 2 and 1 dimensions")
    BlockLayout(**prompts.layout).fit(prompts.input_ids.shape[1])
    for what, numbers, stop in zip(
        ("input_ids", "answer_ids", "target"), tensors, (known, known, prompts.answer_ids.shape[1] or 1), strict=True
    ):
        if numbers.numel() and not 0 <= int(numbers.min()) <= int(numbers.max()) < stop:
            raise ValueError(
                f"{what} must lie between 0 and {stop - 1}; got {int(numbers.min())} to {int(numbers.max())}"
            )
