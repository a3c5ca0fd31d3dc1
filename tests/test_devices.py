"""Everything numerical on a second device: the CPU's numbers, and no tensor made on the wrong device."""

import functools
import weakref
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
import torch
from architectures import build, tokens
from block_tables import make_block_table

from posym_companion import solvers
from posym_companion.encodings.curvature import sharpness
from posym_companion.encodings.witnesses import closest_symbolic
from posym_companion.head_measurements import simulate_random_swaps
from posym_companion.one_head import alignment, coherence, concentration, crest
from posym_companion.one_head.plane_geometry import explained, fit_wave, unrotated_planes
from posym_companion.several_hops import candidates, capture_layers, station_scores
from posym_companion.several_hops.gptj import average_outputs, make_gptj, mark_right_answers, run_with_edits, set_angles
from posym_companion.several_hops.hop_answers import answer_questions
from posym_companion.several_hops.hop_questions import draw_hop_questions, write_hop_text
from posym_companion.solvers.low_rank_training import train_lora
from posym_companion.solvers.single_heads import patch_each_head
from posym_core import metrics, models
from posym_core.encodings import ENCODINGS, EncodedHeads, LayerShape, UndefinedCrossLogits, make_encoding
from posym_core.encodings._mixed import MixedHeads
from posym_core.metrics import tabulate_blocks
from posym_core.metrics._blocks import BlockLayout
from posym_core.metrics._cube_parts import arrange_cube, compute_block_logits, measure_prompt_variance
from posym_core.metrics._heads import Heads
from posym_core.metrics._permutations import permute_blocks
from posym_core.models._ensembles import make_generators, sample_streams
from posym_core.tasks._facts import FactsTask
from posym_core.tasks._index_retrieval import IndexTask, PartialInductionTask, RetrievalTask
from posym_core.tasks._number_letter import LetterTask, NumberTask
from posym_core.tasks._number_letter_programs import is_valid, walk
from posym_core.tasks._sentences import CountTask, DistanceTask
from posym_profile import interventions
from posym_profile.capture import capture
from posym_profile.interventions._plane_interventions import change_base, select_by_id
from posym_profile.language_models import add_lora, choose_answers, merge_lora
from posym_profile.planes import find_planes
from posym_profile.prompts._drafts import Prompts
from posym_profile.scores import map_layers, measure_head_labels, origin_cube, profile
from posym_profile.scores._head_views import Cuts, make_head_views


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


QUERY, KEYS, ANGLES = drawn(2, 8), drawn(2, 9, 8, seed=1), metrics.rope_angles(8)
SQUARE = drawn(2, 5, 5)
VISIBLE = torch.arange(9).expand(2, 9) > 1
SCORES, OTHERS = torch.rand(2, 6, 4, 3, generator=torch.Generator().manual_seed(3)).double()
ATTENTION = drawn(2, 5, seed=4).softmax(-1)
ARROWS = torch.complex(drawn(2, 6), drawn(2, 6, seed=5))


def by_blocks(to):
    options = {"visible": to(VISIBLE), "sinks": to(drawn(2)), "softcap": 3.0, "block_length": 2}
    table = make_block_table(to(QUERY), to(KEYS), to(ANGLES), **options)
    orders = to(metrics.list_swap_orders(4))
    before, after = table.attention(), table.attention(orders)
    return metrics.score_permutations(before, after, orders), permute_blocks(
        to(KEYS[..., 0]), orders, start=0, block_length=2
    )


def of_a_square(to):
    """Symbol, origin and place, of heads on the four prompts of a square."""
    orders = to(metrics.draw_latin_square(4, torch.Generator().manual_seed(0)))
    seen = to(torch.tensor([True, True, False, True]))
    heads = Heads(query=to(drawn(4, 8)), keys=to(drawn(4, 9, 8, seed=1)), angles=to(ANGLES), scale=0.5, softcap=3.0)
    swaps = BlockLayout(block_length=2, blocks=4)
    cube = arrange_cube(compute_block_logits(heads, swaps), orders)
    one_key = arrange_cube(compute_block_logits(heads, swaps, read=1), orders)
    return (
        cube,
        metrics.normalize_parts(metrics.split_variance(cube, seen)),
        metrics.split_variance(one_key),
        measure_prompt_variance(cube, orders, seen),
    )


