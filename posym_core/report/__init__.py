"""The commands ``profile`` and ``survey``: from models and prompts to folders with tables and a page."""

from posym_core.report.prompt_files import joined, read_prompts

__all__ = [
    "joined",
    "read_prompts",
]
