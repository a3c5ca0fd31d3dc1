"""Two claims of papers that came after the three of this book, on language models.

They qualify what is said of positional and symbolic heads: the answers of heads that retrieve without their slow planes
(Bayram, 2026), and the influence of a token by its place before any training (Chowdhury, 2026; Herasimchyk et al.,
2026). The first needs models that were taught to bind, the second is asked on text. What is asked of
them stands in the claims of this name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from posym_companion.experiments import SECOND, Experiment, load_experiment_model, slug
from posym_companion.head_measurements import look
from posym_companion.one_head.head_geometry import with_random_weights
from posym_companion.solvers.prompt_roles import answer_pairs, patched_heads
from posym_profile.capture import find_input_device
from posym_profile.interventions import (
    Intervention,
    edit_rope,
    freeze_rotation,
    remove_planes,
    select_by_id,
    select_fastest,
    select_slowest,
)
from posym_profile.language_models import PACKAGED, choose_answers
from posym_profile.planes import find_planes
from posym_profile.prompts import binding_prompts, text_prompts

Part = Literal["retrieval", "influence"]
TAUGHT, SECOND_TAUGHT = f"{PACKAGED}-binds", f"{SECOND}-binds"
# What each claim is first asked of: its own name is that of the part.
FIRST = {"retrieval": TAUGHT, "influence": PACKAGED}
# A head carries the answer if its output brings back this part of the difference between two prompts.
CARRIES = 0.1
SHARES = (0.125, 0.25, 0.5)
DIMS = {
    "retrieval": {
        "restored": "layer head",
        "energy": "layer head plane",
        "conditions": "condition",
        "correct log_probability": "condition prompt",
    },
    "influence": {"kinds": "kind", "rotated unrotated": "kind seed position", "trained": "prompt position"},
}


@dataclass(frozen=True, kw_only=True)
class LaterClaims:
    """One claim.

    Attributes:
        part: ``"retrieval"`` or ``"influence"``.
        model: name for :func:`posym_profile.load_model`.
        length: facts, or tokens of text.
        prompts: how many.
        draws: random sets of planes and of heads; directions of the last token's state.
        fresh: models of the same class with random weights.
        seed: of everything that is drawn.
    """

    part: Part
    model: str = PACKAGED
    length: int = 64
    prompts: int = 16
    draws: int = 4
    fresh: int = 2
    seed: int = 0

    @property
    def name(self) -> str:
        return f"later_claims/{self.part}" + ("" if self.model == FIRST[self.part] else f"_{slug(self.model)}")


def full_size() -> list[LaterClaims]:
    """Return both claims of both families."""
    influence = LaterClaims(part="influence", length=127, prompts=8, draws=2)
    retrieval = LaterClaims(part="retrieval", model=TAUGHT, length=16, prompts=12, draws=8, fresh=0)
    return [influence, retrieval, replace(influence, model=SECOND), replace(retrieval, model=SECOND_TAUGHT)]


def shrink(setting: LaterClaims) -> LaterClaims:
    """Return a size for trying out."""
    return replace(
        setting, length=4 if setting.part == "retrieval" else 32, prompts=4, draws=1, fresh=min(1, setting.fresh)
    )


def measure(model: Any, tokenizer: Any, setting: LaterClaims, *, progress: bool = True) -> dict[str, np.ndarray]:
    """Return what :func:`measure_retrieval` or :func:`measure_influence` does; there is no bar."""
    if setting.part == "influence":
        with torch.enable_grad():
            return measure_influence(model, tokenizer, setting)
    with torch.no_grad():
        return measure_retrieval(model, tokenizer, setting)


def measure_retrieval(model: Any, tokenizer: Any, setting: LaterClaims) -> dict[str, np.ndarray]:
    """Return answers to binding prompts without some planes of the heads that carry the answer, and of others.

    Returns:
        ``restored [layer, head]``, the part of the difference between two prompts' answers that a head brings back;
        ``energy [layer, head, plane]``, each plane's part of what all planes make the logits vary by, each on its own;
        ``conditions``, and under each ``correct`` and ``log_probability`` of the right attribute among those named,
        ``[condition, prompt]``.
    """
    prompts = binding_prompts(tokenizer, facts=setting.length, count=setting.prompts, seed=setting.seed)
    generator = torch.Generator().manual_seed(setting.seed)
    patched = patched_heads(model, answer_pairs(prompts, generator), setting.prompts // 2)
    whole = patched["clean_whole"].sum() - patched["other_whole"].sum()
    restored = (patched["answer_patched"] - patched["other_whole"][:, None, None]).sum(0) / whole
    planes = find_planes(model, prompts.input_ids.shape[1])
    energy = look(model, prompts, ["plane_energy_share"])["plane_energy_share"].nanmean(0)
    # Other prompts than those that tell which heads carry the answer.
    prompts = binding_prompts(tokenizer, facts=setting.length, count=setting.prompts, seed=setting.seed + 1)
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
    """Return what is done to the heads that carry the answer, and to as many others."""
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
    """Return planes of the slowest ``share`` and planes of the rest, by frequency ID, that have as much of a head's
    energy.

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


def measure_influence(model: Any, tokenizer: Any, setting: LaterClaims) -> dict[str, np.ndarray]:
    """Return influence of every token on the last token's final state, on the same texts, before training and after.

    Returns:
        ``rotated`` and ``unrotated`` ``[kind, seed, position]`` of models with random weights, with their angles and
        with all of them stopped, NaN where there are fewer seeds; ``trained [prompt, position]`` of the model as it
        is. ``kinds`` names the models with random weights: a Qwen-2 of eight layers, and the model's own class.
    """
    prompts = text_prompts(tokenizer, facts=setting.length, count=setting.prompts, seed=setting.seed)
    kinds = {"qwen2": 4 * setting.fresh, "own": setting.fresh}
    shape = (len(kinds), max(kinds.values()), prompts.input_ids.shape[1])
    arrays = {name: np.full(shape, np.nan, np.float32) for name in ("rotated", "unrotated")}
    for kind, (name, seeds) in enumerate(kinds.items()):
        for seed in range(seeds):
            fresh = small_qwen(len(tokenizer), seed) if name == "qwen2" else with_random_weights(model, seed)
            ids = prompts.input_ids[seed % len(prompts.input_ids)][None]
            for way, interventions in (("rotated", ()), ("unrotated", (freeze_rotation(),))):
                with edit_rope(fresh.requires_grad_(False), *interventions, length=ids.shape[1]):
                    arrays[way][kind, seed] = influence(fresh, ids, directions(fresh, setting.draws, seed))[0]
    trained = [influence(model, row[None], directions(model, setting.draws, 0))[0] for row in prompts.input_ids]
    return arrays | {"kinds": np.array(list(kinds)), "trained": torch.stack(trained).numpy()}


def directions(model: Any, count: int, seed: int) -> Float[Tensor, "direction width"]:
    """Return random directions of a model's states, standard normal."""
    width = model.get_input_embeddings().weight.shape[1]
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed))


def small_qwen(vocabulary: int, seed: int) -> Any:
    """Return a Qwen-2 of eight layers and width 128 with random weights, in evaluation mode."""
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
    """Return how much each token's embedding moves the last token's final state along some directions.

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


EXPERIMENT = Experiment(
    settings=full_size,
    small=shrink,
    measure=measure,
    dims=lambda setting: DIMS[setting.part],
    load=load_experiment_model,
)
