"""The ledger's page: the papers' claims at a glance, and every row whole."""

from __future__ import annotations

from html import escape

from posym_companion.book import Table, fold
from posym_companion.catalogue import EXPERIMENTS
from posym_companion.claims import G26, GRADES, NAMES, U25, U26, Answer, Asked, Row
from posym_companion.claims.rows import read_rows
from posym_companion.experiments import SECOND, TAUGHT, load_experiment
from posym_companion.ledger.badges import count_grades, group_rows, make_badge
from posym_companion.results import list_results, load_result

SHORT = {U25: "U25", U26: "U26", G26: "G26"}  # so that the grades' meanings have room on a phone
# Claims of the first paper that this book asks of decoders that solve the task, by who asks.
ASKED_AGAIN = {"U25-2": "T-1", "U25-3": "T-2", "U25-6": "T-6", "U25-9": "T-4"}


class Text:
    """Markdown that a cell ends with."""

    def __init__(self, *parts: object) -> None:
        self.text = "\n\n".join(map(str, parts))

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return self.text


def show_counts() -> Table:
    """Return how many claims of each paper have which grade."""
    groups = group_rows(read_rows())
    means = '<span class="posym-wide">means</span>'
    table = Table("grade", *(SHORT.get(title, title) for title in groups), means, align="l" + "r" * len(groups) + "l")
    for grade, meaning in GRADES.items():
        table.add(f"**{grade}**", *(count_grades(rows).get(grade, "") for rows in groups.values()), meaning)
    return table


def show_at_a_glance(*, own: bool = False) -> Table:
    """Return every claim with its grade, and the same of random weights and other models where these were asked."""
    rows = {row.id: row for row in read_rows()}
    *papers, ours = group_rows(rows.values()).values()
    table = Table("claim", "beyond random weights", "SmolLM2", "Gemma, taught", "trained decoders", align="l")
    for row in ours if own else (row for group in papers for row in group):
        again = rows[ASKED_AGAIN[row.id]].grade if row.id in ASKED_AGAIN else "–"
        others = (row.answers[model].grade if model in row.answers else "–" for model in (SECOND, TAUGHT))
        table.add(f"{row.short}<br>{make_badge(row)}", count_beyond(next(iter(row.answers.values()))), *others, again)
    return table


def count_beyond(answer: Answer) -> str:
    """Return in how many cases a model is beyond random weights, where it stands beside them."""
    beside = [part for part in answer.parts if "random weights" in part.name and part.asks == "control"]
    return f"{sum(part.held for part in beside)} of {sum(part.told for part in beside)}" if beside else "–"


def show_rows(title: str) -> Text:
    """Return every row of a paper whole, each behind its line: sentence, number, parts, history and evidence."""
    return Text(*map(write_row, group_rows(read_rows())[title]))


def write_row(row: Row) -> str:
    """Return all of a row behind one line."""
    theorem, chapter = (name.partition("#")[0] for name in (row.proof, row.chapter))
    proof = f" The theorem is in [{name_chapter(theorem)}](../{theorem}.ipynb)." if theorem else ""
    parts = [
        f'<span id="claim-{row.id.lower()}"></span>\n\n> {row.quote}\n>\n> *{row.paper}*, {row.at}',
        f"{row.asks}{proof} Shown in [{name_chapter(chapter)}](../{chapter}.ipynb).",
        f"*The rule was fixed {row.fixed}.* {row.history}",
        *(write_answer(model, answer) for model, answer in row.answers.items()),
    ]
    line = f"<strong>{row.id}: {row.grade}.</strong> {row.short}"
    return fold(line, *parts).replace("<details>", '<details class="stay">', 1)


def name_chapter(path: str) -> str:
    """Return what a chapter's file is called, in words."""
    return path.rpartition("/")[2].replace("_", " ")


def write_answer(model: str, answer: Answer) -> str:
    """Return what one model says: its number, parts and evidence."""
    said = f"**{NAMES.get(model, model)}: {answer.grade}.** {answer.headline} {answer.why}".strip()
    table = Table("part", "asks", "holds in", "where not, or untold", align="l")
    for part in answer.parts:
        table.add(part.name, part.asks, f"{part.held} of {part.told}", write_missed(part))
    results = [f"`{name}` {digest}" for name, digest in answer.evidence.items()]
    stored = (
        fold(f"Evidence: {len(results)} stored results with their checksums", ", ".join(results)) if results else ""
    )
    return "\n\n".join(filter(None, (said, str(table) if answer.parts else "", stored)))


def write_missed(part: Asked, most: int = 4) -> str:
    """Return the first cases in which a part does not hold or cannot be told, and how many more."""
    cases = [f"{case}: {why}".strip(": ") for case, why in {**part.missed, **part.untold}.items()]
    more = [f"and {len(cases) - most} more"] if len(cases) > most else []
    return escape("; ".join([*cases[:most], *more]))


def show_experiments() -> Table:
    """Return every experiment with how many of its results are stored, and the hours that these took."""
    stored, found, table = list_results(), set(), Table("`run …`", "runs", "hours", form=".1f")
    for name, what in EXPERIMENTS.items():
        experiment = load_experiment(name)
        models = [(), (SECOND,), (TAUGHT,)] if experiment.takes_model else [()]
        own, *others = ([one.name for one in experiment.settings(*model)] for model in models)
        wanted = dict.fromkeys([*own, *(each for other in others for each in other if each in stored)])
        results = [load_result(each) for each in wanted if each in stored]
        found |= {result.name for result in results}
        hours = sum(result.provenance["seconds"] for result in results) / 3600
        table.add(f"**{name}**: {what}", f"{len(results)} of {len(wanted)}", hours)
    if unknown := sorted(set(stored) - found):
        raise ValueError(f"results of no experiment: {', '.join(unknown)}")
    return table
