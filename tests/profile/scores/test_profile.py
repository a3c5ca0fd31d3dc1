import itertools

import literal
import numpy as np
import pytest
import torch
from architectures import Swapped, build, shared, tokens
from refusals import refuse_each

from posym_core import exclusion, swap_scores
from posym_profile.capture._capturing import capture
from posym_profile.planes._rotary_planes import find_planes
from posym_profile.prompts import Prompts
from posym_profile.scores import _profiling as profiling
from posym_profile.scores._head_table import make_dataset, top_heads
from posym_profile.scores._labels import measure_head_labels
from posym_profile.scores._layer_measurement import map_layers
from posym_profile.scores._profiling import profile

START, LENGTH, BLOCKS = 3, 4, 5
# A soft temperature, so that rounding of attention does not decide which pair counts; at 1e-4 it would.
TAU = 0.05
SCORE_ERROR = 1e-4
SCORES = ("positional", "symbolic", "entropy")
ALL = {"start": START, "block_length": LENGTH, "visible_only": False, "progress": False}


def scores_by_swapping(model, input_ids, eps=1e-8):
    """Both scores of every head, from the model's own weights on contents truly swapped, pair by pair."""

    def block_means(calls):
        weights = torch.stack([call.weights()[0, :, 0, START : START + LENGTH * BLOCKS] for call in calls])
        return weights.unflatten(-1, (BLOCKS, LENGTH)).mean(-1).double()

    swapped = Swapped(model, input_ids)
    before, parts = block_means(swapped.calls), []
    for i, j in itertools.combinations(range(BLOCKS), 2):
        order = literal.swapped_order(input_ids.shape[1], START, LENGTH, i, j)
        parts.append((before[..., [i, j]], block_means(swapped.calls_in_order(order))[..., [i, j]]))
    return weighted_cosines(parts, eps)


def weighted_cosines(parts, eps=1e-8):
    """Both scores ``[score, layer, head]`` from the attention to each pair before and after its swap."""
    layers, heads, _ = parts[0][0].shape
    scores = torch.zeros(2, layers, heads)
    for layer, head in itertools.product(range(layers), range(heads)):
        pairs = [(before[layer, head], after[layer, head]) for before, after in parts]
        weights = torch.stack([(v[0] - v[1]).abs() / TAU for v, _ in pairs]).softmax(0)
        for weight, (v, moved) in zip(weights, pairs, strict=True):
            scores[0, layer, head] += weight * literal.cosine(v, moved, eps)
            scores[1, layer, head] += weight * literal.cosine(v.flip(0), moved, eps)
    return scores


@pytest.mark.parametrize(
    "name", ["Llama", "GPT-J", "Gemma2", "Gemma3", "gpt-oss", "DeepSeek-V3", "Falcon", "HunYuan", "Llama 4"]
)
def test_scores_are_those_of_contents_truly_swapped(name):
    model, input_ids = shared(name), tokens(1, 26)
    options = {"start": START, "block_length": LENGTH, "blocks": BLOCKS, "tau": TAU, "progress": False}
    found = profile(model, input_ids, visible_only=False, **options)
    positional, symbolic = scores_by_swapping(model, input_ids)
    np.testing.assert_allclose(found.positional[0], positional, atol=SCORE_ERROR, rtol=0)
    np.testing.assert_allclose(found.symbolic[0], symbolic, atol=SCORE_ERROR, rtol=0)


def test_batches_give_what_prompts_give_alone():
    model, input_ids = shared("Gemma3"), tokens(5)
    options = ALL | {"tau": TAU}
    together = profile(model, input_ids, batch_size=2, **options)
    assert together.positional.shape == together.symbolic.shape == together.entropy.shape == (5, 3, 4)
    for prompt, ids in enumerate(input_ids):
        alone = profile(model, ids, **options)
        assert alone.positional.shape == (1, 3, 4)
        for name in ("positional", "symbolic", "entropy"):
            np.testing.assert_allclose(alone[name][0], together[name][prompt], atol=1e-5, rtol=0)


