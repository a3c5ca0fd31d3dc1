"""Claims about positional encodings: spectra, and what models with each learn on the tasks Distance and Count.

Trained are transformers of two layers of eight heads; where nothing else is said at half the paper's lengths, 600 steps
and without dropout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch

from posym_companion.claims import G26, Look, Outcome, above, below, claim, part, untold
from posym_companion.encodings.encoding_optimisation import BLOWN_UP, EncodingOptimisation
from posym_companion.encodings.encoding_study import (
    RELEASED,
    EncodingStudy,
    StudyTask,
    has_no_meaning,
    long_size,
    same_without_padding,
)
from posym_companion.encodings.gram_spectra import WAYS, GramSpectra
from posym_companion.encodings.spectra import averaged_kernel, eigenvalues, kernel_product, majorisation, rope_kernels
from posym_companion.results import Result
from posym_core.metrics import mean_interval, rope_angles
from posym_profile.language_models import PACKAGED

SPECTRA, HEADS = "encodings/times_and_plus", "encodings/one_head"
TWO_LAYERS = ("transformers of two layers",)
ADDING = ("sinusoidal", "learned", "alibi", "t5")
AVERAGED, ROTATED = (WAYS.index(way) - 1 for way in ("averaged", "rotated"))


def count_all(held: np.ndarray) -> Outcome:
    """Return whether something holds of all matrices, and of how many."""
    return Outcome(bool(held.all()), f"{int(held.sum())} of {held.size}")


# Spectra


def draw_products(seed: int = 0, sizes: tuple[int, ...] = (2, 3, 5, 8, 16), draws: int = 40) -> np.ndarray:
    """Return of random Gram matrices times kernels of RoPE whether their eigenvalues are majorised ``[product]``."""
    generator, held = torch.Generator().manual_seed(seed), []
    for n in sizes:
        kernels = [averaged_kernel(rope_angles(8), n), *rope_kernels(rope_angles(8), n)]
        for draw in range(draws):
            dtype = torch.complex128 if draw % 2 else torch.float64
            factor = torch.randn(n, 1 + draw % n, generator=generator, dtype=dtype)
            gram = factor @ factor.mH
            before = eigenvalues(gram)
            held += [majorisation(eigenvalues(kernel_product(gram, kernel)), before).holds for kernel in kernels]
    return np.array([bool(one) for one in held])


@claim(
    "G26-1a",
    "A Toeplitz correlation kernel contracts a Gram matrix's spectrum",
    paper=G26,
    at="theorem, in the first version",
    quote="a Hadamard product with a Toeplitz matrix-induces spectral contraction",
    models=(PACKAGED,),
    chapter=SPECTRA,
    fixed="after a look",
    history="One sentence of the abstract is divided: its product with one Toeplitz kernel stands here, its coupling "
    "as in RoPE in G26-1b, and what follows for optimisation in G26-1c.",
    proof=f"{SPECTRA}#thm-contraction",
)
def kernels_contract(look: Look):
    """Are the eigenvalues of every Gram matrix times one kernel majorised by those of the Gram matrix?"""
    result, products = look.load(GramSpectra(model=look.model)), draw_products()
    grams = np.concatenate([result[f"{kind}_holds"][AVERAGED].ravel() for kind in ("query", "key")])
    words = f"{products.sum()} of {products.size} random, {grams.sum()} of {grams.size} of a model"
    look.headline("products that are majorised", words, paper="all")
    yield part("random matrices"), count_all(products)
    yield part("queries and keys of a model"), count_all(grams)


@claim(
    "G26-1b",
    "So coupling as in RoPE contracts spectra of attention logits",
    paper=G26,
    at="abstract and theorem, in the first version; the published abstract no longer says so",
    quote="multiplicative content-position coupling-exemplified by Rotary Positional Encoding (RoPE) via a Hadamard "
    "product with a Toeplitz matrix-induces spectral contraction",
    models=(PACKAGED,),
    chapter=SPECTRA,
    fixed="after a look",
    history="The first rule (after a look) asked for logits under the model's own rotation alone and gave *refuted as "
    "stated*. The sentence is refuted for RoPE's own rotation, which has a kernel for every plane, and proved for one "
    "kernel, as the paper writes it.",
    proof=f"{SPECTRA}#thm-contraction",
)
def rotation_contracts(look: Look):
    """Are every head's logits, under RoPE's own rotation, weakly majorised by those without rotation?"""
    result = look.load(GramSpectra(model=look.model))
    own, one = (result["logits_holds"][way] for way in (ROTATED, AVERAGED))
    words = f"{own.sum()} of {own.size} under RoPE's own rotation"
    look.headline(
        "logits contracted", words, paper="all", control=f"{one.sum()} of {one.size} under one kernel, proved"
    )
    yield part("logits under the model's own rotation"), count_all(own)
    yield part("logits under one kernel"), count_all(one)
    grams = np.concatenate([result[f"{kind}_holds"][ROTATED].ravel() for kind in ("query", "key")])
    yield part("Gram matrices under the model's own rotation"), count_all(grams)


# Optimisation


def find_stable_rate(result: Result) -> np.ndarray:
    """Return the largest learning rate below the first that blows up, ``[seed]``; 0 if the lowest does."""
    blown = result["peak"] > BLOWN_UP
    first = np.where(blown.any(1), blown.argmax(1), blown.shape[1])
    return np.where(first > 0, result["rates"][first - 1], 0.0)


def count_grid_steps(one: Result, other: Result) -> float:
    """Return by how many steps of the grid of rates one stable rate is above another, mean over seeds."""
    rates = one["rates"]
    # A rate of 0, below the grid, counts as one step below its lowest.
    first, second = (np.log(np.maximum(find_stable_rate(x), rates[0] ** 2 / rates[1])) for x in (one, other))
    return float(((first - second) / np.log(rates[1] / rates[0])).mean())


def measure_sharpness(result: Result) -> dict[str, np.ndarray]:
    """Return the largest eigenvalue of the loss's Hessian ``[seed]``: geometric mean over training, and at the end."""
    bent = result["eigenvalue"]
    return {"through training": np.exp(np.log(bent).mean(1)), "at the end": bent[:, -1]}


