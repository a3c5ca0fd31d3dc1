"""Prompt tasks by name: a function that makes prompts for language models registers itself.

:func:`register_prompt_task` does so for a function in a file of this room; the command line, surveys and reports then
know the task. Any other function goes by ``module:function``.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from posym_core._extensions import ExtensionError, Registry, locate
from posym_profile.prompts._drafts import Prompts

Make = TypeVar("Make", bound=Callable[..., Prompts])


@dataclass(frozen=True, kw_only=True)
class PromptTask:
    """One task.

    Attributes:
        make: makes its prompts, see :func:`register_prompt_task`.
        says: what a prompt consists of, in a few words for reports.
        place: in lists, smallest first; by default behind ours.
    """

    make: Callable[..., Prompts]
    says: str = ""
    place: float = math.inf

    def __call__(self, tokenizer: Any, *, facts: int, count: int, seed: int = 0) -> Prompts:
        """Make its prompts; refuse those whose shapes do not fit."""
        prompts = self.make(tokenizer, facts=facts, count=count, seed=seed)
        _require_shapes(self.make, prompts, count)
        return prompts


def register_prompt_task(
    name: str, says: str = "", *, place: float = math.inf, **options: Any
) -> Callable[[Make], Make]:
    """Register a function ``make(tokenizer, *, facts, count, seed=0)`` of
    :class:`~posym_profile.prompts.Prompts`.

    Args:
        name: of the task, for ``--task``.
        says: what a prompt consists of, in a few words for reports.
        place: in lists, smallest first; by default behind ours.
        options: further arguments of the function, fixed for this task.

    Raises:
        ExtensionError: if the name is taken, or the function cannot be called like that.
    """

    def register(make: Make) -> Make:
        fixed = functools.partial(make, **options) if options else make
        PROMPT_TASKS.register(name, PromptTask(make=fixed, says=says, place=place))
        return make

    return register


def make_prompts(tokenizer: Any, task: str, *, facts: int, count: int, seed: int = 0) -> Prompts:
    """Make the prompts of a task by name, one of :data:`PROMPT_TASKS` or ``module:function``."""
    return PROMPT_TASKS.find(task)(tokenizer, facts=facts, count=count, seed=seed)


def _read_task(name: str, given: Any) -> PromptTask:
    """Return a task, from itself or from the function that makes its prompts; refuse what is neither."""
    task = given if isinstance(given, PromptTask) else PromptTask(make=given)
    if not callable(task.make):
        raise ExtensionError(f"prompt task {name!r} must be a function that makes prompts; got {task.make!r}")
    signature = inspect.signature(task.make)
    try:
        signature.bind(None, facts=4, count=2, seed=0)
    except TypeError as error:
        raise ExtensionError(
            f"prompt task {name!r} is called as make(tokenizer, facts=4, count=2, seed=0), but it takes {signature}: "
            f"{error}; change its arguments"
        ) from None
    return task


def _require_shapes(make: Callable[..., Any], prompts: Any, count: int) -> None:
    """Refuse what a task returns in place of prompts, with the rule that it breaks."""
    name = locate(make)
    if not isinstance(prompts, Prompts):
        raise ExtensionError(
            f"{name} must return posym_profile.prompts.Prompts; got {type(prompts).__name__}. Make them with "
            "posym_profile.prompts.draft_prompts, for example"
        )
    ids, answers, target = prompts.input_ids, prompts.answer_ids, prompts.target
    for what, value, dimensions in (("input_ids", ids, 2), ("answer_ids", answers, 2), ("target", target, 1)):
        if not isinstance(value, Tensor) or value.dtype != torch.int64 or value.ndim != dimensions:
            kind = f"{value.dtype} {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"{what} of {name} must be an int64 tensor of {dimensions} dimensions; got {kind}")
    numbers = {what: len(getattr(prompts, what)) for what in ("input_ids", "answer_ids", "target", "texts")}
    if set(numbers.values()) != {count}:
        raise ValueError(f"{name} was asked for count={count} prompts and must return as many of each; got {numbers}")
    end = prompts.start + prompts.blocks * prompts.block_length
    if min(prompts.blocks - 1, prompts.block_length, prompts.start + 1) < 1 or end >= ids.shape[1]:
        raise ValueError(
            f"blocks of {name} must be at least 2, of 1 token or more each, and leave the last token to the query; got "
            f"blocks={prompts.blocks} of block_length={prompts.block_length} from start={prompts.start} in "
            f"{ids.shape[1]} tokens"
        )
    if answers.shape[1] and not (target.min() >= 0 and target.max() < answers.shape[1]):
        raise ValueError(
            f"target of {name} must be a place among a prompt's {answers.shape[1]} alternatives, from 0 on; got "
            f"{int(target.min())} to {int(target.max())}"
        )


PROMPT_TASKS: Registry[PromptTask] = Registry(
    "task",
    decorator="@register_prompt_task(name)",
    room="posym_profile.prompts.",
    keep=_read_task,
)
"""Every task that language models can be asked, by name: what makes its prompts."""
