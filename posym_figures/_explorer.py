"""The head explorer: every head of a model on the positional-symbolic plane, and one head in all its parts.

Like the figures of ``sliders`` it is one piece of HTML that answers without a kernel or a
network. Arrays are packed into 8 or 16 bits a number, and ``explorer.js`` draws from them. On a built page its state
stands in the address (``#head=12.0&tau=0.001``), so that a view can be linked.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import groupby
from typing import Any

import numpy as np

from posym_figures._controls import Slider
from posym_figures._frames import format_value, read_array, require_shape
from posym_figures._pages import SUPERSCRIPTS, Figure, render_page, require_texts

PAYLOAD_LIMIT = 1_000_000
"""Bytes of numbers that an explorer may carry on a page with others."""
SIZES = "Its lengths and tokens, and the temperatures and angles of the explorer, say how many of each there are"
SCORE, SHARE = ("length", "tau", "layer", "head"), ("length", "layer", "head")
TOKEN, PLANE = ("layer", "head", "token"), ("layer", "head", "plane")
# Dimensions, bits a number, and the power that spreads small values: codes are even steps of value ** (1 / power).
PACKING: Mapping[str, tuple[tuple[str, ...], int, float]] = {
    "positional": (SCORE, 16, 1),
    "symbolic": (SCORE, 16, 1),
    "positional_margin": (SCORE, 8, 1),
    "symbolic_margin": (SCORE, 8, 1),
    "positional_share": (SHARE, 16, 1),
    "symbolic_share": (SHARE, 16, 1),
    "entropy": (("layer", "head"), 16, 1),
    "attention": (TOKEN, 16, 2),
    "examples": (("prompt", *TOKEN), 8, 2),
    "plane_positional": (PLANE, 8, 1),
    "plane_symbolic": (PLANE, 8, 1),
    "plane_positional_share": (PLANE, 8, 1),
    "plane_symbolic_share": (PLANE, 8, 1),
    "plane_energy_share": (PLANE, 8, 2),
}

ARRAYS = tuple(PACKING)
"""Names of the arrays of a :class:`HeadInput`.

