"""Ensembles of decoders: a literal model in loops, members alone, one step of training, errors."""

import math

import torch
from refusals import refuse_each

from posym_core.metrics._rope import rotate
from posym_core.models._decoders import DecoderEnsemble
from posym_core.models._ensembles import make_generators, sample_streams
from posym_core.tasks._facts import FactsBatch, FactsTask

TASK = FactsTask(facts=3, names=5, attributes=4)
ANGLES = torch.tensor([[[1.0, 0.1], [0.5, 0.0]], [[0.3, 0.2], [0.0, 0.0]]], dtype=torch.float64)


def ensemble(seeds=(0, 1, 2)):
    return DecoderEnsemble(TASK, ANGLES, seeds=seeds, heads=2)


def streams(count, generators):
    return sample_streams(TASK, count, generators)


def literal(model: DecoderEnsemble, seed: int, variant: int, tokens: list[int]) -> torch.Tensor:
    """Scores of one member on one prompt, token by token, head by head, in float64."""
    pick = lambda x: x[seed, variant].detach().double()  # noqa: E731
    width = model.embedding.shape[-1]

    def normed(x, place):
        return x / (x.square().mean() + 1e-6).sqrt() * pick(model.norms)[place]

    stream = [pick(model.embedding)[token] for token in tokens]
    for layer in range(model.layers):
        maps = pick(model.project)[layer]
        parts = [(normed(x, 2 * layer) @ maps).split(width) for x in stream]
        angles = model.angles[variant, layer]
        added = []
        for i in range(len(tokens)):
            read = []
            for head in range(model.heads):
                one = slice(head * model.dim, (head + 1) * model.dim)
                query = rotate(parts[i][0][one], i, angles, pairing="neighbours")
                logits = torch.stack(
                    [query @ rotate(parts[j][1][one], j, angles, pairing="neighbours") for j in range(i + 1)]
                )
                weights = (logits / math.sqrt(model.dim)).softmax(0)
                read.append(sum(w * parts[j][2][one] for j, w in enumerate(weights)))
            added.append(torch.cat(read) @ pick(model.output)[layer])
        stream = [x + y for x, y in zip(stream, added, strict=True)]
        stream = [
            x
            + torch.nn.functional.gelu(normed(x, 2 * layer + 1) @ pick(model.widen)[layer]) @ pick(model.narrow)[layer]
            for x in stream
        ]
    asked = stream[TASK.context :: 2]
    return torch.stack([normed(x, -1) @ pick(model.read) for x in asked])


def test_forward_is_the_literal_model():
    model = ensemble()
    batch = streams(2, make_generators(model.seeds, purpose=0))
    scores = model(batch.tokens)
    assert scores.shape == (3, 2, 2, 3, 4)
    for seed, variant, prompt in ((0, 0, 0), (2, 1, 1), (1, 0, 1)):
        expected = literal(model, seed, variant, batch.tokens[seed, prompt].tolist())
        torch.testing.assert_close(scores[seed, variant, prompt].double(), expected, atol=2e-6, rtol=1e-5)


def test_attention_of_every_token_is_that_of_the_prompt_up_to_it():
    model = ensemble()
    tokens = streams(2, make_generators(model.seeds, purpose=0)).tokens
    for layer, found in enumerate(model.attention(tokens)):
        assert torch.equal(found, found.tril())
        for last in (TASK.context, tokens.shape[-1] - 1):
            query, keys = model.queries_and_keys(tokens[..., : last + 1])[layer]
            expected = (keys @ query[..., None] * model.scale).squeeze(-1).softmax(-1)
            torch.testing.assert_close(found[..., last, : last + 1], expected, atol=1e-5, rtol=1e-4)


def test_a_member_alone_is_the_same_model_and_has_the_same_slopes():
    model = ensemble()
    alone = model.member(1, 1)
    batch = streams(4, make_generators(model.seeds, purpose=0))
    own = FactsBatch(*(field[1:2] for field in batch))
    torch.testing.assert_close(alone(own.tokens)[0, 0], model(batch.tokens)[1, 1])
    model.losses(batch).sum().backward()
    alone.losses(own).sum().backward()
    for mine, its in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(its.grad[0, 0], mine.grad[1, 1], atol=1e-6, rtol=1e-4)


def test_without_rotation_one_layer_does_not_see_the_order_of_facts():
    model = DecoderEnsemble(TASK, torch.zeros(1, 1, 2), seeds=(0,), heads=2)
    tokens = TASK.ask("binding", 3, torch.Generator().manual_seed(0)).tokens[None]
    turned = tokens.clone()
    turned[..., 1:7] = tokens[..., [3, 4, 5, 6, 1, 2]]
    torch.testing.assert_close(model(tokens), model(turned))


test_refusals = refuse_each(
    (lambda: DecoderEnsemble(TASK, torch.zeros(2, 2), seeds=(0,), heads=1), r"\[variant, layer, plane\]; got \(2, 2\)"),
    (lambda: ensemble()(torch.zeros(1, 2, 9, dtype=torch.long)), "with 3 seeds and more than 8 tokens"),
)  # fmt: skip
