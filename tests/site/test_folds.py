"""Folds under figures, on small pages: which code and which results end in which fold."""

from __future__ import annotations

import re

import folds
import pytest


def code(source: str) -> str:
    return f'<div class="cell_input docutils container">\n<div class="highlight"><pre>{source}</pre></div>\n</div>'


def shown(what: str) -> str:
    return f'<div class="cell_output docutils container">\n{what}\n</div>'


def cell(inside: str, tags: str = "") -> str:
    return f'<div class="cell {tags}docutils container">{inside}\n</div>\n'


def barred(source: str, output: str = "", title: str = "Show code cell source", whole: bool = False) -> str:
    """A cell as Sphinx writes it when its code is hidden, or the whole of it."""
    summary = (
        f'<summary aria-label="Toggle">\n<p class="collapsed admonition-title">{title}</p>\n<p>Hide</p>\n</summary>'
    )
    inside = code(source) + ("\n" + shown(output) if whole and output else "")
    after = "\n" + shown(output) if output and not whole else ""
    fold = f'\n<details class="admonition hide above-input">\n{summary}\n{inside}\n</details>{after}'
    return cell(fold, "tag_hide-cell " if whole else "tag_hide-input ")


def aside(source: str, output: str = "", title: str = "Show code cell content") -> str:
    """A cell as Sphinx writes it when the whole of it is hidden."""
    return barred(source, output, title, whole=True)


def parts(page: str) -> list[str]:
    """What a reader sees in order: titles of folds with their code or list, texts, and what cells show."""
    page = folds.fold_cells(page)
    assert "above-input" not in page
    assert len(re.findall("<div", page)) == len(re.findall("</div>", page))
    marked = re.sub(r"<details.*?<summary>(.*?)</summary>(.*?)</details>", r"[\1: \2]", page, flags=re.DOTALL)
    return [" ".join(line.split()) for line in re.sub(r"<[^>]+>", "", marked).split("\n\n") if line.strip()]


def seen(page: str) -> str:
    return " ".join(" ".join(parts(page)).split())


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (barred("a = 1", "<img/>"), "[Code of this figure: a = 1 ]"),
        (barred("a = 1", '<figure class="posym-figure">F</figure>'), "F [Code of this figure: a = 1 ]"),
        (barred("a = 1", "<table>T</table>"), "T [Code of this table: a = 1 ]"),
        (barred("a = 1", "one"), "one [Code of these numbers: a = 1 ]"),
        # Adjacent cells share a fold, and what shows nothing joins the next that does, across text.
        (barred("a = 1", "<img/>") + barred("b = 2", "<img/>T"), "T [Code of these figures: a = 1 b = 2 ]"),
        (barred("a = 1") + "<p>Text.</p>" + barred("b", "B"), "Text. B [Code of these numbers: a = 1 b ]"),
        (
            barred("b", "B") + "<p>Text.</p>" + barred("c = 1") + "End.",
            "B [Code of these numbers: b ] Text. [Code: c = 1 ] End.",
        ),
        # Code that is meant to be seen stays, unless it is nothing but imports and a fold follows.
        (cell(code("import a") + shown("")) + barred("b", "B"), "import a B [Code of these numbers: b ]"),
        (cell(code("import a")) + barred("b", "B"), "B [Code of these numbers: import a b ]"),
        (
            barred("import a") + cell(code("b = 1")) + "Text." + barred("c", "C"),
            "b = 1 Text. C [Code of these numbers: import a c ]",
        ),
        (cell(code("import a\nb = a.c")) + barred("d", "D"), "import a b = a.c D [Code of these numbers: d ]"),
        (barred("b", "B") + cell(code("import a")), "B import a [Code of these numbers: b ]"),
        # A cell that is hidden whole stays with its text, under the title that it or the next one gives itself.
        (aside("a", "A", "Sensitivity") + "End.", "[Sensitivity: a A ] End."),
        (aside("a", "A") + "End.", "[Code of these numbers: a A ] End."),
        (
            aside("a", "Result x/y: posym_core 1 (code 0a), CPU, sha256 0123456789ab") + "End.",
            "[Where these numbers come from: a Result x/y: posym_core 1 (code 0a), CPU, sha256 0123456789ab ] End.",
        ),
        (aside("a") + "Text." + barred("b", "B"), "[Code: a ] Text. B [Code of these numbers: b ]"),
        (aside("a") + aside("b", "B", "Runs") + aside("c"), "[Runs: a b B ] [Code: c ]"),
        (barred("a", "A") + aside("b", "B", "Runs"), "A [Code of these numbers: a ] [Runs: b B ]"),
        (
            barred("a = 1") + aside("b", "B", "Runs") + "Text." + barred("c", "C"),
            "[Runs: b B ] Text. C [Code of these numbers: a = 1 c ]",
        ),
    ],
)
def test_cells_between_two_texts_share_a_fold(page: str, expected: str) -> None:
    assert seen(page) == expected


def boxed(kind: str, text: str) -> str:
    return f'<div class="{kind}admonition">\n<p class="admonition-title">Title</p><p>{text}</p>\n</div>'


def section(heading: str, *inside: str) -> str:
    return (
        f'<section id="{heading.lower()}">\n<span id="label"></span><h2>{heading}</h2>\n{"".join(inside)}</section>\n'
    )


def test_a_section_has_one_fold_at_its_end_with_all_its_folds_as_parts() -> None:
    theorem = '<div class="proof theorem admonition"><span class="caption-number">Theorem 2 </span><p>So.</p></div>'
    plots = [folds.make_fold("Code of this figure", text) for text in "ab"]
    nested = "<details><summary>Outer</summary>\n<p>c</p><details><summary>Inner</summary>d</details></details>"
    sources = folds.make_fold(folds.SOURCES, "<ul><li>e</li></ul>")
    first = section(
        "One", sources, theorem, boxed("proof dropdown ", "Proof. By f."), plots[0], "<p>Text.</p>", plots[1]
    )
    note = boxed("dropdown note ", f"g {boxed('proof dropdown ', 'h')}")
    second = section("Two", note, nested, sources, "<p>End.</p>", sources)
    page = folds.merge_folds(f"<nav>{plots[0]}</nav><article><section>\n<p>Top.</p>{first}{second}</section></article>")
    assert page.startswith(f"<nav>{plots[0]}</nav>")
    assert page.count("<section") == page.count("</section>")
    assert page.count("<details") == page.count("</details>") == 3
    assert "dropdown" not in page
    texts = re.sub(r"<[^>]+>", " ", page.partition("<article>")[2]).split()
    assert " ".join(texts) == (
        "Top. One Theorem 2 So. Text. Proofs and code Proof of Theorem 2 Title Proof. By f. Code of figure 1 a "
        "Code of figure 2 b Where these numbers come from e Two End. Proofs and code Title g Title h Outer c Inner d "
        "Where these numbers come from e e"
    )
    assert re.search(r"</details>\s*</section>\s*<section", page)
