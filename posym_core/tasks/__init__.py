"""Tasks: inputs with known answers, for language models and for toys."""

from posym_core.tasks.binding import TEMPLATES, BindingPrompts, Template, binding_prompts
from posym_core.tasks.canonical import IndexTask, PartialInductionTask, RetrievalTask, TaskBatch
from posym_core.tasks.language import (
    PROMPT_TASKS,
    index_prompts,
    induction_prompts,
    keyvalue_prompts,
    make_prompts,
    text_prompts,
)
from posym_core.tasks.prompts import Choices, Prompts, choice_accuracy
from posym_core.tasks.text import reference_text

__all__ = [
    "PROMPT_TASKS",
    "TEMPLATES",
    "BindingPrompts",
    "Choices",
    "IndexTask",
    "PartialInductionTask",
    "Prompts",
    "RetrievalTask",
    "TaskBatch",
    "Template",
    "binding_prompts",
    "choice_accuracy",
    "index_prompts",
    "induction_prompts",
    "keyvalue_prompts",
    "make_prompts",
    "reference_text",
    "text_prompts",
]
