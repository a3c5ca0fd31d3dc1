"""Every encoding against its paper: closed forms, identities, literal loops, and the implementations of libraries."""

import itertools
import math

import pytest
import torch
from encoding_pairs import SHAPE, TIGHT, content, loop, pair

from posym_core import encodings, rope_angles
from posym_core.encodings._bias import alibi_slopes
from posym_core.encodings._latent import LatentProjections

# Absolute


def test_sinusoids_word_by_word():
    table = encodings.Sinusoidal(SHAPE).table(torch.arange(40, dtype=torch.float64))
    for b, i in itertools.product(range(40), range(6)):
        phase = b / 10000 ** (2 * i / 12)
        assert table[b, 2 * i : 2 * i + 2].tolist() == pytest.approx([math.sin(phase), math.cos(phase)], abs=1e-12)


def test_learned_vectors_are_added():
    encoding = encodings.LearnedAbsolute(SHAPE).double().requires_grad_(False)
    x = content()
    torch.testing.assert_close(encoding.embed(x, torch.arange(7) + 3), x + encoding.vectors[3:10])


# Biases


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("buckets", "longest"), [(32, 128), (8, 20), (10, 50)])
def test_buckets_of_transformers(causal, buckets, longest):
    from transformers.models.t5.modeling_t5 import T5Attention

    encoding = encodings.T5Bias(encodings.LayerShape(heads=2, dim=4, causal=causal), buckets=buckets, longest=longest)
    offset = torch.arange(-300, 301)
    theirs = T5Attention._relative_position_bucket(offset, not causal, buckets, longest)
    assert encoding.bucket(offset.double()).tolist() == theirs.tolist()


def test_biases_of_t5_in_transformers():
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(d_model=8, d_kv=4, num_heads=2, is_decoder=True, use_cache=False)
    attention = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    encoding = encodings.T5Bias(encodings.LayerShape(heads=2, dim=4, scale=1.0)).double().requires_grad_(False)
    encoding.biases.copy_(attention.relative_attention_bias.weight)
    query, key = pair(150, encodings.LayerShape(heads=2, dim=4))
    seen = torch.ones(150, 150).tril().bool()
    theirs = query @ key.transpose(-1, -2) + attention.compute_bias(150, 150)[0].detach().double()
    torch.testing.assert_close(encoding.logits(query, key)[:, seen], theirs[:, seen], **TIGHT)


def test_slopes_of_bloom_and_biases_of_alibi():
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    for heads in range(1, 21):
        theirs = build_alibi_tensor(torch.ones(1, 6), heads, torch.float32)[:, 0]
        torch.testing.assert_close(alibi_slopes(heads).float()[:, None] * torch.arange(6), theirs, rtol=1e-6, atol=0)
    query, key = pair()
    expected = loop(query, key, lambda h, i, j: 8**-0.5 * query[h, i] @ key[h, j] - alibi_slopes(2)[h] * (i - j))
    torch.testing.assert_close(encodings.ALiBi(SHAPE).logits(query, key), expected, **TIGHT)


def test_dape_pair_by_pair_and_with_a_zero_map():
    encoding = encodings.DAPE(SHAPE, hidden=5).double().requires_grad_(False)
    query, key = pair()

    def logit(h, i, j):
        contents = [8**-0.5 * query[g, i] @ key[g, j] for g in range(2)]
        biases = [-alibi_slopes(2)[g] * (i - j) for g in range(2)]
        hidden = encoding.map[0].weight @ torch.stack(contents + biases) + encoding.map[0].bias
        hidden = torch.where(hidden > 0, hidden, 0.01 * hidden)
        return contents[h] + biases[h] + encoding.map[2].weight[h] @ hidden + encoding.map[2].bias[h]

    torch.testing.assert_close(encoding.logits(query, key), loop(query, key, logit), **TIGHT)
    for parameter in encoding.map[2].parameters():
        parameter.zero_()
    torch.testing.assert_close(encoding.logits(query, key), encodings.ALiBi(SHAPE).logits(query, key), **TIGHT)


# Rotary


