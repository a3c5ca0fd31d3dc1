"""The ``profile`` command: from a model and prompts to a folder with tables and a page."""

from posym_core.report.prompt_files import joined, read_prompts

__all__ = [
    "joined",
    "read_prompts",
]
