"""GPT-J models that answer at the last token of a sequence: made, asked, and tested at any length.

Urrutia et al., *Positional versus Symbolic Attention Heads* (2026), section 2, train these from scratch on the Number
and the Letter task, with a single head a layer that rotates all its dimensions.

A head can be given an attention of our choice, such as a program's, or an output, such as its own mean over many
sequences, which tells later layers nothing about the sequence at hand: :func:`answers_with`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from posym_core.checks import require_counts
from posym_core.metrics.rope import join_planes, rope_angles, split_planes
from posym_core.models.training import SeededLoss, require_evaluation
from posym_core.tasks.multihop import LetterTask, NumberTask

# Tokens of one forward pass of a test: attention matrices of long sequences are formed in full.
TOKENS_A_BATCH = 8192


def decoder(
    *,
    vocabulary: int,
    layers: int = 12,
    heads: int = 1,
    width: int = 128,
    dropout: float = 0.1,
    angles: Float[Tensor, " plane"] | None = None,
    positions: int = 1024,
    seed: int = 0,
) -> Any:
    """A ``GPTJForCausalLM`` with random weights, on the CPU, in training mode.

    Args:
        vocabulary: number of tokens; embedding and read-out are not tied.
        layers: number of blocks, attention and a GELU network of four times the width in parallel.
        heads: heads a layer; each has ``width / heads`` dimensions, all rotated in neighbouring pairs.
        width: of the residual stream.
        dropout: of embeddings, attention weights and what blocks add.
        angles: radians per position, one per plane of a head; by default :func:`posym_core.rope_angles`.
        positions: longest sequence; :func:`set_angles` can raise it later.
        seed: of the weights. The caller's random state is left alone.

    Raises:
        ValueError: if ``heads`` does not divide ``width`` into even parts or the angles do not fit.
    """
    if width % (2 * heads):
        raise ValueError(f"{heads} heads must have an even number of dimensions each; width={width} gives them none")
    with warnings.catch_warnings():
        # tqdm looks for widgets when transformers first imports it in a notebook; no bar is going to be shown.
        warnings.filterwarnings("ignore", message="IProgress not found")
        from transformers import GPTJConfig, GPTJForCausalLM

    config = GPTJConfig(
        vocab_size=vocabulary,
        n_positions=positions,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        rotary_dim=width // heads,
        activation_function="gelu",
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = GPTJForCausalLM(config)
    set_angles(model, rope_angles(width // heads) if angles is None else angles, positions=positions)
    return model.train()


def set_angles(model: Any, angles: Float[Tensor, " plane"], *, positions: int) -> None:
    """Let all heads of a GPT-J model turn by ``angles`` per position, up to so many positions.

    GPT-J looks sines and cosines up in a table of float32 frequencies; this one is formed in float64 and cast last.
    """
    require_counts(positions=(positions, 1))
    planes = model.config.rotary_dim // 2
    if angles.shape != (planes,):
        raise ValueError(f"angles must have shape [{planes}], one per plane of a head; got {tuple(angles.shape)}")
    phase = torch.arange(positions, dtype=torch.float64)[:, None] * angles.double().cpu()
    table = torch.cat([phase.sin(), phase.cos()], dim=1).float()
    for block in model.transformer.h:
        block.attn.embed_positions = table.to(model.device)
    model.config.n_positions = positions


def answer_logits(model: Any, tokens: Int64[Tensor, "sequence token"]) -> Float[Tensor, "sequence vocabulary"]:
    """Logits of the token that follows the last; those of the others are not formed."""
    if tokens.shape[1] > model.config.n_positions:
        raise ValueError(
            f"the model has positions for {model.config.n_positions} tokens; got sequences of {tokens.shape[1]}. "
            "Call set_angles with more positions"
        )
    hidden = model.transformer(tokens, use_cache=False).last_hidden_state
    return model.lm_head(hidden[:, -1])


class AnswerLoss(SeededLoss):
    """Cross-entropy of the answers, for batches ``(tokens, answer, seed)``."""

    def loss(self, tokens, answer):
        return nn.functional.cross_entropy(answer_logits(self.model, tokens), answer)


@torch.no_grad()
def right_answers(model: Any, tokens: Int64[Tensor, "sequence token"], answer: Int64[Tensor, " sequence"]) -> Tensor:
    """Which sequences a model in evaluation mode answers with the right token, ``[sequence]`` bool on the CPU."""
    require_evaluation(model)
    device = model.device
    step = max(1, TOKENS_A_BATCH // tokens.shape[1])
    found = [answer_logits(model, part.to(device)).argmax(-1).cpu() for part in tokens.split(step)]
    return torch.cat(found) == answer.cpu()


def mean_by_hops(x: Tensor, hops: Int64[Tensor, " sequence"], longest: int) -> Float[Tensor, "hop *rest"]:
    """Mean of ``x`` ``[sequence, ...]`` over the sequences of 1, 2, ... ``longest`` hops; NaN where there is none."""
    return torch.stack([x[hops == number].double().mean(0) for number in range(1, longest + 1)])


def accuracy_by_length(
    model: Any,
    task: NumberTask | LetterTask,
    lengths: Sequence[int],
    *,
    count: int = 400,
    seed: int = 0,
    progress: bool = False,
) -> Float[Tensor, "length hop"]:
    """Accuracy when the target window is lengthened in front of the effective one.

    Urrutia et al. 2026b, figure 5B. What is added is of the window's kind and on no path.

    Args:
        model: in evaluation mode, with positions for the longest sequence (:func:`set_angles`).
        task: what the model was trained on.
        lengths: tokens of whole sequences, at least ``window + steps + 1``.
        count: sequences a length, in equal parts of every number of hops.
        seed: of the sequences.
        progress: show a bar.

    Raises:
        ValueError: if a length is below the task's own or beyond the model's positions.
    """
    from tqdm import tqdm

    least = task.window + task.steps + 1
    if short := [length for length in lengths if length < least]:
        raise ValueError(f"sequences of this task have at least {least} tokens; got lengths {short}")
    rows = []
    for length in tqdm(lengths, desc="lengths", disable=not progress, leave=False):
        generator = torch.Generator().manual_seed(seed)
        batch = task.sample(count, generator=generator, extra=length - least)
        rows.append(mean_by_hops(right_answers(model, batch.tokens, batch.answer), batch.hops, task.hops))
    return torch.stack(rows)


LayerHead = tuple[int, int]


@torch.no_grad()
def answers_with(
    model: Any,
    tokens: Int64[Tensor, "sequence token"],
    *,
    attention: Mapping[LayerHead, Float[Tensor, "sequence query key"]] | None = None,
    output: Mapping[LayerHead, Float[Tensor, "*rows dim"]] | None = None,
    seen: Callable[[int, Tensor, Tensor], None] | None = None,
) -> Float[Tensor, "sequence vocabulary"]:
    """Logits of the token after the last, with some heads altered.

    Args:
        model: from :func:`posym_core.models.gptj.decoder`, in evaluation mode.
        tokens: on the model's device.
        attention: weights instead of a head's own, by (layer, head).
        output: what a head adds before its layer's output projection, by (layer, head): ``[dim]``, ``[token, dim]`` or
            ``[sequence, token, dim]``. It wins over ``attention``.
        seen: called with (layer, attention ``[sequence head query key]``, output ``[sequence head token dim]``) as
            altered.

    Raises:
        ValueError: if the model is in training mode or a head does not exist.
    """
    attention, output = attention or {}, output or {}
    require_evaluation(model)
    depth, heads = len(model.transformer.h), model.config.n_head
    for layer, head in {**attention, **output}:
        if not (0 <= layer < depth and 0 <= head < heads):
            raise ValueError(f"the model has {depth} layers of {heads} heads, counted from 0; got {(layer, head)}")
    future = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool, device=tokens.device).triu(1)
    x = model.transformer.wte(tokens)
    for layer, block in enumerate(model.transformer.h):
        read = block.ln_1(x)
        query, keys = (_turned(block.attn, project(read)) for project in (block.attn.q_proj, block.attn.k_proj))
        values = _by_head(block.attn, block.attn.v_proj(read))
        logits = query @ keys.transpose(-1, -2) / block.attn.scale_attn
        weights = logits.masked_fill(future, -torch.inf).softmax(-1)
        for head in range(heads):
            if (layer, head) in attention:
                weights[:, head] = attention[layer, head].to(weights)
        said = weights @ values
        for head in range(heads):
            if (layer, head) in output:
                said[:, head] = output[layer, head].to(said)
        if seen is not None:
            seen(layer, weights, said)
        x = x + block.attn.out_proj(said.transpose(1, 2).flatten(2)) + block.mlp(read)
    return model.lm_head(model.transformer.ln_f(x[:, -1]))


def mean_outputs(model: Any, tokens: Int64[Tensor, "sequence token"]) -> dict[LayerHead, Float[Tensor, "token dim"]]:
    """What every head says on average at every position of these sequences."""
    found: dict[LayerHead, Tensor] = {}

    def keep(layer: int, _: Tensor, said: Tensor) -> None:
        found.update({(layer, head): x for head, x in enumerate(said.mean(0))})

    answers_with(model, tokens, seen=keep)
    return found


def _by_head(attention: Any, x: Tensor) -> Float[Tensor, "sequence head token dim"]:
    return x.unflatten(-1, (attention.num_attention_heads, attention.head_dim)).transpose(1, 2)


def _turned(attention: Any, x: Tensor) -> Float[Tensor, "sequence head token dim"]:
    """Queries or keys at their positions, by the model's own table of sines and cosines."""
    sine, cosine = attention.embed_positions[: x.shape[1]].to(x).chunk(2, dim=-1)
    first, second = split_planes(_by_head(attention, x), "neighbours")
    return join_planes(first * cosine - second * sine, second * cosine + first * sine, "neighbours")
