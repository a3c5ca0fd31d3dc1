"""Claims of papers that came after the three of this book, as statements about the cross-logit matrix.

One part a paper or two: order in ``C`` against length and base (Du et al., 2026), logits as position plus content (Han
and Ji, 2025) beside massive queries and keys (Jin et al., 2025; Jonasson, 2025), slow planes of the heads that carry an
answer (Bayram, 2026), the influence of a token by its place before any training (Chowdhury, 2026; Herasimchyk et al.,
2026), and what a binding head is told: a place, a name or an answer (Gur-Arieh et al., 2026). The rules that judge
them stand in :mod:`posym_companion.later.judges.later_claims` and were written first.

All parts are asked of the packaged Gemma, plain and taught to bind; of SmolLM2, whose context is shorter than the
farthest distances, what needs no teaching, and of SmolLM2 taught to bind what needs it; and all of small decoders that
solve binding and index (:mod:`posym_companion.solvers.family_solvers`). These know no text: what the others are asked
on text they are asked on the facts of their own prompts.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from posym_companion.later.lost_orders import far_preferred, inversions
from posym_companion.loop import SECOND, Experiment, load_experiment_model, slug
from posym_companion.one_head.head_geometry import with_random_weights
from posym_companion.solvers import family_solvers
from posym_companion.solvers.families import FAMILIES
from posym_companion.solvers.family_solvers import FamilySolver
from posym_companion.solvers.prompt_roles import answer_pairs, patched_heads
from posym_core.metrics import BlockLayout, exclusion, rotate
from posym_core.store import choose_device
from posym_core.tasks import FactsTask
from posym_profile.capture import find_input_device
from posym_profile.interventions import (
    Intervention,
    change_base,
    edit_rope,
    freeze_rotation,
    remove_planes,
    select_by_id,
    select_fastest,
    select_slowest,
)
from posym_profile.language_models import PACKAGED, choose_answers, summarize_loaded
from posym_profile.planes import find_planes
from posym_profile.prompts import Prompts, binding_prompts, text_prompts
from posym_profile.scores import LayerHeads, map_layers

Part = Literal["order", "sums", "retrieval", "influence", "binding"]
TAUGHT, SECOND_TAUGHT = f"{PACKAGED}-binds", f"{SECOND}-binds"
# Models of text and three small ones, of a seed that solves its tasks in every family.
MODELS = (PACKAGED, TAUGHT, SECOND, SECOND_TAUGHT, *FAMILIES)
SOLVER_SEED = 2
# What each claim is first asked of: its own name is that of the part.
FIRST = {"retrieval": TAUGHT, "binding": TAUGHT}
# Farthest distances from the query, the last one the context of the packaged model.
LENGTHS = (64, 512, 4096, 32768)
# What every layer's base is multiplied with.
BASES = (0.01, 1.0, 100.0)
# Distances of one length that are looked at.
PLACES = 128
# Text is scored in so many blocks.
BLOCKS = 16
# A head carries the answer if its output brings back this part of the difference between two prompts.
CARRIES = 0.1
SHARES = (0.125, 0.25, 0.5)
# What an answer may be after a patch: the fact first asked about, the one in the place, with the name, with the answer
# that the patch comes from, each other fact on average, and the answer that no fact has.
OUTCOMES = ("asked", "place", "name", "answer", "other fact", "absent")
DIMS = {
    "positional symbolic": "prompt layer head",
    "contents positions far by_position": "base length prompt layer head",
    "*_share": "prompt layer head",
    "energy energy_part *_norm": "layer head plane",
    "angles": "layer plane",
    "restored": "layer head",
    "conditions": "condition",
    "correct log_probability": "condition prompt",
    "kinds": "kind",
    "rotated unrotated": "kind seed position",
    "trained": "prompt position",
    "trained_peak": "prompt layer head position",
    "fresh_peak": "seed layer head position",
    "sees": "layer",
    "said": "control layer pair outcome",
    "place": "pair",
}


@dataclass(frozen=True, kw_only=True)
class LaterClaims:
    """One part.

    Attributes:
        part: ``"order"``, ``"sums"``, ``"retrieval"``, ``"influence"`` or ``"binding"``.
        model: name for :func:`posym_profile.load_model`, or a family of :mod:`posym_companion.solvers.families`.
        trained: whether its weights are those of the model, or random ones.
        length: tokens of text, or facts; the small decoders know 8 facts.
        prompts: how many.
        draws: random sets of planes and of heads; directions of the last token's state.
        fresh: models of the same class with random weights.
        seed: of everything that is drawn.
    """

    part: Part
    model: str = PACKAGED
    trained: bool = True
    length: int = 64
    prompts: int = 16
    draws: int = 4
    fresh: int = 2
    seed: int = 0

    @property
    def name(self) -> str:
        model = "" if self.model == FIRST.get(self.part, PACKAGED) else f"_{slug(self.model)}"
        return f"later_claims/{self.part}{model}" + ("" if self.trained else "_untrained")


def full_size() -> list[LaterClaims]:
    """All parts of every model.

    Random weights of the taught model would be those of the plain one, and are not drawn again.
    """
    texts = [
        LaterClaims(part="order", prompts=12),
        LaterClaims(part="sums", length=256, prompts=12),
        LaterClaims(part="sums", length=256, prompts=12, trained=False),
        LaterClaims(part="influence", length=127, prompts=8, draws=2),
        LaterClaims(part="binding", length=8, prompts=48),
        LaterClaims(part="retrieval", length=16, prompts=12, draws=8),
    ]
    again = [replace(one, model=TAUGHT, fresh=0) for one in texts if one.trained]
    facts = [
        replace(one, model=family, length=8, prompts=48, draws=8 if one.part == "retrieval" else 4, fresh=8)
        for family in FAMILIES
        for one in texts
    ]
    second = [replace(one, model=SECOND_TAUGHT if one.part in FIRST else SECOND) for one in texts]
    return [*texts, *again, *facts, *second]


def small(setting: LaterClaims | None = None) -> LaterClaims:
    """A size for trying out."""
    setting = setting or LaterClaims(part="order")
    length = {"retrieval": 4, "binding": 6}.get(setting.part, 32)
    return replace(setting, length=length, prompts=4, draws=1, fresh=min(1, setting.fresh))


def load_subject(name: str = PACKAGED, *, device: str = "auto", folder: Any = None) -> tuple[Any, Any]:
    """A language model and its tokenizer; or a small decoder, trained here, and what it was trained as."""
    if name not in FAMILIES:
        return load_experiment_model(name, device=device)
    solver = FamilySolver(family=name, seed=SOLVER_SEED)
    return family_solvers.load_solver(solver, choose_device(device)), solver


def measure(model: Any, source: Any, setting: LaterClaims, *, progress: bool = True) -> dict[str, np.ndarray]:
    """The part that a setting names; see the function of each.

    Args:
        model: as :func:`load_subject` loads it.
        source: of prompts, its tokenizer or the small decoder's setting.
        setting: what to measure.
        progress: there is no bar.
    """
    if not setting.trained:
        model = make_untrained(model, source, setting.seed)
    parts = {
        "order": measure_order,
        "sums": measure_sums,
        "retrieval": answer_without_planes,
        "influence": influences,
        "binding": trace_binding,
    }
    with torch.set_grad_enabled(setting.part == "influence"):
        return parts[setting.part](model, source, setting)


def make_untrained(model: Any, source: Any, seed: int) -> Any:
    """The same architecture with random weights, drawn as before the model's own training; in evaluation mode."""
    if isinstance(source, FamilySolver):
        return family_solvers.make_untrained(replace(source, seed=seed)).eval().to(model.device)
    return with_random_weights(model, seed)


