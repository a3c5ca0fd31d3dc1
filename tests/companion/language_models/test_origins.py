"""The kinds of prompt on which symbol and origin are taken apart, and what is kept of every square."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from posym_companion.language_models.origins import (
    BLOCK_LENGTH,
    CROSSED,
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
    measure_asked_contrast,
)
from posym_companion.results import name_dims
from posym_core.metrics._blocks import BlockLayout
from posym_core.metrics._cube_parts import PARTS, draw_latin_square
from posym_profile import binding_prompts, origin_cube, profile


def run(tiny, tokenizer, **kind):
    return measure(tiny, tokenizer, EXPERIMENT.shrink(Origins(**kind)), progress=False)


@pytest.mark.filterwarnings("ignore::posym_profile.scores._visibility.HiddenBlocksWarning")  # the tiny model's windows
def test_the_parts_are_those_of_the_cube_whatever_is_read(tiny, tokenizer):
    """All reads of one pass, each beside a cube of its own."""
    setting = EXPERIMENT.shrink(Origins(lead=1))
    found = measure(tiny, tokenizer, setting, progress=False)
    name_dims(DIMS, found)
    prompts = draw_prompts(tokenizer, setting)
    home = prompts.layout
    reads = {name: (read, False) for name, read in KEYS.items()}
    reads |= {f"{name}, crossed": (read, True) for name, read in CROSSED.items()}
    for name, (read, crossed) in reads.items():
        cube = origin_cube(tiny, prompts.input_ids[1], **home, seed=1, read=read, crossed=crossed)
        row = found["parts"][READS.index(name), :, 1]
        for part in PARTS.values():
            np.testing.assert_allclose(row[VARIANCES.index(part)], cube.parts[part], rtol=1e-4, atol=1e-12)
        np.testing.assert_allclose(row[-1], cube.prompts, rtol=1e-4, atol=1e-12)
    scores = profile(tiny, prompts.input_ids, **home, visible_only=False)
    np.testing.assert_allclose(found["symbolic"], scores.symbolic, atol=1e-6)
    assert found["parts"].shape[:3] == (len(READS), len(VARIANCES), 2)
    assert "contrasts" not in found


@pytest.mark.filterwarnings("ignore::posym_profile.scores._visibility.HiddenBlocksWarning")
def test_without_the_first_origins_only_the_others_count(tiny, tokenizer):
    setting = EXPERIMENT.shrink(Origins())
    found = measure(tiny, tokenizer, setting, progress=False)
    prompts = draw_prompts(tokenizer, setting)
    cube = origin_cube(
        tiny, prompts.input_ids[0], start=prompts.start, block_length=4, blocks=prompts.blocks, read=2, seed=0
    )
    rest = cube.logits[-1, :, :, 4:, 4:]
    by_origin = rest.mean((-3, -1))
    expected = by_origin.var(-1, correction=0)
    part = found["parts"][READS.index("offset 2, behind 4"), VARIANCES.index("origin"), 0, -1]
    np.testing.assert_allclose(part, expected, rtol=1e-3, atol=1e-10)


def test_curves_and_mass(tiny, tokenizer):
    found = run(tiny, tokenizer)
    np.testing.assert_allclose(found["by_origin"].sum(-1), 0, atol=1e-4)
    assert np.abs(found["by_origin"][:, 0]).max() < 1e-4  # a key of the first layer sees one token
    assert ((found["mass"] > 0) & (found["mass"] < 1)).all()


def test_what_stands_in_front_leaves_the_facts_as_they_are(tokenizer):
    plain = draw_prompts(tokenizer, Origins())
    tail = plain.input_ids[:, plain.start :]
    lengths = {}
    for kind in (
        {"lead": 8},
        {"lead": 8, "front": "shuffled"},
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
    text = tokenizer.decode(other.input_ids[0, 1:33])
    assert text.count(" bought ") == 8
    assert " likes " not in text
    mixed = draw_prompts(tokenizer, Origins(lead=8, front="shuffled")).input_ids
    assert torch.equal(mixed[:, 1:33].sort().values, same.input_ids[:, 1:33].sort().values)
    assert ((mixed == same.input_ids)[:, 1:33].sum(1) < 16).all()  # the frame's tokens are half of a list
    prose = [draw_prompts(tokenizer, Origins(lead=8, front="prose")).input_ids[row, 1:33] for row in (0, 1)]
    assert not torch.equal(*prose)


def test_prose_is_cut_into_blocks_of_four(tokenizer):
    found = draw_prompts(tokenizer, Origins(wording="prose"))
    assert (found.start, found.block_length, found.blocks) == (1, 4, 16)
    assert found.input_ids.shape == (3, 1 + 64 + 1)
    for kind in ({"lead": 8}, {"vary_frame": True}, {"asked": True}):
        with pytest.raises(ValueError, match="prose has no facts in front, no frame and no question; pass lead=0"):
            draw_prompts(tokenizer, Origins(wording="prose", **kind))


def test_facts_of_another_length_are_refused(tokenizer):
    with pytest.raises(ValueError, match=r"facts must be 4 tokens .* makes 5 of 'lives'; pass another wording"):
        draw_prompts(tokenizer, Origins(wording="lives"))


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


def test_the_contrast_is_what_asking_adds():
    generator = torch.Generator().manual_seed(0)
    queries, levels = 6, 6
    asked = torch.tensor([0, 1, 1, 3, 5, 2])
    anyway = torch.randn(1, 2, levels, generator=generator) + torch.randn(queries, 2, 1, generator=generator)
    added = torch.nn.functional.one_hot(asked, levels)[:, None] * torch.tensor([3.0, 0.0])[:, None]
    torch.testing.assert_close(
        measure_asked_contrast(anyway + added, asked), torch.tensor([3.0, 0.0], dtype=torch.float64)
    )


def test_contrasts_are_measured_where_they_are_asked(tiny, tokenizer):
    found = run(tiny, tokenizer, asked=True)
    name_dims(DIMS, found)
    layers, heads = found["mass"].shape[1:]
    assert found["contrasts"].shape == (len(CROSSED), 3, 2, layers, heads)
    # The tiny model's windows hide places; whatever its other keys are asked for has a contrast.
    assert np.isfinite(found["contrasts"][:, :2]).all()
    assert np.isfinite(found["contrasts"][:, 2, :, -1]).all()


def test_a_draw_of_weights_is_another_model(tiny, tokenizer):
    draws = [run(tiny, tokenizer, draw=draw)["parts"] for draw in (0, 1, 0)]
    assert not np.array_equal(draws[0], draws[1])
    np.testing.assert_array_equal(draws[0], draws[2])


@pytest.mark.filterwarnings("ignore::posym_profile.scores._visibility.HiddenBlocksWarning")
def test_few_reads_are_the_same_numbers(tiny, tokenizer):
    few, every = (run(tiny, tokenizer, reads=reads) for reads in ("few", "all"))
    assert few["reads"].tolist() == list(FEW)
    np.testing.assert_array_equal(few["parts"], every["parts"][[READS.index(name) for name in FEW]])
    np.testing.assert_array_equal(few["by_origin"], every["by_origin"])
    name_dims(DIMS, few)