@claim(
    "G26-1c",
    "So optimisation is more stable and efficient",
    paper=G26,
    at="abstract, in the first version",
    quote="spectral contraction, which theoretically improves optimization stability and efficiency",
    models=TWO_LAYERS,
    chapter=SPECTRA,
    fixed="after a look",
    history="The first rule (before the run) compared RoPE with the best of four encodings that add and gave *not "
    "reproduced*; that best is a maximum over noise that had not learned the task. Stability is what the sentence is "
    "about, and is undecided while all stable rates lie within a notch of the grid.",
)
def stability(look: Look):
    """Is a larger learning rate stable with RoPE than with each encoding that adds, and the loss less curved?"""
    results = {name: look.load(EncodingOptimisation(encoding=name)) for name in ("rope", *ADDING)}
    rope = results.pop("rope")
    steps = {name: count_grid_steps(rope, other) for name, other in results.items()}
    words = f"{min(steps.values()):.1f} to {max(steps.values()):.1f} notches of the grid"
    look.headline("RoPE's stable rate beside that of others", words, paper="larger")
    apart = any(abs(each) > 1 + 1e-6 for each in steps.values())
    look.require("some stable rate lies more than a notch of the grid from RoPE's", apart)
    for name, other in results.items():
        enough = abs(steps[name]) > 1 + 1e-6
        yield (
            part("a larger learning rate is stable", name),
            above(steps[name], 0) if enough else untold("within a notch"),
        )
        learned = other["accuracy"][:, -1].mean() >= 0.9 * rope["accuracy"][:, -1].mean()
        for when, bent in measure_sharpness(rope).items():
            ratio = mean_interval(bent / measure_sharpness(other)[when])
            held = below(ratio, 1) if learned else untold("not learned, and so not compared")
            yield part(f"the loss is less curved {when}", name), held


# Order of encodings


