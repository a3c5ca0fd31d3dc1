"""The command ``profile``: from models and prompts to folders with tables, a page and the head explorer."""

from posym_profile.report._prompt_files import read_prompts

__all__ = ["read_prompts"]
