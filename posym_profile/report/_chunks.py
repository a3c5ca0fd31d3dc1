"""Measure prompts a chunk at a time, wherever there is a process for it.

A chunk is what is lost when a run is killed, and what is done again when a worker dies.
"""

from __future__ import annotations

import errno
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from posym_core.metrics import BlockLayout, draw_latin_square, permute_blocks
from posym_core.store import choose_device, describe_device, hold
from posym_profile.language_models._answers import choose_answers
from posym_profile.language_models._loading import identify_model, load_model
from posym_profile.planes._rotary_planes import Planes, find_planes
from posym_profile.report._profile_settings import ProfileSettings
from posym_profile.report._prompt_files import BlockedPrompt, join_prompts
from posym_profile.scores._cubes import make_key_anova, measure_cube_logits
from posym_profile.scores._head_tables import pack_labels, pack_windows
from posym_profile.scores._labels import measure_head_labels
from posym_profile.scores._layer_heads import LayerHeads
from posym_profile.scores._layer_measurement import NUMBERS_HELD, TOKENS_A_BATCH, map_layers, stack_padded
from posym_profile.scores._profiling import Score, count_visible_blocks, find_windows, score_layer
from posym_profile.scores._visibility import count_tokens_beyond

# A chunk has at most this many prompts however short they are, so that a run can be shared out and goes on well.
PROMPTS_A_CHUNK = 16
# Of the Latin square of every prompt's orders, the default of origin_cube.
SQUARE_SEED = 0
# Of the symbolic part of a prompt: what goes with these.
OF_SYMBOLIC_PART = ("symbol", "origin")


