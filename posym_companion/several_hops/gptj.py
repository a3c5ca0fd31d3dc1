"""GPT-J models that answer at the last token of a sequence: made, asked, and tested at any length.

Urrutia et al., *Positional versus Symbolic Attention Heads* (2026), section 2, train these from scratch on the Number
and the Letter task, with a single head a layer that rotates all its dimensions.

A head can be given an attention of our choice, such as a program's, or an output, such as its own mean over many
sequences, which tells later layers nothing about the sequence at hand: :func:`run_with_edits`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from posym_core._checks import require_counts, require_evaluation
from posym_core.metrics import rope_angles
from posym_core.models import LayerHead, replace_heads, rotate_neighbours
from posym_core.tasks import LetterTask, NumberTask

# Tokens of one forward pass of a test: attention matrices of long sequences are formed in full.
TOKENS_A_BATCH = 8192


def make_gptj(
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
    """Return a ``GPTJForCausalLM`` with random weights, on the CPU, in training mode.

    Embedding and read-out are not tied, and all dimensions of a head are rotated, in neighbouring pairs. The caller's
    random state is left alone.
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
    for module in find_tables(model):
        module.embed_positions = table.to(model.device)
    model.config.n_positions = positions


def find_tables(model: Any) -> list[Any]:
    """Return the modules that hold sines and cosines: one of the model, or before transformers 5.24 one a layer."""
    return [module for module in model.modules() if hasattr(module, "embed_positions")]


Attend = Callable[[int, Tensor, Tensor], Tensor]


def compute_answer_logits(
    model: Any,
    tokens: Int64[Tensor, "sequence token"],
    *,
    factors: Float[Tensor, " factor"] | None = None,
    attend: Attend | None = None,
) -> Float[Tensor, "sequence vocabulary"]:
    """Return logits of the next token, by a forward pass that reads no number and copies none to a device.

    It equals that of transformers, which serves as the measure of it in tests. Without
    ``factors``, from :func:`draw_dropout`, nothing is dropped, whatever the model's mode. ``attend`` is called with
    (layer, attention ``[sequence head query key]``, values ``[sequence head token dim]``) and gives what heads say.
    """
    length = tokens.shape[1]
    if length > model.config.n_positions:
        raise ValueError(
            f"the model has positions for {model.config.n_positions} tokens; got sequences of {length}. "
            "Call set_angles with more positions"
        )
    shapes = _dropped_shapes(model, tokens.shape)
    dropped = None if factors is None or not factors.numel() else iter(factors.split([math.prod(x) for x in shapes]))

    def drop(x: Tensor) -> Tensor:
        return x if dropped is None else x * next(dropped).view(x.shape)

    table = find_tables(model)[0].embed_positions[:length]
    future = torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)
    x = drop(model.transformer.wte(tokens))
    for layer, block in enumerate(model.transformer.h):
        heads, mlp, read = block.attn, block.mlp, block.ln_1(x)
        query, keys, values = (
            project(read).unflatten(-1, (heads.num_attention_heads, -1)).transpose(1, 2)
            for project in (heads.q_proj, heads.k_proj, heads.v_proj)
        )
        sine, cosine = table.to(read).chunk(2, dim=-1)
        turns = torch.complex(cosine, sine)
        logits = rotate_neighbours(query, turns) @ rotate_neighbours(keys, turns).transpose(-1, -2)
        logits = logits / query.shape[-1] ** 0.5
        weights = drop(logits.masked_fill(future, -torch.inf).softmax(-1))
        outputs = weights @ values if attend is None else attend(layer, weights, values)
        added = drop(heads.out_proj(outputs.transpose(1, 2).flatten(2)))
        x = added + drop(mlp.fc_out(mlp.act(mlp.fc_in(read)))) + x
    return model.lm_head(model.transformer.ln_f(x[:, -1]))


def draw_dropout(model: Any, shape: Sequence[int], seed: int) -> Float[Tensor, " factor"]:
    """Return what :func:`compute_answer_logits` multiplies by for tokens of this shape: 0, or 1 over the share that
    is kept.

    On a CPU drawn place by place in the order in which transformers' layers draw: these are their numbers after
    ``torch.manual_seed(seed)``. A GPU has other numbers anyway and draws all at once. Empty for a model without
    dropout.
    """
    keeping = 1 - model.config.resid_pdrop
    sizes = [math.prod(x) for x in _dropped_shapes(model, shape)] if keeping < 1 else []
    factors = torch.empty(sum(sizes), device=model.device)
    generator = torch.Generator(factors.device).manual_seed(seed)
    for part in [factors] if factors.device.type == "cuda" else factors.split(sizes):
        part.bernoulli_(keeping, generator=generator)
    return factors.div_(keeping)


def _dropped_shapes(model: Any, shape: Sequence[int]) -> list[tuple[int, ...]]:
    """Return shapes of what dropout meets: embeddings, and in every layer attention and what its two halves add."""
    sequences, length = shape
    stream = (sequences, length, model.config.n_embd)
    return [stream, *[(sequences, model.config.n_head, length, length), stream, stream] * model.config.n_layer]


