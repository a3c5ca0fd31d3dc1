"""The training loop against torch's own optimiser in a plain loop; freezing; killed and resumed runs."""

import math
from dataclasses import replace

import pytest
import torch
from refusals import refuse_each

from posym_core.models._ensembles import make_generators, sample_streams
from posym_core.models._toys import ToyEnsemble
from posym_core.models._training import LinearSettings, TrainingSettings, train
from posym_core.store import _resuming as resuming
from posym_core.tasks._index_retrieval import RetrievalTask

TASK = RetrievalTask(length=4, symbols=5, attributes=2)
SEEDS = (0, 1)
SETTINGS = TrainingSettings(steps=30, batch=8, warmup=4, record_every=7)


class Killed(Exception):
    pass


class Regression(torch.nn.Module):
    """An ordinary model: one loss, no members."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(3, 1)

    def losses(self, x):
        return (self.linear(x)[:, 0] - x.sum(1)).square().mean()


def toys() -> ToyEnsemble:
    return ToyEnsemble(TASK, torch.tensor([[0.5], [0.01]]), seeds=SEEDS, width=8)


def draw(count, generators):
    return sample_streams(TASK, count, generators)


def draw_normal(count, generators):
    return torch.randn(count, 3, generator=generators[0])


def run(model, *, settings=SETTINGS, generators=None, **options):
    generators = generators or make_generators(SEEDS, purpose=0)
    return train(model, draw, generators=generators, settings=settings, progress=False, **options)


def weights(step, model):
    return {"embedding": model.embedding[0, 0]} if step % 4 == 0 else None


def test_steps_are_those_of_a_plain_loop():
    model, plain = Regression(), Regression()
    history = train(
        model, draw_normal, generators=[torch.Generator().manual_seed(1)], settings=SETTINGS, progress=False
    )
    optimizer = torch.optim.Adam(plain.parameters(), betas=SETTINGS.betas)
    generator, losses = torch.Generator().manual_seed(1), []
    for step in range(SETTINGS.steps):
        rise = min(1, (step + 1) / 4)
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * rise * (0.5 + 0.5 * math.cos(math.pi * step / 30))
        loss = plain.losses(draw_normal(8, [generator]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    for mine, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, other)
    # records are means over seven steps, the last over the two that are left
    expected = [sum(losses[first : first + 7]) / len(losses[first : first + 7]) for first in range(0, 30, 7)]
    torch.testing.assert_close(history.losses, torch.tensor(expected))
    assert history.steps == 30


@pytest.mark.parametrize("killed_after", [3, 13, 29])
def test_a_killed_and_resumed_run_equals_the_unbroken_one(tmp_path, killed_after):
    unbroken = toys()
    expected = run(unbroken, observe=weights)

    def die(step, model):
        if step == killed_after:
            raise Killed
        return weights(step, model)

    kept = {"checkpoint": tmp_path / "toy.safetensors", "checkpoint_every": 5}
    with pytest.raises(Killed):
        run(toys(), observe=die, **kept)
    resumed = toys()
    if killed_after > 5:  # nothing may come from here once there is a checkpoint
        for parameter in resumed.parameters():
            parameter.data.zero_()
    for _ in range(2):  # a finished run goes on to its end
        history = run(resumed, observe=weights, **kept)
        for mine, other in zip(resumed.parameters(), unbroken.parameters(), strict=True):
            assert torch.equal(mine, other)
        assert torch.equal(history.losses, expected.losses)
        assert torch.equal(history.observed_at, expected.observed_at)
        assert torch.equal(history.observations["embedding"], expected.observations["embedding"])
    assert [file.name for file in tmp_path.iterdir()] == ["toy.safetensors"]


def test_frozen_members_stay_and_others_go_on():
    free, stopped = toys(), toys()
    losses = run(free).losses
    threshold = float(losses[2:].amin(0).flatten().sort().values[1:3].mean())  # two of four members fall below
    kept = {}

    def keep(step, model):
        kept[step] = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    times = run(stopped, settings=replace(SETTINGS, stop_loss=threshold), observe=keep).frozen_at
    assert 1 <= int((times < 30).sum()) <= 3
    for name, parameter in stopped.named_parameters():
        assert torch.equal(parameter[times == 30], free.get_parameter(name)[times == 30])
        for seed, variant in (times < 30).nonzero().tolist():
            assert torch.equal(parameter[seed, variant], kept[int(times[seed, variant])][name][seed, variant])
            assert not torch.equal(parameter[seed, variant], free.get_parameter(name)[seed, variant])
    history = run(toys(), settings=replace(SETTINGS, stop_loss=1e9))
    assert (history.steps, history.frozen_at.tolist()) == (7, [[7, 7], [7, 7]])


class Told(torch.nn.Module):
    """Members whose losses are told, whatever they learn."""

    def __init__(self, losses):
        super().__init__()
        self.told, self.weight = torch.tensor(losses), torch.nn.Parameter(torch.zeros(len(losses)))

    def losses(self, batch):
        return self.told + 0 * self.weight


def learn_told(losses, stop_loss):
    settings = TrainingSettings(steps=4, record_every=2, stop_loss=stop_loss)
    return train(Told(losses), lambda *_: None, generators=[], settings=settings, progress=False)


def test_members_freeze_below_the_loss_that_was_asked_for_and_not_at_it():
    assert learn_told([0.125, 0.25, 0.5], 0.25).frozen_at.tolist() == [2, 4, 4]
    # Without a loss to stop at, one of zero goes on.
    assert learn_told([0.0, 1.0], 0.0).frozen_at.tolist() == [4, 4]


@pytest.mark.parametrize("loss", [math.nan, -math.inf])
def test_a_mean_loss_that_is_no_number_stops_the_run(loss):
    with pytest.raises(FloatingPointError, match=r"members \[\[1\]\] is not finite within 2 steps before step 2"):
        learn_told([1.0, loss, 2.0], 0.0)


def test_a_checkpoint_of_another_run_of_other_code_or_of_half_a_file_is_refused(tmp_path, monkeypatch):
    checkpoint = tmp_path / "toy.safetensors"
    kept = {"checkpoint": checkpoint, "identity": {"task": "a"}}
    run(toys(), **kept)
    for changed, message in (
        ({"identity": {"task": "b"}}, r'made with other identity \(task: "a" there, "b" now\), and .*; remove it'),
        ({"settings": TrainingSettings(steps=31)}, r"made with other settings \(steps: 30 there, 31 now, .*\)"),
        ({"generators": make_generators((0,), purpose=0)}, r"made with other generators \(2 there, 1 now\)"),
    ):
        with pytest.raises(ValueError, match=message):
            run(toys(), **kept | changed)
    with monkeypatch.context() as patch:
        patch.setattr(resuming, "digest_code", lambda: "other")
        with pytest.raises(ValueError, match=r'other code \(".* there, "other" now\), and no .*; remove it'):
            run(toys(), **kept)
    checkpoint.write_bytes(checkpoint.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"checkpoint toy.safetensors cannot be read .*; remove it to start again"):
        run(toys(), **kept)


test_bad_settings_are_refused = refuse_each(
    (lambda: TrainingSettings(steps=0), "steps must be above 0; got 0"),
    (lambda: TrainingSettings(learning_rate=-1.0), "learning_rate must be above 0"),
)


def test_a_linear_rate_rises_and_then_falls_to_nothing():
    settings = LinearSettings(steps=6, warmup=2, learning_rate=1.0)
    assert [settings.rate(step) for step in range(6)] == pytest.approx([0.5, 1, 1, 0.75, 0.5, 0.25])