def find_study(task: StudyTask, setup: str) -> EncodingStudy:
    """Return the setting of a set-up; on Count, of the one that is the same without padding."""
    return EncodingStudy(task=task, setup=same_without_padding(setup) if has_no_meaning(task, setup) else setup)


def is_better(one: Result, *others: Result, tests: int = 2000) -> bool:
    """Return whether one set-up is better than others in every seed that both have, by two errors of the test."""
    for other in others:
        shared = min(len(one["accuracy"]), len(other["accuracy"]))
        x, y = (each["accuracy"][:shared] for each in (one, other))
        if not (x - y > 2 * np.sqrt((x * (1 - x) + y * (1 - y)) / tests)).all():
            return False
    return True


def check_orders(distance: Mapping[str, Result], count: Mapping[str, Result]) -> dict[str, bool]:
    """Return the paper's order as statements, each with whether it holds; results stand by encoding."""
    failed = [bool((distance[name]["accuracy"] < 0.25).all()) for name in ("nope", "alibi")]
    return {
        "Distance: RoPE is best": is_better(distance["rope"], *(distance[x] for x in ("sinusoidal", "nope", "alibi"))),
        "Distance: absolute is second": is_better(distance["sinusoidal"], distance["nope"], distance["alibi"]),
        "Distance: NoPE and ALiBi fail": all(failed),
        "Count: latent attention beats RoPE": is_better(count["mla"], count["rope"]),
        "Count: NoPE beats RoPE": is_better(count["nope"], count["rope"]),
        "Count: ALiBi is worst": all(is_better(count[name], count["alibi"]) for name in count if name != "alibi"),
    }


@claim(
    "G26-2",
    "Order of encodings on Distance (A) and Count (B)",
    paper=G26,
    at="table of accuracies, in the published version",
    quote="RoPE consistently outperforms other methods on position-sensitive tasks",
    models=TWO_LAYERS,
    chapter=HEADS,
    fixed="after a look",
    history="The first rule (before the run) asked all six statements at once, the second each of models as released "
    "alone, where RoPE also adds vectors and a lead of one seed's noise counted; both gave at most *partly*. That RoPE"
    " still counts at the paper's lengths was a row of its own.",
)
def encodings_differ(look: Look):
    """Is RoPE best on Distance, absolute second, and do MLA and NoPE beat RoPE on Count, beyond the test's noise?

    As released RoPE also adds sinusoids to the embeddings, and MLA differs in more; so all is asked with nothing but
    the encoding changed, too.
    """
    means = {}
    for case, setups in {"as released": RELEASED, "all else equal": {name: name for name in RELEASED}}.items():
        distance, count = (
            {name: look.load(find_study(task, setup)) for name, setup in setups.items()}
            for task in ("distance", "count")
        )
        means |= {name: count[name]["accuracy"].mean() for name in ("rope", "mla", "nope")}
        for statement, holds in check_orders(distance, count).items():
            yield part(statement, case), holds
    words = "RoPE {rope:.2f}, MLA {mla:.2f}, NoPE {nope:.2f}".format_map(means)
    look.headline("Count, all else equal:", words, paper=".69, .97, .78")
    dropped, undropped = (look.load(long_size("count", "rope", size=size)) for size in ("long", "undropped"))
    right = " and ".join(f"{one['accuracy'].mean():.2f}" for one in (dropped, undropped))
    why = f"neither NoPE nor MLA was trained at these lengths; RoPE is right in {right} with and without dropout"
    yield part("Count at the paper's lengths: both beat RoPE", asks="size"), untold(why)


# The deposit

LATENT = "with latent attention"
OTHERS: Mapping[str, tuple[StudyTask, str]] = {
    LATENT: ("distance", "mla"),
    "without positions": ("distance", "nope"),
    "on Count": ("count", "rope"),
}


def rank_costs(result: Result) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what the costliest head costs, replaced by its mean, the next one, and the first's layer ``[seed]``."""
    cost = result["whole"][:, None, None] - result["averaged"]
    flat = cost.reshape(len(cost), -1)
    order = np.sort(flat, axis=1)
    return order[:, -1], order[:, -2], flat.argmax(1) // cost.shape[2]