@pytest.mark.parametrize("hold", [0, 2_000, 2**22])
@pytest.mark.parametrize("name", ["Gemma3", "gpt-oss", "DeepSeek-V3"])
def test_layers_scored_together_are_those_scored_alone(name, hold, monkeypatch):
    model, input_ids = shared(name), tokens(2)
    options = ALL | {"tau": TAU}

    def measure(heads):
        scores = swap_scores(
            heads.query, heads.keys, heads.angles, start=START, block_length=LENGTH, tau=TAU, scale=heads.scale,
            visible=heads.visible, softcap=heads.softcap, sinks=heads.sinks,
        )  # fmt: skip
        return {"positional": scores.positional, "entropy": scores.entropy}

    monkeypatch.setattr(profiling, "NUMBERS_HELD", hold)
    together, alone = profile(model, input_ids, **options), map_layers(model, input_ids, measure)
    np.testing.assert_allclose(together.positional, alone["positional"], atol=1e-6, rtol=0)
    np.testing.assert_allclose(together.entropy, alone["entropy"], atol=1e-6, rtol=0)


def test_products_are_in_float64_or_in_the_dtype_that_is_asked_for():
    unasked, whole, rough = (
        profile(shared("Llama"), tokens(), tau=TAU, products=dtype, **ALL).positional
        for dtype in (None, torch.float64, torch.float32)
    )
    assert unasked.equals(whole)
    assert not rough.equals(whole)
    np.testing.assert_allclose(rough, whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("capability", "dtype"), [((9, 0), torch.float64), ((8, 0), torch.float64),
                                                   ((8, 9), torch.float32), ((12, 0), torch.float32)])  # fmt: skip
