"""Parts of keys that change places: that they are those of the cube, and are put where they belong."""

from __future__ import annotations

import pytest
import torch
from architectures import build

from posym_companion.language_models import origin_patching
from posym_companion.language_models.origin_patching import (
    DIMS,
    EXCHANGES,
    EXPERIMENT,
    MIDDLE,
    RUNS,
    FactPair,
    OriginPatching,
    block_keys,
    exchange_differences,
    exchange_layer_alone,
    fill_cache,
    main_effects,
    measure,
    run_exchanges,
    select_named_layers,
)
from posym_companion.results import name_dims
from posym_core.metrics._cube_parts import draw_latin_square
from posym_core.metrics._permutations import permute_blocks
from posym_core.metrics._rope import rotate
from posym_profile import binding_prompts
from posym_profile.capture._capturing import capture
from posym_profile.language_models._answers import choose_answers
from posym_profile.planes._rotary_planes import find_planes

WHOLE, ORIGIN, SYMBOL, OTHERS, RANDOM = range(5)


@pytest.fixture(scope="module")
def prompts(tokenizer):
    return binding_prompts(tokenizer, facts=5, count=2, lead=2)


@pytest.fixture(scope="module")
def planes(wide, prompts):
    return find_planes(wide, prompts.input_ids.shape[1])


def facts_of(prompts):
    end = prompts.start + prompts.blocks * prompts.block_length
    return prompts.input_ids[0].tensor_split([end])


def square_of(prompts, orders):
    end = prompts.start + prompts.blocks * prompts.block_length
    return permute_blocks(prompts.input_ids[0], orders, start=prompts.start, block_length=4)[:, :end]


def shifts_of(wide, prompts, planes, asked, other):
    facts, _ = facts_of(prompts)
    generator = torch.Generator().manual_seed(0)
    orders = draw_latin_square(prompts.blocks, generator)
    square = square_of(prompts, orders)
    cache = fill_cache(wide, facts[None])
    effects = [main_effects(keys, orders) for keys in block_keys(fill_cache(wide, square), prompts, planes)]
    return cache, [
        exchange_differences(keys[0], *both, asked, other, 0, 4, generator)
        for keys, both in zip(block_keys(cache, prompts, planes), effects, strict=True)
    ]


def test_every_array_has_named_dimensions_and_the_first_run_is_the_model_itself(wide, tokenizer, monkeypatch):
    monkeypatch.setattr(origin_patching, "load_experiment_model", lambda *a, **k: (wide, tokenizer))
    setting = EXPERIMENT.shrink(OriginPatching(prompts=3))
    found = measure(setting, device="cpu", progress=False)
    name_dims(DIMS, found)
    assert found["log_ratio"].shape == (2, 1, len(RUNS), 3, 4)
    assert found["attention"].shape == (2, 1, len(RUNS), 3, 4, 2)
    prompts = binding_prompts(tokenizer, facts=4, count=2)
    choices = choose_answers(wide, prompts)
    torch.testing.assert_close(
        torch.tensor(found["log_probability"][:, 0, 0, 0]), choices.log_probability.float(), rtol=1e-4, atol=1e-4
    )
    for layer, call in enumerate(capture(wide, prompts.input_ids)):
        weights = call.weights()[:, :, 0]
        for prompt in range(2):
            first = prompts.start + 4 * int(found["asked"][prompt])
            expected = weights[prompt, :, first : first + 4].sum(-1)
            ours = torch.tensor(found["attention"][prompt, 0, 0, layer, :, 0]).float()
            torch.testing.assert_close(ours, expected, rtol=2e-3, atol=1e-3)
        ratio = torch.tensor(found["attention"][:, :, 0, layer]).float()
        ours = torch.tensor(found["log_ratio"][:, :, 0, layer])
        torch.testing.assert_close(ours, (ratio[..., 0] / ratio[..., 1]).log(), rtol=2e-2, atol=2e-2)


def test_keys_of_the_first_layer_have_no_origin(wide, prompts, planes):
    """They see one token: there, the whole key is the symbol."""
    _, (first, *later) = shifts_of(wide, prompts, planes, 3, 1)
    torch.testing.assert_close(first[SYMBOL], first[WHOLE], atol=1e-4, rtol=1e-4)
    assert first[ORIGIN].abs().max() < 1e-4
    # The first token of a block differs from other names there, the stop behind all of them does not.
    assert first[WHOLE, :, 0].norm() > 1
    assert first[WHOLE, :, -1].norm() < 1e-3
    assert all(shift[ORIGIN].norm() > 1 for shift in later)


def test_main_effects_are_plain_means_of_a_square(wide, prompts, planes):
    orders = draw_latin_square(5, torch.Generator().manual_seed(3))
    keys = block_keys(fill_cache(wide, square_of(prompts, orders)), prompts, planes)[2]
    origins, symbols = main_effects(keys, orders)
    for place in range(5):
        torch.testing.assert_close(origins[place], keys[:, place].mean(0))
        there = [keys[prompt, orders[prompt].tolist().index(place)] for prompt in range(5)]
        torch.testing.assert_close(symbols[place], torch.stack(there).mean(0))