Scores ``[length, tau, layer, head]`` and half the widths of their intervals; shares of the logits' variance
``[length, layer, head]``, whose rest is interaction; entropy of the attention over its maximum ``[layer, head]``;
attention ``[layer, head, token]``, the mean over prompts, and as ``examples`` ``[prompt, layer, head, token]``, that on
each of the prompts that are shown; and of each rotation plane alone its scores, the shares of its own variance and its
part of the head's, ``[layer, head, plane]``. A layer in which no head attends to the first tokens at all does not see
them, and is marked where blocks are among them.
"""


@dataclass(frozen=True, eq=False)
class HeadInput:
    """All heads on one kind of input.

    Args:
        name: what links call it: letters, digits, ``-`` and ``_``.
        label: what the reader chooses it by.
        note: one sentence on it.
        tokens: texts of the tokens of each prompt that is shown, ``[prompt][token]``.
        start: first token of the first block.
        span: tokens that are cut into blocks.
        lengths: tokens a block, each a divisor of ``span``.
        arrays: numbers from 0 to 1, NaN where undefined, for each name of :data:`ARRAYS`.
        group: heading above it and its neighbours of the same group in the list of inputs, a model's name, say.
        labels: what the reader chooses a prompt by; needed for more than one.
    """

    name: str
    label: str
    _: KW_ONLY
    note: str
    tokens: Sequence[Sequence[str]]
    start: int
    span: int
    lengths: Sequence[int]
    arrays: Mapping[str, Any]
    group: str = ""
    labels: Sequence[str] = ()


class ExplorerFigure(Figure):
    """A finished explorer: displays itself in notebooks and on built pages."""


def head_explorer(
    inputs: Sequence[HeadInput],
    *,
    taus: Sequence[float],
    angles: Any,
    caption: str,
    alt: str,
    length: int | None = None,
    tau: float | None = None,
    head: tuple[int, int] = (0, 0),
    layers: Sequence[int] | None = None,
    marked: Sequence[int] = (),
    marked_label: str = "",
    turn: Any = None,
    turn_label: str = "turn",
    plane_note: str = "",
    limit: int = PAYLOAD_LIMIT,
) -> ExplorerFigure:
    """Draw all heads on the plane and one head in detail, with sliders for temperature and block length.

    Args:
        inputs: what the reader chooses among; the first is shown first. All have the same layers, heads and planes.
        taus: temperatures of the scores.
        angles: ``[layer, plane]``, radians a token, fastest first.
        caption: what the figure shows and how to use it.
        alt: what is seen, for readers who hear it.
        length, tau: shown first; the first of each unless given.
        head: layer and head shown first, as numbered in the arrays.
        layers: what layers are called, where they are not all of the model's; by default from 0.
        marked: layers, as numbered in the arrays, drawn as diamonds, and ``marked_label``, what they are.
        turn: ``[layer]``, frequency ID of a vertical line in the frequency profile, named ``turn_label``.
        plane_note: how the planes alone were scored, which follows no slider.
        limit: bytes of packed numbers that it may carry.

    Returns:
        A figure that displays itself.
    """
    require_texts(caption=caption, alt=alt)
    if not inputs:
        raise ValueError("an explorer must have at least one input; got none")
    _check_names([one.name for one in inputs])
    for one in inputs:
        _check_input(one)
    taus = [float(value) for value in taus]
    if not taus or not all(math.isfinite(value) and value > 0 for value in taus):
        raise ValueError(f"taus must be positive numbers, at least one; got {taus}")
    angles = require_shape("angles", angles, "layer", "plane")
    heads = (np.shape(inputs[0].arrays["entropy"]) or (0,))[-1]
    sizes = {"tau": len(taus), "layer": len(angles), "head": heads, "plane": angles.shape[1]}
    layer_and_head = tuple(int(place) for place in head)
    if not (0 <= layer_and_head[0] < sizes["layer"] and 0 <= layer_and_head[1] < heads):
        raise ValueError(f"head must be a layer below {sizes['layer']} and a head below {heads}; got {head}")
    called = list(range(sizes["layer"])) if layers is None else [int(layer) for layer in layers]
    if len(called) != sizes["layer"] or len(set(called)) < len(called):
        raise ValueError(f"layers must be a number of its own for each of {sizes['layer']} layers; got {called}")
    lengths = list(inputs[0].lengths)
    shown = {
        "length": lengths.index(_among("length", lengths[0] if length is None else length, lengths)),
        "tau": taus.index(_among("tau", taus[0] if tau is None else float(tau), taus)),
        "head": layer_and_head[0] * heads + layer_and_head[1],
    }
    marked = sorted(int(layer) for layer in marked)
    if bad := [layer for layer in marked if not 0 <= layer < sizes["layer"]]:
        raise ValueError(f"marked must be layers below {sizes['layer']}; got {bad[0]}")
    if turn is not None:
        turn = [float(f"{place:.4g}") for place in require_shape("turn", turn, ("layer", sizes["layer"]))]
    rows = np.unique(angles, axis=0)
    data = {
        "sizes": sizes,
        "layers": called,
        "taus": taus,
        "start": shown,
        "marked": marked,
        "turn": turn,
        "turnLabel": turn_label,
        "planeNote": plane_note,
        "angles": [[float(f"{angle:.3g}") for angle in row] for row in rows],
        "angleRow": [int(np.flatnonzero((rows == row).all(1))[0]) for row in angles],
        "inputs": [_packed_input(one, sizes) for one in inputs],
    }
    # The scores as the figure opens, for those who read them and those without scripts.
    first = [read_array(name, inputs[0].arrays[name]) for name in ("positional", "symbolic", "entropy")]
    columns = [array[shown["length"], shown["tau"]] if array.ndim == 4 else array for array in first]
    html = render_page(
        "explorer.html.j2",
        data,
        limit=limit,
        too_much="the packed numbers take {size:.1f} MB, but an explorer may carry {limit:.1f} MB; pass fewer inputs, "
        "prompts, layers, temperatures or block lengths",
        scripts=("core.js", "explorer.js", "explorer_page.js"),
        styles=("figure.css", "explorer.css"),
        groups=[(group, list(members)) for group, members in groupby(inputs, key=lambda one: one.group)],
        layers=called,
        heads=heads,
        sliders=[
            Slider("tau", "Temperature τ", taus, start=taus[shown["tau"]], format=format_tau),
            Slider("block", "Tokens a block", lengths, start=lengths[shown["length"]]),
        ],
        marked_label=marked_label,
        blind=[place > inputs[0].start for place in data["inputs"][0]["seen"]],
        table=[[format_value(value, ".2f") for value in row] for row in zip(*(map(np.ravel, columns)), strict=True)],
        caption=caption,
        alt=alt,
    )
    text = f"<head explorer, {len(called)} layers of {heads} heads: {alt}>"
    return ExplorerFigure(html=html, text=text)


def count_packed_bytes(
    *, lengths: int, taus: int, layers: int, heads: int, planes: int, tokens: int, prompts: int
) -> int:
    """Count the bytes that the numbers of one input take on the page, from how many there are of each."""
    known = {"length": lengths, "tau": taus, "layer": layers, "head": heads, "plane": planes, "token": tokens}
    known["prompt"] = prompts
    counts = [(math.prod(known[dim] for dim in dims), bits) for dims, bits, _ in PACKING.values()]
    return sum(4 * math.ceil(count * bits / 8 / 3) for count, bits in counts)


def select_layers(arrays: Mapping[str, Any], layers: Sequence[int]) -> dict[str, np.ndarray]:
    """Select some layers of the arrays of an input."""
    return {name: np.take(arrays[name], layers, axis=PACKING[name][0].index("layer")) for name in ARRAYS}


def _check_input(one: HeadInput) -> None:
    if missing := [name for name in ARRAYS if name not in one.arrays]:
        raise ValueError(f"arrays of input {one.name!r} must hold all of ARRAYS; {', '.join(missing)} not given")
    cuts = f"lengths of input {one.name!r} must cut {one.span} tokens into at least two equal blocks"
    if not len(one.lengths):
        raise ValueError(f"{cuts}; got none")
    if bad := [value for value in one.lengths if value < 1 or one.span % value or one.span // value < 2]:
        raise ValueError(f"{cuts}; {bad[0]} does not")
    numbers = {len(prompt) for prompt in one.tokens}
    if len(numbers) != 1 or any(isinstance(prompt, str) for prompt in one.tokens):
        raise ValueError(
            f"tokens of input {one.name!r} must be lists of texts, one a prompt, all of one length; got lengths "
            f"{sorted(numbers) or 'of no prompt'}"
        )
    if len(one.labels) != len(one.tokens) and (len(one.labels) or len(one.tokens) > 1):
        raise ValueError(
            f"labels of input {one.name!r} must be one for each of its {len(one.tokens)} prompts; got {len(one.labels)}"
        )


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            raise ValueError(f"an input's name has letters, digits, '_' and '-' only, for links; got {name!r}")
    if len(set(names)) < len(names):
        raise ValueError(f"names of inputs must differ; got {', '.join(names)}")


def _among(name: str, value: Any, values: Sequence[Any]) -> Any:
    if value not in values:
        raise ValueError(f"{name} must be one of {', '.join(map(str, values))}, which the sliders step; got {value}")
    return value


def _packed_input(one: HeadInput, sizes: Mapping[str, int]) -> dict[str, Any]:
    prompts = [[str(token) for token in prompt] for prompt in one.tokens]
    tokens = len(prompts[0])
    if not 0 <= one.start <= tokens - one.span:
        raise ValueError(
            f"input {one.name!r} has {tokens} tokens, too few for blocks over {one.span} from token {one.start}; pass "
            "a smaller span or start"
        )
    known = {**sizes, "length": len(one.lengths), "token": tokens, "prompt": len(prompts)}
    packed = {}
    for name, (dims, bits, power) in PACKING.items():
        what = f"{name} of input {one.name!r}"
        array = require_shape(what, one.arrays[name], *((dim, known[dim]) for dim in dims), way_out=SIZES)
        packed[name] = _packed(what, array, bits, power)
    named = {"name": one.name, "label": one.label, "note": one.note, "labels": list(one.labels)}
    cut = {"start": int(one.start), "span": int(one.span), "lengths": [int(length) for length in one.lengths]}
    return {**named, **cut, "prompts": prompts, "seen": _seen_from(one), "arrays": packed}


def _seen_from(one: HeadInput) -> list[int]:
    """Return the first token that any head of each layer attends to: a window hides those before it from all of them.

    A softmax gives nothing it sees a weight of 0, but to rounding, which does not take all heads on all prompts.
    """
    attends = (np.nan_to_num(read_array("attention", one.arrays["attention"])) > 0).any(axis=1)
    return np.where(attends.any(-1), attends.argmax(-1), 0).tolist()


def _packed(name: str, array: np.ndarray, bits: int, power: float) -> dict[str, Any]:
    """Numbers as codes of so many bits: ``low + (high - low) * (code / most) ** power``, the largest code undefined."""
    defined = array[np.isfinite(array)]
    # Rounding may leave a share a little outside.
    low, high = (float(defined.min()), float(defined.max())) if defined.size else (0.0, 1.0)
    if low < -1e-5 or (high > 1 + 1e-5 and "margin" not in name):
        raise ValueError(f"{name} must lie in 0 to 1, or be NaN where undefined; it spans {low:.4g} to {high:.4g}")
    low, high = float(f"{low:.6g}"), float(f"{high:.6g}")
    most = 2**bits - 2
    width = high - low or 1.0
    share = np.clip((array - low) / width, 0, 1) ** (1 / power)
    codes = np.where(np.isfinite(array), np.round(np.nan_to_num(share) * most), most + 1).astype(f"<u{bits // 8}")
    data = base64.b64encode(codes.tobytes()).decode("ascii")
    return {"bits": bits, "low": low, "high": high, "power": power, "data": data}


def format_tau(tau: float) -> str:
    """Return a temperature as readers write it.

    >>> format_tau(3e-4), format_tau(1e-5), format_tau(0.3), format_tau(1.0)
    ('3 × 10⁻⁴', '10⁻⁵', '0.3', '1')
    """
    if tau >= 0.01:
        return f"{tau:g}"
    mantissa, power = f"{tau:e}".split("e")
    factor = f"{float(mantissa):g}"
    raised = "10" + str(int(power)).translate(SUPERSCRIPTS)
    return raised if factor == "1" else f"{factor} × {raised}"
