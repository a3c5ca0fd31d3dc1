"""What the package costs on a processor or a card, as ``python -m benchmarks --save`` kept it: a file a device.

``benchmarks/devices/<device>.json`` holds the rows of each part of the benchmark with the date, the commit, the
versions and the threads that they were measured with. The page beside it, ``<device>.md``, is rendered from it.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch

from posym_core.store import describe_device, write_atomically

Row = tuple[str, str]
NOT_MET = "The path that scores on a device today has not met a card."


@dataclass(frozen=True, kw_only=True)
class BenchmarkPart:
    """Rows of one part of the benchmark, and what they were measured with.

    Attributes:
        date: the day, as ``2026-11-23``.
        rows: what was measured, and what it gave.
        commit: the commit of the code; "" where it is not known.
        versions: of libraries, by name.
        threads: of the CPU; 0 where they are not known.
    """

    date: str
    rows: Sequence[Row]
    commit: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    threads: int = 0

    def said(self) -> str:
        """Date, commit, versions and threads in a line."""
        commit = [f"commit {self.commit}"] * bool(self.commit)
        threads = [f"{self.threads} thread{'s' * (self.threads != 1)}"] * bool(self.threads)
        return ", ".join([self.date, *commit, *(f"{name} {x}" for name, x in self.versions.items()), *threads])


@dataclass(frozen=True, kw_only=True)
class DeviceCard:
    """A processor or an accelerator, and what was measured on it.

    Attributes:
        device: its name.
        parts: what was measured, by the name of the part.
        driver: of an accelerator; "" for a processor.
        source: where the numbers come from, if not from a run of this repository's benchmark.
        tests: what pytest said of the tests marked ``gpu`` there.
    """

    device: str
    parts: Mapping[str, BenchmarkPart]
    driver: str = ""
    source: str = ""
    tests: str = ""

    @property
    def file(self) -> str:
        """Name of its files, without their endings."""
        return re.sub(r"[^a-z0-9]+", "-", self.device.lower()).strip("-")

    def page(self) -> str:
        """Its page as Markdown."""
        lines = [f"# {self.device}", ""]
        if self.source:
            lines += [f"{self.source}. {NOT_MET}", ""]
        lines += [f"Driver: {self.driver}.", ""] if self.driver else []
        lines += [f"Tests marked `gpu`: {self.tests}.", ""] if self.tests else []
        for name, part in self.parts.items():
            lines += [f"## {name}", "", part.said(), "", *_table(part.rows), ""]
        return "\n".join(lines)


def stored_cards(folder: Path) -> list[DeviceCard]:
    """Return every device that has a table, in the order of their files."""
    cards = []
    for file in sorted(folder.glob("*.json")):
        held = json.loads(file.read_text(encoding="utf-8"))
        parts = {
            name: BenchmarkPart(**part | {"rows": [tuple(row) for row in part["rows"]]})
            for name, part in held["parts"].items()
        }
        cards.append(DeviceCard(**held | {"parts": parts}))
    return cards


def store_parts(
    rows: Mapping[str, Sequence[Row]], device: torch.device, *, folder: Path, commit: str = "", tests: str = ""
) -> DeviceCard:
    """Put the rows of some parts, measured today, beside those that a device has, and render all pages again."""
    versions = {name: version(name) for name in ("torch", "transformers")}
    today, threads = datetime.now(UTC).date().isoformat(), torch.get_num_threads()
    new = {
        name: BenchmarkPart(date=today, rows=part, commit=commit, versions=versions, threads=threads)
        for name, part in rows.items()
    }
    cards = {card.file: card for card in stored_cards(folder)}
    card = DeviceCard(device=processor_or_card(device), parts=new, driver=_driver(device), tests=tests)
    before = cards.get(card.file)
    if before is not None:
        card = DeviceCard(**vars(card) | {"parts": {**before.parts, **new}, "tests": tests or before.tests})
    cards[card.file] = card
    write_cards(cards.values(), folder)
    return card


def write_cards(cards: Iterable[DeviceCard], folder: Path) -> None:
    """Write cards as data, and as pages rendered from them."""
    cards = list(cards)
    for card in cards:
        data = json.dumps(asdict(card), indent=1, ensure_ascii=False) + "\n"
        write_atomically(folder / f"{card.file}.json", data.encode())
        write_atomically(folder / f"{card.file}.md", card.page().encode())


def processor_or_card(device: torch.device) -> str:
    """The accelerator's name, or the processor's as the system tells it."""
    if device.type != "cpu":
        return describe_device(device)
    told = Path("/proc/cpuinfo")
    named = re.search(r"^model name\s*:\s*(.+)$", told.read_text(), re.MULTILINE) if told.is_file() else None
    return f"{named[1].strip() if named else platform.processor() or 'CPU'} ({platform.machine()})"


def _driver(device: torch.device) -> str:
    if device.type != "cuda" or (asked := shutil.which("nvidia-smi")) is None:
        return "" if device.type == "cpu" else "not known"
    query = [asked, "--query-gpu=driver_version", "--format=csv,noheader"]
    told = subprocess.run(query, capture_output=True, text=True, check=False).stdout.split()
    return told[0] if told else "not known"


def _table(rows: Iterable[Row]) -> list[str]:
    return ["| measured | result |", "| --- | --- |", *(f"| {what} | {result} |" for what, result in rows)]
