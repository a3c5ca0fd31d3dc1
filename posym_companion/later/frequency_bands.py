"""The frequency band: what becomes of a language model whose planes below its largest keys do not turn.

Oka et al., *Frequency Bands in RoPE* (2026), find that keys are largest in one band of dimensions, and that what lies
below it, the slower planes, may go without rotation at inference. Here the band of two families is found, and what lies
below it is stopped, zeroed or made to turn as fast as the band; as many planes directly above and as many drawn at
random are stopped beside it, and all of it is done to models with random weights, too. Measured are the loss on text,
how far the next word's distribution moves, and binding by the number of facts in models that were taught it. The paper
was read by its abstract, and its definition of the band in notes that others took of its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from posym_companion.loop import Experiment, language_model, plain
from posym_companion.one_head.head_geometry import with_random_weights
from posym_core.inspection.capturing import input_device
from posym_core.inspection.heads import LayerHeads
from posym_core.inspection.layer_measurement import profile_with
from posym_core.inspection.plane_interventions import Intervention, ablated, every, stopped
from posym_core.inspection.plane_surgery import surgery
from posym_core.inspection.planes import Planes, find_planes
from posym_core.models.answers import choice_accuracy
from posym_core.models.language import PACKAGED
from posym_core.models.outlines import outline_of
from posym_core.tasks import binding_prompts, text_prompts

PLAIN = (PACKAGED, "smollm2-135m")
DRAWS = (0, 1, 2)
# Losses of so many neighbouring tokens are one number.
STRETCH = 32
# Tokens whose words are predicted at once: a vocabulary is large.
AT_ONCE = 128
DIMS = {
    "angles sizes": "layer plane",
    "cut sees": "layer",
    "own": "layer head",
    "loss moved": "condition length stretch",
    "correct": "condition facts prompt",
    "conditions": "condition",
    "lengths": "length",
    "facts": "facts",
}


@dataclass(frozen=True, kw_only=True)
class FrequencyBands:
    """One model.

    Attributes:
        model: name for :func:`posym_core.load_model`.
        draw: seed of random weights; None for the model's own. Planes are those below the band of the model's own.
        lengths: of the windows of text, in tokens.
        windows: of each length.
        scored: tokens at the end of a window whose losses count.
        facts: of binding prompts; none for a model that was not taught to bind.
        prompts: of each number of facts.
        random: sets of planes drawn at random.
        only: what is done beside stopping these; everything, if nothing is named.
        seed: of everything that is drawn.
    """

    model: str = PACKAGED
    draw: int | None = None
    lengths: tuple[int, ...] = (2048,)
    windows: int = 1
    scored: int = 512
    facts: tuple[int, ...] = ()
    prompts: int = 12
    random: int = 2
    only: tuple[str, ...] = ()
    seed: int = 0

    @property
    def name(self) -> str:
        """What the result is called."""
        return f"frequency_bands/{plain(self.model)}{'' if self.draw is None else f'-random{self.draw}'}"


def full_size() -> list[FrequencyBands]:
    """Both families: as they come, with random weights, and taught to bind."""
    found = [FrequencyBands(model=model) for model in PLAIN]
    found += [FrequencyBands(model=f"{model}-binds", lengths=(), facts=(8, 64)) for model in PLAIN]
    beside = ("none", "below stopped")
    return found + [FrequencyBands(model=model, draw=draw, scored=64, only=beside) for draw in DRAWS for model in PLAIN]


def small(setting: FrequencyBands | None = None) -> FrequencyBands:
    """A size for trying out."""
    setting = setting or FrequencyBands()
    lengths = (64,) if setting.lengths else ()
    facts = (4,) if setting.facts else ()
    return replace(setting, lengths=lengths, windows=1, scored=32, facts=facts, prompts=2, random=1)


@dataclass(frozen=True, kw_only=True)
class Band:
    """Where a model's keys are largest.

    Attributes:
        sizes: root mean square of a layer's keys in every plane, over a text's tokens and the layer's key heads.
        own: of every query head the plane, counted from 0 for the fastest, that is largest at most tokens of its keys.
        cut: the first plane of each layer that lies below the band: beyond the mean of ``own`` over all heads of the
            layers that turn alike.
    """

    sizes: Float[Tensor, "layer plane"]
    own: Float[Tensor, "layer head"]
    cut: Int[Tensor, " layer"]


def band_of(model: Any, input_ids: Int[Tensor, "prompt token"], planes: list[Planes]) -> Band:
    """The band of a model on some text.

    The largest plane of a token's key, the plane that this is for most tokens, and the mean over heads and layers are
    the paper's index of the band, as its readers note it. Layers whose angles differ have bands of their own. The first
    token does not count.
    """

    def one_layer(heads: LayerHeads) -> dict[str, Tensor]:
        first, second = heads.keys[..., 1:, :].double().square().chunk(2, dim=-1)
        squares = first + second
        largest = torch.nn.functional.one_hot(squares.argmax(-1), squares.shape[-1]).sum(-2)
        shape = (*heads.query.shape[:3], squares.shape[-1])
        return {"squares": squares.mean(-2).expand(shape), "largest": largest.expand(shape)}

    found = profile_with(model, input_ids, one_layer, progress=False, planes=planes)
    own = found["largest"].sum(0).argmax(-1)
    cut = torch.zeros(len(own), dtype=torch.long)
    angles = torch.stack([each.angles for each in planes])
    for kind in angles.unique(dim=0):
        alike = (angles == kind).all(-1)
        cut[alike] = int(own[alike].double().mean()) + 1
    return Band(sizes=found["squares"].mean((0, 2)).sqrt(), own=own.double(), cut=cut)


def operations(
    band: Band, planes: list[Planes], setting: FrequencyBands, generator: torch.Generator
) -> dict[str, tuple[Intervention, ...]]:
    """What is done to the planes below the band of each layer, to as many others, and below each head's own largest."""
    count = len(planes[0].angles)
    below = [torch.arange(count) >= cut for cut in band.cut]
    number = [int(mask.sum()) for mask in below]
    cuts = band.cut.tolist()
    above = [
        (torch.arange(count) < cut) & (torch.arange(count) >= cut - some)
        for cut, some in zip(cuts, number, strict=True)
    ]
    fast = [float(each.angles[cut - 1]) for each, cut in zip(planes, cuts, strict=True)]

    def everywhere(
        do: Callable[..., Intervention], masks: list[Tensor], layers: range = range(len(cuts))
    ) -> tuple[Intervention, ...]:
        return tuple(do(_these(masks[layer]), layers=[layer]) for layer in layers)

    planned: dict[str, tuple[Intervention, ...]] = {
        "none": (),
        "below stopped": everywhere(stopped, below),
        "below zeroed": everywhere(ablated, below),
        "below as fast as the band": tuple(_turning(below[layer], fast[layer], [layer]) for layer in range(len(cuts))),
        "above stopped": everywhere(stopped, above),
        "below each head's own stopped": tuple(
            stopped(_these(torch.arange(count) > int(plane)), heads=[(layer, head)])
            for layer, row in enumerate(band.own)
            for head, plane in enumerate(row)
        ),
    }
    for draw in range(setting.random):
        masks = []
        for some in number:
            mask = torch.zeros(count, dtype=torch.bool)
            mask[torch.randperm(count, generator=generator)[:some]] = True
            masks.append(mask)
        planned[f"random stopped, {draw}"] = everywhere(stopped, masks)
    return planned