# Name -> what to compute with a function that brings tensors to a device.
METRICS = {
    "rotate": lambda to: metrics.rotate(to(KEYS), to(torch.arange(9.0)), to(ANGLES)),
    "rotate by a number": lambda to: metrics.rotate(to(KEYS), 3, ANGLES, pairing="neighbours"),
    "cross_logits": lambda to: metrics.cross_logits(to(QUERY), to(KEYS), to(ANGLES)),
    "cross_logits of planes": lambda to: metrics.cross_logits(to(QUERY), to(KEYS), ANGLES, per_frequency=True),
    "swap_scores": lambda to: metrics.swap_scores(to(QUERY), to(KEYS), to(ANGLES)),
    "swap_scores of planes": lambda to: metrics.swap_scores(
        to(QUERY), to(KEYS), ANGLES, block_length=2, per_frequency=True
    ),
    "swap_scores of what is seen": lambda to: metrics.swap_scores(
        to(QUERY), to(KEYS), to(ANGLES), visible=to(VISIBLE), sinks=to(drawn(2)), softcap=3.0
    ),
    "make_block_table": by_blocks,
    "cube_parts": of_a_square,
    "score_cross_logits": lambda to: metrics.score_cross_logits(to(SQUARE), outside=to(drawn(2, 1))),
    "exclusion": lambda to: metrics.exclusion(to(SQUARE)),
    "frequency_shares": lambda to: metrics.frequency_shares(to(QUERY), to(KEYS), to(ANGLES)),
    "frequency_use": lambda to: metrics.mean_frequency(metrics.frequency_use(to(QUERY), to(KEYS), to(ANGLES))),
    "dirichlet_kernel": lambda to: metrics.dirichlet_kernel(to(ANGLES), 7),
    "score_pair": lambda to: metrics.score_pair(to(torch.tensor(0.3)), to(torch.tensor(0.4))),
    "score_exchange": lambda to: metrics.score_exchange(to(SQUARE), to(torch.tensor([0, 1])), to(torch.tensor([2, 4]))),
    "simulate_random_swaps": lambda to: simulate_random_swaps(
        to(ATTENTION), generator=torch.Generator().manual_seed(0)
    ),
    "classify_purity": lambda to: metrics.classify_purity(to(SCORES), to(OTHERS)),
    "interventions": lambda to: [
        change.change(to(ANGLES))
        for change in (
            change_base(times=2.0),
            interventions.freeze_rotation(select_by_id([1, 3])),
            interventions.remove_planes(interventions.select_slowest(0.5)),
        )
    ],
    "unrotated_planes": lambda to: (
        unrotated_planes(to(KEYS), to(torch.arange(9.0)), to(ANGLES)),
        unrotated_planes(to(KEYS), 3, ANGLES),
    ),
    "concentration": lambda to: (concentration(to(ARROWS)), concentration(to(ARROWS), weighted=False)),
    "coherence": lambda to: coherence(to(ARROWS)),
    "alignment": lambda to: alignment(to(ARROWS), to(drawn(6)), free=True),
    "crest": lambda to: (crest(to(ARROWS), 0.1), crest(to(ARROWS), to(torch.full((6,), 0.2)))),
    "fit_wave": lambda to: fit_wave(to(drawn(2, 6)), to(torch.arange(1.0, 7.0)), 0.5).at(to(torch.arange(3.0))),
    "explained": lambda to: explained(to(drawn(2, 6)), to(drawn(2, 6, seed=1))),
    "correlate_heads": lambda to: metrics.correlate_heads(to(SCORES), to(OTHERS), draws=20),
    "mean_interval": lambda to: metrics.mean_interval(to(SCORES[:, 0, 0]), draws=20),
    "statistic_interval": lambda to: metrics.statistic_interval(lambda x: float(x.mean()), to(SCORES), draws=20),
}
LAYER = LayerShape(heads=2, dim=8, width=6, length=16)
INPUTS, MAPS = drawn(5, 6), drawn(2, 2, 6, 8, seed=6)