def test_rope_of_llama_and_partial_rope_of_gpt_neox_in_transformers():
    from transformers import GPTNeoXConfig, LlamaConfig
    from transformers.models.gpt_neox import modeling_gpt_neox as gpt_neox
    from transformers.models.llama import modeling_llama as llama

    shape, seen = encodings.LayerShape(heads=2, dim=16), torch.ones(7, 7).tril().bool()
    size = {"hidden_size": 32, "num_attention_heads": 2}
    partial = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}
    query, key = (x.float()[None] for x in pair(7, shape))
    for theirs, embedding, ours in (
        (llama, llama.LlamaRotaryEmbedding(LlamaConfig(**size, rope_theta=500_000.0)),
         encodings.make_encoding("rope-500k", shape)),
        (gpt_neox, gpt_neox.GPTNeoXRotaryEmbedding(GPTNeoXConfig(**size, rope_parameters=partial)),
         encodings.PartialRoPE(shape, share=0.25)),
    ):  # fmt: skip
        turned = theirs.apply_rotary_pos_emb(query, key, *embedding(query, torch.arange(7)[None]))
        expected = 16**-0.5 * turned[0] @ turned[1].transpose(-1, -2)
        found = ours.logits(query, key)
        torch.testing.assert_close(found[..., seen], expected[..., seen], rtol=0, atol=1e-5)


def test_p_rope_lies_between_nope_and_rope():
    query, key = pair()
    for share, plain in ((1, encodings.RoPE), (0, encodings.NoPE)):
        found = encodings.PRoPE(SHAPE, share=share).logits(query, key)
        torch.testing.assert_close(found, plain(SHAPE).logits(query, key), **TIGHT)
    assert encodings.PRoPE(SHAPE, share=0.5).angles.tolist() == [*rope_angles(8)[:2].tolist(), 0, 0]
    # Whole planes, whatever the rounding of share * planes.
    shape = encodings.LayerShape(heads=1, dim=98)
    for turned in range(50):
        assert int((encodings.PRoPE(shape, share=turned / 49).angles > 0).sum()) == turned


def test_latent_attention_of_deepseek_in_transformers():
    from transformers import DeepseekV3Config
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention, DeepseekV3RotaryEmbedding

    config = DeepseekV3Config(
        hidden_size=12, num_attention_heads=2, num_key_value_heads=2, q_lora_rank=None, kv_lora_rank=5,
        qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=3, attention_bias=False, attn_implementation="eager",
    )  # fmt: skip
    theirs = DeepseekV3Attention(config, layer_idx=0).eval().requires_grad_(False)
    shape = encodings.LayerShape(heads=2, dim=10, width=12)
    ours = LatentProjections(shape, rotated=4, rank=5).requires_grad_(False)
    theirs.kv_a_layernorm.weight.data = torch.randn(5)
    ours.query_map.data = theirs.q_proj.weight.T
    ours.summary_map.data = theirs.kv_a_proj_with_mqa.weight[:5].T
    ours.turned_map.data = theirs.kv_a_proj_with_mqa.weight[5:].T
    ours.summary_gain.data = theirs.kv_a_layernorm.weight
    by_head = theirs.kv_b_proj.weight.unflatten(0, (2, 9))[:, :6]
    ours.still_map.data = by_head.flatten(0, 1).T
    x = 3 * torch.randn(1, 7, 12)
    hidden = torch.zeros(1, 1, 7, 7).masked_fill(torch.ones(7, 7).triu(1).bool(), -math.inf)
    embeddings = DeepseekV3RotaryEmbedding(config)(x, torch.arange(7)[None])
    _, expected = theirs(x, embeddings, hidden)
    logits = encodings.make_encoding("mla", shape, share=0.4).logits(*ours(x))
    torch.testing.assert_close(logits.softmax(-1), expected, rtol=0, atol=1e-5)
    assert expected[0, 0, 6].std() > 0.02


def test_rollpe_shifts_entries_in_a_circle():
    query, key = pair()
    expected = loop(query, key, lambda h, i, j: 8**-0.5 * query[h, i].roll(i) @ key[h, j].roll(j))
    torch.testing.assert_close(encodings.RollPE(SHAPE).logits(query, key), expected, **TIGHT)