class AnswerLoss(nn.Module):
    """Cross-entropy of a model's answers, for batches ``(tokens, answer, seed)``.

    Dropout is drawn before the step from the batch's seed, and the step is given its factors. So it leaves nothing to
    chance, and the data's generators are the only source of it.
    """

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def prepare(self, batch: tuple[Tensor, Tensor, int]) -> tuple[Tensor, Tensor, Tensor]:
        tokens, answer, seed = batch
        return tokens, answer, draw_dropout(self.model, tokens.shape, seed)

    def forward(self, tokens: Tensor, answer: Tensor, factors: Tensor) -> Float[Tensor, ""]:
        return nn.functional.cross_entropy(compute_answer_logits(self.model, tokens, factors=factors), answer)

    def losses(self, batch: tuple[Tensor, Tensor, Tensor]) -> Float[Tensor, ""]:
        return self(*batch)


@torch.no_grad()
def mark_right_answers(
    model: Any, tokens: Int64[Tensor, "sequence token"], answer: Int64[Tensor, " sequence"]
) -> Tensor:
    """Return which sequences a model in evaluation mode answers right, ``[sequence]`` bool on the CPU."""
    require_evaluation(model)
    device = model.device
    step = max(1, TOKENS_A_BATCH // tokens.shape[1])
    answers = [compute_answer_logits(model, part.to(device)).argmax(-1).cpu() for part in tokens.split(step)]
    return torch.cat(answers) == answer.cpu()


def average_by_hops(x: Tensor, hops: Int64[Tensor, " sequence"], longest: int) -> Float[Tensor, "hop *rest"]:
    """Return mean of ``x`` ``[sequence, ...]`` over the sequences of 1 to ``longest`` hops; NaN where there is none."""
    return torch.stack([x[hops == number].double().mean(0) for number in range(1, longest + 1)])


def measure_accuracy_by_length(
    model: Any,
    task: NumberTask | LetterTask,
    lengths: Sequence[int],
    *,
    count: int = 400,
    seed: int = 0,
    progress: bool = False,
) -> Float[Tensor, "length hop"]:
    """Return accuracy when the target window is lengthened in front of the effective one.

    Urrutia et al. 2026b, figure 5B. What is added is of the window's kind and on no path.
    """
    from tqdm import tqdm

    least = task.window + task.steps + 1
    if short := [length for length in lengths if length < least]:
        raise ValueError(f"sequences of this task have at least {least} tokens; got lengths {short}")
    rows = []
    for length in tqdm(lengths, desc="lengths", disable=not progress, leave=False):
        generator = torch.Generator().manual_seed(seed)
        batch = task.sample(count, generator=generator, extra=length - least)
        rows.append(average_by_hops(mark_right_answers(model, batch.tokens, batch.answer), batch.hops, task.hops))
    return torch.stack(rows)


@torch.no_grad()
def run_with_edits(
    model: Any,
    tokens: Int64[Tensor, "sequence token"],
    *,
    attention: Mapping[LayerHead, Float[Tensor, "sequence query key"]] | None = None,
    output: Mapping[LayerHead, Float[Tensor, "*rows dim"]] | None = None,
    seen: Callable[[int, Tensor, Tensor], None] | None = None,
) -> Float[Tensor, "sequence vocabulary"]:
    """Return logits of the token after the last, with some heads altered, by (layer, head).

    ``attention`` stands for a head's own weights, and ``output`` for what it adds before its layer's output projection,
    ``[dim]``, ``[token, dim]`` or ``[sequence, token, dim]``; it wins. ``seen`` is called with (layer, attention
    ``[sequence head query key]``, output ``[sequence head token dim]``) as altered.
    """
    attention, output = attention or {}, output or {}
    require_evaluation(model)
    depth, heads = len(model.transformer.h), model.config.n_head
    for layer, head in {**attention, **output}:
        if not (0 <= layer < depth and 0 <= head < heads):
            raise ValueError(f"the model has {depth} layers of {heads} heads, counted from 0; got {(layer, head)}")
    change = replace_heads(output)

    def attend(layer: int, weights: Tensor, values: Tensor) -> Tensor:
        for head in range(heads):
            if (layer, head) in attention:
                weights[:, head] = attention[layer, head].to(weights)
        changed = change(layer, weights @ values)
        if seen is not None:
            seen(layer, weights, changed)
        return changed

    return compute_answer_logits(model, tokens, attend=attend)


def average_outputs(model: Any, tokens: Int64[Tensor, "sequence token"]) -> dict[LayerHead, Float[Tensor, "token dim"]]:
    """Return what every head says on average at every position of these sequences."""
    means: dict[LayerHead, Tensor] = {}

    def keep(layer: int, _: Tensor, said: Tensor) -> None:
        means.update({(layer, head): x for head, x in enumerate(said.mean(0))})

    run_with_edits(model, tokens, seen=keep)
    return means
