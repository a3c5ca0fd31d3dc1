"""The command ``profile``: from a model and prompts to a folder with tables, a page and the head explorer."""

from posym_profile.report._explored import explore
from posym_profile.report._folder import ProfileRun, load_profile
from posym_profile.report._prompt_files import join_prompts, read_prompts

__all__ = [
    "ProfileRun",
    "explore",
    "join_prompts",
    "load_profile",
    "read_prompts",
]
