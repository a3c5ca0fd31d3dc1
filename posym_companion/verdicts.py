"""What a row of the ledger is: a claim, what was measured for it, and the rule that makes a verdict of it.

A claim's ``measure`` reads stored results, or computes what needs none; its :class:`Rule` is a pure function of a few
of the numbers. No verdict is written down anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from posym_core.metrics import Estimate

Verdict = Literal[
    "reproduced",
    "reproduced in kind",
    "in kind, one family of two",
    "partly",
    "not reproduced",
    "refuted as stated",
    "not testable",
    "not run here",
]
Kind = Literal["theorem or construction", "measurement"]
Fixed = Literal["before the run", "after a first look", "not auditable"]
Remedy = Literal["none", "lead"]
# Lists of one sentence frame let a model count its sentences, and a swap of keys moves the count with the words. Other
# prompts on which a claim's rule can be asked once more, in words that go on from *the same rule*.
REMEDIES: Mapping[Remedy, str] = {"none": "on fewer such prompts", "lead": "behind eight facts of the same frame"}
VERDICTS: Mapping[Verdict, str] = {
    "reproduced": "the claim as stated, on the paper's own kind of model, meets the rule",
    "reproduced in kind": "the claim as stated meets the same rule on another model or at another scale",
    "in kind, one family of two": "the claim as stated meets the same rule in one of the two pretrained families that "
    "it was asked of, and not in the other; the row says in which",
    "partly": "some of the claim's parts or cases meet the rule and others do not, or cannot be tested; the row says "
    "which",
    "not reproduced": "run, and every part of the rule that can be tested is missed",
    "refuted as stated": "a counter-example or a proof against the statement as the paper words it; the row gives it "
    "and the nearest true statement",
    "not testable": "no line of the rule can fail on these data, or the model is at chance, so that the claim cannot "
    "be judged",
    "not run here": "no run; the row gives the command that fills it",
}
# The verdict in a sentence of which the claim is the subject.
SAID: Mapping[Verdict, str] = {
    "reproduced": "It holds as stated.",
    "reproduced in kind": "It holds as stated, on a model or at a scale other than the paper's.",
    "in kind, one family of two": "It holds as stated in one of two families of language models.",
    "partly": "It holds in part.",
    "not reproduced": "No part of it holds here.",
    "refuted as stated": "As the paper words it, it is wrong.",
    "not testable": "It cannot be judged on what was run.",
    "not run here": "It was not run here.",
}
# Verdicts that decide nothing.
UNDECIDED: tuple[Verdict, ...] = ("not testable", "not run here")
# So many cases are listed in which a line of a rule does not hold; how many more there are is a number.
LISTED = 8


@dataclass(frozen=True)
class Cases:
    """How many of some cases (settings, heads, inputs) are as claimed."""

    held: int
    of: int

    def __str__(self) -> str:
        return f"{self.held} of {self.of}"


def count_cases(held: Iterable[Any]) -> Cases:
    """How many hold, of those that are there."""
    each = [bool(x) for x in held]
    return Cases(sum(each), len(each))


def combine_families(first: Verdict, other: Verdict) -> Verdict:
    """What a claim comes to in two families; what cannot be judged or was not run in the second leaves the first's."""
    if first == "not run here":
        return first
    verdict = combine_columns((first, other))
    return "in kind, one family of two" if verdict == "partly" and "reproduced in kind" in (first, other) else verdict


def combine_columns(verdicts: Iterable[Verdict]) -> Verdict:
    """What a claim comes to in several sets of models: what all agree on that can be judged, and else *partly*."""
    every = list(verdicts)
    judged: list[Verdict] = [one for one in every if one not in UNDECIDED] or every[:1]
    return judged[0] if len(set(judged)) == 1 else "partly"


@dataclass(frozen=True, kw_only=True)
class SeedRange(Estimate):
    """A mean over seeds with the least and the largest of them; a line counts the seeds that lie beyond it."""

    seeds: tuple[float, ...] = ()


