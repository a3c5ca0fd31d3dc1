"""Writes the table of supported models from the sweep over every causal decoder of transformers, in some minutes.

The table keeps, for each kind, the version of transformers that it was first found in; run this once more when the
locked version changes. Tests hold the table to what the sweep finds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import transformers

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from every_decoder import KINDS, NOT_BUILT, outcome, untried  # noqa: E402

from posym_profile.scores._supported import TABLE  # noqa: E402


def rows(since: dict[str, str]) -> list[dict[str, str]]:
    """A row a kind, as it is found now."""
    found = []
    for kind in KINDS:
        if kind in NOT_BUILT:
            row = untried(kind)
        else:
            tried = outcome(kind)
            tried.check()
            row = tried.row()
        found.append({**row, "since": since.get(kind, transformers.__version__)})
        print(f"{kind}: {row['verdict']}", file=sys.stderr, flush=True)
    return sorted(found, key=lambda row: row["kind"])


def main() -> None:
    """Write the table anew."""
    before = json.loads(TABLE.read_text("utf-8"))["decoders"] if TABLE.exists() else []
    write(rows({row["kind"]: row["since"] for row in before}))


def write(decoders: list[dict[str, str]]) -> None:
    """The table, a row a line."""
    lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in decoders)
    TABLE.write_text(f'{{\n "transformers": "{transformers.__version__}",\n "decoders": [\n{lines}\n ]\n}}\n', "utf-8")


if __name__ == "__main__":
    main()
