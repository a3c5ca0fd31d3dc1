"""Judges of what a language model that was taught to bind says: the papers' claims where the model solves the task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from posym_companion.finding import Claim, Line, Measured, Number, Rule, shown
from posym_companion.language_models.judges.binding_planes import GAP, SHARE
from posym_companion.language_models.judges.binding_profile import WEIGHED, cases, score_correlation
from posym_companion.language_models.judges.plane_profile import STRONG, beyond_null
from posym_companion.language_models.judges.random_weights import beside_birth, correlation_at_birth
from posym_companion.language_models.random_weights import TAUS
from posym_companion.solvers.judges.gemma_roles import CARRIES, FIRST_LESS, FIRST_STOP, LESS, PURE, first_look, roles
from posym_companion.solvers.judges.gemma_runs import SOLVED, after, measured, runs
from posym_companion.solvers.judges.solver_roles import FEWEST
from posym_companion.solvers.survey import Surveyed
from posym_companion.solvers.taught_gemma import FACTS
from posym_core.metrics.stats import head_correlation, statistic_interval
from posym_core.metrics.trends import SLOW_TURN, behaviour_and_use, layer_trend, local_layers
from posym_core.runs.results import load_result

# Planes stopped cost nothing if the mean loss of teaching is at most this many times that with all planes.
AS_FAST = 1.2
# How far planes that are stopped would turn; below an eighth of a turn a plane is slow, and stopping it does nothing.
TURNED = "radians that a stopped plane would turn over a prompt, {}, at most"
DRAWS = 2000
# What is counted, by the first word of the number's name. All of it is one model.
CASES = "One model, three seeds: wordings are asked of the same weights, so that nine pairs are no nine models."
COUNTED = {"settings": "pairs of seed and wording", "seeds": "seeds of one model", "heads": "heads of one model"} | {
    "kinds": "kinds of prompt"
}


def trend(folder: Path | None) -> Measured:
    """Early against late layers as in U25-2, of the taught model: over all layers, and over local ones alone."""
    results = runs(folder)
    ours: dict[str, Number] = {}
    held: dict[str, list[bool]] = {}
    for (seed, wording), x in after(results).items():
        for kind in ("all", "local"):
            layers = np.arange(len(x["angles"])) if kind == "all" else local_layers(x["angles"])
            for score, name, sign in (("s_POS", "positional", 1), ("s_SYM", "symbolic", -1)):
                found = layer_trend(x[name], layers, draws=DRAWS)
                side = "early above late" if sign > 0 else "late above early"
                low = found.difference.low if sign > 0 else -found.difference.high
                held.setdefault(f"settings with {score} {side}, {kind} layers", []).append(low > 0)
                where = f"seed {seed}, {wording}, {kind} layers"
                ours |= {f"median {score} early ({where})": found.early, f"median {score} late ({where})": found.late}
                ours[f"{score} early - late ({where})"] = found.difference
    return measured(results, {**{k: cases(v) for k, v in held.items()}, **ours}, CASES)


def correlation(folder: Path | None) -> Measured:
    """The correlation of the scores over heads, beside the null model's and random weights', as in U25-3."""
    results = runs(folder)
    ours: dict[str, Number] = {}
    below, beyond = [], []
    for (seed, wording), x in after(results).items():
        found, null = score_correlation(x)
        below.append(found.pearson.high < 0)
        beyond.append(found.pearson.high < null)
        where = f"seed {seed}, {wording}"
        ours |= {f"Pearson r ({where})": found.pearson, f"Pearson r of the null model ({where})": null}
    birth = {tau: correlation_at_birth("taught", tau, folder) for tau in TAUS}
    for tau, found_at in birth.items():
        ours |= beside_birth(found_at, f"Pearson r, {WEIGHED[tau]}")
    counts: dict[str, Number] = {
        "settings with r below zero": cases(below),
        "settings with r below the null model's": cases(beyond),
        "kinds of prompt with r below every draw of random weights": cases(x.below for x in birth["1e-4"].values()),
    }
    note = (
        f"{CASES} The null model keeps each head's attention, see U25-3. Random weights are beside the packaged taught "
        "model, on two wordings at two lengths. With all pairs of blocks weighed alike its r is "
        f"{', '.join(f'{x.found.value:.2f}' for x in birth['equal'].values())}"
    )
    return measured(results, {**counts, **ours}, note)


def planes(folder: Path | None) -> Measured:
    """Shares of variance by quarter of planes in nine settings, softmax scores of single planes in three; as U25-4."""
    results = runs(folder)
    ours: dict[str, Number] = {}
    held: dict[str, list[bool]] = {}

    def judge(name: str, value: np.ndarray, sign: int, line: float, where: str) -> None:
        found = statistic_interval(lambda y: float(np.nanmean(y)), value[None], draws=DRAWS)
        held.setdefault(name, []).append((found.low if sign > 0 else -found.high) > line)
        ours[f"{name.partition(' with ')[2]} ({where})"] = found

    for (seed, wording), x in after(results).items():
        share = x["band_symbolic_share"] - x["band_positional_share"]
        for quarter, place, sign in (("slowest", 6, 1), ("second", 2, -1)):
            name = f"settings with symbolic - positional share, {quarter} quarter"
            judge(name, np.nanmean(share[..., place : place + 2], -1), sign, SHARE, f"seed {seed}, {wording}")
    for result in results:
        gap = (result["plane_symbolic"][-1] - result["plane_positional"][-1]).astype(float)
        quarters = np.array_split(gap, 4, axis=-1)
        for quarter, place, sign in (("slowest", 3, 1), ("second", 1, -1)):
            name = f"seeds with s_SYM - s_POS, {quarter} quarter"
            judge(name, np.nanmean(quarters[place], -1), sign, GAP, f"seed {result.settings['seed']}, likes")
    note = f"{CASES} Shares beyond {SHARE}, scores beyond {GAP}, with intervals over layers."
    return measured(results, {**{k: cases(v) for k, v in held.items()}, **ours}, note)


def all_heads(folder: Path | None) -> Measured:
    """Behaviour of all heads against the frequencies that they use, as in U25-9."""
    results = runs(folder)
    ours: dict[str, Number] = {}
    beyond, strong = [], []
    for (seed, wording), x in after(results).items():
        bands = np.exp(np.stack([np.log(part).mean(-1) for part in np.array_split(x["angles"], 8, axis=-1)], -1))
        heads = behaviour_and_use(x["positional"], x["symbolic"], x["band_energy_share"], bands)
        found = head_correlation(*heads, draws=500).spearman
        beyond.append(beyond_null(heads[0][0], heads[1][0]))
        strong.append(found.low > STRONG)
        ours[f"rank correlation (seed {seed}, {wording})"] = found
    counts = {"settings beyond the null": cases(beyond), "settings with a strong correlation": cases(strong)}
    return measured(
        results, {**counts, **ours}, f"{CASES} Eight bands of planes, each at its mean log angle; see U25-9."
    )


def missing_bands(folder: Path | None) -> Measured:
    """Whether binding is learned with a quarter of every layer's planes stopped throughout, and how fast."""
    whole, slow, fast = runs(folder), runs(folder, "slowest"), runs(folder, "fastest")
    prompts = load_result(Surveyed().name, folder=folder)  # of the wording and the number of facts that is taught
    same_seed = {result.settings["seed"]: result for result in whole}
    ours: dict[str, Number] = {}
    held: dict[str, list[bool]] = {}
    confounded: list[float] = []
    for name, results in (("slowest", slow), ("fastest", fast)):
        turned = []
        for result in results:
            same = same_seed[result.settings["seed"]]
            right = result["correct"][-1, 0, FACTS.index(result.settings["facts"])]
            accuracy = float(np.nanmean(right))
            slower = float(result["losses"].mean() / same["losses"][: len(result["losses"])].mean())
            where = f"{name} quarter stopped, seed {result.settings['seed']}"
            ours |= {f"accuracy ({where})": accuracy, f"mean loss against all planes ({where})": slower}
            before = ours[f"loss before teaching against all planes ({where})"] = float(
                result["losses"][0] / same["losses"][0]
            )
            if name == "fastest":
                confounded.append(before)
            held.setdefault(f"seeds that bind with the {name} stopped", []).append(accuracy > SOLVED)
            held.setdefault(f"seeds slower with the {name} stopped", []).append(slower > AS_FAST)
            held.setdefault(f"seeds as fast with the {name} stopped", []).append(slower <= AS_FAST)
            turned.append(np.abs(same["angles"] - result["angles"]).max(1) * (int(prompts["tokens"]) - 1))
        most = np.max(turned, 0)
        ours[TURNED.format(name)] = float(most.max())
        ours[f"the same in global layers, {name}"] = float(np.delete(most, local_layers(whole[0]["angles"])).max())
    turn, globally = (
        shown(ours[number]) for number in (TURNED.format("slowest"), "the same in global layers, slowest")
    )
    note = (
        "The mean loss over the same steps of teaching says how fast the task is learned. Stopping the slowest quarter "
        f"takes at most {turn} radians from a plane over a prompt of {int(prompts['tokens'])} tokens, and at most "
        f"{globally} in global layers. The fast half is confounded: with the fastest quarter stopped the loss is "
        f"{min(confounded):.2f} to {max(confounded):.2f} times as high before any teaching. Accuracies are over "
        f"{int(np.isfinite(right).sum())} prompts a seed."
    )
    return measured([*whole, *slow, *fast], {**{k: cases(v) for k, v in held.items()}, **ours}, note)


