"""The commands ``profile`` and ``survey``: from models and prompts to folders with tables and a page."""

from posym_profile.report._folder import ProfileRun, load_profile
from posym_profile.report._prompt_files import join_prompts, read_prompts

__all__ = [
    "ProfileRun",
    "join_prompts",
    "load_profile",
    "read_prompts",
]
