"""The cube of a model against rotated keys in loops, against hooks, and against texts that are truly reordered."""

import itertools
import math
import warnings

import literal
import numpy as np
import pytest
import torch
import xarray
from architectures import packaged, shared, tokens
from refusals import refuse_each

from posym_core.metrics._cube_parts import PARTS, draw_latin_square
from posym_core.metrics._permutations import permute_blocks
from posym_profile import binding_prompts, origin_cube, profile, top_heads
from posym_profile.capture._capturing import capture
from posym_profile.planes._rotary_planes import find_planes
from posym_profile.prompts import Prompts
from posym_profile.scores._visibility import HiddenBlocksWarning

START, LENGTH, BLOCKS = 2, 3, 4
SETTING = {"start": START, "block_length": LENGTH, "blocks": BLOCKS}
NAMES = ["Llama", "Gemma2", "Gemma3", "gpt-oss", "GPT-J", "Phi", "Falcon", "DeepSeek-V3"]


def quietly(model, prompt, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HiddenBlocksWarning)
        return origin_cube(model, prompt, **SETTING, logits=True, **options)


def in_orders(prompt, cube):
    return permute_blocks(prompt, torch.from_numpy(cube.orders.values[0]), start=START, block_length=LENGTH)


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
    orders, found = cube.orders.values[0], cube.logits.values[0]
    np.testing.assert_array_equal(orders, draw_latin_square(BLOCKS, torch.Generator().manual_seed(0)))
    calls = capture(model, in_orders(prompt, cube))
    for layer, call in enumerate(calls):
        logits = call.logits()[:, :, 0].masked_fill(~call.visible[:, :, 0], -math.inf)
        own = sums(logits, read)
        for k, place in itertools.product(range(BLOCKS), range(BLOCKS)):
            there = found[layer, : own.shape[1], orders[k, place], place, place]
            np.testing.assert_allclose(there, own[k, :, place], atol=2e-4, rtol=1e-4)


def test_elsewhere_they_are_those_of_keys_turned_one_by_one():
    model, (prompt,) = shared("Llama"), tokens(1, 18)
    cube, planes = quietly(model, prompt), find_planes(model, 18)
    calls = capture(model, in_orders(prompt, cube))
    for layer, (call, found) in enumerate(zip(calls, planes, strict=True)):
        query = found.arrange_query(call.query[:, :, 0]).double()
        keys = found.arrange_keys(call.keys).double()
        for k, head in itertools.product(range(BLOCKS), range(0, 4, 3)):
            C = literal.cross_logits(query[k, head], keys[k, head // 2], found.angles, scale=call.scale)
            for p, b, offset in itertools.product(range(BLOCKS), range(BLOCKS), range(1)):
                rows, columns = START + p * LENGTH + torch.arange(LENGTH), START + b * LENGTH + torch.arange(LENGTH)
                expected = C[rows + offset, columns].logsumexp(0)
                logit = cube.logits.values[0, layer, head, cube.orders.values[0, k, p], p, b]
                assert logit == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_shares_are_parts_of_a_whole_and_the_first_layer_knows_no_origin(name):
    cube = quietly(shared(name), tokens(1, 18)[0])
    assert cube.logits.dtype == cube.variance.dtype == np.float64
    assert cube.part.values.tolist() == list(PARTS.values())
    shares = np.stack([cube[f"{name}_share"] for name in PARTS.values()], -1)
    there = ~np.isnan(shares).any(-1)
    assert there.any(2).all()
    assert (shares[there] >= 0).all()
    np.testing.assert_allclose(shares[there].sum(-1), 1, atol=1e-12)
    np.testing.assert_allclose(shares, cube.variance / cube.variance.sum("part"), atol=1e-12)
    both = (cube.variance.sel(part="symbol_origin") - cube.prompt_variance).clip(0)
    symbol, origin = (cube.variance.sel(part=name) for name in ("symbol", "origin"))
    np.testing.assert_allclose(cube.symbolic_part_origin, origin / (symbol + origin + both), atol=1e-9)
    np.testing.assert_allclose(cube.symbolic_part_symbol, symbol / (symbol + origin + both), atol=1e-9)
    assert float(cube.origin_share[:, 0].fillna(0).max()) < 1e-9
    assert float(cube.origin_share[:, 1:].max()) > 1e-3


def test_a_tasks_prompts_have_a_square_each_and_join_their_scores(tmp_path):
    model, ids = shared("Llama"), tokens(2, 18)
    none = {"answer_ids": ids[:, :0], "target": torch.zeros(2, dtype=torch.long), "texts": ["", ""]}
    prompts = Prompts(input_ids=ids, **SETTING, **none)
    found = origin_cube(model, prompts, seed=1, batch_size=3)
    assert "logits" not in found
    for row in range(len(prompts)):
        alone = origin_cube(model, ids[row], **SETTING, seed=1)
        np.testing.assert_allclose(found.variance[row], alone.variance[0], atol=1e-6)
    scores = profile(model, prompts)
    together = scores.merge(found)
    assert together.attrs == scores.attrs
    assert found.attrs["model"] == scores.attrs["model"]
    assert top_heads(together, 1, by="origin_share")[0][0] > 0
    found.to_netcdf(tmp_path / "cube.nc")
    with xarray.open_dataset(tmp_path / "cube.nc") as read:
        xarray.testing.assert_equal(read.load(), found)


def test_windows_leave_places_out_and_say_so():
    model, (prompt,) = shared("Gemma3"), tokens(1, 26)
    with pytest.warns(HiddenBlocksWarning, match=r"in layers 0, 1 .*\. Parts are over the places seen whole"):
        cube = origin_cube(model, prompt, **SETTING, logits=True)
    assert cube.seen.values.tolist() == [[[False, False, False, True]] * 2 + [[True] * 4]]
    # Of the third block the window of 16 shows one key, of the first two none.
    assert (cube.logits.values[0, 0, ..., :2] == -math.inf).all()
    assert np.isfinite(cube.logits.values[0, 0, ..., 2:]).all()
    assert (cube.place_share[:, :2] == 0).all()
    with pytest.warns(HiddenBlocksWarning):
        blind = origin_cube(model, tokens(1, 60)[0], **SETTING)
    assert not blind.variance[0, :2].notnull().any()
    assert blind.variance[0, 2].notnull().all()


CUBED, (PROMPT,) = shared("Llama"), tokens(1, 18)
test_what_does_not_fit_is_refused_before_the_model_runs = refuse_each(
    (lambda: origin_cube(CUBED, PROMPT), "token ids do not say where their blocks are; pass start", TypeError),
    (lambda: quietly(CUBED, PROMPT, read=3), "read is the offset of a key within its block of 3; got 3"),
    (lambda: quietly(CUBED, PROMPT, seed=-1), "seed must be a whole number of at least 0; got -1"),
    (lambda: origin_cube(CUBED, PROMPT, start=2, block_length=3, blocks=6), "blocks cover 18 keys from start=2"),
    (lambda: quietly(CUBED, PROMPT.clone().index_fill_(0, torch.arange(2), 0)), "pad token"),
)  # fmt: skip


def test_lists_of_one_frame_are_read_by_origin_and_a_lead_takes_it_away():
    """The packaged model, in the middle third of its layers; the book has the numbers of all prompts."""
    model, tokenizer = packaged()
    origin = {}
    for lead in (0, 8):
        cube = origin_cube(model, binding_prompts(tokenizer, facts=8, count=1, seed=1, lead=lead))
        origin[lead] = float(cube.symbolic_part_origin[0, 6:12].median())
    assert origin[0] > 0.7
    assert origin[8] < 0.5