def test_pope_word_by_word():
    encoding = encodings.PoPE(SHAPE).double().requires_grad_(False)
    encoding.phases.copy_(torch.linspace(-7, 1, 16).reshape(2, 8))
    query, key = pair()
    theta = [10000 ** (-c / 8) for c in range(8)]
    delta = encoding.phases.clamp(-2 * math.pi, 0)

    def logit(h, i, j):
        magnitudes = (query[h, i].exp() + 1).log() * (key[h, j].exp() + 1).log()
        return 8**-0.5 * sum(magnitudes[c] * math.cos((j - i) * theta[c] + delta[h, c]) for c in range(8))

    torch.testing.assert_close(encoding.logits(query, key), loop(query, key, logit), **TIGHT)


# Groups


def test_multiplicative_grape_is_a_matrix_exponential_and_begins_as_rope():
    encoding = encodings.MultiplicativeGRAPE(SHAPE).double().requires_grad_(False)
    query, key = pair()
    torch.testing.assert_close(encoding.logits(query, key), encodings.RoPE(SHAPE).logits(query, key), **TIGHT)
    growth = [0.75, -0.5, 2.0, 5.0]
    encoding.growth.copy_(torch.tensor(growth))
    angles = [math.exp(growth[c]) * 10_000 ** (-c / 4) for c in range(4)]
    generator = torch.zeros(8, 8, dtype=torch.float64)
    for c, angle in enumerate(angles):
        a, b = torch.eye(8, dtype=torch.float64)[[c, c + 4]]
        generator += angle * (torch.outer(b, a) - torch.outer(a, b))

    def logit(h, i, j):
        return 8**-0.5 * query[h, i] @ torch.linalg.matrix_exp((j - i) * generator) @ key[h, j]

    torch.testing.assert_close(encoding.logits(query, key), loop(query, key, logit), rtol=0, atol=1e-11)


def test_additive_grape_is_a_shear_of_lengthened_vectors():
    """``(I + n A)`` for queries and its inverse transpose for keys, literally, once with ``u`` and once with ``v``."""
    encoding = encodings.AdditiveGRAPE(SHAPE).double().requires_grad_(False)
    torch.testing.assert_close(encoding.slopes, alibi_slopes(2), **TIGHT)
    query, key = pair()
    one = torch.ones(1, dtype=torch.float64)

    def logit(h, i, j):
        q, k = torch.cat([query[h, i], one]), torch.cat([key[h, j], one])
        by_key, by_query = torch.zeros(2, 9, 9, dtype=torch.float64)
        by_key[:8, 8] = encoding.slopes[h] * encoding.key_gate[h]
        by_query[8, :8] = -encoding.slopes[h] * encoding.query_gate[h]
        total = 8**-0.5 * query[h, i] @ key[h, j]
        for generator in (by_key, by_query):
            assert not (generator @ generator).any()
            there, here = (torch.eye(9, dtype=torch.float64) + n * generator for n in (i, j))
            total += (there @ q) @ torch.linalg.inv(here).T @ k - q @ k
        return total

    torch.testing.assert_close(encoding.logits(query, key), loop(query, key, logit), rtol=0, atol=1e-11)


# Waves


@pytest.mark.parametrize(("share", "power"), [(0.5, 0.1), (0.25, 1.0), (0.8, 0.3)])
def test_tapa_word_by_word(share, power):
    query, key = pair()
    split = {0.5: 4, 0.25: 2, 0.8: 6}[share]

    def logit(h, i, j):
        amplitude = sum(query[h, i, c] * key[h, j, c] for c in range(split)) / math.sqrt(split)
        phase = sum(query[h, i, c] * key[h, j, c] for c in range(split, 8)) / math.sqrt(8 - split)
        return amplitude * math.cos(2 * math.pi * abs(i - j) ** power * phase)

    encoding = encodings.TAPA(SHAPE, share=share, power=power)
    torch.testing.assert_close(encoding.logits(query, key), loop(query, key, logit), **TIGHT)


@pytest.mark.parametrize("name", ["rope", "rollpe", "pope", "mla", "p-rope", "grape-m"])
def test_long_positions_keep_their_precision(name):
    """Logits at positions near a million, in float32, against those of the same distances near zero."""
    query, key = (x.float() for x in pair())
    encoding = encodings.make_encoding(name, SHAPE)
    near = encoding.logits(query, key)
    far = encoding.logits(query, key, positions=torch.arange(7) + 8 * 131_072)
    torch.testing.assert_close(far, near, rtol=0, atol=2e-6)