def _these(mask: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda angles: mask.to(angles.device)


def _turning(mask: Tensor, angle: float, layers: list[int]) -> Intervention:
    """The chosen planes turn by one angle."""
    return Intervention(
        change=lambda angles: (torch.where(mask.to(angles.device), angle, angles), every(angles)), layers=layers
    )


def measure(model: Any, tokenizer: Any, setting: FrequencyBands, *, progress: bool = True) -> dict[str, np.ndarray]:
    """Find the band and operate on the planes below it and on others.

    Returns:
        ``sizes [layer, plane]``, ``own [layer, head]`` and ``cut [layer]`` of :class:`Band`, of the weights that are
        measured but for ``cut``, which is that of the model's own; ``angles [layer, plane]``; ``sees [layer]``, tokens
        of the longest prompt that a layer can see. Under each of ``conditions``, with a leading ``condition``:
        ``loss`` and ``moved [.., length, stretch]``, nats a token that the text costs and that the distribution of the
        next word has moved from the model's own (its Kullback-Leibler divergence), mean over neighbouring tokens of the
        windows' ends; ``correct [.., facts, prompt]``.
    """
    generator = torch.Generator().manual_seed(setting.seed)
    texts = {length: _windows(tokenizer, setting, length) for length in setting.lengths}
    asked = [
        binding_prompts(tokenizer, facts=facts, count=setting.prompts, seed=setting.seed) for facts in setting.facts
    ]
    longest = max([*setting.lengths, *(prompts.input_ids.shape[1] for prompts in asked)])
    planes = find_planes(model, longest)
    shown = _windows(tokenizer, replace(setting, windows=4), min(512, longest))
    band = band_of(model, shown, planes)
    planned = operations(band, planes, setting, generator)
    if setting.only:
        planned = {name: planned[name] for name in planned if name in setting.only or name.startswith("random")}
    sizes, own = band.sizes, band.own
    if setting.draw is not None:
        model = with_random_weights(model, setting.draw)
        drawn = band_of(model, shown, planes)
        sizes, own = drawn.sizes, drawn.own
    # What the model itself says of the next word, by length and window.
    said: dict[tuple[int, int], Tensor] = {}
    rows: dict[str, list[np.ndarray]] = {"loss": [], "moved": [], "correct": []}
    for number, interventions in enumerate(planned.values()):
        with surgery(model, *interventions, planes=planes):
            lengths = [_of_text(model, texts[length], setting.scored, said, length) for length in setting.lengths]
            right = [choice_accuracy(model, prompts).correct.numpy() for prompts in asked]
        for name, found in (("loss", [x[0] for x in lengths]), ("moved", [x[1] for x in lengths]), ("correct", right)):
            if found:
                rows[name].append(np.stack(found))
        if progress:
            print(f"{setting.name}: {number + 1} of {len(planned)} conditions", flush=True)
    windows = [window or longest for window in outline_of(model).windows]
    return {
        "angles": torch.stack([each.angles for each in planes]).double().cpu().numpy(),
        "sizes": sizes.float().cpu().numpy(),
        "own": own.float().cpu().numpy(),
        "cut": band.cut.numpy(),
        "sees": np.minimum(windows, longest),
        "conditions": np.array(list(planned)),
        "lengths": np.array(setting.lengths, dtype=int),
        "facts": np.array(setting.facts, dtype=int),
        **{name: np.stack(found) for name, found in rows.items() if found},
    }


def _windows(tokenizer: Any, setting: FrequencyBands, length: int) -> Int[Tensor, "window token"]:
    """Windows of prose, with the mark of beginning in front if the tokenizer has one."""
    return text_prompts(tokenizer, facts=length - 1, count=setting.windows, seed=setting.seed).input_ids[:, :length]


def _of_text(
    model: Any, windows: Int[Tensor, "window token"], scored: int, said: dict[tuple[int, int], Tensor], length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Loss and what the next word's distribution has moved, ``[stretch]`` each; the first call keeps its states."""
    losses, moves = [], []
    for number, window in enumerate(windows.to(input_device(model))):
        with torch.no_grad():
            state = model.base_model(window[None], use_cache=False).last_hidden_state[0, -scored - 1 : -1]
            own = said.setdefault((length, number), state)
            for now, before, word in _in_parts(state, own, window[-scored:]):
                new, old = (model.lm_head(x).float().log_softmax(-1) for x in (now, before))
                losses.append(-new.gather(-1, word[:, None])[:, 0].cpu())
                moves.append((old.exp() * (old - new)).sum(-1).cpu())
    return tuple(torch.cat(x).unflatten(0, (-1, STRETCH)).mean(-1).numpy() for x in (losses, moves))  # pyright: ignore


def _in_parts(*rows: Tensor) -> Iterator[tuple[Tensor, ...]]:
    return zip(*(x.split(AT_ONCE) for x in rows), strict=True)


EXPERIMENT = Experiment(settings=full_size, small=small, measure=measure, dims=DIMS, load=language_model)
