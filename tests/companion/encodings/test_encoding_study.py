"""The study of encodings on Distance and Count: set-ups, what is kept, and resuming."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from posym_companion.encodings.encoding_study import (
    EXPERIMENT,
    EncodingStudy,
    same_without_padding,
    train_model,
)
from posym_core.encodings import ENCODINGS


def brief(task="distance", setup="rope", **options):
    return replace(EXPERIMENT.shrink(EncodingStudy(task=task, setup=setup)), steps=3, ablated=60, pointed=1, **options)


def test_equal_setups_differ_in_the_encoding_alone():
    plain = EncodingStudy(task="distance", setup="nope").model_settings()
    for name in ENCODINGS:
        settings = EncodingStudy(task="distance", setup=name).model_settings()
        assert settings.encoding == name
        assert replace(settings, encoding="nope", causal=False) == plain
        assert settings.causal == (name == "path")
        assert (
            EncodingStudy(task="distance", setup=name).schedule() == EncodingStudy(task="count", setup="t5").schedule()
        )


def test_setups_that_padding_alone_tells_apart_are_one_on_count():
    assert same_without_padding("nope-released") == "nope"
    assert same_without_padding("rope-unmasked") == "rope"
    assert same_without_padding("rope-released") == "rope-added"
    assert same_without_padding("mla-released") == "mla-released"
    with pytest.raises(ValueError, match="Count has no padding, so 'rope-unmasked' is 'rope' once more; pass that"):
        EncodingStudy(task="count", setup="rope-unmasked")
    task = EncodingStudy(task="count", setup="rope").make_task()
    assert task.sample(50, generator=torch.Generator().manual_seed(0)).seen.all()


def test_one_rotary_head_a_layer():
    settings = EncodingStudy(task="distance", setup="rope-one-head").model_settings()
    assert settings.encoding == ("rope", *["nope"] * 7)


def test_seeds_differ_and_repeat():
    first, again, other = (train_model(brief(), seed)[0].read.weight for seed in (0, 0, 1))
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert (first - other).abs().max() > 0.01
