import itertools
import sys
from dataclasses import replace

import literal
import numpy as np
import pytest
import torch
from architectures import Swapped, build, packaged, shared, tokens
from refusals import refuse_each

from posym_core import exclusion, rope_angles, swap_scores
from posym_core.metrics._stats import mean_interval
from posym_core.metrics._swaps import score_swaps
from posym_profile.capture._capturing import capture
from posym_profile.planes._rotary_planes import find_planes
from posym_profile.scores import _layer_measurement as layer_measurement
from posym_profile.scores import _profiling as profiling
from posym_profile.scores._labels import measure_head_labels
from posym_profile.scores._layer_measurement import map_layers, stack_padded
from posym_profile.scores._profiling import Profile, profile

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
    torch.testing.assert_close(found.positional[0], positional, atol=SCORE_ERROR, rtol=0)
    torch.testing.assert_close(found.symbolic[0], symbolic, atol=SCORE_ERROR, rtol=0)


def test_planes_of_the_packaged_model_are_those_of_its_two_bases():
    model, _ = packaged()
    planes = find_planes(model, 25)
    for layer, found in enumerate(planes):
        base = 1e6 if layer % 6 == 5 else 1e4
        torch.testing.assert_close(found.angles, rope_angles(256, base), atol=1e-7, rtol=1e-6)
        assert found.order.tolist() == list(range(256))


def test_batches_give_what_prompts_give_alone():
    model, input_ids = shared("Gemma3"), tokens(5)
    options = ALL | {"tau": TAU}
    together = profile(model, input_ids, batch_size=2, **options)
    assert together.positional.shape == together.symbolic.shape == together.entropy.shape == (5, 3, 4)
    for prompt, ids in enumerate(input_ids):
        alone = profile(model, ids, planes=find_planes(model, 44), **options)
        assert alone.positional.shape == (1, 3, 4)
        for name in ("positional", "symbolic", "entropy"):
            torch.testing.assert_close(getattr(alone, name)[0], getattr(together, name)[prompt], atol=1e-5, rtol=0)


@pytest.mark.parametrize("hold", [0, 2_000, 2**22])
@pytest.mark.parametrize("name", ["Gemma3", "gpt-oss", "DeepSeek-V3"])
def test_layers_scored_together_are_those_scored_alone(name, hold, monkeypatch):
    model, input_ids, calls = shared(name), tokens(2), []
    options = ALL | {"tau": TAU}

    def count(*args, **kwargs):
        calls.append(args)
        return score_swaps(*args, **kwargs)

    def measure(heads):
        scores = swap_scores(
            heads.query, heads.keys, heads.angles, start=START, block_length=LENGTH, tau=TAU, scale=heads.scale,
            visible=heads.visible, softcap=heads.softcap, sinks=heads.sinks,
        )  # fmt: skip
        return {"positional": scores.positional, "entropy": scores.entropy}

    monkeypatch.setattr(profiling, "NUMBERS_HELD", hold)
    monkeypatch.setattr(profiling, "score_swaps", count)
    together, alone = profile(model, input_ids, **options), map_layers(model, input_ids, measure, progress=False)
    torch.testing.assert_close(together.positional, alone["positional"], atol=1e-6, rtol=0)
    torch.testing.assert_close(together.entropy, alone["entropy"], atol=1e-6, rtol=0)
    assert len(calls) < 3 or hold < 2**22


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, None])
def test_products_are_in_the_dtype_that_is_asked_for(dtype, monkeypatch):
    asked = []
    monkeypatch.setattr(profiling, "score_swaps", lambda *args, **kw: asked.append(kw) or score_swaps(*args, **kw))
    whole = profile(shared("Llama"), tokens(), tau=TAU, products=torch.float64, **ALL)
    asked.clear()
    found = profile(shared("Llama"), tokens(), tau=TAU, products=dtype, **ALL)
    assert {options["products"] for options in asked} == {dtype or torch.float64}
    torch.testing.assert_close(found.positional, whole.positional, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("capability", "dtype"), [((9, 0), torch.float64), ((8, 0), torch.float64),
                                                   ((8, 9), torch.float32), ((12, 0), torch.float32)])  # fmt: skip
