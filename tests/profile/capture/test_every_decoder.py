"""Some kinds of the sweep over all decoders of transformers; ``python -m benchmarks architectures`` runs it whole."""

import pytest
import torch
import transformers
from architectures import HEADS_OF_16, LAYER_KINDS, TWO_BASES, randomise
from every_decoder import (
    KINDS,
    LENGTH,
    MIXED,
    NOT_BUILT,
    REFUSED,
    SHORT,
    WITH_PICTURES,
    Outcome,
    outcome,
    tiny_model,
    tiny_reader,
)
from refusals import refuse_each

from posym_profile.capture import capture
from posym_profile.language_models import UnsupportedModelError
from posym_profile.planes import find_planes
from posym_profile.scores import profile


@pytest.mark.parametrize("kind", WITH_PICTURES)
def test_models_of_pictures_run_on_text_or_are_refused_in_one_line(kind):
    model, ids = tiny_reader(kind), torch.arange(5, 5 + LENGTH)[None]
    if not WITH_PICTURES[kind]:
        assert len(find_planes(model, LENGTH)) == len(capture(model, ids)) > 0
        return
    with pytest.raises(UnsupportedModelError, match=f"^{type(model).__name__} {WITH_PICTURES[kind]}") as caught:
        profile(model, ids, start=1, block_length=4, progress=False)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(("kind", "reason"), [
    ("modernbert", "ModernBertModel attends as an encoder: its first token sees those behind it"),
    ("nomic_bert", "NomicBertModel attends as an encoder"),
    ("distilbert", "DistilBertModel attends as an encoder"),
    ("bart", r"BartModel is an encoder-decoder \(bart\), whose decoder also attends to another sequence; use a"),
    ("t5", r"T5Model is an encoder-decoder \(t5\)"),
    ("t5gemma", r"T5GemmaModel is an encoder-decoder \(t5gemma\)"),
])  # fmt: skip
def test_encoders_and_encoder_decoders_are_refused(kind, reason):
    with pytest.raises(UnsupportedModelError, match=f"^{reason}"):
        profile(tiny_reader(kind), torch.arange(5, 5 + LENGTH)[None], start=1, block_length=4, progress=False)


def test_what_is_said_of_kinds_is_said_of_those_that_there_are():
    assert {*REFUSED, *MIXED, *NOT_BUILT} <= set(KINDS)


def judged(*names, off=(1e-6, 1e-6), moved=0.5):
    still, difference = off
    return Outcome(*names, still=still, difference=difference, moved=moved).check


LLAMA, GPT2 = ("llama", "LlamaForCausalLM"), ("gpt2", "GPT2LMHeadModel")
test_the_sweep_fails_where_it_should = refuse_each(
    (judged(*LLAMA, off=(1e-3, 1e-6)), "llama is off by 0.001", AssertionError),
    (judged(*LLAMA, off=(1e-6, 1e-3)), "llama is off by 0.001", AssertionError),
    (judged(*LLAMA, moved=0.0), "the permutation changes nothing", AssertionError),
    (judged("zaya", "ZayaForCausalLM"), "zaya is off by", AssertionError),
    (judged(*LLAMA, "LlamaForCausalLM no"), "llama is refused and not known to be", AssertionError),
    (judged(*GPT2), "gpt2: accepted", AssertionError),
    (judged(*GPT2, "GPT2LMHeadModel is odd"), "gpt2: GPT2LMHeadModel is odd", AssertionError),
)


def test_a_sparse_indexer_is_refused_beyond_its_top_k():
    model = tiny_model("deepseek_v32")
    for module in model.modules():
        if hasattr(module, "index_topk"):
            module.index_topk = 36
    ids = torch.randint(5, 97, (1, LENGTH), generator=torch.Generator().manual_seed(0))
    assert len(capture(model, ids[:, :36])) == len(find_planes(model, 36)) == 4
    with pytest.raises(UnsupportedModelError, match=r"sparse indexer\), .* use prompts of at most 36"):
        capture(model, ids)


def test_shared_keys_are_captured_from_a_bare_backbone():
    """Backbones of Gemma 4 leave out queries of later layers where few logits are asked for."""
    model = tiny_model("gemma4_text")
    ids = torch.randint(5, 97, (2, LENGTH), generator=torch.Generator().manual_seed(0))
    for whole, bare in zip(capture(model, ids, rows=(3, -1)), capture(model.model, ids, rows=(3, -1)), strict=True):
        assert torch.equal(whole.weights(), bare.weights())


def test_frequencies_of_another_part_do_not_count():
    """A tower for pictures may hold the text's frequencies among its own."""
    model = tiny_model("llama")
    found = find_planes(model, LENGTH)
    own = model.model.rotary_emb.inv_freq
    both = torch.cat([own, (own[1:] * own[:-1]).sqrt()]).sort(descending=True).values
    # Before the text's own, where a tower stands, too.
    model.register_buffer("tower", both)
    for one, other in zip(find_planes(model, LENGTH), found, strict=True):
        assert one.description == other.description
        assert torch.equal(one.order, other.order)
        assert torch.equal(one.angles, other.angles)


@pytest.mark.parametrize("kind", ["deepseek_v32", "glm_moe_dsa", "llama", "minimax_m3_vl_text"])
def test_short_prompts_are_exact_too(kind):
    """Positions before a short prompt's first are cut to 0, and repeat; they are no prompts packed into one row."""
    outcome(kind, SHORT).check()


@pytest.mark.parametrize("length", [SHORT, LENGTH])
def test_a_decoder_that_sees_behind_is_refused_at_any_length(length):
    config = transformers.Gemma3TextConfig(
        **HEADS_OF_16, **TWO_BASES, query_pre_attn_scalar=16, layer_types=LAYER_KINDS, use_bidirectional_attention=True
    )
    model = randomise(transformers.AutoModelForCausalLM.from_config(config).eval())
    with pytest.raises(UnsupportedModelError, match="attends as an encoder"):
        profile(model, torch.arange(5, 5 + length)[None], start=1, block_length=4, progress=False)
