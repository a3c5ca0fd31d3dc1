"""The cube of a model against rotated keys in loops, against hooks, and against texts that are truly reordered."""

import itertools
import math
import warnings

import literal
import pytest
import torch
from architectures import packaged, shared, tokens
from refusals import refuse_each

from posym_core.metrics._cube_parts import PARTS, draw_latin_square
from posym_core.metrics._permutations import permute_blocks
from posym_profile import binding_prompts, origin_cube
from posym_profile.capture._capturing import capture
from posym_profile.planes._rotary_planes import find_planes
from posym_profile.scores._visibility import HiddenBlocksWarning

START, LENGTH, BLOCKS = 2, 3, 4
SETTING = {"start": START, "block_length": LENGTH, "blocks": BLOCKS}
NAMES = ["Llama", "Gemma2", "Gemma3", "gpt-oss", "GPT-J", "Phi", "Falcon", "DeepSeek-V3"]


def quietly(model, prompt, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HiddenBlocksWarning)
        return origin_cube(model, prompt, **SETTING, **options)


def in_orders(prompt, orders):
    return permute_blocks(prompt, orders, start=START, block_length=LENGTH)


def sums(logits, read=None):
    """``[..., key]`` as ``[..., block]``."""
    inside = logits[..., START : START + LENGTH * BLOCKS].unflatten(-1, (BLOCKS, LENGTH)).double()
    return inside.logsumexp(-1) if read is None else inside[..., read]


@pytest.mark.parametrize("read", [None, 1])
@pytest.mark.parametrize("name", NAMES)
def test_where_keys_stay_the_logits_are_those_of_reordered_texts(name, read):
    """Every layer, from the model's own attention: what each symbol gets in each prompt at the place where it is."""
    model, (prompt,) = shared(name), tokens(1, 18)
    cube = quietly(model, prompt, read=read)
    assert torch.equal(cube.orders, draw_latin_square(BLOCKS, torch.Generator().manual_seed(0)))
    calls = capture(model, in_orders(prompt, cube.orders))
    for layer, call in enumerate(calls):
        logits = call.logits()[:, :, 0].masked_fill(~call.visible[:, :, 0], -math.inf)
        own = sums(logits, read)
        for k, place in itertools.product(range(BLOCKS), range(BLOCKS)):
            found = cube.logits[layer, : own.shape[1], int(cube.orders[k, place]), place, place]
            torch.testing.assert_close(found, own[k, :, place], atol=2e-4, rtol=1e-4)


def test_elsewhere_they_are_those_of_keys_turned_one_by_one():
    model, (prompt,) = shared("Llama"), tokens(1, 18)
    cube, planes = quietly(model, prompt), find_planes(model, 18)
    calls = capture(model, in_orders(prompt, cube.orders))
    for layer, (call, found) in enumerate(zip(calls, planes, strict=True)):
        query = found.arrange_query(call.query[:, :, 0]).double()
        keys = found.arrange_keys(call.keys).double()
        for k, head in itertools.product(range(BLOCKS), range(0, 4, 3)):
            C = literal.cross_logits(query[k, head], keys[k, head // 2], found.angles, scale=call.scale)
            for p, b, offset in itertools.product(range(BLOCKS), range(BLOCKS), range(1)):
                rows, columns = START + p * LENGTH + torch.arange(LENGTH), START + b * LENGTH + torch.arange(LENGTH)
                expected = C[rows + offset, columns].logsumexp(0)
                logit = cube.logits[layer, head, int(cube.orders[k, p]), p, b]
                assert float(logit) == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_shares_are_parts_of_a_whole_and_the_first_layer_knows_no_origin(name):
    cube = quietly(shared(name), tokens(1, 18)[0])
    assert cube.logits.dtype == torch.float64
    assert cube.logits.device.type == "cpu"
    assert list(cube.shares) == list(PARTS.values())
    there = ~torch.stack(list(cube.shares.values())).isnan().any(0)
    assert there.any(1).all()
    for share in cube.shares.values():
        assert share.shape == cube.logits.shape[:2]
        assert (share[there] >= 0).all()
    total = sum(cube.shares.values())
    torch.testing.assert_close(total[there], torch.ones_like(total[there]), atol=1e-12, rtol=0)
    of_symbolic = sum(cube.symbolic_shares.values())
    torch.testing.assert_close(of_symbolic[there], torch.ones_like(total[there]), atol=1e-9, rtol=0)
    assert float(cube.shares["origin"][0].nan_to_num().max()) < 1e-9
    assert float(cube.shares["origin"][1:].nan_to_num().max()) > 1e-3


def test_batches_change_nothing():
    model, (prompt,) = shared("Gemma3"), tokens(1, 18)
    whole, parts = quietly(model, prompt), quietly(model, prompt, batch_size=3)
    torch.testing.assert_close(parts.logits, whole.logits, atol=1e-5, rtol=0)


def test_windows_leave_places_out_and_say_so():
    model, (prompt,) = shared("Gemma3"), tokens(1, 26)
    with pytest.warns(HiddenBlocksWarning, match=r"in layers 0, 1 .*\. Parts are over the places seen whole"):
        cube = origin_cube(model, prompt, **SETTING)
    assert cube.seen.tolist() == [[False, False, False, True]] * 2 + [[True] * 4]
    # Of the third block the window of 16 shows one key, of the first two none.
    assert (cube.logits[0, ..., :2] == -math.inf).all()
    assert cube.logits[0, ..., 2:].isfinite().all()
    assert (cube.shares["place"][:2] == 0).all()
    with pytest.warns(HiddenBlocksWarning):
        blind = origin_cube(model, tokens(1, 60)[0], **SETTING)
    assert all(share[:2].isnan().all() and share[2].isfinite().all() for share in blind.shares.values())


CUBED, (PROMPT,) = shared("Llama"), tokens(1, 18)
test_what_does_not_fit_is_refused_before_the_model_runs = refuse_each(
    (lambda: origin_cube(CUBED, tokens(2, 18), **SETTING), r"permutes the blocks of one prompt; got 2\. Call it once"),
    (lambda: quietly(CUBED, PROMPT, read=3), "read is the offset of a key within its block of 3; got 3"),
    (lambda: quietly(CUBED, PROMPT, seed=-1), "seed must be a whole number of at least 0; got -1"),
    (lambda: origin_cube(CUBED, PROMPT, start=2, block_length=3, blocks=6), "blocks cover 18 keys from start=2"),
    (lambda: quietly(CUBED, PROMPT.clone().index_fill_(0, torch.arange(2), 0)), "pad token"),
)  # fmt: skip


def test_a_cube_says_in_a_line_what_it_is():
    assert repr(quietly(CUBED, PROMPT)) == (
        "KeyAnova(3 layers of 4 heads, 4 blocks; parts symbol, origin, place, symbol_origin, symbol_place, "
        "origin_place, all_three)"
    )


def test_lists_of_one_frame_are_read_by_origin_and_a_lead_takes_it_away():
    """The packaged model, in the middle third of its layers; the book has the numbers of all prompts."""
    model, tokenizer = packaged()
    origin = {}
    for lead in (0, 8):
        prompts = binding_prompts(tokenizer, facts=8, count=1, seed=1, lead=lead)
        blocks = prompts.layout
        cube = origin_cube(model, prompts.input_ids[0], **blocks)
        origin[lead] = float(cube.symbolic_shares["origin"][6:12].median())
    assert origin[0] > 0.7
    assert origin[8] < 0.5
