"""What is measured on trained multi-hop models: on tiny ones, against loops, and through the store of results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from posym_companion.several_hops import hop_length, hop_mechanism, hop_variants, multihop
from posym_companion.several_hops.gptj import average_outputs, run_with_edits, set_angles
from posym_companion.several_hops.hop_scores import capture_layers
from posym_companion.several_hops.multihop import TEST, MultihopSettings
from posym_core.metrics._frequencies import frequency_use
from posym_core.metrics._rope import rotate

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = MultihopSettings(
    hops=2, window=3, steps_back=3, layers=2, width=8, heads=2, dropout=0.0, train=8 * 40, validation=16, test=40,
    batch=8, learning_rate=2e-2, warmup=3, checkpoint_every=20, look_every=20, look=16, turn=2.0, monitored=2,
    variant="tiny",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two trained models."""
    folder = tmp_path_factory.mktemp("results")
    settings = [TINY, replace(TINY, task="letter")]
    assert len(list(multihop.EXPERIMENT.run(settings, device="cpu", folder=folder, progress=False))) == 2
    return folder


@pytest.mark.parametrize("task", ["number", "letter"])
def test_mechanism_is_measured_and_kept(folder, task):
    setting = hop_mechanism.HopMechanism(model=f"multihop/{task}_0_tiny", sequences=40, kept=3)
    assert setting.name == f"hop_mechanism/{task}_0_tiny"
    (result,) = hop_mechanism.EXPERIMENT.run([setting], device="cpu", folder=folder, progress=False)
    (again,) = hop_mechanism.EXPERIMENT.run([setting], device="cpu", folder=folder, progress=False)
    assert again.describe() == result.describe()

    model, trained = multihop.load_weights(setting.model, folder=folder, device="cpu")
    batch = trained.sample(40, TEST)
    mean = average_outputs(model, batch.tokens)
    for head in [(0, 1), (1, 0)]:
        right = run_with_edits(model, batch.tokens, output={head: mean[head]}).argmax(-1) == batch.answer
        for hop in (1, 2):
            expected = right[batch.hops == hop].double().mean()
            assert result["silenced"][(*head, hop - 1)] == pytest.approx(float(expected))
    assert result["hits"].shape == (2, 2, 5)
    assert result["query"].shape == result["keys"].shape == (2, 2, 3, 7, 2)
    # Heads leave one by one; the first step is the best single one, and at the end all are gone.
    assert sorted(map(tuple, result["removed"].tolist())) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    first = tuple(result["removed"][0])
    assert result["silenced"][first].mean() == pytest.approx(result["silenced"].mean(-1).max())
    np.testing.assert_allclose(result["left_accuracy"][0], result["silenced"][first])


def test_flow_is_that_of_a_loop(folder):
    model, trained = multihop.load_weights("multihop/number_0_tiny", folder=folder, device="cpu")
    batch = trained.sample(20, TEST)
    attention = capture_layers(model, batch.tokens).attention()
    found = hop_mechanism.flow(attention, batch, 2)
    assert found.shape == (2, 2, 2, 2, 4)
    rows = [attention[row, 1, 0] for row in range(20) if batch.hops[row] == 2]
    paths = [path for path, hops in zip(batch.path, batch.hops, strict=True) if hops == 2]
    for station in (0, 1):
        for place in range(3):
            values = [float(row[path[station], path[place]]) for row, path in zip(rows, paths, strict=True)]
            assert float(found[1, 1, 0, station, place]) == pytest.approx(np.mean(values), abs=1e-6)
    assert found[0, :, :, 1].isnan().all()  # one hop has one station that asks
    torch.testing.assert_close(found[0, :, :, 0].sum(-1), torch.ones(2, 2))


def test_queries_and_keys_of_a_plane_make_its_logits(folder):
    setting = hop_mechanism.HopMechanism(model="multihop/letter_0_tiny", sequences=40, kept=3)
    (result,) = hop_mechanism.EXPERIMENT.run([setting], device="cpu", folder=folder, progress=False)
    model, trained = multihop.load_weights(setting.model, folder=folder, device="cpu")
    batch = trained.sample(40, TEST)
    layers = capture_layers(model, batch.tokens)
    layer, head, row = 1, 1, 2
    plane = int(result["plane"][layer, head])
    options = {"scale": layers.scale, "pairing": "neighbours"}
    use = frequency_use(layers.query[layer, ..., -1, :], layers.keys[layer], trained.angles, **options).mean(0)
    assert plane == int(use[head].argmax())
    angle = float(trained.angles[plane])

    def arrow(name, position):
        x = result[name][layer, head, row, position].astype(np.float64)
        return complex(*x) * np.exp(1j * angle * position)

    pair = slice(2 * plane, 2 * plane + 2)
    for key in range(7):
        expected = layers.query[layer, row, head, 6, pair] @ layers.keys[layer, row, head, key, pair]
        found = (arrow("query", 6) * arrow("keys", key).conjugate()).real
        assert found == pytest.approx(
            float(expected), abs=0.01 * float(layers.query[layer, row, head, 6].norm()) + 1e-3
        )