def ask_other_models(look: Look, most: float) -> Iterator[tuple[str, Outcome]]:
    """Yield whether the costliest head of a model that should have no deposit costs less than half of RoPE's."""
    for words, which in OTHERS.items():
        result = look.load(long_size(*which))
        cost, right = float(rank_costs(result)[0].mean() / most), float(result["accuracy"].mean())
        to_lose = right - 1 / long_size(*which).make_task().classes
        near = untold(f"accuracy is {right:.2f}, near chance, where no head can cost anything")
        yield words, below(cost, 0.5) if words == LATENT or to_lose > 0.5 * most else near


@claim(
    "G26-3",
    "RoPE deposits position in one head; MLA does not",
    paper=G26,
    at="abstract; -60 points when the head is removed and about 90% with one rotary head, in the published version",
    quote='induces "single-head deposit" patterns in early layers',
    models=("transformers of two layers, paper's lengths and dropout",),
    chapter=HEADS,
    fixed="after a look",
    history="After the short training and with heads zeroed, which also takes away their mean, a first rule gave *not "
    "reproduced*; that models near chance have nothing to lose was added after a look.",
)
def position_is_deposited(look: Look):
    """Is one head of the first layer costly and the next cheap, does one rotary head suffice, and MLA remove it?"""
    rotary, single = (look.load(long_size("distance", setup)) for setup in ("rope", "rope-one-head"))
    look.require("models with RoPE solve Distance", above(mean_interval(rotary["accuracy"]), 0.9))
    most, following, layers = rank_costs(rotary)
    others = dict(ask_other_models(look, float(most.mean())))
    next_head = mean_interval(following / most)
    control = f"costliest head {LATENT}: {others[LATENT].text}"
    look.headline("cost of the next head over the costliest's", str(next_head), paper="hardly any", control=control)
    for seed, layer in enumerate(layers):
        yield part("the costliest head is in the first layer", f"seed {seed}"), below(int(layer), 1)
    yield part("the next head costs a third of it or less"), below(next_head, 1 / 3)
    yield (
        part("one rotary head a layer reaches nine tenths"),
        above(mean_interval(single["accuracy"] / rotary["accuracy"]), 0.9),
    )
    yield part("latent attention removes it"), others.pop(LATENT)
    yield part("the costliest head costs 30 points", asks="size"), above(mean_interval(most), 0.3)
    yield from ((part(f"no such head {words}", asks="control"), held) for words, held in others.items())


@claim(
    "G26-5",
    "The timing of coupling mitigates the deposit",
    paper=G26,
    at="abstract",
    quote="modifying the method and timing of PE coupling, such as MLA in Deepseek-V3, can effectively mitigate this "
    "concentration",
    models=TWO_LAYERS,
    chapter=HEADS,
    fixed="before the run",
    history="MLA, which changes the method, is asked about in G26-3.",
)
def timing_mitigates(look: Look):
    """Do the costliest head and the next lie closer together where rotation begins in a later layer?"""
    look.headline("models that rotate from a later layer on:", "none was trained")
    yield part("the next head costs more than a third"), untold("all models that were trained rotate in every layer")


@claim(
    "G26-4",
    "Multiplicative coupling (RoPE) learns faster than additive encodings",
    paper=G26,
    at="training curves, of a version that we could not tell",
    quote="as summarised in our reading: with coupling as in RoPE models learn the position-sensitive task faster",
    models=TWO_LAYERS,
    chapter=HEADS,
    fixed="after a look",
)
def speed(look: Look):
    """Is the mean loss over training larger, in its best seed, than that of RoPE in its worst, with all else equal?"""
    slowest = look.load(find_study("distance", "rope"))["losses"].mean(1).max()
    ratios = {
        name: float(look.load(find_study("distance", name))["losses"].mean(1).min() / slowest)
        for name in ("nope", *ADDING)
    }
    words = f"{min(ratios.values()):.2f} to {max(ratios.values()):.2f}"
    look.headline("mean loss of others over that of RoPE", words, paper="above 1")
    for name, ratio in ratios.items():
        yield part("others learn Distance more slowly", name), above(ratio, 1)
