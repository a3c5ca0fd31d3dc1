"""Toy ensembles against a literal single model, the core, and themselves one by one."""

import itertools
import math
from functools import partial

import pytest
import torch
from refusals import refuse_each

from posym_core import cross_logits, rope_angles
from posym_core.models._ensembles import make_generators, sample_streams
from posym_core.models._toys import ToyEnsemble
from posym_core.models._training import TrainingSettings, train
from posym_core.tasks._index_retrieval import IndexTask, PartialInductionTask, RetrievalTask

TASKS = [
    IndexTask(length=6, symbols=4),
    RetrievalTask(length=5, symbols=6, attributes=3),
    PartialInductionTask(length=6, symbols=3, attributes=2, repetition=2),
]
ANGLES = {1: torch.tensor([[1.0], [0.1], [0.0]]), 2: torch.tensor([[0.0, 0.3], [0.5, 0.01]])}
SEEDS = (3, 7)


def draw(task, count=8, purpose=0):
    return sample_streams(task, count, make_generators(SEEDS, purpose=purpose))


def literal_scores(model: ToyEnsemble, seed: int, variant: int, tokens: list[int]) -> torch.Tensor:
    """One member on one input by the set-up's description: no tables, no gathering, complex numbers for planes."""
    planes = model.dim // 2
    embedding, to_query, to_key, to_class = (
        getattr(model, name)[seed, variant].double() for name in ("embedding", "query_map", "key_map", "read_map")
    )
    x = torch.stack([embedding[model.task.parts(torch.tensor(token))].sum(0) for token in tokens])
    query, keys, reads = x[-1] @ to_query, x @ to_key, x @ to_class
    logits = []
    for position, key in enumerate(keys):
        logit = 0.0
        for plane in range(planes):
            angle = float(model.angles[variant, plane])
            q = complex(query[plane], query[plane + planes]) * complex(
                math.cos(angle * (len(tokens) - 1)), math.sin(angle * (len(tokens) - 1))
            )
            k = complex(key[plane], key[plane + planes]) * complex(
                math.cos(angle * position), math.sin(angle * position)
            )
            logit += (q.conjugate() * k).real
        logits.append(logit / math.sqrt(model.dim))
    weights = torch.tensor(logits, dtype=torch.float64).softmax(0)
    return weights @ reads


@pytest.mark.parametrize("planes", [1, 2])
@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_forward_against_a_literal_model(task, planes):
    model = ToyEnsemble(task, ANGLES[planes], seeds=SEEDS, width=16)
    tokens = draw(task).tokens
    with torch.no_grad():
        single, double = model(tokens), model.double()(tokens)
        for place in itertools.product(range(2), range(len(ANGLES[planes])), range(3)):
            expected = literal_scores(model, *place[:2], tokens[place[0], place[2]].tolist())
            torch.testing.assert_close(double[place], expected, atol=1e-10, rtol=0)
            torch.testing.assert_close(single[place].double(), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_queries_and_keys_are_what_the_core_expects(task):
    model = ToyEnsemble(task, ANGLES[2], seeds=SEEDS).double()
    tokens = draw(task).tokens
    logits = model.logits(tokens)
    for variant in range(2):
        query, keys = model.query_and_keys(tokens, variant)
        C = cross_logits(query, keys, model.angles[variant], scale=model.scale)
        torch.testing.assert_close(C.diagonal(dim1=-2, dim2=-1), logits[..., variant])


def test_variants_of_a_seed_start_alike_and_seeds_and_purposes_differ():
    model = ToyEnsemble(TASKS[1], ANGLES[1], seeds=SEEDS)
    for parameter in model.parameters():
        assert torch.equal(parameter[:, 0], parameter[:, 2])
        assert not torch.equal(parameter[0], parameter[1])
    again = ToyEnsemble(TASKS[1], ANGLES[1][:1], seeds=SEEDS[1:])
    assert torch.equal(again.embedding[0, 0], model.embedding[1, 0])
    first, other = (draw(TASKS[0], purpose=purpose).tokens for purpose in (0, 1))
    assert not torch.equal(first, other)
    assert not torch.equal(first[0], first[1])


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_ensemble_equals_single_models_step_by_step(task):
    """The batched grid against a loop over models, same starts, same data: the same losses and weights."""
    options = {"settings": TrainingSettings(steps=25, batch=16, warmup=5, record_every=1), "progress": False}
    drawn = partial(sample_streams, task)
    ensemble = ToyEnsemble(task, ANGLES[1], seeds=SEEDS, width=16).double()
    members = {place: ensemble.member(*place).double() for place in itertools.product(range(2), range(3))}
    together = train(ensemble, drawn, generators=make_generators(SEEDS, purpose=0), **options)
    for (seed, variant), single in members.items():
        alone = train(single, drawn, generators=make_generators(SEEDS[seed : seed + 1], purpose=0), **options)
        torch.testing.assert_close(alone.losses[:, 0, 0], together.losses[:, seed, variant], atol=1e-8, rtol=0)
        for name, parameter in single.named_parameters():
            trained = ensemble.member(seed, variant).get_parameter(name).double()
            torch.testing.assert_close(parameter, trained, atol=1e-6, rtol=0)


def test_gates_switch_planes():
    task = TASKS[0]
    model = ToyEnsemble(task, rope_angles(8)[None], seeds=SEEDS).double()
    tokens = draw(task).tokens
    whole = model.logits(tokens)
    parts = sum(model.logits(tokens, gate) for gate in torch.eye(4))
    torch.testing.assert_close(parts, whole)
    assert model.logits(tokens, torch.zeros(4)).abs().max() == 0
    torch.testing.assert_close(model(tokens, torch.ones(4)), model(tokens))


MODEL = ToyEnsemble(TASKS[0], ANGLES[1], seeds=SEEDS)
test_refusals = refuse_each(
    (lambda: ToyEnsemble(TASKS[0], torch.tensor([1.0]), seeds=SEEDS), r"shape \[variant, plane\]; got \(1,\)"),
    (lambda: MODEL(draw(TASKS[0]).tokens[..., -1:]), r"with 2 seeds and more than 1 tokens, .*got \(2, 8, 1\)"),
)  # fmt: skip
