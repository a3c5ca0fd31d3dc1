"""Score all heads of a language model, positional and symbolic, in the forward pass that yields their keys.

Anything else that is a function of one layer's query and keys is measured in the same way by
:func:`posym_profile.scores.map_layers`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from posym_core._checks import is_fake, require_count
from posym_core.metrics import BlockLayout, score_swaps
from posym_profile.capture._capturing import check_input_ids
from posym_profile.capture._padding import remove_padding
from posym_profile.capture._wrappers import unwrap
from posym_profile.language_models._model_summary import get_text_config, list_windows
from posym_profile.planes._rotary_planes import Planes
from posym_profile.scores._head_tables import list_labels, make_head_rows, pack_labels, pack_windows
from posym_profile.scores._labels import HeadLabels, measure_head_labels
from posym_profile.scores._layer_heads import LayerHeads
from posym_profile.scores._layer_measurement import (
    LAST,
    NUMBERS_HELD,
    Queries,
    measure_layers,
    resolve_queries,
)
from posym_profile.scores._visibility import (
    POSITIONAL,
    HiddenBlocksWarning,
    LongPromptWarning,
    count_tokens_beyond,
    describe_hidden_blocks,
    describe_long_prompts,
    format_runs,
)

Score = Literal["positional", "symbolic", "entropy"]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Scores of every head of a model on every prompt, on the CPU; NaN where a layer has fewer heads or planes.

    Where several queries were asked for, all have a dimension for these behind the prompts': ``[prompt, query, ...]``.
    :meth:`at` gives the profile of one.

    Attributes:
        positional: ``s_POS``, ``[prompt, layer, head]`` or ``[prompt, layer, head, plane]``.
        symbolic: ``s_SYM``.
        entropy: entropy of the attention over all visible keys, divided by its maximum.
        visible_blocks: how many blocks the query sees whole in each layer, ``[prompt, layer]``. The others lie beyond
            a sliding window, are cut by its edge, or do not stand before the query: what is swapped into them gets no
            attention, or less, whatever a head looks for, so that heads of such layers come out as positional. None if
            not counted.
        tokens_beyond: how many tokens each prompt has more than the model's ``max_position_embeddings``, ``[prompt]``;
            0 for all where the configuration names no limit. None if not asked.
        queries: the tokens whose queries are scored, as they were asked for; negative ones count from the end.
        blocks: number of blocks of each prompt, ``[prompt]``. None if not counted.
        windows: tokens that each layer sees, as the configuration says, or None for all. None if not asked, or if not
            every layer attends.
        labels: what else is known of heads; None if not asked for.
    """

    positional: Float[Tensor, "prompt *scored"]
    symbolic: Float[Tensor, "prompt *scored"]
    entropy: Float[Tensor, "prompt *scored"]
    visible_blocks: Int[Tensor, "prompt *query layer"] | None = None
    tokens_beyond: Int[Tensor, " prompt"] | None = None
    queries: tuple[int, ...] = LAST
    blocks: Int[Tensor, " prompt"] | None = None
    windows: tuple[int | None, ...] | None = None
    labels: HeadLabels | None = None

    def at(self, query: int) -> Profile:
        """Return the profile of one of :attr:`queries`, ``[prompt, layer, head]``."""
        if query not in self.queries:
            raise ValueError(f"query must be one of {', '.join(map(str, self.queries))}; got {query!r}")
        if len(self.queries) == 1:
            return self
        names = (*get_args(Score), "visible_blocks")
        place = self.queries.index(query)
        one: dict[str, Any] = {name: x[:, place] for name in names if (x := getattr(self, name)) is not None}
        return replace(self, **one, queries=(query,))

    def frame(self, *, intervals: bool = False) -> Any:
        """Make a row for each head on each prompt (or each plane), in their order; heads that a layer lacks have none.

        Args:
            intervals: a row for each head instead, with means over prompts and their 95% intervals: the columns of
                ``heads.csv``, which the command line writes.

        Returns:
            A pandas ``DataFrame`` if pandas is installed, else a dict of its columns as NumPy arrays: ``prompt``,
            of several queries ``query``, ``layer``, ``head``, with ``per_frequency`` also ``plane``, then the scores
            and, where they are known, ``visible_blocks``, ``window`` (NaN for none) and the labels.
        """
        columns = self._means() if intervals else self._rows()
        try:
            from pandas import DataFrame
        except ModuleNotFoundError:
            return columns
        return DataFrame(columns)

    def _rows(self) -> dict[str, Any]:
        """Return columns with a row for each prompt, query, head and plane."""
        # A head that sees fewer than two blocks has no score and an entropy all the same.
        defined = ~self.entropy.isnan()
        several = ["query"] if len(self.queries) > 1 else []
        names = ["prompt", *several, "layer", "head", "plane"][: defined.ndim]
        places = dict(zip(names, (place.numpy() for place in defined.nonzero(as_tuple=True)), strict=True))
        columns: dict[str, Any] = dict(places)
        if several:
            columns["query"] = np.array(self.queries)[places["query"]]
        columns |= {name: getattr(self, name)[defined].numpy() for name in get_args(Score)}
        if self.visible_blocks is not None:
            columns["visible_blocks"] = self.visible_blocks.numpy()[tuple(places[x] for x in names[: 2 + len(several)])]
        arrays = self._pack_layers()
        if "window" in arrays:
            columns["window"] = arrays["window"][places["layer"]]
        for name in list_labels(arrays):
            columns[name] = arrays[f"label_{name}"][places["layer"], places["head"]]
        return columns

    def _means(self) -> dict[str, Any]:
        """Return columns with a row for each head, or each query and head."""
        if self.entropy.ndim > 3 + (len(self.queries) > 1):
            raise ValueError("planes are scored, and intervals are of heads; profile without per_frequency")
        arrays = {name: getattr(self, name).numpy() for name in get_args(Score)} | self._pack_layers()
        if self.visible_blocks is not None and self.blocks is not None:
            arrays |= {"visible_blocks": self.visible_blocks.numpy(), "blocks": self.blocks.numpy()}
        if len(self.queries) > 1:
            arrays["queries"] = np.array(self.queries)
        rows = make_head_rows(arrays)
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def _pack_layers(self) -> dict[str, np.ndarray]:
        """Pack what is known of layers and heads whatever the prompt, as arrays of a profile."""
        arrays = {} if self.windows is None else {"window": pack_windows(self.windows)}
        return arrays if self.labels is None else arrays | pack_labels(self.labels)

    def top(self, k: int, score: Score) -> list[tuple[int, int]]:
        """Return the ``k`` heads of the highest score, mean over prompts, as ``(layer, head)``, the highest first.

        :func:`posym_profile.interventions.ablate_heads` takes heads as they are named here. Layers are numbered in the
        order in which the model attends; those without attention do not count.
        """
        if score not in get_args(Score):
            raise ValueError(f"score must be one of {', '.join(get_args(Score))}; got {score!r}")
        values: Tensor = getattr(self, score)
        if len(self.queries) > 1:
            several = ", ".join(map(str, self.queries))
            raise ValueError(f"top is of one query, and there are {several}; call at(query).top(...) with one of them")
        if values.ndim != 3:
            raise ValueError("planes are scored, and top names heads; profile without per_frequency")
        require_count("k", k, 1)
        mean = values.nanmean(0)
        heads = int((~mean.isnan()).sum())
        if k > heads:
            raise ValueError(f"k must be at most the number of heads, {heads}; got {k}")
        best = mean.flatten().nan_to_num(-torch.inf).argsort(descending=True, stable=True)[:k]
        return [divmod(place, mean.shape[1]) for place in best.tolist()]