def seed_range(values: Iterable[float]) -> SeedRange:
    """Mean, least and largest of one number a seed, one at least; all NaN if one is."""
    each = tuple(float(x) for x in values)
    mean = sum(each) / len(each)
    low, high = (mean, mean) if math.isnan(mean) else (min(each), max(each))
    method = f"mean, least and largest of {len(each)} seeds"
    return SeedRange(value=mean, low=low, high=high, method=method, seeds=each)


Number = float | int | str | Estimate | Cases


class Numbers(dict[str, Number]):
    """Numbers by name, and in ``cases`` those of cases by quantity and case, too, for lines that ask each case."""

    def __init__(self) -> None:
        super().__init__()
        self.cases: dict[str, dict[str, Number]] = {}

    def add(self, quantity: str, where: str, value: Number | None) -> None:
        """Add a quantity of one case, or of all together where no case is named; of two values one would be lost.

        With None the case does not have it and is not asked for it; the quantity is known, also if no case has it.
        """
        if value is None:
            self.cases.setdefault(quantity, {})
            return
        name = f"{quantity} ({where})" if where else quantity
        if name in self:
            raise ValueError(f"a judge yields each quantity of a case once; {name} came twice")
        self[name] = value
        if where:
            self.cases.setdefault(quantity, {})[where] = value


def format_number(value: Number) -> str:
    """A number to three significant digits, an estimate with its interval."""
    if isinstance(value, Estimate):
        return f"{value.value:.3g} [{value.low:.3g}, {value.high:.3g}]"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, kw_only=True)
class Line:
    """What a rule asks of one number: that its whole interval lies beyond a line, or that all of its cases hold.

    Attributes:
        part: the part of the claim that stands or falls with it, in words.
        of: name of the number.
        unit: what is counted where the number is :class:`Cases` or a :class:`SeedRange`, in the plural.
        above, below: the line beyond which it must lie. Without either the number is :class:`Cases`.
        mean: a line on the same side beyond which an estimate must lie without its interval, too.
        refutes: whether a miss is a counter-example to the claim as it is worded.
        testable: what must hold for this line to be able to fail and to hold; always, if None. A line that counts
            cases needs one at least.
        control: whether it is asked to rule something else out, and says nothing for the claim by itself.
        together: whether its cases stand or fall together, as in a claim to be beyond one thing *and* another.
        each: what is asked of each case instead, of one or more quantities; then ``of`` names how many cases hold.
        among: what a case must meet to be asked at all.
        where: words that the name of a case must have to be asked, as both have them between commas.
    """

    part: str
    of: str
    unit: str = "cases"
    above: float | None = None
    below: float | None = None
    mean: float | None = None
    refutes: bool = False
    testable: Line | None = None
    control: bool = False
    together: bool = False
    each: tuple[Line, ...] = ()
    among: tuple[Line, ...] = ()
    where: str = ""

    @property
    def counts(self) -> bool:
        """Whether cases are counted."""
        return self.above is None and self.below is None

    @property
    def asked(self) -> str:
        """What is asked of a number that is no count."""
        return f"less than {self.below:.3g}" if self.above is None else f"more than {self.above:.3g}"

    def read(self, numbers: Mapping[str, Any]) -> Any:
        """Return the number that is asked; of cases that are asked one by one, how many hold."""
        return count_cases(self.judge_cases(numbers).values()) if self.each else numbers[self.of]

    def judge_cases(self, numbers: Any) -> dict[str, bool]:
        """Return whether each case holds, of those that have all quantities and are asked.

        A quantity that no case has raises ValueError: a name that is written otherwise would never be missed.
        """
        asked = (*self.among, *self.each)
        if unknown := [line.of for line in asked if line.of not in numbers.cases]:
            raise ValueError(
                f"{self.part!r} asks cases of {', '.join(unknown)}; quantities of cases are {', '.join(numbers.cases)}"
            )
        words = set(filter(None, self.where.split(", ")))
        cases = [
            where
            for where in numbers.cases[self.each[0].of]
            if words <= set(where.split(", ")) and all(where in numbers.cases[line.of] for line in asked)
        ]
        able = [where for where in cases if all(line.holds(numbers.cases[line.of][where]) for line in self.among)]
        return {where: all(line.holds(numbers.cases[line.of][where]) for line in self.each) for where in able}

    def describe_missed(self, numbers: Any) -> list[str]:
        """Return the first single cases that do not hold, each with its numbers, and how many more do not."""
        missed: list[str] = []
        for where, holds in self.judge_cases(numbers).items() if self.each else ():
            values = {line: numbers.cases[line.of][where] for line in self.each}
            short = [f"{line.of} {format_number(x)}" for line, x in values.items() if not line.holds(x)]
            missed += [] if holds else [f"{where}: {', '.join(short)}"]
        more = len(missed) - LISTED
        return missed if more < 1 else [*missed[:LISTED], f"and {more} more ({self.part})"]

    def counted(self, numbers: Mapping[str, Any]) -> str:
        """How many of what are as asked; empty where nothing is counted."""
        value = self.read(numbers)
        if isinstance(value, SeedRange):
            value = count_cases(map(self._beyond, value.seeds))
        return f"{value} {self.unit}" if isinstance(value, Cases) else ""

    def can_tell(self, numbers: Mapping[str, Any]) -> bool:
        """Whether the line can be tested on these numbers."""
        value = self.read(numbers)
        countable = not isinstance(value, Cases) or value.of > 0
        return countable and (self.testable is None or self.testable.kept(numbers) == 1)

    def kept(self, numbers: Mapping[str, Any]) -> float:
        """1 if the number is as asked, 0 if not, the share of its cases if they are counted; NaN if it cannot be told.

        A number that is undefined (a text that says why, NaN) is not as asked. Of cases that stand or fall together
        some are none.
        """
        if not self.can_tell(numbers):
            return float("nan")
        share = self._share(self.read(numbers))
        return float(share == 1) if self.together else share

    def holds(self, value: Number) -> bool:
        """Return whether a number is as asked, with its whole interval; without a threshold, whether it is true."""
        return bool(value) if self.counts and isinstance(value, bool | np.bool_) else self._share(value) == 1

    def _share(self, value: Number) -> float:
        if isinstance(value, Cases):
            return value.held / value.of
        if isinstance(value, str):
            return 0.0
        if isinstance(value, SeedRange):
            return sum(map(self._beyond, value.seeds)) / len(value.seeds)
        ends = (value.low, value.high) if isinstance(value, Estimate) else (value,)
        as_asked = [self._beyond(end) for end in ends]
        if self.mean is not None:
            sign = 1 if self.above is not None else -1
            as_asked.append(sign * (value.value if isinstance(value, Estimate) else value) > sign * self.mean)
        return float(all(as_asked))

    def _beyond(self, number: float) -> bool:
        return (self.above is None or number > self.above) and (self.below is None or number < self.below)