def encoded(name):
    """Everything that an encoding computes: logits, weights, ``C`` and what becomes of permuted tokens."""

    def compute(to):
        torch.manual_seed(0)
        encoding = to(make_encoding(name, LAYER)).requires_grad_(False)
        encoding.redraw()
        heads = EncodedHeads(encoding=encoding, query_map=to(MAPS[0]), key_map=to(MAPS[1]))
        orders = to(torch.tensor([[1, 0, 2, 3], [0, 1, 3, 2]]))
        logits = heads.logits(to(INPUTS))
        found = [logits, encoding.attention(logits), heads.spread(to(INPUTS), orders)]
        try:
            return [*found, heads.cross_logits(to(INPUTS))]
        except UndefinedCrossLogits:
            return found

    return compute


def in_mixed_heads(to):
    one = LayerShape(heads=1, dim=8, width=6, length=16)
    torch.manual_seed(0)
    mixed = to(MixedHeads(LAYER, [make_encoding(name, one) for name in ("rope", "t5")])).requires_grad_(False)
    query, keys = drawn(2, 2, 5, 8)
    logits = mixed.logits(to(query), to(keys))
    return logits, mixed.attention(logits), mixed.cross_logits(to(query[:, 0]), to(keys))


OF_ENCODINGS = {
    **{name: encoded(name) for name in ENCODINGS},
    "MixedHeads": in_mixed_heads,
    "closest_symbolic": lambda to: closest_symbolic(to(ANGLES), 12),
}


def plain(found):
    """What was found as a flat list of names, values and devices, NumPy arrays and numbers included."""
    if is_dataclass(found):
        return [x for field in fields(found) for x in plain(getattr(found, field.name))]
    if isinstance(found, dict):
        return [x for value in found.values() for x in plain(value)]
    if isinstance(found, tuple | list):
        return [x for part in found for x in plain(part)]
    return [] if isinstance(found, str) or found is None else [found]


# Heads are scored in other pieces on a device than on a CPU.
METRICS_ERROR = 1e-12


def assert_same(found, expected, device, atol=0.0):
    found, expected = plain(found), plain(expected)
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, torch.Tensor) == isinstance(other, torch.Tensor)
        if isinstance(one, torch.Tensor):
            assert one.device == device
            torch.testing.assert_close(one.cpu(), other, rtol=0, atol=atol, equal_nan=True)
        else:
            np.testing.assert_allclose(one, other, rtol=0, atol=atol)


def test_what_a_gpu_refuses_is_refused(other_device):
    there, here = torch.arange(3.0, device=other_device), torch.arange(3.0)
    for call, message in (
        (lambda: there + here, "expected all tensors on one device"),
        (lambda: here[there.long()], "expected all tensors on one device"),
        (lambda: there.normal_(generator=torch.Generator()), "Expected a 'lazy:0' device type for generator"),
        (lambda: np.asarray(there), "to numpy. Use Tensor.cpu"),
    ):
        with pytest.raises((RuntimeError, TypeError), match=message):
            call()
    assert (there[here.long()] * here[2]).tolist() == [0, 2, 4]


@pytest.mark.parametrize("name", METRICS)
def test_metrics(name, other_device):
    assert_same(METRICS[name](lambda x: x.to(other_device)), METRICS[name](lambda x: x), other_device, METRICS_ERROR)


@pytest.mark.parametrize("name", OF_ENCODINGS)
def test_encodings(name, other_device):
    expected = OF_ENCODINGS[name](lambda x: x)
    assert_same(OF_ENCODINGS[name](lambda x: x.to(other_device)), expected, other_device)


TASK = RetrievalTask(length=4, symbols=5, attributes=2)
FACTS = FactsTask(facts=4, questions=("binding", "index"))


def toys():
    return models.ToyEnsemble(TASK, torch.tensor([[0.5], [0.01]]), seeds=(0, 1), width=8)


def decoders():
    return models.DecoderEnsemble(FACTS, torch.tensor([[[0.5, 0.1]]]), seeds=(0, 1), heads=2)


def streams(count, generators):
    return sample_streams(FACTS, count, generators)


TRAINED = {
    "toys": (toys, lambda count, generators: sample_streams(TASK, count, generators)),
    "decoders": (decoders, streams),
}


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("settings", [models.TrainingSettings, models.CosineSettings])
def test_training_steps(name, settings, other_device, tmp_path):
    make, draw = TRAINED[name]
    options = {"settings": settings(steps=2, batch=4, warmup=1, record_every=1), "progress": False}
    found = []
    for device in (torch.device("cpu"), other_device):
        model, generators = make().to(device), make_generators((0, 1), device, purpose=0)
        kept = tmp_path / f"{device.type}.safetensors"
        history = models.train(model, draw, generators=generators, checkpoint=kept, checkpoint_every=1, **options)
        found.append([history.losses, *(parameter.detach().cpu() for parameter in model.parameters())])
        models.train(make().to(device), draw, generators=generators, checkpoint=kept, **options)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


