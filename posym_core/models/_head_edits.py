"""What single heads of our own models hand on, replaced while the model runs.

Their forward passes take an edit. Hugging Face decoders have none: there the same is done by
:func:`posym_profile.interventions.ablate_heads`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jaxtyping import Float
from torch import Tensor

LayerHead = tuple[int, int]
# From a layer's number and what its heads hand on, [..., head, token, dim], to what goes on.
Edit = Callable[[int, Tensor], Tensor]


def replace_heads(new: Mapping[LayerHead, Float[Tensor, "*rows dim"]]) -> Edit:
    """Return an edit that lets some heads hand on something else.

    Args:
        new: by layer and head, from 0: ``[dim]``, ``[token, dim]``, or with the dimensions before the heads'.
    """

    def edit(layer: int, output: Tensor) -> Tensor:
        output = output.clone()
        for (edited, head), x in new.items():
            if edited == layer:
                output[..., head, :, :] = x.to(output)
        return output

    return edit
