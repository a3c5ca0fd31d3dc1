"""Prompt tasks by name: functions that make prompts for language models."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

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
    """Return the prompts of a task by name, one of :data:`PROMPT_TASKS` or ``module:function``.

    Raises:
        ValueError: if there is no such task, or a function of one's own returns no :class:`Prompts`.
    """
    prompts = find_prompt_task(task)(tokenizer, facts=facts, count=count, seed=seed)
    if not isinstance(prompts, Prompts):
        raise ValueError(
            f"{task} must return posym_profile.prompts.Prompts; got {type(prompts).__name__}. Make them with "
            "posym_profile.prompts.draft_prompts, for example"
        )
    return prompts