def _lines(parts: Mapping[str, str], guards: Mapping[str, Line]) -> tuple[Line, ...]:
    """Lines on cases, part -> number, each with what it takes to be tested."""
    units = {part: COUNTED[number.split()[0]] for part, number in parts.items()}
    return tuple(Line(part=part, of=n, unit=units[part], testable=guards.get(part)) for part, n in parts.items())


def _claim(
    letter: str,
    short: str,
    says: str,
    parts: dict[str, str],
    measure: Callable[[Path | None], Measured],
    changes: str,
    guards: Mapping[str, Line] | None = None,
) -> Claim:
    return Claim(
        id=letter,
        short=short,
        claim=f"{short}, in a language model that was taught to solve the binding task",
        paper="stated of models profiled on the task, whether or not they solve it",
        rule=Rule(
            says=says,
            lines=_lines(parts, guards or {}),
            able=(Line(part="the task is solved", of="settings solved", unit=COUNTED["settings"]),),
            whole="reproduced in kind",
        ),
        measure=measure,
        rule_fixed="not auditable",
        changes=changes,
        command="python -m posym_core run taught_gemma",
    )


def _changed(judged: Claim, says: str, parts: Mapping[str, str], because: str) -> Claim:
    """A claim with the rule that it had first."""
    return replace(
        judged,
        rule_fixed="after a first look",
        first_rule=replace(judged.rule, says=says, lines=_lines(parts, {})),
        first_rule_fixed="not auditable",
        changed_because=because,
    )