@dataclass(frozen=True, kw_only=True)
class LineAnswer:
    """What one line of a rule gives: ``held`` is None where it cannot be told, ``counted`` says how many cases hold."""

    part: str
    held: bool | None
    counted: str = ""
    control: bool = False

    @property
    def outcome(self) -> str:
        """``yes``, ``no``, how many of which cases hold, or ``not testable``."""
        return "not testable" if self.held is None else self.counted or ("yes" if self.held else "no")

    def __str__(self) -> str:
        told = f" ({self.counted})" if self.counted else ""
        return f"{self.part}{', a control' if self.control else ''}{told}"


def grade(verdict: Verdict, answers: Iterable[LineAnswer]) -> str:
    """The verdict; after *partly* in how many lines of how many the claim holds, and how many controls are missed.

    >>> grade("partly", [LineAnswer(part="a", held=True), LineAnswer(part="b", held=False)])
    'partly, 1 of 2'
    """
    if verdict != "partly":
        return verdict
    each = list(answers)
    missed = sum(one.held is False for one in each if one.control)
    controls = f", {missed} control{'s' * (missed > 1)} missed" if missed else ""
    return f"{verdict}, {count_cases(one.held for one in each if not one.control)}{controls}"


def find_deciding_line(answers: Sequence[LineAnswer]) -> LineAnswer | None:
    """Of lines that keep a claim from holding whole the first: one that is missed, a control that is, one untested."""
    rank = {False: 0, None: 2}
    short = [one for one in answers if not one.held]
    return min(short, key=lambda one: rank[one.held] + one.control, default=None)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """From numbers to a verdict.

    Attributes:
        says: the rule, in a sentence that a reader can check.
        lines: what is asked. All kept is ``whole``, all missed *not reproduced*, anything between *partly*; a missed
            line that refutes is *refuted as stated*. A line that cannot be tested is neither kept nor missed: with one
            such line nothing is ``whole``, and without any other the claim is *not testable*. A control that is
            missed keeps a claim from being ``whole``, and one that is kept does not make it *partly*.
        whole: *reproduced* on the paper's own kind of model, *reproduced in kind* on another.
        able: what must hold for the model to be able to tell; else *not testable*.
    """

    says: str
    lines: tuple[Line, ...]
    whole: Verdict = "reproduced"
    able: tuple[Line, ...] = ()

    @property
    def universal(self) -> bool:
        """Whether one counter-example refutes the claim, as it does a theorem."""
        return any(line.refutes for line in self.lines)

    def verdict(self, numbers: Mapping[str, Any]) -> Verdict:
        """What the numbers come to; a pure function of those that the lines name."""
        if any(line.kept(numbers) != 1 for line in self.able):
            return "not testable"
        shares = [(line, line.kept(numbers)) for line in self.lines if line.can_tell(numbers)]
        claimed = [share for line, share in shares if not line.control]
        if any(line.refutes and share < 1 for line, share in shares):
            return "refuted as stated"
        if not claimed:
            return "not testable"
        if max(claimed) == 0:
            return "not reproduced"
        return self.whole if [share for _, share in shares] == [1.0] * len(self.lines) else "partly"

    def parts(self, numbers: Mapping[str, Any]) -> dict[str, str]:
        """Each part of the claim: ``yes``, ``no``, how many of which cases hold, or ``not testable``."""
        able = [_answer(line, numbers) for line in self.able]
        return {one.part: one.outcome for one in (*able, *self.answers(numbers))}

    def answers(self, numbers: Mapping[str, Any]) -> list[LineAnswer]:
        """What each line gives; where the model is not able none can be told."""
        if any(line.kept(numbers) != 1 for line in self.able):
            return [LineAnswer(part=line.part, held=None, control=line.control) for line in self.lines]
        return [_answer(line, numbers) for line in self.lines]

    def describe(self, numbers: Mapping[str, Any]) -> str:
        """Which parts hold, in sentences, and the number that decides: of the first line missed, else of the first.

        If a precondition fails, report only that.
        """
        judged = self._judged(numbers)
        parts: dict[str, list[str]] = {"Found": [], "In some cases": [], "Not found": []}
        untested: dict[str, list[str]] = {}
        for line in judged:
            kept, answer = line.kept(numbers), _answer(line, numbers)
            if line.can_tell(numbers):
                parts["Found" if kept == 1 else "In some cases" if kept else "Not found"].append(str(answer))
            else:
                why = f" (asked only where {line.testable.part})" if line.testable else ""
                untested.setdefault(why, []).append(str(answer if not why else replace(answer, counted="")))
        parts["Not testable"] = ["; ".join(each) + why for why, each in untested.items()]
        tested = [line for line in judged if line.can_tell(numbers)]
        missed = sorted(self.misses(numbers), key=lambda line: line.control)
        guards = [line.testable for line in judged if line.testable]
        decides = (missed or [line for line in tested if line not in self.able] or guards or judged)[0]
        value = decides.read(numbers)
        sentences = [f"{outcome}: {'; '.join(each)}." for outcome, each in parts.items() if each]
        if not isinstance(value, Cases | int):  # a count, or one statement, is said by its part
            sentences.append(
                f"The deciding number is {format_number(value)} ({decides.of}); {decides.asked} was asked."
            )
        return " ".join(sentences)

    def misses(self, numbers: Mapping[str, Any]) -> list[Line]:
        """Lines whose numbers can tell and are not all as asked; of a model that cannot tell, those that it lacks."""
        return [line for line in self._judged(numbers) if line.can_tell(numbers) and line.kept(numbers) < 1]

    def _judged(self, numbers: Mapping[str, Any]) -> list[Line]:
        return [line for line in self.able if line.kept(numbers) != 1] or [*self.able, *self.lines]

    def missed_by(self, numbers: Mapping[str, Any]) -> list[str]:
        """What every missed line found and asked, in words, and single cases that do not hold, with their numbers."""
        missed: list[str] = []
        for line in self.misses(numbers):
            value = line.read(numbers)
            if not isinstance(value, Cases | int):
                missed.append(f"{line.of}: {format_number(value)}, {line.asked} was asked")
            missed += line.describe_missed(numbers)
        return [*dict.fromkeys(missed)]

    def read(self, numbers: Mapping[str, Any]) -> dict[str, Any]:
        """Return the numbers that it looks at, by name; how many cases hold of lines that ask each."""
        every = (*self.able, *self.lines)
        guards = [line.testable for line in every if line.testable]
        return {line.of: line.read(numbers) for line in (*every, *guards)}


