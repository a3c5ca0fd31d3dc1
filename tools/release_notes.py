"""What ``CHANGELOG.md`` says of one version, as the notes of its release: ``python tools/release_notes.py 0.2.0``."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def notes(changelog: str, version: str) -> str:
    """The section of a version, without its heading.

    Raises:
        ValueError: if there is no such section, or nothing in it.

    >>> notes("# Changelog\\n\\n## 0.2.0\\n\\n* New.\\n\\n## 0.1.0\\n\\n* Old.\\n", "0.2.0")
    '* New.\\n'
    """
    sections = re.split(r"^## +(.+?) *\n", changelog, flags=re.MULTILINE)
    found = dict(zip(sections[1::2], sections[2::2], strict=True))
    if not (said := found.get(version, "").strip()):
        raise ValueError(
            f"CHANGELOG.md says nothing of {version!r}; put '## {version}' in place of 'Unreleased'. "
            f"It has {', '.join(found)}"
        )
    return f"{said}\n"


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", help="as it stands in pyproject.toml")
    try:
        print(notes((root / "CHANGELOG.md").read_text(encoding="utf-8"), parser.parse_args(arguments).version), end="")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
