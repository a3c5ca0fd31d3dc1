"""The table of ratios: stored whole or not at all, and quoted by the README as it is stored. Times are not tested."""

from __future__ import annotations

from pathlib import Path

from benchmarks import __main__ as benchmarks
from benchmarks import cards


def test_the_readme_quotes_three_rows_of_the_stored_table(root: Path) -> None:
    stored = benchmarks.STORED.read_text(encoding="utf-8").partition("\n\n")[2].splitlines()
    readme = (root / "README.md").read_text(encoding="utf-8")
    quoted = readme[readme.index("| measured | ratio |") :].partition("\n\n")[0].splitlines()
    assert quoted[:2] == stored[:2] == ["| measured | ratio |", "| --- | --- |"]
    assert len(quoted) == 5
    assert set(quoted) <= set(stored)


def test_pages_of_devices_are_what_their_data_say(root: Path) -> None:
    """No figure in a page is typed; and where the present code has met no card, its page says so."""
    folder = root / "benchmarks" / "devices"
    stored = cards.stored_cards(folder)
    assert {path.stem for path in folder.iterdir()} == {card.file for card in stored}
    outside = [card for card in stored if card.source]
    assert outside
    for card in stored:
        page = (folder / f"{card.file}.md").read_text(encoding="utf-8")
        assert page == card.page()
        assert (cards.NOT_MET in page) == bool(card.source)
        assert set(card.parts) <= set(benchmarks.PARTS)
    shown = cards.render_tables(stored)
    for card in stored:
        rows = [row for name, part in card.parts.items() if name in cards.ON_DEVICES for row in part.rows]
        assert all(f"| {what} | {result} |" in shown for what, result in rows)
        assert f"**{card.device}**, 20" in shown
    assert shown.count(cards.NOT_MET) == len(outside)
