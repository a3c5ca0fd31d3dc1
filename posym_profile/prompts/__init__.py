"""Prompts for language models, with blocks whose keys are exchanged and answers that are known."""

from posym_profile.prompts._binding import binding_prompts
from posym_profile.prompts._drafts import (
    Draft,
    OriginWarning,
    Prompts,
    PromptTokens,
    draft_prompts,
    draw_balanced,
    find_single_words,
    read_reference_text,
    shuffle,
)
from posym_profile.prompts._lists_and_text import index_prompts, induction_prompts, keyvalue_prompts, text_prompts
from posym_profile.prompts._prompt_tasks import PROMPT_TASKS, make_prompts

__all__ = [
    "PROMPT_TASKS",
    "Draft",
    "OriginWarning",
    "PromptTokens",
    "Prompts",
    "binding_prompts",
    "draft_prompts",
    "draw_balanced",
    "find_single_words",
    "index_prompts",
    "induction_prompts",
    "keyvalue_prompts",
    "make_prompts",
    "read_reference_text",
    "shuffle",
    "text_prompts",
]
