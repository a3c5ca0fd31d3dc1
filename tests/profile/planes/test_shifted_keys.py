"""Keys at shifted positions: two passes where a model takes rows of positions, and a pass a row elsewhere."""

import pytest
import torch
from architectures import ROTARY, build, shared
from transformers.models.llama import modeling_llama

from posym_profile.planes import find_planes
from posym_profile.planes._shifted_keys import ShiftedKeys

ROTARY_EMBEDDING = modeling_llama.LlamaRotaryEmbedding.forward


def spoilt_rows(monkeypatch, spoil):
    """Llamas whose rotary embedding does otherwise with several rows of positions."""

    def turned(self, x, position_ids):
        cos, sin = ROTARY_EMBEDDING(self, x, position_ids)
        return spoil(cos, sin) if len(position_ids) > 1 else (cos, sin)

    monkeypatch.setattr(modeling_llama.LlamaRotaryEmbedding, "forward", turned)


@pytest.mark.parametrize("name", ROTARY)
def test_rows_in_one_batch_have_the_keys_of_rows_alone(name):
    """Angles that depend on the largest position among them: it is the same in each row."""
    model = shared(name)
    together, alone = ShiftedKeys(model, 44), ShiftedKeys(model, 44, together=False)
    assert (together.together, alone.together) == (True, False)
    assert (together.shifts, together.last, together.table) == (alone.shifts, alone.last, alone.table)
    for one, other in zip(together.keys, alone.keys, strict=True):
        assert len(one) == len(together.shifts) + 1
        assert one.dtype == torch.float64
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-6)
    assert not any("forward" in vars(module) for module in model.modules())


def failing(cos, sin):
    raise RuntimeError("rows of positions are not taken")


@pytest.mark.parametrize(
    ("spoil", "asked_again"),
    [
        (failing, False),
        (lambda cos, sin: (cos[:1], sin[:1]), False),
        (lambda cos, sin: (cos[:2], sin[:2]), False),
        (lambda cos, sin: (cos * (1 + 0.01 * sin), sin), True),
    ],
    ids=["fails", "the first row for all", "other rows", "keys that planes do not explain"],
)
def test_a_model_that_does_not_take_rows_of_positions_is_asked_for_one_after_another(monkeypatch, spoil, asked_again):
    model = build("Llama")
    expected = find_planes(model, 44)
    spoilt_rows(monkeypatch, spoil)
    assert ShiftedKeys(model, 44).together == asked_again
    for found, planes in zip(find_planes(model, 44), expected, strict=True):
        assert found.description == planes.description
        assert torch.equal(found.order, planes.order)
        assert torch.equal(found.angles, planes.angles)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("no room"), AttributeError("no such part")])
def test_what_rows_of_positions_are_not_to_blame_for_is_raised(monkeypatch, error):
    def fail(cos, sin):
        raise error

    spoilt_rows(monkeypatch, fail)
    with pytest.raises(type(error), match="no "):
        ShiftedKeys(build("Llama"), 44)


def test_what_a_model_holds_comes_back_after_an_error(monkeypatch):
    """Such as a forward that accelerate has put there."""
    model = build("Llama")
    attention = model.model.layers[1].self_attn
    own = vars(attention)["forward"] = attention.forward
    spoilt_rows(monkeypatch, failing)
    monkeypatch.setattr(ShiftedKeys, "one_by_one", lambda self, shifts: failing(None, None))
    with pytest.raises(RuntimeError, match="rows of positions are not taken"):
        find_planes(model, 44)
    assert vars(attention)["forward"] == own
    assert all("forward" not in vars(module) for module in model.modules() if module is not attention)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
