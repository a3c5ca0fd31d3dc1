"""Training on multi-hop tasks: the model of the paper, checkpoints, killed runs, kept weights, length."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from refusals import refuse_each

from posym_companion.experiments import stored_result
from posym_companion.results import load_result
from posym_companion.several_hops.gptj import (
    AnswerLoss,
    average_by_hops,
    compute_answer_logits,
    find_tables,
    make_gptj,
    mark_right_answers,
    measure_accuracy_by_length,
    set_angles,
)
from posym_companion.several_hops.multihop import (
    EXPERIMENT,
    TRAINING,
    WEIGHTS_KEPT,
    MultihopSettings,
    Watch,
    full_size,
    load_weights,
    small,
    train_model,
)
from posym_core import rope_angles
from posym_core.store._resuming import ResultError
from posym_core.tasks._number_letter import NumberTask

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = MultihopSettings(
    hops=2, window=3, steps_back=2, layers=2, width=8, train=8 * 12, validation=16, test=20, batch=8,
    learning_rate=1e-2, warmup=3, checkpoint_every=6, look_every=3, look=16, turn=2.0, monitored=2, save_every=4,
)  # fmt: skip
TIMES = {"training_seconds", "monitor_seconds"}


class Killed(Exception):
    pass


def trained(settings=TINY, **options):
    return train_model(settings, device="cpu", progress=False, **options)


def same(first, second) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_the_full_size_is_the_papers():
    settings = full_size()
    assert settings[0].steps == 6750
    model = settings[0].make_model()
    assert sum(parameter.numel() for parameter in model.parameters()) == 2_405_256
    assert len(model.transformer.h) == 12
    assert model.lm_head.weight.data_ptr() != model.transformer.wte.weight.data_ptr()
    assert {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)} == {0.1}
    assert small(settings[1]) == MultihopSettings.small(task="letter", train=9_600, checkpoint_every=50)


def test_the_models_own_table_of_angles_is_kept_up_to_its_rounding():
    from transformers import GPTJConfig, GPTJForCausalLM

    config = GPTJConfig(vocab_size=9, n_positions=64, n_embd=16, n_layer=1, n_head=1, rotary_dim=16)
    theirs = find_tables(GPTJForCausalLM(config))[0].embed_positions
    mine = find_tables(make_gptj(vocabulary=9, layers=1, width=16, positions=64))[0].embed_positions
    torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=0)


def test_only_the_last_token_is_answered():
    model, tokens = TINY.make_model().eval(), TINY.sample(5, TRAINING).tokens
    whole = model(tokens).logits[:, -1]
    torch.testing.assert_close(compute_answer_logits(model, tokens), whole)
    answer = whole.argmax(-1)
    assert mark_right_answers(model, tokens, answer).all()
    assert not mark_right_answers(model, tokens, answer + 1).any()


def test_a_step_is_that_of_a_plain_loop():
    settings = replace(TINY, dropout=0.0)
    found, model = trained(settings), settings.make_model()
    options = {"betas": (0.95, 0.999), "weight_decay": 1e-4}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, **options)
    generator, task = settings.generator(TRAINING), settings.make_task()
    for step in range(12):
        batch = task.sample(8, generator=generator)
        loss = torch.nn.functional.cross_entropy(model(batch.tokens).logits[:, -1], batch.answer)
        optimizer.zero_grad()
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * ((step + 1) / 3 if step < 3 else (12 - step) / 9)
        optimizer.step()
    for mine, other in zip(found.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine, other.half().float(), atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("task", ["number", "letter"])
def test_a_killed_and_resumed_run_equals_the_unbroken_one(tmp_path, task, monkeypatch):
    settings = replace(TINY, task=task, turn=0.05, dropout=0.2, learning_rate=0.05)
    unbroken = trained(settings)
    checkpoint = tmp_path / "training.safetensors"
    look = Watch.__call__

    def die(watch, step, model):
        if step == 9:
            raise Killed
        return look(watch, step, model)

    monkeypatch.setattr(Watch, "__call__", die)
    with pytest.raises(Killed):
        trained(settings, checkpoint=checkpoint)
    monkeypatch.undo()
    assert checkpoint.exists()
    torch.rand(3)  # the global generator stands elsewhere when the run goes on
    resumed = trained(settings, checkpoint=checkpoint)
    assert same(resumed.model, unbroken.model)
    assert set(resumed.arrays) == set(unbroken.arrays)
    for name in set(unbroken.arrays) - TIMES:
        np.testing.assert_array_equal(resumed.arrays[name], unbroken.arrays[name], err_msg=name)


def test_checkpoints_are_regular_and_dense_where_an_accuracy_turns(monkeypatch):
    model, settings = TINY.make_model(), replace(TINY, turn=0.1, checkpoint_every=30, train=8 * 60)
    watch, rows = Watch(settings, torch.device("cpu")), 16
    accuracies = iter([0.0, 0.05, 0.1, 0.15, 0.5, 0.5, 0.45, 0.35, 0.4, 0.4, 0.4])

    def answers(model, tokens, answer):
        return torch.arange(rows).double() * 0 + shown

    monkeypatch.setattr("posym_companion.several_hops.multihop.mark_right_answers", answers)
    steps = []
    for step in range(31):
        if step % 3 == 0:
            shown = next(accuracies)
        found = watch(step, AnswerLoss(model))
        assert (found is None) == (step % 3 != 0)
        if found and "checkpoint_step" in found:
            steps.append(int(found["checkpoint_step"]))
    assert steps == [0, 9, 12, 21, 30]
    assert model.training


def test_results_carry_weights_that_are_checked(tmp_path):
    (result,) = EXPERIMENT.run([TINY], device="cpu", folder=tmp_path, progress=False)
    names = {"number_0.npz", "number_0.json", "number_0.safetensors"}
    assert {file.name for file in (tmp_path / "multihop").iterdir()} == names
    checkpoints = len(result["checkpoint_step"])
    assert result["positional"].shape == (checkpoints, 2, 2, 2, 1)
    assert result["frequency"].shape == (checkpoints, 2, 1)
    assert result["attention"].shape == (checkpoints, 2, 2, 1, 6, 6)
    np.testing.assert_allclose(result["attention"].sum(-1) / 255, 1, atol=0.02)
    model, settings = load_weights("multihop/number_0", folder=tmp_path, device="cpu")
    assert settings == TINY
    test = TINY.sample(20, 3)
    right = mark_right_answers(model, test.tokens, test.answer)
    np.testing.assert_array_equal(average_by_hops(right, test.hops, 2).numpy(), result["test_accuracy"])
    before = (tmp_path / "multihop/number_0.json").stat().st_mtime_ns
    list(EXPERIMENT.run([TINY], device="cpu", folder=tmp_path, progress=False))
    assert (tmp_path / "multihop/number_0.json").stat().st_mtime_ns == before
    weights = tmp_path / "multihop/number_0.safetensors"
    weights.write_bytes(weights.read_bytes()[:-2] + b"ab")
    with pytest.raises(ResultError, match=r"number_0.safetensors was altered or truncated.*run the experim"):
        load_weights("multihop/number_0", folder=tmp_path)
    weights.unlink()
    with pytest.raises(ResultError, match=r"number_0.safetensors is missing; restore it"):
        load_weights("multihop/number_0", folder=tmp_path)
    assert "attached" in load_result("multihop/number_0", folder=tmp_path).provenance


def test_weights_that_are_not_kept_may_be_left_out_but_not_altered(tmp_path):
    light = replace(TINY, seed=WEIGHTS_KEPT + 1)
    list(EXPERIMENT.run([light], device="cpu", folder=tmp_path, progress=False))
    weights = tmp_path / f"{light.name}.safetensors"
    whole = weights.read_bytes()
    weights.unlink()
    assert stored_result(light, folder=tmp_path) is not None
    weights.write_bytes(whole[:-1])
    assert stored_result(light, folder=tmp_path) is None


def test_accuracy_by_length_is_that_of_sequences_with_letters_in_front():
    task, model = NumberTask(window=3, steps=2, letters=5, hops=2), TINY.make_model().eval()
    model = make_gptj(vocabulary=task.vocabulary, layers=1, width=8, dropout=0.0, positions=20).eval()
    found = measure_accuracy_by_length(model, task, [6, 20], count=40)
    for row, extra in zip(found, (0, 14), strict=True):
        batch = task.sample(40, generator=torch.Generator().manual_seed(0), extra=extra)
        guess = model(batch.tokens).logits[:, -1].argmax(-1)
        for hops in (1, 2):
            here = batch.hops == hops
            assert float(row[hops - 1]) == float((guess == batch.answer)[here].double().mean())
    with pytest.raises(ValueError, match=r"sequences of this task have at least 6 tokens; got lengths \[5\]"):
        measure_accuracy_by_length(model, task, [5, 9])
    with pytest.raises(ValueError, match=r"positions for 20 tokens; got sequences of 21. Call set_angles with more"):
        measure_accuracy_by_length(model, task, [21])
    set_angles(model, rope_angles(8), positions=2000)
    assert measure_accuracy_by_length(model, task, [1500], count=4).shape == (1, 2)


def test_angles_follow_base_and_share():
    settings = MultihopSettings(base=100.0, rotated=0.75, heads=4)
    torch.testing.assert_close(replace(settings, scale=0.25).angles, settings.angles / 4)
    assert settings.angles.shape == (16,)
    torch.testing.assert_close(settings.angles[:12], rope_angles(32, 100.0)[:12])
    assert (settings.angles[12:] == 0).all()
    table = find_tables(settings.make_model())[-1].embed_positions
    assert table.shape == (1024, 32)
    torch.testing.assert_close(table[3, 0], torch.tensor(3.0).sin())


def test_extra_tokens_of_training_are_drawn_for_every_batch():
    seen = []

    class Spy(type(TINY.make_task())):
        def sample(self, count, *, generator, extra=0):
            if count == TINY.batch:
                seen.append(extra)
            return super().sample(count, generator=generator, extra=extra)

    class Watched(MultihopSettings):
        def make_task(self):
            task = super().make_task()
            return Spy(**{name: getattr(task, name) for name in ("hops", "window", "steps")})

    train_model(Watched(**(asdict(TINY) | {"extra": 3})), device="cpu", progress=False)
    assert set(seen) == {0, 1, 2, 3}


test_what_does_not_fit_is_refused = refuse_each(
    (lambda: MultihopSettings(heads=3).make_model(), "3 heads must have an even number of dimensions each"),
    (lambda: set_angles(TINY.make_model(), rope_angles(4), positions=9), r"angles must have shape \[4\]"),
    (lambda: MultihopSettings(look_every=100), "every 100 steps there is a look and every 250 a checkpoint"),
)
