"""Models with any encoding: a pass word by word, padding, equal starts, edits of heads, and that they learn."""

import math

import pytest
import torch
from refusals import refuse_each

from posym_core.encodings import ENCODINGS, RoPE
from posym_core.models import (
    ClassLoss,
    EncodingModel,
    ModelSettings,
    ablate_each_head,
    predict_classes,
    replace_heads,
)
from posym_core.models._training import LinearSettings, train
from posym_core.tasks._sentences import CountTask, SentenceBatch

SMALL = {"vocabulary": 9, "classes": 4, "layers": 2, "width": 16, "heads": 2, "hidden": 12, "rank": 3, "length": 14}


def settings(encoding="rope", **changes):
    causal = {"causal": True} if encoding == "path" else {}
    return ModelSettings(**{**SMALL, "encoding": encoding, "dropout": 0.0, **causal, **changes})


def model(encoding="rope", seed=0, **changes):
    return EncodingModel(settings(encoding, **changes), seed=seed).eval().requires_grad_(False)


def tokens(count=3, length=10, seed=0):
    drawn = torch.randint(1, 9, (count, length), generator=torch.Generator().manual_seed(seed))
    return drawn.masked_fill(torch.arange(length) >= torch.tensor([[10], [7], [4]])[:count], 0)


@pytest.mark.parametrize("name", list(ENCODINGS))
def test_padding_that_is_left_out_changes_nothing(name):
    """However much of it there is, and whatever its embedding holds; a sentence alone is the same sentence."""
    found, batch = model(name), tokens()
    scores = found(batch)
    assert scores.shape == (3, 4)
    longer = torch.cat([batch, torch.zeros(3, 4, dtype=torch.long)], 1)
    torch.testing.assert_close(found(longer), scores, rtol=0, atol=2e-6)
    found.embedding.weight[0] = 100.0
    torch.testing.assert_close(found(longer), scores, rtol=0, atol=2e-6)
    torch.testing.assert_close(found(batch[2:, :4]), scores[2:], rtol=0, atol=2e-6)


def norm(x):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()


def test_word_by_word():
    """One sentence through one RoPE layer and its network, written out."""
    found = model("rope", layers=1)
    words = tokens()[1, :7]
    stream = found.embedding.weight[words]
    layer = found.layers[0]
    x, dim = norm(stream), 8
    maps = layer.attention.projections.weight
    read = []
    for head in range(2):
        rows = slice(head * dim, (head + 1) * dim)
        query, key = x @ maps[rows].T, x @ maps[16:][rows].T
        logits = RoPE(settings().shape(1)).logits(query[None], key[None])[0]
        read.append(logits.softmax(-1) @ (x @ layer.attention.value.weight[rows].T))
    stream = stream + torch.cat(read, -1) @ layer.attention.output.weight.T
    first, last = layer.network[0], layer.network[3]
    hidden = norm(stream) @ first.weight.T
    hidden = hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2)))
    stream = norm(stream + hidden @ last.weight.T)
    torch.testing.assert_close(found(words[None])[0], stream.mean(0) @ found.read.weight.T, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", sorted(set(ENCODINGS) - {"mla"}))
def test_all_encodings_start_from_the_same_weights(name):
    state = torch.get_rng_state()
    reference, found, other = (
        dict(EncodingModel(settings(kind, causal=True), seed=seed).named_parameters())
        for kind, seed in (("nope", 3), (name, 3), (name, 4))
    )
    assert torch.equal(torch.get_rng_state(), state)
    for label, parameter in reference.items():
        assert torch.equal(found[label], parameter), label
    assert not torch.equal(other["embedding.weight"], found["embedding.weight"])


def test_absolute_encodings_enter_once_and_may_be_added_to_others():
    plain, found = model("nope"), model("sinusoidal")
    table = found.absolute[0].table(torch.arange(10, dtype=torch.float64)).float()
    torch.testing.assert_close(found.stream(tokens()), plain.stream(tokens()) + table)
    both = model("rope", added="sinusoidal")
    torch.testing.assert_close(both.stream(tokens()), found.stream(tokens()))
    assert isinstance(both.layers[1].attention.encoding, RoPE)


def test_an_edit_switches_heads_off():
    found, batch = model("rope"), tokens()
    off = replace_heads({(1, 0): torch.zeros(8)})
    cut = model("rope")
    cut.layers[1].attention.value.weight[:8] = 0
    torch.testing.assert_close(found(batch, off), cut(batch))
    answers = SentenceBatch(tokens=batch, answer=found(batch, off).argmax(1))
    whole, each = ablate_each_head(found, answers)
    assert each[1, 0] == 1
    assert whole == float((predict_classes(found, answers) == answers.answer).double().mean())


def test_mean_ablation_puts_a_heads_average_in_its_place():
    found, batch = model("rope"), tokens()
    layer, head, said = 1, 1, []
    attention = found.layers[layer].attention
    for sentence in batch:  # by hand: one sentence at a time, without its padding
        words = sentence[sentence != 0][None]
        inputs = found.layers[layer].attention_norm(found.layers[0](found.stream(words), None))
        weights, values = attention.call(inputs, None).logits[0, head].softmax(-1), attention.value(inputs)[0, :, 8:]
        said += [sum(w * value for w, value in zip(row, values, strict=True)) for row in weights]
    mean = torch.stack(said).mean(0)
    torch.testing.assert_close(found.mean_reads(batch)[layer, head], mean)

    by_hook = attention.output.register_forward_pre_hook(
        lambda module, inputs: (torch.cat([inputs[0][..., :8], mean.expand(*inputs[0].shape[:2], 8)], -1),)
    )
    expected = found(batch)
    by_hook.remove()
    torch.testing.assert_close(found(batch, replace_heads({(layer, head): mean})), expected)
    _, each = ablate_each_head(found, SentenceBatch(tokens=batch, answer=expected.argmax(1)), by="mean")
    assert each[layer, head] == 1


def test_a_small_model_learns_to_count():
    task = CountTask(most=3, longest=6, shortest=6, vocabulary=5)
    loss = ClassLoss(EncodingModel(settings("rope", dropout=0.1, layers=1), seed=0))
    draw = lambda count, generators: (task.sample(count, generator=generators[0]), count)  # noqa: E731
    schedule = LinearSettings(steps=60, batch=32, learning_rate=2e-2, warmup=5, record_every=10)
    train(loss, draw, generators=[torch.Generator().manual_seed(0)], settings=schedule, progress=False)
    test = task.sample(100, generator=torch.Generator().manual_seed(9))
    assert (predict_classes(loss.model.eval(), test) == test.answer).double().mean() > 0.8


ANSWERED = SentenceBatch(tokens=tokens(), answer=torch.zeros(3).long())
test_refusals = refuse_each(
    (lambda: settings(heads=3), "3 heads must share width=16 equally; pass a multiple"),
    (lambda: model()(torch.ones(1, 15, dtype=torch.long)), r"at most 14 tokens; got \(1, 15\)"),
    (lambda: model()(torch.zeros(1, 5, dtype=torch.long)), "must hold a token that is not padding; one holds none"),
    (lambda: model("path", causal=False), "PaTH runs from a key forwards"),
    (lambda: model("nope", added="rope"), "only absolute encodings can be added to embeddings; got added='rope'"),
    (lambda: ablate_each_head(model(), ANSWERED, by="median"), "by must be one of 'zero', 'mean'; got 'median'"),
)  # fmt: skip