def _answer(line: Line, numbers: Mapping[str, Any]) -> LineAnswer:
    held = line.kept(numbers) == 1 if line.can_tell(numbers) else None
    return LineAnswer(part=line.part, held=held, counted=line.counted(numbers), control=line.control)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was measured for a claim, on which model; ``evidence`` are names of results, and chapters that show them."""

    ours: Numbers
    model: str
    evidence: Sequence[str]
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement of a paper and how it is judged.

    Attributes:
        short: the claim in ten words.
        paper: the paper's own figure.
        measure: from the folder of results to what was measured.
        rule_fixed: ``"before the run"``, ``"after a first look"`` at the data, or ``"not auditable"`` where
            experiments, results and rules entered the history together, so that it cannot show which was first.
        history: what a first rule asked, what its verdict was and why it was replaced, if there was one; a sentence.
        remedies: on which other prompts the rule is asked once more, and when that was fixed; ``measure`` takes them
            as its second argument.
        families: of which other language models the rule is asked, with the same remedies, and when that was fixed;
            ``measure`` takes them as ``model``. None if the claim is not asked of pretrained models.
        models: which models, or which part of them, are asked, where several are.
        columns: the same claim, asked of others by rules of their own.
        sentences: what a person would say of the verdict, for each verdict that was written about. A number of ours
            stands in braces, ``{name}``, or ``{name|.2f}`` with a format and without its interval.
        command: what fills the row where a run is missing.
    """

    id: str
    short: str
    claim: str
    paper: str
    rule: Rule
    measure: Callable[..., Measured]
    rule_fixed: Fixed = "before the run"
    history: str = ""
    remedies: Mapping[Remedy, Fixed] = field(default_factory=dict)
    families: Mapping[str, Fixed] | None = None
    models: str = ""
    columns: Sequence[Claim] = ()
    sentences: Mapping[str, str] = field(default_factory=dict)
    changes: str
    command: str = ""

    @property
    def kind(self) -> Kind:
        """What the claim is about; read off its rule."""
        return "theorem or construction" if self.rule.universal else "measurement"


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a rule makes of what was measured: on some model, and on other prompts if there is a ``remedy``.

    Attributes:
        numbers: the few that the rule looks at.
        parts: each part of the claim with ``yes``, ``no``, a count of cases, or ``not testable``.
        answers: the same for a machine, with the lines that are controls; ``found`` in sentences.
        ours: all numbers; ``cases`` those of cases, by quantity and case.
        remedied: what the same rule gives on other prompts.
    """

    verdict: Verdict
    rule_fixed: Fixed
    model: str = ""
    remedy: Remedy | None = None
    found: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    answers: Sequence[LineAnswer] = field(default_factory=list)
    ours: Mapping[str, Any] = field(default_factory=dict)
    cases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    evidence: Sequence[str] = field(default_factory=list)
    note: str = ""
    remedied: Sequence[Judgement] = field(default_factory=list)

    @property
    def grade(self) -> str:
        """The verdict, and how many lines of a claim hold that holds in part."""
        return grade(self.verdict, self.answers)

    def __str__(self) -> str:
        again = "; ".join(str(one) for one in self.remedied if one.verdict != "not run here")
        asked = REMEDIES[self.remedy] if self.remedy else self.model
        return f"{asked}: *{self.grade}*{f' ({again})' if again else ''}"


@dataclass(frozen=True, kw_only=True)
class Row(Judgement):
    """A claim with what was found, ready to print; see :class:`Claim` and :class:`Measured`.

    Attributes:
        sentence: what a person would say of the verdict.
        fails_in: lines that are missed and cases that do not hold, in words with their numbers.
        verdict_of_model: what the rule gives on ``model`` alone, if other families are asked, too.
        families: what it gives in other families; None if no pretrained model is asked.
        models: the set of models that all this is about, where several are asked.
        columns: the same claim in other sets of models; the verdict is that of all, see :func:`combine_columns`.
        verdict_of_column: what is given without them.
    """

    id: str
    short: str
    claim: str
    paper: str
    kind: Kind
    rule: str
    history: str = ""
    sentence: str = ""
    changes: str = ""
    fails_in: Sequence[str] = field(default_factory=list)
    command: str = ""
    verdict_of_model: Verdict | None = None
    families: Sequence[Judgement] | None = None
    models: str = ""
    columns: Sequence[Row] = field(default_factory=list)
    verdict_of_column: Verdict | None = None

    @property
    def grade(self) -> str:
        """The verdict, and how many lines hold of a claim that holds in part: over all models that it is judged on."""
        return grade(self.verdict, [one for answers in self._judged.values() for one in answers])

    @property
    def grade_of_column(self) -> str:
        """The same without the columns of other sets of models: what the row's sentence is about."""
        return replace(self, verdict=self.verdict_of_column or self.verdict, columns=[]).grade

    @property
    def grade_of_model(self) -> str:
        """The same on ``model`` alone."""
        return grade(self.verdict_of_model or self.verdict_of_column or self.verdict, self.answers)

    @property
    def decides(self) -> str:
        """Which line keeps the claim from holding whole; empty if none does, or if it cannot be judged."""
        for where, answers in self._judged.items() if self.verdict not in UNDECIDED else ():
            if short := find_deciding_line(answers):
                told = f"{short.part} (not testable)" if short.held is None else str(short)
                return f"{where}: {told}" if len(self._judged) > 1 else told
        return ""

    @property
    def _judged(self) -> dict[str, Sequence[LineAnswer]]:
        """Answers of the row's own model, of its other families and of its columns, where it can be judged."""
        by_model = self.verdict_of_model or self.verdict_of_column or self.verdict
        judged = {} if by_model in UNDECIDED else {self.models or self.model: self.answers}
        judged |= {one.model: one.answers for one in self.families or () if one.verdict not in UNDECIDED}
        for column in self.columns:
            for where, answers in column._judged.items():
                judged[where if where == column.models else f"{column.models}, {where}"] = answers
        return judged

    @property
    def summary(self) -> str:
        """The verdict, which parts hold, when the rule was written or its history, the note, and the verdicts on other
        prompts, in other families and of other sets of models: sentences.
        """
        fixed = {
            "before the run": "",
            "after a first look": "The rule was written after a first look at the data.",
            "not auditable": "The rule entered the history together with its first results, so that it cannot be "
            "checked which was first.",
        }[self.rule_fixed]
        note = self.note and f"{self.note[:1].upper()}{self.note[1:].removesuffix('.')}."
        again = f"The same rule {'; '.join(map(str, self.remedied))}." if self.remedied else ""
        texts = [SAID[self.verdict], self.found, self.history or fixed, note, again]
        if told := [str(one) for one in self.families or () if one.verdict != "not run here"]:
            texts.append(f"{'; '.join([f'By family {self.model}: *{self.grade_of_model}*', *told])}.")
        elif self.families is not None:
            texts.append("Asked of one family of pretrained models.")
        if self.columns:
            grades = {self.models: self.grade_of_column, **{one.models: one.grade for one in self.columns}}
            texts.append(f"Asked of {'; '.join(f'{models}: *{each}*' for models, each in grades.items())}.")
        return " ".join(text for text in texts if text)