@pytest.mark.parametrize("task", ["number", "letter"])
def test_length_is_measured_and_the_first_layer_foretold(folder, task):
    setting = hop_length.HopLength(model=f"multihop/{task}_0_tiny", lengths=(7, 9, 40), sequences=40, watched=20)
    (result,) = hop_length.EXPERIMENT.run([setting], device="cpu", folder=folder, progress=False)
    assert result["accuracy"].shape == (3, 2)
    assert result["onward"].shape == result["added"].shape == result["foretold"].shape == (3, 2, 2)
    np.testing.assert_allclose(result["onward"][0], result["foretold"][0], rtol=1e-4)
    assert (result["added"][0] == 0).all()
    assert (result["added"][2] > result["added"][1]).any()
    # In the first layer nothing but the spread of the letters' keys is missing.
    assert np.abs(result["onward"][:, 0] - result["foretold"][:, 0]).max() < 0.1


def test_what_is_foretold_is_exact_when_all_letters_have_one_key(folder):
    model, trained = multihop.load_weights("multihop/number_0_tiny", folder=folder, device="cpu")
    task = trained.make_task()
    with torch.no_grad():
        model.transformer.wte.weight[: task.letters] = model.transformer.wte.weight[0]
    set_angles(model, trained.angles, positions=64)
    batches = [task.sample(12, generator=torch.Generator().manual_seed(0), extra=extra) for extra in (0, 30)]
    captured = [capture_layers(model, batch.tokens) for batch in batches]
    foretold = hop_length.predict_onward_attention(captured[0], batches[0].path, trained.angles, window=3, extra=30)
    attention, path = captured[1].attention(), batches[1].path
    onward = [
        attention[row, 0, :, path[row, station], path[row, station + 1]]
        for row in range(12)
        for station in range(2)
        if path[row, station + 1] >= 0
    ]
    torch.testing.assert_close(foretold[0], torch.stack(onward).mean(0).double(), rtol=1e-4, atol=1e-6)


def test_profiles_are_logits_of_the_mean_key(folder):
    model, trained = multihop.load_weights("multihop/number_0_tiny", folder=folder, device="cpu")
    batch = trained.sample(6, TEST)
    captured = capture_layers(model, batch.tokens)
    found = hop_length.logit_profile(captured, batch.path, trained.angles, window=3, distances=5)
    assert found.shape == (2, 2, 5)
    layer, head = 1, 0
    keys = captured.keys[layer, :, head, :3].double()
    options = {"angles": trained.angles, "pairing": "neighbours"}
    mean = torch.stack([rotate(keys[:, at], torch.tensor(-at), **options) for at in range(3)]).mean((0, 1))
    values = []
    for row in range(6):
        for station in range(int(batch.hops[row])):
            query = captured.query[layer, row, head, batch.path[row, station]].double()
            target = int(batch.path[row, station + 1])
            at = torch.arange(target, target - 5, -1)
            logits = rotate(mean.expand(5, -1), at, **options) @ query * captured.scale
            values.append(logits - logits[0])
    torch.testing.assert_close(found[layer, head], torch.stack(values).mean(0), rtol=1e-5, atol=1e-7)


def test_variants_are_trained_with_every_seed_and_kept(tmp_path, monkeypatch):
    names = "hops window steps_back layers width heads test validation batch warmup checkpoint_every look_every look"
    tiny = {name: getattr(TINY, name) for name in [*names.split(), "monitored", "turn"]}
    plain = MultihopSettings.small
    monkeypatch.setattr(MultihopSettings, "small", lambda **options: plain(**(tiny | options)))
    setting = hop_variants.HopVariant(
        task="number", change="scale4", seeds=(0, 1), train=80, lengths=(7, 12), sequences=8
    )
    torch.testing.assert_close(setting.settings(0).angles, plain(width=8, heads=2).angles / 4)
    (result,) = hop_variants.EXPERIMENT.run([setting], device="cpu", folder=tmp_path, progress=False)
    assert result["test_accuracy"].shape == (2, 2)
    assert result["length_accuracy"].shape == (2, 2, 2)
    assert result["hits"].shape == (2, 2, 2, 5)
    assert not list(tmp_path.glob("*/.*"))
    # Each seed is the model that training it alone makes.
    alone = multihop.train_model(setting.settings(1), device="cpu", progress=False)
    np.testing.assert_array_equal(alone.arrays["test_accuracy"], result["test_accuracy"][1])
    (again,) = hop_variants.EXPERIMENT.run([setting], device="cpu", folder=tmp_path, progress=False)
    assert again.describe() == result.describe()
