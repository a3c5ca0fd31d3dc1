"""Low-rank additions: against dense sums, autograd on the explicit product, and files that are not what they were."""

import copy
import math

import pytest
import torch
from architectures import build, tokens
from torch import nn

from posym_companion.solvers.low_rank_training import encode_factors, factor_change, train_lora, train_matrices
from posym_core.store._sealing import sha256
from posym_profile.language_models._low_rank import add_lora, merge_lora, read_factors

NAMES = ("model.layers.0.self_attn.q_proj", "model.layers.2.self_attn.v_proj")


def some_factors(model, rank=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    factors = {}
    for name in NAMES:
        rows, columns = model.get_submodule(name).weight.shape
        factors[f"{name}.up"] = torch.randn(rows, rank, generator=generator).half()
        factors[f"{name}.down"] = torch.randn(rank, columns, generator=generator).half()
    return factors


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_what_is_added_is_the_dense_sum(dtype):
    model = build("Llama", dtype=dtype)
    before, factors = copy.deepcopy(model), some_factors(model)
    add_lora(model, factors)
    for name, parameter in model.named_parameters():
        weight = before.get_parameter(name)
        module = name.removesuffix(".weight")
        if module in NAMES:
            up, down = factors[f"{module}.up"], factors[f"{module}.down"]
            expected = weight.clone().double()
            for i in range(weight.shape[0]):
                for j in range(0, weight.shape[1], 7):
                    expected[i, j] += math.fsum(float(up[i, r]) * float(down[r, j]) for r in range(2))
            here = parameter[:, ::7].double()
            torch.testing.assert_close(here, expected[:, ::7], rtol=torch.finfo(dtype).eps, atol=1e-5)
        else:
            assert torch.equal(parameter, weight)
        assert parameter.dtype == dtype


def test_within_the_block_only():
    model = build("Llama")
    before = copy.deepcopy(model.state_dict())
    with merge_lora(model, some_factors(model)):
        assert not torch.equal(model.state_dict()[f"{NAMES[0]}.weight"], before[f"{NAMES[0]}.weight"])
    with pytest.raises(RuntimeError, match="stop"), merge_lora(model, some_factors(model)):
        raise RuntimeError("stop")
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())


def test_learning_starts_at_the_model_and_leaves_it_as_it_was():
    model, ids = build("Llama").requires_grad_(False), tokens()
    before, state = model(ids).logits, copy.deepcopy(model.state_dict())
    with train_lora(model, NAMES, rank=3, generator=torch.Generator().manual_seed(0)) as factors:
        assert torch.equal(model(ids).logits, before)
        assert {name: tuple(x.shape) for name, x in factors.items()} == {
            f"{NAMES[0]}.up": (64, 3),
            f"{NAMES[0]}.down": (3, 64),
            f"{NAMES[1]}.up": (32, 3),
            f"{NAMES[1]}.down": (3, 64),
        }
        with torch.no_grad():
            for x in factors.values():
                x.add_(0.1)
        learned = {name: x.detach().clone() for name, x in factors.items()}
        said = model(ids).logits.detach()
    assert model.state_dict().keys() == state.keys()
    assert all(torch.equal(x, state[name]) for name, x in model.state_dict().items())
    assert isinstance(model.get_submodule(NAMES[0]), nn.Linear)
    with merge_lora(model, learned):
        torch.testing.assert_close(model(ids).logits, said, atol=1e-4, rtol=1e-4)


