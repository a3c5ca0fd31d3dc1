"""Tasks: inputs with known answers, for language models and for toys."""

from posym_core.tasks.binding import TEMPLATES, BindingPrompts, Template, binding_prompts
from posym_core.tasks.canonical import IndexTask, PartialInductionTask, RetrievalTask, TaskBatch
from posym_core.tasks.facts import Ceilings, FactsBatch, FactsTask
from posym_core.tasks.hop_wording import HOP_TASKS, LENGTHS, hop_questions, hop_text
from posym_core.tasks.language import index_prompts, induction_prompts, keyvalue_prompts, text_prompts
from posym_core.tasks.multihop import LetterTask, NumberTask
from posym_core.tasks.multihop_programs import (
    index,
    index_targets,
    is_valid,
    letters_of,
    reflexive,
    retrieval,
    retrieval_targets,
    walk,
)
from posym_core.tasks.multihop_shortcuts import counting_accuracy, rerouted
from posym_core.tasks.prompts import Draft, Prompts, PromptTokens, balanced, draft_prompts, shuffled, single_words
from posym_core.tasks.registry import PROMPT_TASKS, PromptTask, make_prompts, prompt_task
from posym_core.tasks.sentences import DistanceTask
from posym_core.tasks.text import reference_text

__all__ = [
    "HOP_TASKS",
    "LENGTHS",
    "PROMPT_TASKS",
    "TEMPLATES",
    "BindingPrompts",
    "Ceilings",
    "DistanceTask",
    "Draft",
    "FactsBatch",
    "FactsTask",
    "IndexTask",
    "LetterTask",
    "NumberTask",
    "PartialInductionTask",
    "PromptTask",
    "PromptTokens",
    "Prompts",
    "RetrievalTask",
    "TaskBatch",
    "Template",
    "balanced",
    "binding_prompts",
    "counting_accuracy",
    "draft_prompts",
    "hop_questions",
    "hop_text",
    "index",
    "index_prompts",
    "index_targets",
    "induction_prompts",
    "is_valid",
    "keyvalue_prompts",
    "letters_of",
    "make_prompts",
    "prompt_task",
    "reference_text",
    "reflexive",
    "rerouted",
    "retrieval",
    "retrieval_targets",
    "shuffled",
    "single_words",
    "text_prompts",
    "walk",
]