# What is drawn, and followed, on the device of a generator.
DRAWN = {
    "IndexTask": lambda generator: IndexTask(length=4, symbols=5).sample(6, generator),
    "RetrievalTask": lambda generator: TASK.sample(6, generator),
    "PartialInductionTask": lambda generator: PartialInductionTask(length=6, symbols=5, attributes=2).sample(
        6, generator
    ),
    "FactsTask": lambda generator: [FACTS.sample(6, generator), FACTS.ask("index", 6, generator)],
    "DistanceTask": lambda generator: DistanceTask(longest=10, vocabulary=9, distances=4).sample(
        6, generator=generator
    ),
    "CountTask": lambda generator: CountTask().sample(6, generator=generator),
    "NumberTask": lambda generator: followed(NumberTask(window=3, steps=4, letters=7, hops=3), generator),
    "LetterTask": lambda generator: followed(LetterTask(window=8, steps=8, hops=3), generator),
}


def followed(task, generator):
    batch = task.sample(12, generator=generator, extra=2)
    return [batch, is_valid(batch.tokens, task), walk(batch.tokens, task, hops=2, layers=3)]


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn(name, other_device):
    expected, found = (DRAWN[name](torch.Generator(device).manual_seed(0)) for device in ("cpu", other_device))
    assert_same(found, expected, other_device)


# Tokens and prompts of language models.
IDS = tokens(3, 26)
CHOICES = {"answer_ids": IDS[:, 4:26:4], "target": torch.tensor([0, 3, 5]), "texts": []}
BINDING = Prompts(input_ids=IDS, start=1, block_length=4, blocks=6, **CHOICES)
BLOCKS = {"start": 1, "block_length": 4, "blocks": 6, "tau": 0.05, "visible_only": False, "progress": False}
# Beyond a window of 16.
SEEN = BLOCKS | {"start": 5, "blocks": 5, "visible_only": True}
HOPS = NumberTask(window=3, steps=4, letters=7, hops=3)
HOP_BATCH = HOPS.sample(6, generator=torch.Generator().manual_seed(0))
SENTENCES = DistanceTask(longest=10, vocabulary=9, distances=4, side=2)
SENTENCE_BATCH = SENTENCES.sample(5, generator=torch.Generator().manual_seed(0))
ADDED = {f"lm_head.{part}": drawn(*shape).float() for part, shape in (("up", (97, 2)), ("down", (2, 64)))}


def placed(record, put):
    """A batch with its tensors put somewhere."""
    values = record._asdict() if isinstance(record, tuple) else vars(record)
    moved = {name: put(x) for name, x in values.items() if isinstance(x, torch.Tensor)}
    return record._replace(**moved) if isinstance(record, tuple) else replace(record, **moved)


def gemma(to):
    return to(build("Gemma3"))


def hop_model(to):
    return to(make_gptj(vocabulary=HOPS.vocabulary, layers=2, heads=2, width=16, positions=64)).eval()


def classifier(to):
    settings = {"vocabulary": 9, "classes": 4, "layers": 2, "width": 16, "heads": 2, "hidden": 12, "length": 10}
    return to(models.EncodingModel(models.ModelSettings(encoding="rope", **settings))).eval()


def tensors(table):
    return {name: torch.from_numpy(x.values) for name, x in table.items()}


def many(name):
    def compute(to, put):
        model, found = to(build(name)), []
        for options in (BLOCKS, SEEN, SEEN | {"queries": [-1, 20]}):
            found += [tensors(profile(model, put(IDS), **options))]
        return found

    return compute


def through_heads(to, put):
    def measure(heads):
        table = tabulate_blocks(heads, BlockLayout(start=1, block_length=4))
        return {"use": heads.frequency_use(), "table": table.attention()}

    return map_layers(gemma(to), put(IDS), measure, progress=False)


def of_pairs(to, put):
    pairs = solvers.answer_pairs(placed(BINDING, put), torch.Generator().manual_seed(0))
    return pairs, solvers.patched_heads(gemma(to), pairs, 2)