def test_a_step_is_that_of_the_dense_gradient_through_both_factors():
    """Gradients of ``up`` and ``down`` are the dense weight's gradient times the other factor."""
    model, ids = build("Llama", dtype=torch.float64).requires_grad_(False), tokens()

    def loss():
        return nn.functional.cross_entropy(model(ids).logits[:, -1], ids[:, 0])

    with train_lora(model, NAMES, rank=2, generator=torch.Generator().manual_seed(1)) as factors:
        with torch.no_grad():
            for x in factors.values():
                x.add_(0.05 * torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(2)))
        loss().backward()
        start = {name: x.detach().clone() for name, x in factors.items()}
        gradients = {name: x.grad for name, x in factors.items()}
        torch.optim.SGD(factors.values(), lr=0.5).step()
        stepped = {name: x.detach().clone() for name, x in factors.items()}
    assert all(parameter.grad is None for parameter in model.parameters())
    with merge_lora(model, start):
        for name in NAMES:
            model.get_submodule(name).weight.requires_grad_(True)
        loss().backward()
        for name in NAMES:
            dense = model.get_submodule(name).weight.grad
            torch.testing.assert_close(gradients[f"{name}.up"], dense @ start[f"{name}.down"].T)
            torch.testing.assert_close(gradients[f"{name}.down"], start[f"{name}.up"].T @ dense)
            up = start[f"{name}.up"] - 0.5 * dense @ start[f"{name}.down"].T
            torch.testing.assert_close(stepped[f"{name}.up"], up)


def test_a_file_holds_them_and_an_altered_one_is_refused(tmp_path):
    model = build("Llama")
    factors = some_factors(model)
    path = tmp_path / "learned.safetensors"
    path.write_bytes(encode_factors(factors, base="tiny"))
    found = read_factors(path, expected=sha256(path))
    assert found.keys() == factors.keys()
    assert all(torch.equal(x, factors[name]) for name, x in found.items())
    expected = sha256(path)
    altered = bytearray(path.read_bytes())
    altered[-1] ^= 1
    path.write_bytes(altered)
    with pytest.raises(ValueError, match=r"additions learned.safetensors were altered .* install posym-core again"):
        read_factors(path, expected=expected)


def learnt(names, rank):
    return lambda model: train_lora(model, names, rank=rank, generator=torch.Generator()).__enter__()


UP = f"{NAMES[0]}.up"
ELSEWHERE = {
    r"must be \[64, rank\] times \[rank, 64\]; got \[63, 2\] times": lambda model: add_lora(
        model, some_factors(model) | {UP: some_factors(model)[UP][1:]}
    ),
    "every addition has an up and a down": lambda model: add_lora(model, {UP: some_factors(model)[UP]}),
    "has no module model.layers.2.self_attn.v_proj with a matrix": lambda model: add_lora(
        build("Llama", num_hidden_layers=2), some_factors(model)
    ),
    "kept on disk": lambda model: add_lora(copy.deepcopy(model).to("meta"), some_factors(model)),
    "has no module model.norm with a matrix": learnt(["model.norm"], 1),
    "rank must be a whole number of at least 1; got 0": learnt(NAMES, 0),
}


@pytest.mark.parametrize("words", ELSEWHERE)
def test_additions_to_something_else_are_refused_before_anything_changes(words):
    model = build("Llama")
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=words):
        ELSEWHERE[words](model)
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())


def test_the_nearest_factors_lose_what_the_smaller_singular_values_hold():
    change = torch.randn(6, 9, generator=torch.Generator().manual_seed(0))
    sizes = torch.linalg.svdvals(change)
    for rank in (1, 4, 6):
        up, down = factor_change(change, rank)
        assert (up.shape, down.shape, up.dtype) == ((6, rank), (rank, 9), torch.float32)
        lost = (change - up @ down).square().sum()
        torch.testing.assert_close(lost, sizes[rank:].square().sum(), rtol=1e-5, atol=1e-9)
    with pytest.raises(ValueError, match="rank"):
        factor_change(change, 0)


def test_whole_matrices_learn_alone_and_are_what_they_were_afterwards():
    model = build("Llama")
    model.lm_head.weight.requires_grad_(True)
    asked = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    start = {name: x.detach().clone() for name, x in model.named_parameters()}
    name = "model.layers.0.self_attn.q_proj"
    with train_matrices(model, [name]) as before:
        weight = model.get_submodule(name).weight
        assert [key for key, x in model.named_parameters() if x.requires_grad] == [f"{name}.weight"]
        with torch.no_grad():
            weight += 1
        assert torch.equal(before[name], start[f"{name}.weight"])
    assert all(torch.equal(x, start[key]) for key, x in model.named_parameters())
    assert {key: x.requires_grad for key, x in model.named_parameters()} == asked
    with pytest.raises(ValueError, match="has no module"), train_matrices(model, ["model.nowhere"]):
        pass
