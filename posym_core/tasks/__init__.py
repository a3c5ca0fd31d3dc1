"""Tasks: inputs with known answers, for language models and for toys."""

from posym_core.tasks.binding import TEMPLATES, BindingPrompts, Choices, Template, binding_prompts, choice_accuracy
from posym_core.tasks.canonical import IndexTask, PartialInductionTask, RetrievalTask, TaskBatch

__all__ = [
    "TEMPLATES",
    "BindingPrompts",
    "Choices",
    "IndexTask",
    "PartialInductionTask",
    "RetrievalTask",
    "TaskBatch",
    "Template",
    "binding_prompts",
    "choice_accuracy",
]