def with_changes(to, put):
    model, outputs = gemma(to), []

    def half(layer, said):
        outputs.append(said.clone())
        return said / 2

    with torch.no_grad(), interventions.edit_head_outputs(model, half):
        logits = model(input_ids=to(IDS)).logits
    return outputs, logits


def under_surgery(to, put):
    model = gemma(to)
    with interventions.edit_rope(
        model,
        interventions.freeze_rotation(interventions.select_slowest(0.5)),
        interventions.remove_planes(interventions.select_fastest(0.25), heads=[(1, 2)]),
        length=26,
    ) as operated:
        scores = operated.profile(put(IDS), start=1, block_length=4, tau=0.05)
        with torch.no_grad():
            return tensors(scores), model(to(IDS)).logits


def one_token_replaced(to, put):
    model, prompt = gemma(to), put(IDS[0])
    said = interventions.record_head_outputs(model, put(IDS))
    mean = said.outputs.mean(0)
    alone = patch_each_head(model, prompt, mean[:, -1], put(torch.tensor([3, 4])))
    found = [alone]
    for options in ({}, {"mean_over": put(IDS)}):
        with interventions.ablate_heads(model, [(1, 2)], **options), torch.no_grad():
            found.append(model(to(IDS)).logits[:, -1])
    with interventions.patch_heads(model, [(1, 2)], put(mean)), torch.no_grad():
        return *found, model(to(IDS)).logits[:, -1]


def of_stations(to, put):
    layers = capture_layers(hop_model(to), put(HOP_BATCH.tokens))
    return station_scores(layers, put(HOP_BATCH.path), angles=put(metrics.rope_angles(8)), tau=0.05)


def hop_answers(to, put):
    model, asked = hop_model(to), put(HOP_BATCH.tokens)
    set_angles(model, put(metrics.rope_angles(8)), positions=40)
    program = candidates(asked, HOPS).attention("hop 1")
    says = average_outputs(model, to(HOP_BATCH.tokens))
    logits = run_with_edits(model, to(HOP_BATCH.tokens), attention={(0, 1): program}, output={(1, 0): says[1, 0]})
    return logits, says, mark_right_answers(model, asked, put(HOP_BATCH.answer))


def additions(to, put):
    model = gemma(to)
    with train_lora(model, ["lm_head"], rank=2, generator=torch.Generator().manual_seed(0)) as factors:
        learned = list(factors.values())
    with merge_lora(model, {name: put(x) for name, x in ADDED.items()}):
        inside = model.lm_head.weight.detach().clone()
    add_lora(model, {name: put(x) for name, x in ADDED.items()})
    return learned, inside, model.lm_head.weight.detach()


def bend(to, put):
    model = to(toys())
    batch = placed(sample_streams(TASK, 6, make_generators((0, 1), torch.device("cpu"), purpose=0)), to)
    return sharpness(model.losses(batch).sum(), list(model.parameters()), tolerance=1e-2).value


class Characters:
    """A tokenizer with a token for every character."""

    bos_token_id = None

    def __call__(self, text, **_):
        return {"input_ids": [max(0, ord(letter) - 30) for letter in text]}

    def decode(self, ids):
        return "".join(chr(one + 30) for one in ids)


def asked_questions(to, put):
    questions = draw_hop_questions("number", count=2, lengths=(8,))[8]
    texts = [write_hop_text("number", question) for question in questions]
    return answer_questions(gemma(to), Characters(), questions, texts)