class NotEnoughMemoryError(RuntimeError):
    """Not even one prompt fits into memory."""


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Measurements of some prompts.

    Attributes:
        arrays: those of :class:`ProfileRun` that are measured, but for angles: ``plane_angle/<length>`` is
            ``[layer, plane]``.
        device: what ran it, in words.
        seconds: how long it took.
        batch: prompts per forward pass that fitted into memory.
    """

    arrays: dict[str, np.ndarray]
    device: str
    seconds: float
    batch: int


@dataclass
class _Loaded:
    """A model, and what is known of it."""

    model: Any
    planes: dict[int, list[Planes]] = field(default_factory=dict)
    fits: dict[int, int] = field(default_factory=dict)

    @cached_property
    def labels(self) -> dict[str, np.ndarray]:
        """Measure the labels of the heads once."""
        return pack_labels(measure_head_labels(self.model))

    def find_planes(self, length: int) -> list[Planes]:
        """Find the planes for prompts of a length once."""
        if length not in self.planes:
            self.planes[length] = list(find_planes(self.model, length))
        return self.planes[length]


def hold_model(settings: ProfileSettings, identity: Mapping[str, str]) -> _Loaded:
    """Return the model of a profile, loaded unless this process holds it already."""
    places = {"device": settings.device, "device_map": settings.device_map}
    key = (settings.model, *places.values(), settings.dtype, *sorted(identity.items()), torch.get_num_threads())
    return hold(key, lambda: _load(settings, identity, places))


def choose_pass_size(length: int, batch_size: int | None = None) -> int:
    """Choose the prompts of ``length`` tokens in a pass: ``batch_size``, or about 4,096 tokens and at most 16."""
    return batch_size or min(PROMPTS_A_CHUNK, max(1, TOKENS_A_BATCH // length))


def choose_chunk_size(prompt: BlockedPrompt, settings: ProfileSettings) -> int:
    """Choose the prompts like this in a chunk: those of a pass; with ``cube`` so many that all orders are a pass."""
    size = choose_pass_size(len(prompt.input_ids), settings.batch_size)
    return max(1, size // prompt.blocks) if settings.cube else size


def measure_chunk(prompts: Sequence[BlockedPrompt], *, settings: ProfileSettings, identity: Mapping[str, str]) -> Chunk:
    """Measure the prompts of a chunk in one forward pass, or in several where memory does not hold them at once.

    With ``cube`` further passes follow, with the prompts' blocks in other orders.

    Args:
        prompts: of one shape.
        settings: how to measure, and which model.
        identity: what ``identify_model`` says of the model that is meant.

    Raises:
        NotEnoughMemoryError: if one prompt or the model does not fit.
        RuntimeError: if this process has another model under the name.
    """
    began = time.perf_counter()
    loaded = hold_model(settings, identity)
    device, length = _describe_devices(loaded.model), len(prompts[0].input_ids)
    size = min(len(prompts), loaded.fits.get(length, len(prompts)))
    what = f"{settings.model} on {device}"
    arrays, size = measure_in_batches(lambda batch: _measure(loaded, batch, settings), prompts, size, what)
    if size < len(prompts):
        loaded.fits[length] = size
    if settings.cube:
        most = choose_pass_size(length, settings.batch_size)
        most = min(len(prompts) * prompts[0].blocks, most, loaded.fits.get(length, most))
        shares, size = _measure_cubes(loaded, prompts, most, what)
        arrays |= shares
        if size < most:
            loaded.fits[length] = size
    if settings.labels:
        arrays |= loaded.labels
    layers = arrays["visible_blocks"].shape[-1]
    if (windows := find_windows(loaded.model, layers)) is not None:
        arrays["window"] = pack_windows(windows)
    return Chunk(arrays=arrays, device=device, seconds=time.perf_counter() - began, batch=size)


def belongs_to_model(name: str) -> bool:
    """Return whether an array is the same for all prompts, or all of one length."""
    return name == "window" or name.startswith(("label_", "plane_angle"))


def measure_in_batches(
    measure: Callable[[Sequence[Any]], dict[str, np.ndarray]], prompts: Sequence[Any], size: int, what: str
) -> tuple[dict[str, np.ndarray], int]:
    """Measure ``size`` prompts at a time, and half as many whenever memory runs out; also return the size that fits."""
    parts: list[dict[str, np.ndarray]] = []
    first = 0
    while first < len(prompts):
        try:
            parts.append(measure(prompts[first : first + size]))
            first += size
            continue
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # Out of the handler, because the error holds on to the frames that hold the memory.
        release_memory()
        if size == 1:
            raise NotEnoughMemoryError(
                f"memory does not hold one prompt of {len(prompts[0].input_ids):,} tokens with {what}; pass shorter "
                "prompts, a smaller model, --dtype bfloat16, --device-map auto, or a device with more memory"
            )
        size = max(1, size // 2)
    whole = {name: parts[0][name] if belongs_to_model(name) else np.concatenate([part[name] for part in parts])
             for name in parts[0]}  # fmt: skip
    return whole, size


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out, on a GPU or in torch's or Python's allocator on the CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    words = str(error).lower()
    return isinstance(error, RuntimeError) and any(
        phrase in words for phrase in ("can't allocate memory", "not enough memory", "out of memory")
    )


def release_memory() -> None:
    """Give back what is not in use."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def is_disk_full(error: BaseException) -> bool:
    """Return whether a disk or a quota is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


def _load(settings: ProfileSettings, meant: Mapping[str, str], places: Mapping[str, Any]) -> _Loaded:
    name = settings.model
    release_memory()
    identity = identify_model(name)
    if identity != dict(meant):
        raise RuntimeError(
            f"a worker finds {identity} under the name {name!r}, but {dict(meant)} is meant; bring the same model to "
            "all machines"
        )
    try:
        model, _ = load_model(name, dtype=getattr(torch, settings.dtype) if settings.dtype else None, **places)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise NotEnoughMemoryError(
            f"memory does not hold {name} itself; pass a smaller model, --dtype bfloat16 or --device-map auto"
        ) from error
    return _Loaded(model=model)


def _measure(loaded: _Loaded, prompts: Sequence[BlockedPrompt], settings: ProfileSettings) -> dict[str, np.ndarray]:
    batch = join_prompts(prompts)
    length = batch.input_ids.shape[1]
    swaps = BlockLayout(**batch.layout, tau=settings.tau, eps=settings.eps)
    angles: dict[int, Tensor] = {}

    def measure(heads: LayerHeads) -> dict[str, Tensor]:
        angles[heads.layer] = heads.angles.cpu()
        options = {"visible_only": settings.visible_only}
        measured = score_layer(heads, swaps, **options)
        if settings.per_frequency:
            planes = score_layer(heads, swaps, per_frequency=True, **options)
            measured |= {f"plane_{name}": planes[name] for name in get_args(Score)}
        if settings.energy:
            energy = heads.frequency_shares().energy
            measured["plane_energy"] = energy / energy.sum(-1, keepdim=True)
        return measured

    once = {"progress": False, "batch_size": len(prompts), "planes": loaded.find_planes(length)}
    measured = map_layers(loaded.model, batch.input_ids, measure, queries=settings.queries, **once)
    arrays = {name: x.float().numpy() for name, x in measured.items()}
    arrays["visible_blocks"] = count_visible_blocks(measured).numpy()
    arrays["tokens_beyond"] = np.array(count_tokens_beyond(loaded.model, [length] * len(prompts)), dtype=np.int64)
    if settings.per_frequency or settings.energy:
        arrays[f"plane_angle/{length}"] = stack_padded([angles[layer] for layer in sorted(angles)], dim=0).numpy()
    if batch.answer_ids.shape[1]:
        choices = choose_answers(loaded.model, batch, batch_size=len(prompts))
        arrays |= {name: getattr(choices, name).numpy() for name in ("correct", "log_probability", "alternatives")}
    return arrays


def _measure_cubes(
    loaded: _Loaded, prompts: Sequence[BlockedPrompt], size: int, what: str
) -> tuple[dict[str, np.ndarray], int]:
    """Measure the shares of each prompt's variance; the orders of all prompts share passes, of the size that fits."""
    first = prompts[0]
    swaps = BlockLayout(**first.layout).fit(len(first.input_ids))
    orders = draw_latin_square(first.blocks, torch.Generator().manual_seed(SQUARE_SEED))
    rows = [
        replace(prompt, input_ids=tuple(reordered))
        for prompt in prompts
        for reordered in permute_blocks(
            torch.tensor(prompt.input_ids), orders, start=first.start, block_length=first.block_length
        ).tolist()
    ]

    def measure(batch: Sequence[BlockedPrompt]) -> dict[str, np.ndarray]:
        measured = map_layers(
            loaded.model,
            join_prompts(batch).input_ids,
            partial(measure_cube_logits, swaps=swaps),
            progress=False,
            batch_size=len(batch),
            planes=loaded.find_planes(len(first.input_ids)),
            hold=NUMBERS_HELD,
        )
        return {"logits": measured["logits"].numpy(), "seen": measured["seen"][:, :, 0].numpy()}

    arrays, size = measure_in_batches(measure, rows, size, what)
    seen = torch.from_numpy(arrays["seen"][0]).bool()
    logits = torch.from_numpy(arrays["logits"]).unflatten(0, (len(prompts), len(orders)))
    of_prompts: list[dict[str, Tensor]] = []
    for of_prompt in logits:
        # A layer at a time, because cubes are large and made of several copies.
        layers = [
            make_key_anova(part[None], orders, see[None], rounding=torch.finfo(torch.float32).eps)
            for part, see in zip(of_prompt.unbind(1), seen, strict=True)
        ]
        shares = {f"cube_{name}": [layer.shares[name][0] for layer in layers] for name in layers[0].shares}
        for name in OF_SYMBOLIC_PART:
            shares[f"symbolic_part_{name}"] = [layer.symbolic_shares[name][0] for layer in layers]
        of_prompts.append({name: torch.stack(parts) for name, parts in shares.items()})
    return {name: torch.stack([x[name] for x in of_prompts]).float().numpy() for name in of_prompts[0]}, size


def _describe_devices(model: Any) -> str:
    places = {parameter.device for parameter in model.parameters() if parameter.device.type != "meta"}
    return " and ".join(sorted(describe_device(place) for place in places or {choose_device("cpu")}))
