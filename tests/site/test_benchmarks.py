"""The tables of ratios, stored by device and part, and quoted by the README as stored. Times are not tested."""

from __future__ import annotations

import re
from pathlib import Path

from architectures import build

from benchmarks import __main__ as benchmarks
from benchmarks import cards, multihop, scores
from posym_companion.several_hops.multihop import MultihopSettings


def test_the_readme_quotes_three_rows_of_the_page_that_it_names(root: Path) -> None:
    (named,) = re.findall(r"\[(benchmarks/\S+\.md)\]", (root / "README.md").read_text(encoding="utf-8"))
    stored = (root / named).read_text(encoding="utf-8").splitlines()
    readme = (root / "README.md").read_text(encoding="utf-8")
    quoted = readme[readme.index("| measured | result |") :].partition("\n\n")[0].splitlines()
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


def test_rows_tell_time_memory_and_launches_of_a_profile_and_the_memory_of_a_training() -> None:
    again, first, launches = scores.scoring_against_forward_pass(build("Llama"), lengths=(26,))
    assert again.startswith("| forward pass with all scores against without, 26 tokens, 6 blocks of 4 | ")
    assert "first call, which finds planes, 26 tokens" in first
    many, few = (int(number.replace(",", "")) for number in re.findall(r"[\d,]+(?= \(without|\) \|)", launches))
    assert launches.startswith("| operations of a forward pass with all scores")
    assert many > few > 100
    (labels,) = scores.labels_against_forward_pass(build("Llama"), length=26)
    assert labels.startswith("| labels of all heads against a forward pass, 26 tokens | ")
    steps, _ = multihop.training_rows(MultihopSettings.small(), "small", steps=1)
    assert re.fullmatch(r"\| training, small \| [\d.]+ steps a second, \d+ MB at the peak \|", steps)