_TAUGHT = f"In three seeds and three wordings, after teaching one wording (all above {SOLVED} right on 16 facts)"
LAYER_TREND = _claim(
    "T-1G",
    "Early layers are positional, late layers symbolic",
    f"{_TAUGHT}, the rule of U25-2: median s_POS of the early half of the layers above that of the late half and s_SYM "
    "below, with intervals, over all layers and over local ones alone.",
    {
        f"{part}, over {kind} layers": f"settings with {score}, {kind} layers"
        for kind in ("all", "local")
        for part, score in (
            ("early layers are positional", "s_POS early above late"),
            ("late layers are symbolic", "s_SYM late above early"),
        )
    },
    trend,
    "A larger model that solves the task untaught.",
)
_AGAINST = {
    "r is negative": "settings with r below zero",
    "r is below the null model's": "settings with r below the null model's",
}
_BELOW = f"{_TAUGHT}, the rule of U25-3: the interval of r below zero, and below the r of the null model"
CORRELATION = _changed(
    _claim(
        "T-2G",
        "Positional and symbolic scores correlate negatively over heads",
        f"{_BELOW}; on four kinds of prompt below the r of three draws of random weights.",
        _AGAINST | {"r is below that of random weights": "kinds of prompt with r below every draw of random weights"},
        correlation,
        "A setting in which r does not lie below the null model's.",
    ),
    f"{_BELOW}.",
    _AGAINST,
    "random weights have a negative r, too, and it was beside none",
)
PLANES = _claim(
    "T-3G",
    "Slow planes are symbolic, medium to fast ones positional",
    f"{_TAUGHT}, the rules of U25-4a and b: by shares of the variance over the facts, the slowest quarter of planes "
    f"leans to symbols by more than {SHARE} and the second fastest to positions; by softmax scores of single planes "
    f"(on the taught wording) each by more than {GAP}.",
    {
        f"the {quarter} quarter of planes is {leans}, by {kind}": f"{number}, {quarter} quarter"
        for quarter, leans in (("slowest", "symbolic"), ("second", "positional"))
        for kind, number in (
            ("shares", "settings with symbolic - positional share"),
            ("scores", "seeds with s_SYM - s_POS"),
        )
    },
    planes,
    "Heads whose single planes have logits large enough for their softmax to be sharp.",
)
ALL_HEADS = _claim(
    "T-4G",
    "All heads: behaviour corresponds strongly to the frequencies used",
    f"{_TAUGHT}, the rule of U25-9: the rank correlation of s_POS - s_SYM with the energy-weighted mean log angle "
    f"beyond 95 % of draws in which layers exchange their use, and its interval above {STRONG}.",
    {
        "the correlation is beyond the null's": "settings beyond the null",
        "the correlation is strong": "settings with a strong correlation",
    },
    all_heads,
    "Another measure of use, which the paper's text does not fix.",
)
_THAT_CARRY = (
    "In each of three seeds, on the taught wording: heads that carry the task (patching their output at the last token "
    f"restores more than {CARRIES} of the answer's difference) have higher s_SYM and lower s_POS than the others"
)
_PURE = f"most purely symbolic heads (s_SYM above {1 - PURE}, s_POS below {PURE}) carry it."
_ENOUGH, _ENOUGH_THERE = (
    Line(part=f"{FEWEST} heads or more {where}", of=number, above=FEWEST - 1)
    for where, number in (
        ("carry it", "heads that carry it in any seed"),
        ("of one third of the depth stand on either side", "heads on the smaller side in a third of the depth"),
    )
)
ROLES = _changed(
    _claim(
        "T-5G",
        "Scores tell which heads carry the task",
        f"{_THAT_CARRY} of the same third of the depth (area under the curve, interval above 0.5); s_SYM tells more "
        f"than depth, and more than the spread of the logits; and {_PURE} Areas are asked where {FEWEST} heads or "
        "more, counted once over the seeds, stand on either side.",
        {
            "s_SYM tells carriers from others, within depth": "seeds in which s_SYM tells within a third of the depth",
            "s_POS tells carriers from others, within depth": (
                "seeds in which s_POS (low) tells within a third of the depth"
            ),
            "s_SYM tells more than depth": "seeds in which s_SYM tells more than the depth",
            "s_SYM tells more than the logits' spread": "seeds in which s_SYM tells more than the spread",
            "most symbolic heads carry it": "seeds in which most purely symbolic heads carry it",
        },
        roles,
        "Tasks that are carried by more heads, or by heads of other kinds.",
        {
            "s_SYM tells carriers from others, within depth": _ENOUGH_THERE,
            "s_POS tells carriers from others, within depth": _ENOUGH_THERE,
            "s_SYM tells more than depth": _ENOUGH,
            "s_SYM tells more than the logits' spread": _ENOUGH,
        },
    ),
    f"{_THAT_CARRY} (area under the curve, interval above 0.5); s_SYM tells more than the spread of the logits; and "
    f"{_PURE}",
    {
        "s_SYM tells carriers from others": "seeds in which s_SYM tells",
        "s_POS tells carriers from others": "seeds in which s_POS (low) tells",
        "s_SYM tells more than the logits' spread": "seeds in which s_SYM tells more than the spread",
        "most symbolic heads carry it": "seeds in which most purely symbolic heads carry it",
    },
    "a head's depth alone tells carriers as well, and all seeds have the same few carriers, too few for an area",
)
_STOPPED = (
    "In each seed (two at least), with a quarter of every layer's planes stopped throughout: with the slowest quarter "
    f"stopped the model binds (above {SOLVED}) and as fast (mean loss of the same steps at most {AS_FAST} times that "
    "with all planes); with the fastest stopped it is slower than that."
)
_MISSING = {
    "the model binds with its slowest planes stopped": "seeds that bind with the slowest stopped",
    "it learns as fast with them stopped": "seeds as fast with the slowest stopped",
    "it learns more slowly with the fastest stopped": "seeds slower with the fastest stopped",
}
_TURNING = {
    part: Line(
        part="a plane that is stopped would turn by an eighth of a turn or more over a prompt",
        of=TURNED.format(speed),
        above=2 * np.pi * SLOW_TURN,
    )
    for part, speed in zip(_MISSING, ("slowest", "slowest", "fastest"), strict=True)
}
MISSING = _changed(
    _claim(
        "T-6G",
        "Which planes turn decides what is learned",
        f"{_STOPPED} Each is asked only if a plane of that quarter would turn by more than an eighth over a prompt.",
        _MISSING,
        missing_bands,
        "Prompts so long that slow planes turn visibly; fast planes stopped in a model whose loss is the same before.",
        _TURNING,
    ),
    _STOPPED,
    _MISSING,
    "the slowest quarter hardly turns over these prompts, so that stopping it changes nothing and its lines could not "
    "fail",
)
_CARRIERS = {
    "carriers are purely symbolic": "heads that carry it and are purely symbolic",
    "most of it is in global layers": "seeds in which global layers restore most",
    "idle symbolic heads turn positional": "seeds in which idle symbolic heads turn positional",
}
_FIRST_LOOK = (
    "In every seed all heads that carry the task are purely symbolic and global layers restore most of the answer's "
    "difference; heads that were symbolic before and carry nothing lean to positions after (median), and at least "
    "twice as much as"
)
FIRST_LOOK = _changed(
    _claim(
        "T-0G",
        "Few purely symbolic heads in global layers do the task",
        f"{_FIRST_LOOK} after as many steps in which the same model is taught another rule that it learns, to answer "
        "the third fact, or wrong answers, seed by seed. A seed whose third fact is not learned (more than "
        f"{SOLVED} right) does not count.",
        _CARRIERS
        | {
            "they do so because binding was learned, and not another rule": LESS["the third fact"],
            "they do so because something was learned": LESS["wrong answers"],
        },
        first_look,
        "Other tasks, other models.",
    ),
    f"{_FIRST_LOOK} in the control, which stops after {FIRST_STOP} steps.",
    _CARRIERS | {"they do so because of what was learned": FIRST_LESS},
    "its control had four steps fewer and learned nothing, so that neither the number of steps nor learning as such "
    "was held apart from learning to bind",
)
