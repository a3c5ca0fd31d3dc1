"""Encodings on the canonical tasks: what is asked at length, one model word by word, and a run from end to end."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from posym_companion.encodings import encoding_tasks
from posym_companion.encodings.encoding_tasks import TASKS, TESTS, EncodingTasks, accuracies
from posym_companion.encodings.judges.encoding_tasks import longest_context
from posym_core.encodings import ENCODINGS, RoPE
from posym_core.models._training import TrainingSettings

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = EncodingTasks(
    encoding="rope", seeds=(0, 1), length=4, lengths=(4, 6, 9), symbols=5, retrieval_symbols=9, attributes=3,
    repetition=2, width=16, heads=2, rank=8, test_inputs=60,
    training=TrainingSettings(steps=30, batch=16, warmup=5, record_every=10),
)  # fmt: skip


@pytest.mark.parametrize("test", TESTS)
def test_what_is_asked_at_length_has_the_tokens_of_the_training(test):
    batch = TINY.sample(test, 9, 50, torch.Generator().manual_seed(0))
    task = TINY.task(encoding_tasks.task_of(test))
    assert batch.tokens.shape == (50, 10)
    assert batch.tokens.max() < task.vocabulary
    assert batch.answer.max() < task.classes
    at = batch.tokens.gather(1, batch.position[:, None])[:, 0]
    assert torch.equal(at if test.startswith("index") else at % 3, batch.answer)


def test_a_longer_index_grows_behind_or_in_front():
    short = TINY.sample("index", 4, 50, torch.Generator().manual_seed(0))
    behind = TINY.sample("index", 9, 50, torch.Generator().manual_seed(0))
    front = TINY.sample("index_front", 9, 50, torch.Generator().manual_seed(0))
    assert torch.equal(behind.tokens[:, :4], short.tokens[:, :4])
    assert torch.equal(front.tokens[:, 5:], short.tokens)
    assert torch.equal(behind.position, short.position)
    assert torch.equal(front.position, short.position + 5)
    assert torch.equal(front.tokens[:, -1], behind.tokens[:, -1])


def test_word_by_word():
    """One input of Retrieval through one RoPE layer, written out."""
    task = TINY.task("retrieval")
    model = TINY.reader(task, seed=2).requires_grad_(False)
    tokens = TINY.sample("retrieval", 6, 3, torch.Generator().manual_seed(1)).tokens
    x = torch.stack([sum(model.embedding.weight[part] for part in parts) for parts in task.parts(tokens[1])])
    maps, angles = model.attention.projections.weight, RoPE(model.attention.encoding.shape).angles
    read = []
    for head in range(2):
        rows = slice(8 * head, 8 * head + 8)
        query, keys = x[-1] @ maps[rows].T, x @ maps[16:][rows].T
        logits = []
        for place, key in enumerate(keys):
            q, k = torch.complex(query[:4], query[4:]), torch.complex(key[:4], key[4:])
            turn = torch.polar(torch.ones(4), ((place - 6) * angles).float())
            logits.append((q.conj() * k * turn).real.sum() / 8**0.5)
        read.append(torch.stack(logits).softmax(0) @ (x @ model.attention.value.weight[rows].T))
    expected = model.read.weight @ (model.attention.output.weight @ torch.cat(read))
    torch.testing.assert_close(model(tokens)[1], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", sorted(set(ENCODINGS) - {"mla"}))
def test_all_encodings_start_from_the_same_weights(name):
    reference = dict(TINY.reader(TINY.task("index"), seed=3).named_parameters())
    found = dict(replace(TINY, encoding=name).reader(TINY.task("index"), seed=3).named_parameters())
    for label, parameter in reference.items():
        assert torch.equal(found[label], parameter), label


@pytest.mark.parametrize("name", list(ENCODINGS))
def test_every_encoding_can_be_trained_and_ends_where_its_table_ends(name):
    setting = replace(TINY, encoding=name)
    model = setting.reader(setting.task("induction"), seed=0)
    model.losses(setting.sample("induction", 4, 8, torch.Generator().manual_seed(0))).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    found = accuracies(model, setting, "induction", seed=0)
    assert np.isnan(found).tolist() == ([False, True, True] if ENCODINGS[name].bounded else [False] * 3)
    if ENCODINGS[name].bounded:
        with pytest.raises(ValueError, match="the encoding has rows for 5 tokens; got 7"):
            model(setting.sample("induction", 6, 8, torch.Generator().manual_seed(0)).tokens)


def test_a_run_learns(tmp_path):
    setting = replace(
        TINY, encoding="nope", seeds=(0,), training=replace(TINY.training, steps=300, batch=32, stop_loss=0.3)
    )
    (result,) = encoding_tasks.EXPERIMENT.run([setting], device="cpu", folder=tmp_path, progress=False)
    np.testing.assert_allclose(result["chance"], [1 / 5, 1 / 5, 1 / 3, 1 / 3])
    index, _, retrieval, _ = result["accuracy"][:, 0, 0]
    assert retrieval > 0.8 > 0.6 > index  # a head without positions looks up and does not count
    assert result["steps"][TASKS.index("retrieval"), 0] < 300  # low enough, early


@pytest.mark.parametrize(
    ("accuracy", "expected"),
    [
        ([[1.0, 1.0, 1.0]], 64),
        ([[1.0, 0.5, 1.0]], 16),
        ([[0.5, 1.0, 1.0]], None),
        ([[1.0, 0.7, 0.0], [1.0, 0.425, 1.0]], 32),  # mean 0.5625, the threshold itself
        ([[1.0, np.nan, np.nan]], 16),
    ],
)
def test_longest_context(accuracy, expected):
    assert longest_context(np.array(accuracy), [16, 32, 64], 0.125) == expected


def test_refusals_name_rule_value_and_way_out():
    with pytest.raises(ValueError, match=r"encoding must be one of 'nope', .*; got 'rotary'"):
        EncodingTasks(encoding="rotary")
    with pytest.raises(ValueError, match=r"lengths of tests begin at the training's, 4; got 3. Leave it out"):
        replace(TINY, lengths=(3, 4))
    with pytest.raises(ValueError, match=r"Retrieval at 12 tokens needs as many symbols; got 9. Pass more symbols or"):
        replace(TINY, lengths=(4, 12))