def profile(
    model: nn.Module,
    input_ids: Int[Tensor, "prompt token"] | Int[Tensor, " token"],
    attention_mask: Tensor | None = None,
    *,
    start: int,
    block_length: int,
    blocks: int | None = None,
    tau: float = 1e-4,
    per_frequency: bool = False,
    progress: bool = True,
    batch_size: int | None = None,
    planes: Sequence[Planes] | None = None,
    visible_only: bool | None = None,
    queries: Queries = LAST,
    labels: bool = False,
    products: torch.dtype | None = None,
) -> Profile:
    """Score every head, positional and symbolic, at the last token of every prompt, or at others.

    Urrutia et al., *Decoupling Positional and Symbolic Attention Behavior in Transformers*, section 4: the keys of the
    blocks are swapped at each head's own input, with everything else fixed. Where keys mix neighbouring tokens before
    they are rotated (Zaya convolves them), swapped keys are not the keys of swapped tokens.

    Args:
        model: any Hugging Face decoder with rotary encoding, in evaluation mode; see :func:`posym_profile.load_model`.
            It may be wrapped by what :func:`posym_profile.capture.unwrap` knows.
        input_ids: ``[prompt, token]``, or one prompt ``[token]``.
        attention_mask: 1 for tokens and 0 for padding, of the shape of ``input_ids``. Every prompt is run and scored
            without its padding, and those of one length that follow each other together. None for no padding.
        start: first token of the first block, counted from the prompt's first token that is no padding.
        block_length: tokens per block.
        blocks: number of blocks; by default as many as fit between ``start`` and the prompt's last token, whichever
            are the queries.
        tau: temperature of the weights over pairs of blocks; more pairs count than those whose attention differs most,
            the higher it is.
        per_frequency: score every rotation plane as a head of its own.
        progress: show a progress bar.
        batch_size: prompts per forward pass; by default about 4,096 tokens.
        planes: what :func:`posym_profile.planes.find_planes` found for this model and length, to save
            asking again; for prompts of several lengths, only if the model's angles do not depend on them.
        visible_only: what to do in layers where a query does not see all blocks. True scores those alone that it sees
            whole, as :func:`posym_core.swap_scores` does when it is given just those; fewer than two have no scores
            (NaN). False scores all. None does so, too, and warns.
        queries: tokens whose queries are scored, counted like ``start``, or negative from the prompt's end. Each must
            stand behind at least two blocks. A model with a causal mask sees no block behind a query: with
            ``visible_only=True`` a token has the scores of the last token of a prompt that ends there. Each costs as
            much as the last token.
        labels: also say how much each head is of the kinds that :func:`posym_profile.scores.measure_head_labels`
            tells; two passes more over short prompts of its own.
        products: dtype in which queries and keys are multiplied, see :func:`posym_core.swap_scores`. By default
            ``torch.float64``, but ``torch.float32`` on cards where that is many times slower: those whose compute
            capability is not 6.0, 7.0, 8.0, 9.0 or 10.0. Heads of a model on Apple's MPS, which has no float64, are
            scored on the CPU.

    Returns:
        A :class:`Profile`; one prompt ``[token]`` gives a batch of one.

    Raises:
        UnsupportedModelError: if the model is not a decoder with rotary encoding that can be captured.

    Warns:
        HiddenBlocksWarning: if a layer does not see all blocks, and ``visible_only`` is None.
        LongPromptWarning: if prompts are longer than ``max_position_embeddings`` of the model's configuration.

    >>> scores = profile(model, prompts.input_ids, **prompts.layout)  # doctest: +SKIP
    >>> scores.top(5, "symbolic")  # doctest: +SKIP
    """
    model = unwrap(model)
    runs = remove_padding(model, check_input_ids(input_ids, least=3), attention_mask, least=3)
    swaps = BlockLayout(start=start, block_length=block_length, blocks=blocks, tau=tau)
    lengths = [run.shape[1] for run in runs for _ in run]
    fitted = [swaps.fit(length).number for length in lengths]
    numbers = check_queries(queries, lengths, swaps)
    if warning := describe_long_prompts(count_tokens_beyond(model, lengths)):
        warnings.warn(warning, LongPromptWarning, stacklevel=2)
    scored: dict[str, Any] = {"per_frequency": per_frequency, "visible_only": bool(visible_only), "products": products}
    measure = functools.partial(score_layer, swaps=swaps, **scored)
    head_labels = measure_head_labels(model) if labels else None
    options: dict[str, Any] = {"progress": progress, "batch_size": batch_size, "planes": planes, "hold": NUMBERS_HELD}
    measured = measure_layers(model, runs, measure, queries=numbers, **options)
    scores = assemble_profile(measured, model, lengths, fitted, numbers)
    if visible_only is None and not is_fake(scores.entropy):
        counts = count_visible_blocks(measured).reshape(len(lengths) * len(numbers), -1).tolist()
        blocks_of_rows = [number for number in fitted for _ in numbers]
        consequence = (
            f"{POSITIONAL}; pass visible_only=True to score visible blocks alone, visible_only=False if hidden ones "
            "are meant to count, or shorter prompts"
        )
        last = numbers == [*LAST]
        if warning := describe_hidden_blocks(counts, blocks_of_rows, consequence, last=last):
            warnings.warn(warning, HiddenBlocksWarning, stacklevel=2)
    return replace(scores, labels=head_labels)