def test_products_are_in_float32_on_cards_that_are_slow_in_float64(capability, dtype, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert profiling.choose_products(torch.device("cuda")) == dtype
    assert profiling.choose_products(torch.device("cpu")) == torch.float64


def test_planes_are_scored_one_by_one():
    found = profile(shared("StableLM"), tokens(), start=0, block_length=4, per_frequency=True, progress=False)
    assert found.plane_positional.shape == (2, 3, 4, 8)
    # Six of the eight planes are not rotated, and such a head follows its contents.
    np.testing.assert_allclose(found.plane_symbolic[..., 2:], np.ones((2, 3, 4, 6)), atol=1e-4, rtol=0)


def uneven(*plane):
    """Scores of two prompts, where the second of three layers has a head less than the four of the others."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(3, 2, 3, 4, *plane, generator=generator)
    scores[:, :, 1, 3] = torch.nan
    return make_dataset(dict(zip(SCORES, scores, strict=True)), [-1])


def test_a_table_names_its_dimensions_model_prompts_and_versions():
    model, ids = shared("Gemma3"), tokens()
    found = profile(model, ids, labels=True, per_frequency=True, energy=True, **ALL)
    assert found.sizes == {"prompt": 2, "layer": 3, "head": 4, "plane": 8}
    assert found.positional.dims == ("prompt", "layer", "head")
    assert found.plane_energy.dims == ("prompt", "layer", "head", "plane")
    np.testing.assert_allclose(found.plane_energy.sum("plane"), 1, atol=1e-5)
    np.testing.assert_allclose(found.plane_angle[0, 2], find_planes(model, 44)[2].angles)
    assert found.attrs["model"] == "Gemma3ForCausalLM"
    assert found.attrs["prompts"] == "2 prompts of 44 tokens"
    assert f"torch {torch.__version__.partition('+')[0]}" in found.attrs["versions"]
    np.testing.assert_array_equal(found.copying, measure_head_labels(model).copying)
    assert "copying" not in profile(model, ids, **ALL)
    assert len(repr(found).splitlines()) < 40


def test_prompts_of_a_task_know_their_blocks():
    ids = tokens()
    prompts = Prompts(input_ids=ids, start=START, block_length=LENGTH, blocks=8, answer_ids=ids[:, :0],
                      target=ids[:, 0], texts=[])  # fmt: skip
    model, options = shared("Llama"), {"visible_only": False}
    assert profile(model, prompts, **options).equals(profile(model, ids, **prompts.layout, **options))
    assert profile(model, prompts, blocks=5, **options).blocks.values.tolist() == [5, 5]


def test_top_heads_are_those_of_the_highest_mean():
    found = uneven()
    for name in (*SCORES, "difference"):
        scores = found.symbolic - found.positional if name == "difference" else found[name]
        means = {place: float(scores[:, *place].mean()) for place in np.ndindex(3, 4) if place != (1, 3)}
        every = top_heads(found, 11, by=name, flat=True)
        assert every == sorted(means, key=means.get, reverse=True)
        assert top_heads(found, np.int64(2), name, flat=True) == every[:2]
        assert top_heads(found, 11, name, flat=True, lowest=True) == every[::-1]
        assert {type(number) for place in every for number in place} == {int}
    assert top_heads(found, 11, flat=True) == top_heads(found, 11, "difference", flat=True)
    level = make_dataset({name: torch.ones(2, 3, 4) for name in SCORES}, [-1])
    assert top_heads(level, 5, "symbolic", flat=True) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]


def test_heads_of_flat_attention_are_ranked_only_when_asked():
    found = uneven()
    found.entropy[:, 0] = 0.99
    every = top_heads(found, 7, "symbolic")
    assert {layer for layer, _ in every} == {1, 2}
    assert top_heads(found, 11, "symbolic", flat=True) != every
    with pytest.raises(ValueError, match=r"number of heads, 7, without those of flat attention \(flat=True counts the"):
        top_heads(found, 8, "symbolic")


@pytest.mark.parametrize("name", ["Gemma3", "Falcon"])
def test_anything_can_be_measured_in_the_same_pass(name):
    model, input_ids, seen = shared(name), tokens(), []

    def measure(heads):
        seen.append((heads.layer, heads.prompts))
        C = heads.cross_logits()
        parts = heads.cross_logits(per_frequency=True)
        torch.testing.assert_close(parts.sum(-3), C, atol=1e-4, rtol=0)
        return {"logits": C.diagonal(dim1=-2, dim2=-1), "share": exclusion(C).symbolic_share}

    found = map_layers(model, input_ids, measure, batch_size=1, progress=False)
    assert seen == [(layer, slice(prompt, prompt + 1)) for prompt in range(2) for layer in range(3)]
    assert found["share"].shape == (2, 3, 4)
    expected = torch.stack([call.logits()[:, :, 0] for call in capture(model, input_ids)], dim=1)
    torch.testing.assert_close(found["logits"], expected, atol=1e-4, rtol=0)


def scored(input_ids, **options):
    return lambda: profile(shared("Llama"), input_ids, **{"start": 0, "block_length": 4, "progress": False} | options)


test_what_does_not_fit_is_refused = refuse_each(
    (scored(tokens(), blocks=11), "blocks cover 44 keys from start=0, but only 43 precede.*pass blocks=10"),
    (scored(tokens(), start=40), "at least two blocks are needed to swap"),
    (scored(tokens(), tau=0.0), "tau must be above 0; got 0.0"),
    (scored(tokens(), batch_size=0), "batch_size must be a whole number of at least 1; got 0"),
    (scored(tokens(1, 2)), r"input_ids must be prompts of at least 3 tokens, .*; got shape \(1, 2\)"),
    (scored(tokens().float()), "a tensor of whole numbers, .*; got torch.float32. Use tokenizer", TypeError),
    (scored(tokens().tolist()), "a tensor of whole numbers, .*; got list. Use tokenizer", TypeError),
    (scored(tokens()[None]), r"\[prompt, token\] or \[token\]; got shape \(1, 2, 44\)"),
    (lambda: profile(shared("Llama"), tokens()), "token ids do not say where their blocks are; pass start", TypeError),
    (lambda: top_heads(uneven(5), 1, "symbolic"), "have several \\(plane\\); select one"),
    (lambda: top_heads(profile(shared("Llama"), tokens(), queries=[30, -1], **ALL), 1), r"scores.sel\(query=-1\)"),
    (lambda: top_heads(uneven(), 0, "symbolic"), "n must be a whole number of at least 1; got 0"),
    (lambda: top_heads(uneven(), 2.0, "symbolic"), "n must be a whole number of at least 1; got 2.0"),
    (lambda: top_heads(uneven(), 12, "symbolic", flat=True), "n must be at most the number of heads, 11; got 12"),
    (lambda: top_heads(uneven(), 1, "symbolical"), "by must be one of difference, positional, .*; got 'symbolical'"),
    (lambda: map_layers(build("SmolLM3"), tokens(), lambda _: {}, planes=find_planes(shared("Llama"), 44)),
     "more attention calls than the 3 that planes were given for.*find_planes"),
)  # fmt: skip