# Name, first the function's -> what to compute with it: ``to`` puts a model somewhere, ``put`` its input.
OF_MODELS = {
    "capture": lambda to, put: [(call.query, call.keys, call.weights()) for call in capture(gemma(to), put(IDS))],
    "profile": many("Gemma3"),
    "profile of pairs of neighbours": many("GPT-J"),
    "map_layers": through_heads,
    "find_planes": lambda to, put: find_planes(gemma(to), 26),
    "origin_cube": lambda to, put: tensors(origin_cube(gemma(to), put(IDS[:1]), start=13, block_length=3, blocks=4)),
    "edit_rope": under_surgery,
    "measure_head_labels": lambda to, put: tensors(measure_head_labels(gemma(to), put(IDS[:, :9]))),
    "record_head_outputs": lambda to, put: interventions.record_head_outputs(gemma(to), put(IDS)),
    "make_head_views": lambda to, put: [
        torch.from_numpy(x)
        for x in make_head_views(
            gemma(to), put(IDS), Cuts(13, 12, lengths=(1, 3), taus=(0.1, 1.0), shown=(3, 0.1))
        ).values()
    ],
    "patch_each_head": one_token_replaced,
    "edit_head_outputs": with_changes,
    "capture_layers": of_stations,
    "patched_heads": of_pairs,
    "silenced_heads": lambda to, put: solvers.silenced_heads(gemma(to), placed(BINDING, put), 2),
    "choose_answers": lambda to, put: choose_answers(gemma(to), placed(BINDING, put)),
    "answer_questions": asked_questions,
    "run_with_edits": hop_answers,
    "ablate_each_head": lambda to, put: [
        models.ablate_each_head(classifier(to), placed(SENTENCE_BATCH, put), by=by) for by in ("zero", "mean")
    ],
    "sharpness": bend,
    "add_lora": additions,
}


def here(x):
    return x


@functools.cache
def measure_here(name):
    return OF_MODELS[name](here, here)


@pytest.mark.parametrize("inputs", ["on the CPU", "beside the model"])
@pytest.mark.parametrize("name", OF_MODELS)
def test_what_reads_models(name, inputs, other_device):
    def there(x):
        return x.to(other_device)

    found = OF_MODELS[name](there, here if inputs == "on the CPU" else there)
    for one, other in zip(plain(found), plain(measure_here(name)), strict=True):
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(one.cpu(), other, rtol=0, atol=1e-4, equal_nan=True)
        else:
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=2e-3)


MANY = tokens(7, 26)
ASKED = replace(BINDING, input_ids=MANY, answer_ids=MANY[:, 4:26:4], target=torch.arange(7) % 6)


def ablated(model, **size):
    """Heads hand on their mean over all prompts, in so many passes."""
    with interventions.ablate_heads(model, [(1, 2)], mean_over=MANY), torch.no_grad():
        return model(MANY[:1]).logits


IN_BATCHES = {
    "profile": lambda model, **size: tensors(profile(model, MANY, **BLOCKS, **size)),
    "choose_answers": lambda model, **size: choose_answers(model, ASKED, **size),
    "ablate_heads": ablated,
}


@contextmanager
def room_for(most, model):
    """Let a model find no room for more prompts in its last layer; what a failed pass held must be gone in the next."""
    passes, held = [], []

    def check(module, args, kwargs):
        hidden = args[0] if args else kwargs["hidden_states"]
        if hidden.shape[1] == MANY.shape[1]:
            passes.append(len(hidden))
            assert all(reference() is None for reference in held)
            if len(hidden) > most:
                held.append(weakref.ref(hidden))
                raise torch.OutOfMemoryError("no room")

    hook = model.model.layers[-1].register_forward_pre_hook(check, with_kwargs=True)
    try:
        yield passes
    finally:
        hook.remove()


@pytest.mark.parametrize("name", IN_BATCHES)
def test_batches_are_halved_until_they_find_room(name):
    whole, expected = (plain(IN_BATCHES[name](build("Gemma3"), **size)) for size in ({}, {"batch_size": 3}))
    model = build("Gemma3")
    with room_for(3, model) as passes:
        found = plain(IN_BATCHES[name](model))
    assert passes[:4] == [7, 3, 3, 1]
    for one, other, together in zip(found, expected, whole, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6 * (name == "ablate_heads"))
        torch.testing.assert_close(one, together, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", IN_BATCHES)
def test_one_prompt_without_room_is_refused_by_torch(name):
    model = build("Gemma3")
    with room_for(0, model) as passes, pytest.raises(torch.OutOfMemoryError, match="no room"):
        IN_BATCHES[name](model)
    assert passes == [7, 3, 1]


@pytest.mark.parametrize("name", ["profile", "choose_answers"])
def test_batches_that_were_asked_for_are_not_halved(name):
    model = build("Gemma3")
    with room_for(3, model) as passes, pytest.raises(torch.OutOfMemoryError, match="no room") as raised:
        IN_BATCHES[name](model, batch_size=4)
    assert passes == [4]
    assert "pass a smaller batch_size" in raised.value.__notes__[0]