def test_controls_are_as_large_as_the_difference_of_the_origins(wide, prompts, planes):
    _, shifts = shifts_of(wide, prompts, planes, 3, 1)
    for shift in shifts[1:]:
        for control in (OTHERS, RANDOM):
            torch.testing.assert_close(shift[control].norm(dim=-1), shift[ORIGIN].norm(dim=-1))
            assert not torch.allclose(shift[control], shift[ORIGIN])


def test_an_exchange_of_whole_keys_is_one(wide, prompts, planes):
    """Each fact's keys are then the other's, turned to where they stand now; all else is as it was."""
    asked, other, length = 3, 1, prompts.block_length
    cache, shifts = shifts_of(wide, prompts, planes, asked, other)
    before = [layer.keys.clone() for layer in cache.layers]
    _, question = facts_of(prompts)
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(wide), "forward", lambda self, ids, cache, **k: seen.append(cache) or 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run_exchanges(wide, question, cache, shifts, prompts, planes, asked, other)
    assert all(torch.equal(x, layer.keys) for x, layer in zip(before, cache.layers, strict=True))
    (changed,) = seen
    places = [prompts.start + fact * length + torch.arange(length) for fact in (asked, other)]
    for number, (layer, here, old) in enumerate(zip(changed.layers, planes, before, strict=True)):
        for run, (exchange, layers) in enumerate(RUNS):
            if exchange != "whole":
                continue
            expected = old[0].clone()
            if number in select_named_layers(layers, 3):
                for at, origin in (places, places[::-1]):
                    moved = rotate(here.arrange_keys(old[0][:, origin]), at - origin, here.angles)
                    back = here.order.argsort()
                    expected[:, at] = (moved / here.gain)[..., back].float()
            torch.testing.assert_close(layer.keys[run], expected, rtol=1e-4, atol=1e-4)


def test_an_exchange_in_some_layers_leaves_attention_before_them_alone(wide, prompts, planes):
    cache, shifts = shifts_of(wide, prompts, planes, 3, 1)
    _, question = facts_of(prompts)
    found = run_exchanges(wide, question, cache, shifts, prompts, planes, 3, 1)
    ratio = found["log_ratio"]
    assert list(EXCHANGES) == ["whole", "origin", "symbol", "other origins", "random"]
    for exchange in ("whole", "origin"):
        middle = RUNS.index((exchange, MIDDLE))
        torch.testing.assert_close(ratio[middle, :1], ratio[0, :1])
        assert not torch.allclose(ratio[middle, 1], ratio[0, 1], atol=1e-3)
    assert not torch.allclose(ratio[RUNS.index(("whole", "all")), 0], ratio[0, 0], atol=1e-3)


@pytest.mark.parametrize(("layers", "middle"), [(3, range(1, 2)), (4, range(1, 3)), (18, range(6, 12))])
def test_the_middle_third(layers, middle):
    assert select_named_layers(MIDDLE, layers) == middle
    assert select_named_layers("all", layers) == range(layers)


def test_a_window_that_forgets_facts_is_refused(tokenizer, prompts):
    short = build("Gemma3", vocab_size=len(tokenizer)).requires_grad_(False)
    facts, _ = facts_of(prompts)
    with pytest.raises(ValueError, match=r"a window of this model keeps 15 of 29 tokens. Pass fewer facts"):
        fill_cache(short, facts[None])


def test_settings_that_leave_no_pair_are_refused():
    with pytest.raises(ValueError, match=r"got facts=3 and pairs=2. Pass facts of 4 or more and pairs from 1"):
        OriginPatching(facts=3)


def test_a_head_alone_reads_what_it_reads_where_no_other_layer_s_keys_change(wide, prompts, planes):
    facts, question = facts_of(prompts)
    asked, other = 3, 1
    cache, shifts = shifts_of(wide, prompts, planes, asked, other)
    pair = FactPair(question=question, cache=cache, asked=asked, other=other, shifts=shifts)
    alone = exchange_layer_alone(wide, pair, prompts, planes)
    assert alone.shape == (1 + len(EXCHANGES), 3, 4)
    for layer in range(3):
        only = [shift if number == layer else 0 * shift for number, shift in enumerate(shifts)]
        found = run_exchanges(wide, question, cache, only, prompts, planes, asked, other)["log_ratio"]
        runs = [RUNS.index((name, "all")) for name in ("none", *EXCHANGES)]
        torch.testing.assert_close(alone[:, layer], found[runs, layer], rtol=1e-4, atol=1e-4)
    every = run_exchanges(wide, question, cache, shifts, prompts, planes, asked, other)["log_ratio"]
    assert not torch.allclose(alone[1, 2], every[RUNS.index(("whole", "all")), 2], atol=1e-3)
    assert (cache.layers[1].keys == fill_cache(wide, facts[None]).layers[1].keys).all()
