"""The commands ``profile``, ``survey`` and ``share``: from models and prompts to folders with tables and a page."""

from posym_core.report.explored import explore
from posym_core.report.folder import ProfileRun, load_profile
from posym_core.report.prompt_files import joined, read_prompts
from posym_core.report.sharing import share_profile

__all__ = [
    "ProfileRun",
    "explore",
    "joined",
    "load_profile",
    "read_prompts",
    "share_profile",
]