def check_queries(queries: Queries, lengths: Collection[int], swaps: BlockLayout) -> list[int]:
    """Return queries as whole numbers; each must stand behind two blocks in prompts of all these lengths."""
    least = swaps.start + 2 * swaps.block_length
    numbers = resolve_queries(queries, lengths)
    shortest = min(lengths)
    for query in numbers:
        if query % shortest < least:
            before = max(0, query % shortest - swaps.start) // swaps.block_length
            raise ValueError(
                f"queries must stand behind at least two blocks, from token {least} on (start={swaps.start}, "
                f"block_length={swaps.block_length}); got {query}, which has {before} before it in a prompt of "
                f"{shortest} tokens. Pass a later token, or a smaller start or block_length"
            )
    return numbers


def score_layer(
    heads: LayerHeads,
    swaps: BlockLayout,
    *,
    per_frequency: bool = False,
    visible_only: bool = False,
    products: torch.dtype | None = None,
) -> dict[str, Tensor]:
    """Score a layer's heads, and count their visible blocks, as a profile keeps them."""
    options: dict[str, Any] = {
        "per_frequency": per_frequency,
        "products": products or choose_products(heads.keys.device),
    }
    swaps = swaps.fit(heads.keys.shape[-2])
    seen = heads.find_seen_blocks(swaps)
    if visible_only and not seen.all():
        scores = _score_seen(seen, heads, swaps, options)
    else:
        scores = _score(heads, swaps, options)
    return {**scores, "visible_blocks": seen.sum(-1)[:, None, None].expand(heads.query.shape[:3])}


