"""A figure that asks first: what it refuses, what it hides, and what it says to a guess by hand and by keyboard."""

import pytest
from in_browser import move

from posym_figures import Bars, Guess, Slider, slider_figure

TEXTS = ("they stay", "they swap", "both")
PICK = Guess("What happens?", "they swap", choices=TEXTS, because="Each took its height along.")
DRAG = Guess("Drag.", [2.0, 1.0], bars=("a", "b"), start=[1.0, 1.0], limits=(0, 4))


def asking(guess, **options):
    return slider_figure([Bars("B", ["x", "y"], [[1, 2], [3, 4]])], [Slider("s", "S", [1, 2])], caption="Seen so.",
                         alt="Two bars.", guess=guess, **options)  # fmt: skip


def test_without_scripts_and_on_paper_the_figure_is_there_at_once(browser, open_page, tmp_path) -> None:
    page = open_page([asking(PICK)], java_script_enabled=False)
    assert page.locator(".posym-panels").is_visible()
    assert not page.locator("form").is_visible()
    page = open_page([asking(PICK)])
    assert page.locator("form").is_visible()
    assert not page.locator(".posym-panels, figcaption").first.is_visible()
    page.emulate_media(media="print")
    assert page.locator(".posym-panels").is_visible()
    assert not page.locator("form").is_visible()


@pytest.mark.parametrize(("keys", "verdict"), [(0, "No: they swap."), (1, "Yes: they swap."), (2, "No: they swap.")])
def test_a_choice_by_keyboard_opens_the_figure_and_is_judged(open_page, keys: int, verdict: str) -> None:
    page = open_page([asking(PICK)])
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    for _ in range(keys):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("[role=status]").first.text_content() == f"{verdict} Each took its height along."
    assert page.evaluate("document.activeElement.getAttribute('role')") == "status"
    assert page.locator("figcaption").is_visible()
    assert page.locator("form button:visible").count() == 0
    assert page.locator("[data-right]").inner_text().strip() == "they swap"
    page.wait_for_function("document.querySelector('.posym-box svg').getAttribute('viewBox').split(' ')[2] > 400")


def test_dragged_bars_are_measured_against_the_right_heights(open_page) -> None:
    page = open_page([asking(DRAG)])
    first, second = page.locator("form input").all()
    assert first.get_attribute("aria-valuetext") == "1.00"
    move(first, 75)
    second.press("ArrowDown")
    assert [one.get_attribute("aria-valuetext") for one in (first, second)] == ["3.00", "0.96"]
    page.get_by_role("button", name="Compare").click()
    assert page.locator("[role=status]").first.text_content() == (
        "Your bars are 0.52 from the right heights on average. Left as they were, they would be 0.50 away."
    )
    assert page.locator(".posym-bar").all_inner_texts() == ["a\n2.00", "b\n1.00"]
