"""The study of encodings on Distance and Count: set-ups, what is kept, and resuming."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from refusals import refuse_each

from posym_companion.encodings.encoding_study import (
    EXPERIMENT,
    RELEASED,
    EncodingStudy,
    full_size,
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


def test_released_setups_have_the_confounds():
    rope, mla = (EncodingStudy(task="distance", setup=RELEASED[name]) for name in ("rope", "mla"))
    assert (rope.model_settings().added, rope.model_settings().mask_padding) == ("sinusoidal", False)
    assert (mla.model_settings().added, mla.model_settings().mask_padding) == ("learned", True)
    assert mla.model_settings().activation == "relu"
    assert (mla.schedule().steps, mla.schedule().batch) == (1200, 16)
    assert all(
        not EncodingStudy(task="distance", setup=RELEASED[n]).model_settings().mask_padding for n in ("nope", "alibi")
    )


def test_long_trainings_have_the_papers_sentences_and_a_control_without_dropout():
    settings = full_size()
    long = [setting for setting in settings if setting.size == "long"]
    (control,) = (setting for setting in settings if setting.size == "undropped")
    (same,) = (replace(setting, size="undropped") for setting in long if setting.task == "count")
    assert (control, control.model_settings().dropout) == (same, 0.0)
    assert control.schedule() == long[-1].schedule()
    for setting in long:
        assert setting.make_task().longest == 120
        assert setting.model_settings().dropout == 0.1
        assert setting.schedule().steps == 10 * EncodingStudy(task=setting.task, setup=setting.setup).steps


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


test_refusals = refuse_each(
    (lambda: EncodingStudy(task="sum", setup="rope"), "task must be one of .* got 'sum'"),
)