def context_prompts(source: Any, setting: LaterClaims) -> Prompts:
    """Windows of text, or prompts of facts for what knows no text."""
    if isinstance(source, FamilySolver):
        return facts_prompts(source.task, setting.prompts, setting.seed)
    return text_prompts(source, facts=setting.length, count=setting.prompts, seed=setting.seed)


def question_prompts(source: Any, setting: LaterClaims, seed: int) -> Prompts:
    """Prompts that ask for the fact with a name."""
    if isinstance(source, FamilySolver):
        return facts_prompts(source.task, setting.prompts, seed)
    return binding_prompts(source, facts=setting.length, count=setting.prompts, seed=seed)


def facts_prompts(task: FactsTask, count: int, seed: int) -> Prompts:
    """Binding prompts of a small decoder whose facts have different attributes; these are the alternatives."""
    generator = torch.Generator().manual_seed(seed)
    batch = task.ask("binding", count, generator)
    attributes = torch.rand(count, task.attributes, generator=generator).argsort(1)[:, : task.facts]
    named = task.first_attribute + attributes
    input_ids = batch.tokens.clone()
    place = {2: 1}.get(task.words, 2)
    input_ids[:, 1 : 1 + task.facts * task.words].unflatten(1, (task.facts, task.words))[..., place] = named
    return Prompts(
        input_ids=input_ids,
        start=1,
        block_length=task.words,
        blocks=task.facts,
        answer_ids=named,
        target=batch.fact[:, 0],
        texts=[],
    )


