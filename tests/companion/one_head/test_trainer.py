"""The trainer: its model against the one in PyTorch, its tasks, and the page on which a reader trains."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from in_browser import functions, opened
from refusals import refuse_each

from posym_companion.one_head import StoredRuns, trainer
from posym_companion.one_head.training_figure import STATIC
from posym_core.models import TrainingSettings
from posym_core.models._toys import ToyEnsemble
from posym_core.tasks import IndexTask, PartialInductionTask, RetrievalTask

LENGTH, WIDTH, BATCH = 10, 16, 24
SIZES = {"length": LENGTH, "symbols": 12, "attributes": 4, "repetition": 3}
TASKS = {
    "index": IndexTask(length=LENGTH, symbols=12),
    "retrieval": RetrievalTask(length=LENGTH, symbols=LENGTH, attributes=4),
    "induction": PartialInductionTask(length=LENGTH, symbols=12, attributes=4, repetition=3),
}
TRAINING = TrainingSettings(steps=40, batch=BATCH, learning_rate=1e-2, warmup=10)
SCHEDULE = {name: getattr(TRAINING, name) for name in ("steps", "batch", "learning_rate", "warmup", "betas")}
NAMES = {"embedding": "embedding", "query": "query_map", "key": "key_map", "read": "read_map"}
# Weights and batches in, loss and gradients of the first batch and the weights after all of them out.
RUN = """([name, sizes, angles, width, weights, batches, training]) => {
    const lists = (arrays) => Object.fromEntries(Object.entries(arrays).map(([key, array]) => [key, [...array]]));
    const task = makeTask(name, sizes), model = makeModel(task, angles, { width, seed: 0 });
    for (const one in weights) model.weights[one].set(weights[one]);
    let first = null;
    for (const batch of batches) {
        const filled = emptyBatch(task, batch.answer.length);
        for (const field of ['tokens', 'answer', 'position']) filled[field].set(batch[field]);
        const loss = lossAndGradients(model, filled);
        first = first || { loss, gradients: lists(model.gradients) };
        adamStep(model, training);
    }
    return { ...first, weights: lists(model.weights) };
}"""
DRAW = """([name, sizes, count]) => {
    const task = makeTask(name, sizes), batch = drawBatch(task, chance(5), emptyBatch(task, count));
    return [[...batch.tokens], [...batch.answer], [...batch.position]];
}"""


@pytest.fixture(scope="module")
def toy(browser):
    page = functions(browser, STATIC / "toy.js")
    yield page
    page.close()


def flat(model, take):
    return {ours: take(getattr(model, theirs))[0, 0].flatten().tolist() for ours, theirs in NAMES.items()}


# ---- the model -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("angles", [[0.3], [0.0, 0.3]], ids=["one", "pair"])
@pytest.mark.parametrize("name", TASKS)
def test_gradients_and_a_whole_run_are_those_of_pytorch(toy, name, angles):
    task = TASKS[name]
    model = ToyEnsemble(task, torch.tensor([angles], dtype=torch.float64), seeds=(3,), width=WIDTH).double()
    generator = torch.Generator().manual_seed(0)
    batches = [task.sample(BATCH, generator) for _ in range(TRAINING.steps)]
    sent = [{key: x.flatten().tolist() for key, x in batch._asdict().items()} for batch in batches]
    begun = flat(model, lambda x: x.detach())
    found = toy.evaluate(RUN, [name, SIZES, angles, WIDTH, begun, sent, SCHEDULE])

    optimizer = TRAINING.optimizer(list(model.parameters()))
    for step, batch in enumerate(batches):
        optimizer.zero_grad()
        loss = model.losses(type(batch)(*(x[None] for x in batch))).sum()
        loss.backward()
        if step == 0:
            assert found["loss"] == pytest.approx(loss.item(), rel=1e-9)
            for key, gradient in flat(model, lambda x: x.grad).items():
                np.testing.assert_allclose(found["gradients"][key], gradient, atol=1e-10)
        optimizer.param_groups[0]["lr"] = TRAINING.rate(step)
        optimizer.step()
    ended = flat(model, lambda x: x.detach())
    for key, weights in ended.items():
        np.testing.assert_allclose(found["weights"][key], weights, atol=1e-6)
        assert np.abs(np.subtract(weights, begun[key])).max() > 0.02  # the run went somewhere


def test_weights_begin_with_the_spread_of_pytorch(toy):
    spreads = toy.evaluate(
        """([sizes]) => {
            const { weights } = makeModel(makeTask('index', sizes), [0.1], { width: 64, seed: 1 });
            return Object.fromEntries(Object.entries(weights).map(([k, w]) =>
                [k, Math.sqrt(w.reduce((sum, x) => sum + x * x, 0) / w.length)]));
        }""",
        [{**SIZES, "length": 32, "symbols": 32}],
    )
    model = ToyEnsemble(IndexTask(), torch.tensor([[0.1]]), seeds=(0,))
    for ours, theirs in NAMES.items():
        assert spreads[ours] == pytest.approx(getattr(model, theirs).std().item(), rel=0.25)


@pytest.mark.parametrize("name", TASKS)
def test_inputs_follow_the_rules_of_the_task(toy, name):
    count, task = 4000, TASKS[name]
    tokens, answer, position = map(np.array, toy.evaluate(DRAW, [name, SIZES, count]))
    tokens = tokens.reshape(count, LENGTH + 1)
    context, query = tokens[:, :-1], tokens[:, -1]
    assert context.min() >= 0
    assert context.max() < task.context_vocabulary <= query.min()
    assert query.max() < task.vocabulary
    rows = np.arange(count)
    first = SIZES["repetition"] - 1 if name == "induction" else 0
    # Positions, answers and what stands anywhere else are drawn evenly: chi-squared below its 99.9 % point.
    for drawn, values in ((position, range(first, LENGTH)), (answer, range(task.classes))):
        counts = np.array([(drawn == value).sum() for value in values])
        assert counts.sum() == count
        expected = count / len(values)
        assert ((counts - expected) ** 2 / expected).sum() < 35
    if name == "index":
        assert (query - task.context_vocabulary == position).all()
        assert (context[rows, position] == answer).all()
        return
    symbol = context // task.attributes
    asked = query - task.context_vocabulary
    assert (symbol[rows, position] == asked).all()
    assert (context[rows, position] % task.attributes == answer).all()
    occurrences = (symbol == asked[:, None]).sum(1)
    if name == "retrieval":
        assert (np.sort(symbol, axis=1) == np.arange(LENGTH)).all()
    else:
        assert (occurrences == task.repetition).all()
        assert ((symbol == asked[:, None]) * np.arange(LENGTH)).max(1).tolist() == position.tolist()
        # Each earlier place is as likely as the others.
        last = position == LENGTH - 1
        share = (symbol[last, :-1] == asked[last, None]).mean(0)
        np.testing.assert_allclose(share, (task.repetition - 1) / (LENGTH - 1), atol=0.1)


# ---- the page --------------------------------------------------------------------------------------------------------


def stored(task="index", length=16, **changed):
    angles = [1.0, 0.1, 0.01]
    given = {
        "angles": angles,
        "accuracy": np.array([[0.9, 0.8, 0.2], [1.0, 0.6, 0.1]]),
        "by_position": np.full((2, 3, length), 0.5),
        **changed,
    }
    return StoredRuns(task, length, **given)


def make(*runs, **changed):
    options = {"training": {**SCHEDULE, "steps": 60}, "caption": "C.", "alt": "A.", "length": 16, "test_inputs": 512}
    return trainer(runs or [stored()], **{**options, **changed})


def test_stored_runs_are_sent_as_means():
    sent = json.loads(re.search(r'class="posym-trainer-data">(.*?)</script>', make().html, re.S)[1])
    assert sent["stored"][0]["angles"] == [0.01, 0.1, 1.0]
    assert sent["stored"][0]["mean"] == pytest.approx([0.15, 0.7, 0.95])
    assert sent["stored"][0]["low"] == pytest.approx([0.1, 0.6, 0.9])
    assert sent["training"]["steps"] == 60
    never = np.full((2, 3, 16), 0.5)
    never[:, :, 0] = np.nan
    assert stored(by_position=never).payload()["byPosition"][0][:2] == [-1, 0.5]


test_refusals_name_rule_value_and_way_out = refuse_each(
    (lambda: make(stored("sort")), "task of stored runs must be one of index, retrieval, induction; got 'sort'"),
    (lambda: make(stored(accuracy=np.ones((2, 4)))), "accuracy must have shape [seed, angle: 3]; got [2, 4]"),
    literally=True,
)  # fmt: skip


def value(page, name):
    return page.locator(f"output[name={name}]").evaluate("output => output.value")


def train(page, **fields):
    for name, text in fields.items():
        control = page.locator(f"[name={name}]")
        control.select_option(text) if name == "task" else control.fill(text)
    page.click("button[name=train]")


def ended(page):
    page.wait_for_function("document.querySelector('output[name=accuracy]').value !== ''")
    return float(value(page, "accuracy"))


def drawing(page, part):
    return page.locator(f"[data-part={part}]").inner_html()


def test_two_runs_side_by_side(browser, tmp_path):
    with opened(browser, make(training={**SCHEDULE, "steps": 250, "batch": 64}), tmp_path) as page:
        assert page.locator("[data-trainer]").count() == 1
        train(page, task="retrieval", angle="0.0005", length="8", seed="1")
        good = ended(page)
        assert value(page, "step") == "250"
        assert "no stored runs" in drawing(page, "grid")
        train(page, angle="1.5")
        page.wait_for_function("document.querySelector('progress').value > 0")
        bad = ended(page)
        assert 1 >= good > bad + 0.1
        assert bad >= 0
        page.wait_for_function("document.querySelectorAll('.posym-live-table tbody tr').length === 2")
        page.wait_for_function("document.querySelectorAll('[data-part=planes] svg').length === 2")
        assert "run before" in drawing(page, "loss")
        assert "ended at step 250" in page.locator(".posym-live-said").text_content()
        # The pair has two planes, and its stored runs are others.
        train(page, task="induction", angle="0", angle2="0.1")
        ended(page)
        page.wait_for_function("document.querySelectorAll('[data-part=planes] svg').length === 3")


def test_bad_input_gets_a_sentence(browser, tmp_path):
    good = {"angle": "0.1", "angle2": "", "length": "8", "seed": "0"}
    with opened(browser, make(), tmp_path) as page:
        for name, text, message in (
            ("length", "8.5", "The number of positions must be a whole number from 8 to 64; got “8.5”."),
            ("angle", "", "The angle must be a number from 0 to 3.1416 radians; got “”."),
            ("angle2", "-1", "The second angle must be a number from 0 to 3.1416 radians; got “-1”. Leave it empty"),
        ):
            train(page, **{**good, name: text})
            assert page.locator("[role=alert]").text_content().startswith(message)
            assert page.locator(f"[name={name}]").get_attribute("aria-invalid") == "true"
            assert value(page, "step") == "0"
        train(page, **good)
        assert page.locator("[role=alert]").text_content() == ""
        ended(page)


def kept(page, name, folder):
    with page.expect_download() as got:
        page.get_by_role("button", name=name, exact=True).click()
    path = folder / got.value.suggested_filename
    got.value.save_as(path)
    return path.read_text(encoding="utf-8")


def test_drawings_and_numbers_of_runs_can_be_kept(browser, tmp_path):
    with opened(browser, make(), tmp_path) as page:
        page.get_by_text("Keep this figure").click()
        accuracy = []
        for seed in ("1", "2"):
            train(page, seed=seed)
            accuracy.append(ended(page))
        page.wait_for_function("document.querySelector('[data-part=attention]').innerHTML.includes('dasharray')")
        page.wait_for_function("document.querySelectorAll('[data-part=planes] svg').length === 2")
        page.wait_for_timeout(500)  # both runs are drawn a moment after the second has ended
        rows = list(csv.DictReader(kept(page, "CSV", tmp_path).splitlines()))
        assert {(row["task"], row["angles"], row["seed"]) for row in rows} == {("Index (absolute)", "0.1", "2")}
        panels = page.locator(".posym-title").all_text_contents()
        assert list(dict.fromkeys(row["panel"] for row in rows)) == panels
        found = {row["series"]: float(row["y"]) for row in rows if row["panel"] == panels[0] and row["y"]}
        assert [found["earlier runs"], found["yours"]] == pytest.approx(accuracy, abs=1e-3)
        band = [row for row in rows if row["series"] == "lowest to highest seed"]
        assert band
        assert all(float(row["lower"]) <= float(row["upper"]) for row in band)
        root = ElementTree.fromstring(kept(page, "SVG", tmp_path))
        assert len(root.findall("{*}svg")) == 6
