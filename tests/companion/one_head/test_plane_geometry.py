import math

import pytest
import torch

from posym_companion.one_head.plane_geometry import (
    alignment,
    coherence,
    concentration,
    crest,
    explained,
    fit_wave,
    unrotated_planes,
)
from posym_core import rope_angles, rotate
from posym_core.metrics._frequencies import frequency_shares
from posym_core.metrics._rope import join_planes


def drawn(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.complex128, generator=torch.Generator().manual_seed(seed))


def test_turning_back_after_turning_gives_the_planes():
    x = torch.randn(5, 7, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    angles, positions = rope_angles(8), torch.arange(7) * 1000
    for pairing in ("halves", "neighbours"):
        turned = rotate(x, positions, angles, pairing=pairing)
        planes = unrotated_planes(turned, positions, angles, pairing=pairing)
        assert torch.allclose(join_planes(planes.real, planes.imag, pairing), x, atol=1e-9)


def test_concentration_is_what_a_loop_finds():
    arrows = drawn(3, 6)
    for row, weighted, plain, even in zip(
        arrows, concentration(arrows), concentration(arrows, weighted=False), coherence(arrows), strict=True
    ):
        values = [complex(x) for x in row]
        assert weighted.item() == pytest.approx(abs(sum(values)) / sum(abs(x) for x in values))
        assert plain.item() == pytest.approx(abs(sum(x / abs(x) for x in values)) / len(values))
        square = sum(abs(x) ** 2 for x in values) / len(values)
        assert even.item() == pytest.approx(abs(sum(values) / len(values)) ** 2 / square)


def test_equal_keys_have_concentration_and_coherence_1():
    arrows = torch.full((5,), 2 - 3j)
    assert concentration(arrows).item() == pytest.approx(1)
    assert coherence(arrows).item() == pytest.approx(1)
    one_way = arrows * torch.arange(1, 6)
    assert concentration(one_way).item() == pytest.approx(1)
    assert coherence(one_way).item() < 0.9
    assert concentration(torch.tensor([1j, -1j])).item() == pytest.approx(0)
    assert torch.isnan(concentration(torch.zeros(3, dtype=torch.complex64)))


def test_coherence_is_the_positional_share_where_positions_go_around_evenly():
    slots = 12
    keys = torch.randn(slots, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64) + 1
    angles = torch.tensor([2 * math.pi / slots], dtype=torch.float64)
    rotated = rotate(keys, torch.arange(slots), angles)
    for query in torch.randn(4, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64):
        share = frequency_shares(query, rotated, angles).positional_share
        assert share.item() == pytest.approx(coherence(torch.view_as_complex(keys)).item(), abs=1e-9)


def test_alignment_is_1_for_the_expected_phases_and_forgives_a_constant_only_when_free():
    expected = torch.linspace(0, 5, 8, dtype=torch.float64)
    arrows = 3 * torch.exp(1j * expected)
    assert alignment(arrows, expected).item() == pytest.approx(1)
    turned = arrows * -1
    assert alignment(turned, expected).item() == pytest.approx(-1)
    assert alignment(turned, expected, free=True).item() == pytest.approx(1)
    loop = [math.cos(x) for x in (turned.angle() - expected + 0.3)]
    assert alignment(turned, expected - 0.3).item() == pytest.approx(sum(loop) / len(loop))


def test_crest_is_where_the_logit_is_largest():
    query, key, angle = 1 + 2j, -0.5 + 1j, 0.3
    grid = torch.linspace(-math.pi / angle, math.pi / angle, 200001, dtype=torch.float64)
    product = torch.tensor(query * key.conjugate(), dtype=torch.complex128)
    logits = (product * torch.exp(1j * angle * grid)).real
    assert crest(product, angle).item() == pytest.approx(grid[logits.argmax()].item(), abs=1e-3)
    with pytest.raises(ValueError, match=r"angles must be above 0, since a plane that does not turn has no crest"):
        crest(product, 0.0)


def test_waves_of_many_planes_are_fitted_at_once_even_slow_ones():
    distance, angles = (
        torch.arange(3.0, 60.0, dtype=torch.float64),
        torch.tensor([1.0, 0.05, 1e-4], dtype=torch.float64),
    )
    amplitude = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=torch.float64)
    place = torch.tensor([[1.0, -8.0, 50.0], [2.0, 3.0, -400.0]], dtype=torch.float64)
    logits = amplitude[..., None] * (angles[:, None] * (distance - place[..., None])).cos()
    wave = fit_wave(logits, distance, angles)
    assert torch.allclose(wave.amplitude, amplitude, rtol=1e-5)
    assert torch.allclose(wave.crest, place, atol=1e-2)
    assert torch.allclose(wave.at(distance), logits)
    assert torch.allclose(explained(wave.at(distance), logits), torch.ones(2, 3).double())


def test_explained_is_the_usual_r2():
    seen, predicted = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.5, 2.0, 3.0])
    expected = 1 - (0.25 + 0 + 1) / sum((x - 7 / 3) ** 2 for x in (1, 2, 4))
    assert explained(predicted, seen).item() == pytest.approx(expected)
    assert explained(seen.mean().expand(3), seen).item() == pytest.approx(0)
    assert torch.isnan(explained(torch.zeros(3), torch.ones(3)))


def test_bad_input_never_yields_a_number():
    with pytest.raises(TypeError, match=r"arrows must be complex, one number per plane; got torch\.float32"):
        concentration(torch.zeros(3))
    with pytest.raises(ValueError, match="arrows must be finite; 1 of its 2 entries"):
        concentration(torch.tensor([1 + 1j, complex(math.nan, 0)]))