def test_products_are_in_float32_on_cards_that_are_slow_in_float64(capability, dtype, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert profiling.choose_products(torch.device("cuda")) == dtype
    assert profiling.choose_products(torch.device("cpu")) == torch.float64


def test_a_call_is_brought_to_the_cpu_whole(other_device):
    (call, *_) = capture(shared("gpt-oss"), tokens())
    names = ("query", "keys", "visible", "rows", "sinks")
    there = replace(call, **{name: getattr(call, name).to(other_device) for name in names})
    here = layer_measurement._move_to_cpu(there)
    for name in names:
        assert getattr(here, name).device.type == "cpu"
        assert torch.equal(getattr(here, name), getattr(call, name))


def test_planes_are_scored_one_by_one():
    found = profile(shared("StableLM"), tokens(), start=0, block_length=4, per_frequency=True, progress=False)
    assert found.positional.shape == (2, 3, 4, 8)
    # Six of the eight planes are not rotated, and such a head follows its contents.
    torch.testing.assert_close(found.symbolic[..., 2:], torch.ones(2, 3, 4, 6), atol=1e-4, rtol=0)


def test_layers_of_different_shapes_are_filled_up_with_nan():
    both = stack_padded([torch.ones(2, 4, 8), torch.ones(2, 3, 6)], dim=1)
    assert both.shape == (2, 2, 4, 8)
    assert both[:, 1, 3].isnan().all()
    assert both[:, 1, :, 6:].isnan().all()
    assert both.nansum() == 2 * (4 * 8 + 3 * 6)


def uneven(*plane):
    """Scores of two prompts, where the second of three layers has a head less than the four of the others."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(3, 2, 3, 4, *plane, generator=generator)
    scores[:, :, 1, 3] = torch.nan
    return Profile(positional=scores[0], symbolic=scores[1], entropy=scores[2])


@pytest.fixture(params=["DataFrame", "dict"])
def kind(request, monkeypatch):
    """What a frame is, with pandas and without."""
    if request.param == "dict":
        monkeypatch.setitem(sys.modules, "pandas", None)
    else:
        pytest.importorskip("pandas")
    return request.param


@pytest.mark.parametrize("plane", [(), (5,)])
def test_a_frame_has_a_row_for_each_head_that_there_is(kind, plane):
    found = uneven(*plane)
    frame = found.frame()
    assert type(frame).__name__ == kind
    places = ["prompt", "layer", "head", "plane"][: 3 + len(plane)]
    assert list(frame) == [*places, "positional", "symbolic", "entropy"]
    rows = [place for place in np.ndindex(*found.positional.shape) if place[1:3] != (1, 3)]
    assert list(zip(*(frame[name] for name in places), strict=True)) == rows
    for name in SCORES:
        expected = np.array([getattr(found, name)[place] for place in rows], dtype=np.float32)
        assert np.array_equal(frame[name], expected)


def test_a_frame_says_how_many_blocks_a_head_sees():
    pytest.importorskip("pandas")
    found = replace(uneven(), visible_blocks=torch.tensor([[4, 1, 4], [4, 2, 4]]))
    found.positional[0, 1], found.symbolic[0, 1] = torch.nan, torch.nan
    frame = found.frame()
    assert list(frame)[-1] == "visible_blocks"
    # Heads that see one block have no scores and are there all the same.
    assert len(frame) == 2 * 11
    assert frame[frame.layer == 1].visible_blocks.tolist() == [1, 1, 1, 2, 2, 2]
    assert frame[frame.visible_blocks == 1].positional.isna().all()
    assert set(found.top(11, "symbolic")) == {(layer, head) for layer in range(3) for head in range(4)} - {(1, 3)}


def test_a_frame_has_windows_and_labels_where_they_are_known():
    pytest.importorskip("pandas")
    model, ids = shared("Gemma3"), tokens()
    assert profile(model, ids, **ALL).labels is None
    found = profile(model, ids, labels=True, **ALL)
    assert found.windows == (16, 16, None)
    labels, frame = measure_head_labels(model), found.frame()
    names = ["previous_token", "first_token", "induction", "copying"]
    assert list(frame)[-6:] == ["visible_blocks", "window", *names]
    assert frame[frame.layer < 2].window.eq(16).all()
    assert frame[frame.layer == 2].window.isna().all()
    for row in frame.itertuples():
        assert [getattr(row, name) for name in names] == [
            float(getattr(labels, name)[row.layer, row.head]) for name in names
        ]
    assert profile(shared("Llama"), ids, **ALL).windows == (None,) * 3


def test_a_frame_of_several_queries_has_a_row_for_each():
    pytest.importorskip("pandas")
    found = profile(shared("Gemma3"), tokens(), queries=[30, -1], **ALL)
    frame = found.frame()
    assert list(frame)[:4] == ["prompt", "query", "layer", "head"]
    for query in (30, -1):
        part = frame[frame["query"] == query].drop(columns="query").reset_index(drop=True)
        assert part.equals(found.at(query).frame())
    means = found.frame(intervals=True)
    assert next(iter(means)) == "query"
    part = means[means["query"] == 30].drop(columns="query").reset_index(drop=True)
    assert part.equals(found.at(30).frame(intervals=True))


def test_a_frame_has_means_over_prompts_with_intervals(kind):
    found = uneven()
    frame = found.frame(intervals=True)
    assert type(frame).__name__ == kind
    assert len(frame["layer"]) == 11
    for row, (layer, head) in enumerate(zip(frame["layer"], frame["head"], strict=True)):
        for name in ("positional", "symbolic"):
            scores = getattr(found, name)[:, layer, head].double().numpy()
            alone = mean_interval(scores)
            ends = (frame[name][row], frame[f"{name}_low"][row], frame[f"{name}_high"][row])
            assert ends == pytest.approx((alone.value, alone.low, alone.high), abs=1e-6)


def test_top_heads_are_those_of_the_highest_mean():
    found = uneven()
    for name in SCORES:
        scores = getattr(found, name)
        means = {place: float(sum(scores[:, *place])) / 2 for place in np.ndindex(3, 4) if place != (1, 3)}
        every = found.top(11, name)
        assert every == sorted(means, key=means.get, reverse=True)
        assert found.top(np.int64(2), name) == every[:2]
        assert {type(number) for place in every for number in place} == {int}
    level = Profile(**{name: torch.ones(2, 3, 4) for name in SCORES})
    assert level.top(5, "symbolic") == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]


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
    (scored(tokens(), eps=-1.0), "eps must be 0 or a positive finite number; got -1.0"),
    (scored(tokens(), batch_size=0), "batch_size must be a whole number of at least 1; got 0"),
    (scored(tokens(1, 2)), r"at least one prompt of at least 3 tokens; got \(1, 2\)"),
    (scored(tokens().float()), "input_ids must be whole numbers", TypeError),
    (scored(tokens().tolist()), "input_ids must be a torch tensor; got list. Use tokenizer", TypeError),
    (scored(tokens()[None]), r"input_ids must have shape \[prompt, token\] or \[token\]; got \(1, 2, 44\)"),
    (lambda: uneven(5).frame(intervals=True), "planes are scored, and intervals are of heads; profile without per_fre"),
    (lambda: uneven(5).top(1, "symbolic"), "planes are scored, and top names heads; profile without per_frequency"),
    (lambda: uneven().top(0, "symbolic"), "k must be a whole number of at least 1; got 0"),
    (lambda: uneven().top(2.0, "symbolic"), "k must be a whole number of at least 1; got 2.0"),
    (lambda: uneven().top(12, "symbolic"), "k must be at most the number of heads, 11; got 12"),
    (lambda: uneven().top(1, "symbolical"), "score must be one of positional, symbolic, entropy; got 'symbolical'"),
    (lambda: profile(build("SmolLM3"), tokens(), planes=find_planes(shared("Llama"), 44), **ALL),
     "more attention calls than the 3 that planes were given for.*find_planes"),
)  # fmt: skip