def choose_products(device: torch.device) -> torch.dtype:
    """Return the dtype for products on a device, float64 unless it is many times slower there than float32."""
    if device.type != "cuda":
        return torch.float64
    major, minor = torch.cuda.get_device_capability(device)
    return torch.float64 if minor == 0 and major <= 10 else torch.float32


def _score(heads: LayerHeads, swaps: BlockLayout, options: Mapping[str, Any]) -> dict[str, Tensor]:
    scores = score_swaps(heads, swaps, **options)
    return {name: getattr(scores, name) for name in get_args(Score)}


def _score_seen(
    seen: Bool[Tensor, "prompt block"], heads: LayerHeads, swaps: BlockLayout, options: Mapping[str, Any]
) -> dict[str, Tensor]:
    """Score over the blocks that are seen whole; NaN where there are fewer than two."""
    whole: dict[str, Tensor] = {}
    kinds, kind = seen.unique(dim=0, return_inverse=True)
    for number, run in enumerate(kinds):
        index = (kind == number).nonzero().flatten()
        first, count = int(run.int().argmax()), int(run.sum())
        if not bool(run[first : first + count].all()):
            raise ValueError(
                f"visible_only scores blocks that stand next to each other, but layer {heads.layer} sees blocks "
                f"{format_runs(run.nonzero().flatten().tolist())} of {len(run)}; pass visible_only=False, or other "
                "blocks"
            )
        begin = swaps.start + first * swaps.block_length
        part = replace(swaps, start=begin, blocks=count) if count > 1 else swaps
        for name, x in _score(heads.select_prompts(index), part, options).items():
            whole.setdefault(name, x.new_empty(len(seen), *x.shape[1:]))
            whole[name][index] = x if count > 1 or name == "entropy" else torch.nan
    return whole


def assemble_profile(
    measured: Mapping[str, Tensor],
    model: nn.Module,
    lengths: Sequence[int],
    blocks: Sequence[int],
    queries: Sequence[int] = LAST,
) -> Profile:
    """Make a profile of the scores of all layers, with the tokens and blocks of each prompt."""
    scores: dict[str, Any] = {name: measured[name] for name in get_args(Score)}
    counts = count_visible_blocks(measured)
    return Profile(
        **scores,
        visible_blocks=counts,
        tokens_beyond=torch.tensor(count_tokens_beyond(model, lengths)),
        queries=tuple(queries),
        blocks=torch.tensor(blocks),
        windows=find_windows(model, counts.shape[-1]),
    )


def read_profile_arrays(arrays: Mapping[str, np.ndarray], queries: Sequence[int] = LAST) -> Profile:
    """Read a profile from the arrays of a folder, see :class:`posym_profile.report.ProfileRun`, and its queries."""
    tensors = {name: torch.from_numpy(np.array(x)) for name, x in arrays.items()}
    labels = {name: tensors[f"label_{name}"] for name in list_labels(arrays)}
    scores: dict[str, Any] = {name: tensors[name] for name in get_args(Score)}
    counts: dict[str, Any] = {name: tensors.get(name) for name in ("visible_blocks", "tokens_beyond", "blocks")}
    window = arrays.get("window")
    return Profile(
        **scores,
        **counts,
        queries=tuple(queries),
        windows=None if window is None else tuple(None if np.isnan(size) else int(size) for size in window),
        labels=HeadLabels(**labels) if labels else None,
    )


def find_windows(model: nn.Module, layers: int) -> tuple[int | None, ...] | None:
    """Find how many tokens each attention layer sees by its configuration; None where layers are not told apart."""
    config: Any = getattr(model, "config", None)
    windows = list_windows(get_text_config(config)) if hasattr(config, "get_text_config") else ()
    return windows if len(windows) == layers else None


def count_visible_blocks(measured: Mapping[str, Tensor]) -> Int[Tensor, "prompt *query layer"]:
    """Count the visible blocks of each layer, of which every head tells."""
    return measured["visible_blocks"][..., 0].long()