def context_swaps(prompts: Prompts) -> BlockLayout:
    """Text in blocks of some tokens, facts as they are."""
    tokens = prompts.blocks * prompts.block_length
    block = max(prompts.block_length, tokens // BLOCKS)
    return BlockLayout(start=prompts.start, block_length=block, blocks=tokens // block)


def block_tokens(prompts: Prompts) -> slice:
    """The tokens of all blocks."""
    return slice(prompts.start, prompts.start + prompts.blocks * prompts.block_length)


def visible_tokens(model: Any) -> np.ndarray:
    """Tokens that each layer can see, ``[layer]``: its window, or the context that the model was made for."""
    context = model.config.max_position_embeddings
    return np.array([window or context for window in summarize_loaded(model).windows])


def measure_order(model: Any, source: Any, setting: LaterClaims) -> dict[str, np.ndarray]:
    """Order in ``C`` of a prompt's tokens, put at distances that the prompt does not reach, under three bases.

    Returns:
        ``contents`` and ``positions`` (:func:`posym_companion.later.lost_orders.inversions`), ``far``
        (:func:`posym_companion.later.lost_orders.far_preferred`) and ``by_position``, the part of the variance of ``C``
        that content alone does not explain, ``[base, length, prompt, layer, head]``; ``positional`` and ``symbolic``,
        the scores on the prompt as it is, ``[prompt, layer, head]``; ``sees [layer]``, see :func:`visible_tokens`.
    """
    prompts = context_prompts(source, setting)
    swaps = context_swaps(prompts).fit(prompts.input_ids.shape[1])

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        scores = heads.swap_scores(swaps)
        rows = []
        for factor in BASES:
            angles, _ = change_base(times=factor).change(heads.angles)
            for length in LENGTHS:
                distance = distances(length, setting.seed)
                C = logits_at(heads, block_tokens(prompts), distance, angles)
                turned = inversions(C)
                rows.append(
                    torch.stack(
                        [turned.contents, turned.positions, far_preferred(C, distance), 1 - measure_content_share(C)],
                        dim=-1,
                    )
                )
        table = torch.stack(rows, -2).unflatten(-2, (len(BASES), len(LENGTHS)))
        return {"positional": scores.positional, "symbolic": scores.symbolic, "table": table}

    found = map_layers(model, prompts.input_ids, one_layer, progress=False)
    table = found.pop("table").movedim((3, 4, 5), (1, 2, 0))
    names = ("contents", "positions", "far", "by_position")
    arrays = {name: x.float().numpy() for name, x in zip(names, table, strict=True)}
    return arrays | {name: x.float().numpy() for name, x in found.items()} | {"sees": visible_tokens(model)}


def distances(length: int, seed: int) -> Float[Tensor, " position"]:
    """Distances from 1 to ``length``, all or :data:`PLACES` of them drawn at random, in order; float64."""
    drawn = torch.randperm(length, generator=torch.Generator().manual_seed(seed))[:PLACES]
    return 1 + drawn.sort().values.double()


def logits_at(
    heads: LayerHeads, contents: slice, distance: Float[Tensor, " position"], angles: Float[Tensor, " plane"]
) -> Float[Tensor, "prompt key_head group content position"]:
    """``C`` of some keys at any distances behind the query, with any angles; before a soft-cap."""
    count = heads.keys.shape[-2]
    places = torch.arange(count, dtype=torch.float64, device=heads.keys.device)[contents]
    home = rotate(heads.keys[..., contents, :], -places, heads.angles)
    query = rotate(heads.query, -(count - 1), heads.angles)[..., None, :] * heads.scale
    seen = query.expand(*query.shape[:-2], len(distance), -1)
    return home @ rotate(seen, distance.to(query.device), angles).transpose(-1, -2)


def measure_content_share(C: Float[Tensor, "*batch content position"]) -> Float[Tensor, "*batch"]:
    """Part of the variance of ``C`` that the content alone explains; also of matrices that are not square."""
    wide = C.double()
    return wide.mean(-1).var(-1, unbiased=False) / wide.flatten(-2).var(-1, unbiased=False)


def measure_sums(model: Any, source: Any, setting: LaterClaims) -> dict[str, np.ndarray]:
    """Variance shares of every head over a prompt, and the size of its queries and keys in every plane.

    Returns:
        ``positional_share``, ``symbolic_share`` and ``interaction_share`` ``[prompt, layer, head]`` of
        :func:`posym_core.exclusion`; ``query_norm`` (root mean square over prompts, of the last token) and ``key_norm``
        (over all tokens but the mark of beginning) and ``energy_part`` (the plane's part of the variance that all
        planes make on their own) ``[layer, head, plane]``; ``angles [layer, plane]``; ``sees [layer]``, see
        :func:`visible_tokens`.
    """
    prompts = context_prompts(source, setting)
    inside = block_tokens(prompts)
    angles: dict[int, Tensor] = {}

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        angles[heads.layer] = heads.angles.cpu()
        shares, energy = exclusion(heads.cross_logits(inside)), heads.frequency_shares(inside).energy
        keys = plane_squares(heads.keys[..., inside, :]).mean(-2)
        found = {
            f"{name}_share": getattr(shares, f"{name}_share") for name in ("positional", "symbolic", "interaction")
        }
        found |= {"query_norm": plane_squares(heads.query), "key_norm": keys.expand_as(energy)}
        return found | {"energy_part": energy / energy.sum(-1, keepdim=True)}

    found = map_layers(model, prompts.input_ids, one_layer, progress=False)
    arrays = {name: x.float().numpy() for name, x in found.items() if name.endswith("_share")}
    arrays |= {name: found[name].mean(0).sqrt().float().numpy() for name in ("query_norm", "key_norm")}
    arrays["energy_part"] = found["energy_part"].double().nanmean(0).float().numpy()
    turning = torch.stack([angles[layer] for layer in sorted(angles)]).numpy()
    return arrays | {"angles": turning, "sees": visible_tokens(model)}


def plane_squares(x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch plane"]:
    """Squared length of vectors in the ``"halves"`` layout in each of their planes."""
    first, second = x.double().square().chunk(2, dim=-1)
    return first + second


def answer_without_planes(model: Any, source: Any, setting: LaterClaims) -> dict[str, np.ndarray]:
    """Answers to binding prompts without some planes of the heads that carry the answer, and of others.

    Returns:
        ``restored [layer, head]``, the part of the difference between two prompts' answers that a head brings back;
        ``energy [layer, head, plane]``, each plane's part of what all planes make the logits vary by, each on its own;
        ``conditions``, and under each ``correct`` and ``log_probability`` of the right attribute among those named,
        ``[condition, prompt]``.
    """
    prompts = question_prompts(source, setting, setting.seed)
    generator = torch.Generator().manual_seed(setting.seed)
    patched = patched_heads(model, answer_pairs(prompts, generator), setting.prompts // 2)
    whole = patched["clean_whole"].sum() - patched["other_whole"].sum()
    restored = (patched["answer_patched"] - patched["other_whole"][:, None, None]).sum(0) / whole
    planes = find_planes(model, prompts.input_ids.shape[1])

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        energy = heads.frequency_shares(block_tokens(prompts)).energy
        return {"energy": energy / energy.sum(-1, keepdim=True)}

    energy = map_layers(model, prompts.input_ids, one_layer, progress=False)["energy"].nanmean(0)
    # Other prompts than those that tell which heads carry the answer.
    prompts = question_prompts(source, setting, setting.seed + 1)
    arrays: dict[str, list[np.ndarray]] = {"correct": [], "log_probability": []}
    planned = list_operations(restored, energy, setting.draws, generator)
    for interventions in planned.values():
        with edit_rope(model, *interventions, planes=planes):
            choices = choose_answers(model, prompts)
        for name, rows in arrays.items():
            rows.append(getattr(choices, name).float().numpy())
    return {
        "restored": restored.astype(np.float32),
        "energy": energy.float().numpy(),
        "conditions": np.array(list(planned)),
        **{name: np.stack(rows) for name, rows in arrays.items()},
    }


def list_operations(
    restored: np.ndarray, energy: Float[Tensor, "layer head plane"], draws: int, generator: torch.Generator
) -> dict[str, tuple[Intervention, ...]]:
    """What is done to the heads that carry the answer, and to as many others."""
    planes = energy.shape[-1]
    carriers = [(int(layer), int(head)) for layer, head in np.argwhere(restored > CARRIES)]
    rest = [(int(layer), int(head)) for layer, head in np.argwhere(restored <= CARRIES)]
    if not carriers:
        raise ValueError(f"no head restores more than {CARRIES} of the answer's difference; teach the model to bind")
    quarter = SHARES[1]
    planned = {"none": (), "all planes": (remove_planes(heads=carriers),)}
    planned |= {f"slowest {share:g}": (remove_planes(select_slowest(share), heads=carriers),) for share in SHARES}
    planned[f"fastest {quarter:g}"] = (remove_planes(select_fastest(quarter), heads=carriers),)
    planned[f"slowest {quarter:g} stopped"] = (freeze_rotation(select_slowest(quarter), heads=carriers),)
    for draw in range(draws):
        chosen = 1 + torch.randperm(planes, generator=generator)[: round(quarter * planes)]
        planned[f"random {quarter:g}, {draw}"] = (remove_planes(select_by_id(chosen.tolist()), heads=carriers),)
        others = [rest[i] for i in torch.randperm(len(rest), generator=generator)[: len(carriers)].tolist()]
        if others:
            planned[f"other heads, slowest {quarter:g}, {draw}"] = (
                remove_planes(select_slowest(quarter), heads=others),
            )
    for draw in range(draws):
        pairs = {head: equal_energy(energy[head], quarter, generator) for head in carriers}
        for place, speed in enumerate(("slow", "faster")):
            planned[f"{speed} planes of equal energy, {draw}"] = tuple(
                remove_planes(select_by_id(pair[place]), heads=[head]) for head, pair in pairs.items()
            )
    return planned


def equal_energy(
    energy: Float[Tensor, " plane"], share: float, generator: torch.Generator
) -> tuple[list[int], list[int]]:
    """Planes of the slowest ``share`` and planes of the rest, by frequency ID, that have as much of a head's energy.

    All planes of the side that has less, and of the other so many, in random order, as together have no more.
    """
    count = len(energy)
    sides = [list(range(count - round(share * count), count)), list(range(count - round(share * count)))]
    sums = [float(energy[side].sum()) for side in sides]
    larger = int(sums[1] > sums[0])
    chosen, left = [], min(sums)
    for at in torch.randperm(len(sides[larger]), generator=generator).tolist():
        plane = sides[larger][at]
        if float(energy[plane]) <= left:
            chosen.append(plane)
            left -= float(energy[plane])
    sides[larger] = chosen
    slow, faster = ([1 + plane for plane in sorted(side)] for side in sides)
    return slow, faster


def influences(model: Any, source: Any, setting: LaterClaims) -> dict[str, np.ndarray]:
    """Two shapes by place on the same prompts, before training and after: influence, and what Theorem 7 bends.

    Returns:
        Influence of every token on the last token's final state, the root of the summed squares of the Jacobian's
        entries over the directions drawn: ``rotated`` and ``unrotated`` ``[kind, seed, position]`` of models with
        random weights, with their angles and with all of them stopped, NaN where there are fewer seeds; ``trained``
        ``[prompt, position]`` of the model as it is. ``kinds`` names them: the model's own class and, beside a model
        of text, a Qwen-2 of eight layers. ``fresh_peak [seed, layer, head, position]`` (mean over prompts) and
        ``trained_peak [prompt, layer, head, position]`` are :func:`target_peaks` of the own class.
    """
    prompts = context_prompts(source, setting)
    vocabulary = 0 if isinstance(source, FamilySolver) else len(source)
    kinds = ({"qwen2": 4 * setting.fresh} if vocabulary else {}) | {"own": setting.fresh}
    shape = (len(kinds), max(kinds.values()), prompts.input_ids.shape[1])
    arrays = {name: np.full(shape, np.nan, np.float32) for name in ("rotated", "unrotated")}
    peaks = []
    for kind, (name, seeds) in enumerate(kinds.items()):
        for seed in range(seeds):
            fresh = small_qwen(vocabulary, seed) if name == "qwen2" else make_untrained(model, source, seed)
            ids = prompts.input_ids[seed % len(prompts.input_ids)][None]
            for way, interventions in (("rotated", ()), ("unrotated", (freeze_rotation(),))):
                with edit_rope(fresh.requires_grad_(False), *interventions, length=ids.shape[1]):
                    arrays[way][kind, seed] = influence(fresh, ids, directions(fresh, setting.draws, seed))[0]
            if name == "own":
                peaks.append(peaks_of(fresh, prompts).mean(0))
    trained = [influence(model, row[None], directions(model, setting.draws, 0))[0] for row in prompts.input_ids]
    own = peaks_of(model, prompts)
    return arrays | {
        "kinds": np.array(list(kinds)),
        "trained": torch.stack(trained).numpy(),
        "trained_peak": own,
        "fresh_peak": np.stack(peaks) if peaks else np.zeros((0, *own.shape[1:]), np.float32),
    }


def peaks_of(model: Any, prompts: Prompts) -> Float[np.ndarray, "prompt layer head target"]:
    """:func:`target_peaks` of every head on every prompt."""
    found = map_layers(
        model, prompts.input_ids, lambda heads: {"peak": target_peaks(heads, block_tokens(prompts))}, progress=False
    )
    return found["peak"].float().numpy()


def target_peaks(heads: LayerHeads, contents: slice) -> Float[Tensor, "prompt key_head group target"]:
    """Log of the weight that the positional part of a head puts on each place of the context when pointed at it.

    The positional part are the column means of ``C``, what a query makes of the mean key. Pointed at a target all
    planes add up there, and at a distance ``d`` from it the logit is ``sum over planes of |query| |mean key|
    cos(angle d)``. With one plane this is the head of Theorem 7 of Urrutia et al. (2026a); whatever the planes, the
    weight at an end is at most twice that at any other place. NaN in layers that do not see all of the context.
    """
    count = heads.keys.shape[-2]
    places = torch.arange(count, dtype=torch.float64, device=heads.keys.device)
    mean_key = rotate(heads.keys, -places, heads.angles)[..., contents, :].double().mean(-2)
    strength = heads.scale * (plane_squares(heads.query) * plane_squares(mean_key)).sqrt()
    place = places[contents] - places[contents][0]
    logits = strength @ (heads.angles[:, None] * place).cos()
    if heads.softcap is not None:
        logits = heads.softcap * (logits / heads.softcap).tanh()
    apart = (place[:, None] - place).abs().long()
    peak = logits[..., :1] - logits[..., apart].logsumexp(-1)
    return torch.where(heads.visible[..., contents].all(-1)[..., None], peak, torch.nan)


def directions(model: Any, count: int, seed: int) -> Float[Tensor, "direction width"]:
    """Random directions of a model's states, standard normal."""
    width = model.get_input_embeddings().weight.shape[1]
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed))


def small_qwen(vocabulary: int, seed: int) -> Any:
    """A Qwen-2 of eight layers and width 128 with random weights, in evaluation mode."""
    import transformers

    settings = transformers.Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=4,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.Qwen2ForCausalLM(settings).eval()


def influence(
    model: Any, input_ids: Int[Tensor, "prompt token"], directions: Float[Tensor, "direction width"]
) -> Float[Tensor, "prompt token"]:
    """How much each token's embedding moves the last token's final state along some directions.

    For all directions of an orthonormal basis this is the Frobenius norm of the Jacobian; for standard normal ones its
    square is that norm's, on average, times their number.
    """
    embedded = model.get_input_embeddings()(input_ids.to(find_input_device(model))).detach().requires_grad_()
    state = model.base_model(inputs_embeds=embedded, use_cache=False).last_hidden_state[:, -1]
    squares = torch.zeros(input_ids.shape)
    for direction in directions:
        (slope,) = torch.autograd.grad((state * direction.to(state)).sum(), embedded, retain_graph=True)
        squares += slope.square().sum(-1).cpu()
    return squares.sqrt()


def trace_binding(model: Any, source: Any, setting: LaterClaims) -> dict[str, np.ndarray]:
    """What a model says when its last token's state, behind one layer, comes from a prompt with its facts rearranged.

    Returns:
        ``said [control, layer, pair, outcome]``, whether the answer was this (:data:`OUTCOMES`; of the facts with none
        of these roles the mean), where the answer that the state comes from stands in the prompt (0) and where it does
        not (1); ``place [pair]``, of the fact that the state's prompt asked about.
    """
    said, places = [], []
    for clean, others, answers, place in rearrange_prompts(source, setting):
        states = [last_states(model, other) for other in others]
        logits = torch.stack([with_last_state(model, clean, state)[:, answers] for state in states])
        said.append(count_outcomes(logits))
        places.append(place)
    return {"said": np.stack(said, 2).astype(np.float32), "place": np.array(places)}


def rearrange_prompts(source: Any, setting: LaterClaims) -> Iterator[tuple[Tensor, tuple[Tensor, Tensor], Tensor, int]]:
    """Prompts, each with two others of the same words, the answers in question and the place asked about there.

    In the first other prompt another name is asked about, in another place and with another's attribute: these three
    are different facts of the prompt and none is the one that it asks about. The second has an attribute in that place
    that the prompt does not name. Answers are those of the fact asked about, of the facts in the place, with the name
    and with the attribute, of all further facts, and the attribute not named.
    """
    prompts = question_prompts(source, setting, setting.seed)
    generator = torch.Generator().manual_seed(setting.seed)
    everything = prompts.answer_ids.unique()
    facts = torch.arange(prompts.blocks)
    for row, clean in enumerate(prompts.input_ids):
        answers, asked = prompts.answer_ids[row], int(prompts.target[row])
        blocks = clean[prompts.start :][: prompts.blocks * prompts.block_length].view(prompts.blocks, -1)
        at = int((blocks[0] == answers[0]).nonzero())
        unused = everything[~torch.isin(everything, answers)]
        if len(unused) == 0 or prompts.blocks < 4 or len(set(answers.tolist())) < prompts.blocks:
            raise ValueError(
                "a place, a name and an answer can be told apart with four different facts or more and an attribute "
                f"that the prompt does not name; got {prompts.blocks} facts and {len(unused)} attributes. Pass more "
                "prompts"
            )
        drawn = facts[facts != asked][torch.randperm(prompts.blocks - 1, generator=generator)]
        place, name, answer = drawn[:3].tolist()
        names = _moved(facts, name, place, generator)
        attributes = _moved(facts, answer, place, generator)
        new = unused[int(torch.randint(len(unused), (), generator=generator))]
        others = []
        for last in (answers[answer], new):
            other = clean.clone()
            inside = other[prompts.start :][: prompts.blocks * prompts.block_length].view(prompts.blocks, -1)
            inside[:, 0], inside[:, at] = blocks[names, 0], answers[attributes]
            inside[place, at] = last
            tail = other[prompts.start + blocks.numel() :]
            tail[tail == blocks[asked, 0]] = blocks[name, 0]
            others.append(other)
        order = [asked, place, name, answer, *(int(x) for x in drawn[3:])]
        yield clean, (others[0], others[1]), torch.cat([answers[order], new[None]]), place


def _moved(facts: Tensor, which: int, where: int, generator: torch.Generator) -> Tensor:
    """All facts in a random order in which ``which`` stands ``where``."""
    rest = facts[facts != which][torch.randperm(len(facts) - 1, generator=generator)]
    return torch.cat([rest[:where], torch.tensor([which]), rest[where:]])


def last_states(model: Any, input_ids: Int[Tensor, " token"]) -> Float[Tensor, "layer width"]:
    """The last token's state behind every layer."""
    seen: list[Tensor] = []

    def look(module: Any, args: Any, output: Any) -> None:
        seen.append((output[0] if isinstance(output, tuple) else output)[0, -1])

    with contextlib.ExitStack() as stack, torch.no_grad():
        for layer in model.base_model.layers:
            stack.callback(layer.register_forward_hook(look).remove)
        model.base_model(input_ids[None].to(find_input_device(model)), use_cache=False)
    return torch.stack(seen)


def with_last_state(
    model: Any, input_ids: Int[Tensor, " token"], states: Float[Tensor, "layer width"]
) -> Float[Tensor, "layer vocabulary"]:
    """Logits behind a prompt when the last token's state behind one layer, each in turn, is another."""
    layers, input_ids = list(model.base_model.layers), input_ids.to(find_input_device(model))

    def change(number: int, module: Any, args: Any, output: Any) -> Any:
        hidden = (output[0] if isinstance(output, tuple) else output).clone()
        hidden[number, -1] = states[number]
        return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

    with contextlib.ExitStack() as stack, torch.no_grad():
        kept = model.base_model(input_ids[None, :-1], use_cache=True).past_key_values
        cache = copy.deepcopy(kept)
        cache.batch_repeat_interleave(len(layers))
        for number, layer in enumerate(layers):
            stack.callback(layer.register_forward_hook(partial(change, number)).remove)
        ids = input_ids[None, -1:].expand(len(layers), 1)
        return model(ids, past_key_values=cache, use_cache=True).logits[:, -1].float()


def count_outcomes(logits: Float[Tensor, "control layer answer"]) -> np.ndarray:
    """Which answer has the highest logit, ``[control, layer, outcome]``, see :data:`OUTCOMES`."""
    said = torch.nn.functional.one_hot(logits.argmax(-1).cpu(), logits.shape[-1]).float()
    return torch.cat([said[..., :4], said[..., 4:-1].mean(-1, keepdim=True), said[..., -1:]], -1).numpy()


EXPERIMENT = Experiment(settings=full_size, small=small, measure=measure, dims=DIMS, load=load_subject)
