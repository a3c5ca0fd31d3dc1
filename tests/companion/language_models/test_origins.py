"""The kinds of prompt on which symbol and origin are taken apart, and what is kept of every square."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from posym_companion.language_models.origins import (
    BLOCK_LENGTH,
    DIMS,
    EXPERIMENT,
    FEW,
    KEYS,
    READS,
    VARIANCES,
    Origins,
    ask_other_facts,
    draw_prompts,
    measure,
)
from posym_companion.results import name_dims
from posym_core.metrics._blocks import BlockLayout
from posym_core.metrics._cube_parts import PARTS, draw_latin_square
from posym_profile import binding_prompts, origin_cube


def run(tiny, tokenizer, **kind):
    return measure(tiny, tokenizer, EXPERIMENT.shrink(Origins(**kind)), progress=False)


@pytest.mark.filterwarnings("ignore::posym_profile.scores._visibility.HiddenBlocksWarning")  # the tiny model's windows
def test_the_parts_are_those_of_the_cube_whatever_is_read(tiny, tokenizer):
    """All reads of one pass, each beside a cube of its own."""
    setting = EXPERIMENT.shrink(Origins(lead=1, reads="all"))
    found = measure(tiny, tokenizer, setting, progress=False)
    name_dims(DIMS, found)
    prompts = draw_prompts(tokenizer, setting)
    for name, read in KEYS.items():
        cube = origin_cube(tiny, prompts[1:2], seed=1, read=read)
        row = found["parts"][READS.index(name), :, 1]
        for part in PARTS.values():
            variance = cube.variance[0].sel(part=part)
            np.testing.assert_allclose(row[VARIANCES.index(part)], variance, rtol=1e-4, atol=1e-12)
        np.testing.assert_allclose(row[-1], cube.prompt_variance[0], rtol=1e-4, atol=1e-12)
    assert found["parts"].shape[:3] == (len(READS), len(VARIANCES), 2)


def test_what_stands_in_front_leaves_the_facts_as_they_are(tokenizer):
    plain = draw_prompts(tokenizer, Origins())
    tail = plain.input_ids[:, plain.start :]
    lengths = {}
    for kind in (
        {"lead": 8},
        {"lead": 8, "front": "other"},
        {"lead": 8, "front": "prose"},
        {"lead": 50, "front": "prose"},
        {"beginning": False},
    ):
        found = draw_prompts(tokenizer, Origins(**kind))
        assert torch.equal(found.input_ids[:, found.start :], tail)
        assert found.start + tail.shape[1] == found.input_ids.shape[1]
        lengths[found.start] = kind
    assert list(lengths) == [33, 201, 0]  # as many tokens of prose as of facts
    same, other = (draw_prompts(tokenizer, Origins(lead=8, front=front)) for front in ("facts", "other"))
    assert torch.equal(same.input_ids[:, 1:33:4], other.input_ids[:, 1:33:4])  # names
    assert tokenizer.decode(other.input_ids[0, 1:33]).count(" bought ") == 8


def test_each_prompt_of_a_square_asks_for_its_own_fact(tokenizer):
    for wording in ("likes", "bought"):
        prompts = binding_prompts(tokenizer, facts=6, count=1, template=wording)
        swaps = BlockLayout(start=prompts.start, block_length=BLOCK_LENGTH, blocks=6)
        orders = draw_latin_square(6, torch.Generator().manual_seed(0))
        asked = torch.tensor([5, 0, 3, 3, 1, 2])
        told = ask_other_facts(prompts.input_ids[0], orders, swaps, int(prompts.target[0]), asked)
        names = [tokenizer.decode(prompts.input_ids[0, prompts.start + 4 * block]) for block in range(6)]
        for row, block in zip(told, asked.tolist(), strict=True):
            question = tokenizer.decode(row[swaps.stop :])
            assert question.count(names[block]) == (2 if wording == "likes" else 1)
            assert not any(name in question for name in names if name != names[block])


@pytest.mark.filterwarnings("ignore::posym_profile.scores._visibility.HiddenBlocksWarning")
def test_few_reads_are_the_same_numbers(tiny, tokenizer):
    few, every = (run(tiny, tokenizer, reads=reads) for reads in ("few", "all"))
    assert few["reads"].tolist() == list(FEW)
    np.testing.assert_array_equal(few["parts"], every["parts"][[READS.index(name) for name in FEW]])
    name_dims(DIMS, few)
