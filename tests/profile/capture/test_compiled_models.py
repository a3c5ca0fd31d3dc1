"""Edits of models that were compiled, and other threads that run the same model meanwhile."""

import copy
import threading

import pytest
import torch
from architectures import build, tokens

from posym_companion.solvers.single_heads import patch_each_head, patch_head
from posym_profile.capture._capturing import hook_attention
from posym_profile.interventions._head_patching import ablate_heads, edit_head_outputs, patch_heads, record_head_outputs
from posym_profile.interventions._plane_interventions import change_base, freeze_rotation, remove_planes
from posym_profile.interventions._plane_surgery import edit_rope

IDS, OTHERS = tokens(2), tokens(5)[2:]
HEADS = [(0, 1), (1, 2)]
LENGTH = IDS.shape[1]


def instead(model):
    """Outputs of all heads on another prompt, at each token."""
    return record_head_outputs(model, OTHERS).outputs[0]


EDITS = {
    "zero": lambda model: ablate_heads(model, HEADS),
    "mean": lambda model: ablate_heads(model, HEADS, by="mean", input_ids=OTHERS),
    "resample": lambda model: ablate_heads(model, HEADS, by="resample", input_ids=OTHERS, seed=1),
    "patched": lambda model: patch_heads(model, HEADS, instead(model)),
    "changed": lambda model: edit_head_outputs(model, lambda layer, outputs: 0.5 * outputs),
    "stopped": lambda model: edit_rope(model, freeze_rotation(), length=LENGTH),
    "ablated": lambda model: edit_rope(model, remove_planes(heads=HEADS), length=LENGTH),
    "rebased": lambda model: edit_rope(model, change_base(times=0.01), length=LENGTH),
}
# One for each way in which an edit is put into a model.
WAYS = ("zero", "patched", "stopped")


class Graphs:
    """A backend of the compiler that counts the graphs that it gets, and how often they run."""

    def __init__(self):
        self.compiled = self.runs = 0

    def __call__(self, graph, inputs):
        self.compiled += 1

        def run(*args):
            self.runs += 1
            return graph.forward(*args)

        return run


@pytest.fixture(autouse=True)
def new_compiler():
    torch._dynamo.reset()
    yield
    # Nothing that a test opened is left behind.
    assert torch._dynamo.eval_frame._stance.stance == "default"
    torch._dynamo.reset()


def logits(model, ids=IDS):
    with torch.no_grad():
        return model(ids, use_cache=False).logits[:, -1]


def within(edit, model, asked=None):
    with edit(model):
        return logits(model if asked is None else asked)


def in_another_thread(ask):
    found = []
    thread = threading.Thread(target=lambda: found.append(ask()))
    thread.start()
    thread.join(60)
    return found[0]


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("kind", ["Llama", "GPT-J"])
def test_what_was_compiled_and_called_before_is_edited_as_the_model_itself(kind, name):
    model, edit, graphs = build(kind), EDITS[name], Graphs()
    plain, edited = logits(model), within(edit, model)
    assert (edited - plain).abs().max() > 1e-4
    compiled = torch.compile(model, backend=graphs)
    assert torch.equal(logits(compiled), plain)
    before = graphs.compiled, graphs.runs
    assert min(before) > 0
    # Whichever of the two is named and whichever is asked.
    assert torch.equal(within(edit, compiled), edited)
    assert torch.equal(within(edit, model, compiled), edited)
    assert torch.equal(within(edit, compiled, model), edited)
    assert (graphs.compiled, graphs.runs) == before
    # Afterwards the same graph is used again.
    assert torch.equal(logits(compiled), plain)
    assert (graphs.compiled, graphs.runs) == (before[0], 2 * before[1])


@pytest.mark.parametrize("name", WAYS)
def test_what_is_called_first_within_the_block_is_edited_and_compiled_without_the_edit(name):
    model, edit, graphs = build("Llama"), EDITS[name], Graphs()
    plain, edited = logits(model), within(edit, model)
    compiled = torch.compile(model, backend=graphs)
    assert torch.equal(within(edit, compiled), edited)
    assert graphs.compiled == 0
    assert torch.equal(logits(compiled), plain)
    assert graphs.compiled == graphs.runs > 0
    assert torch.equal(within(edit, compiled), edited)


def test_functions_that_give_their_results_take_compiled_models():
    model = build("Llama")
    compiled = torch.compile(model, backend="eager")
    logits(compiled)
    said = instead(model)
    assert torch.equal(record_head_outputs(compiled, OTHERS).outputs[0], said)
    answers = torch.arange(7)
    found = patch_each_head(compiled, IDS[0], said[:, -1], answers)
    assert torch.equal(found, patch_each_head(model, IDS[0], said[:, -1], answers))
    assert torch.equal(patch_head(compiled, IDS, said, 1, 2), patch_head(model, IDS, said, 1, 2))
    options = {"start": 3, "block_length": 4, "progress": False}
    scores = []
    for one in (model, compiled):
        with edit_rope(one, freeze_rotation(), length=LENGTH) as operated:
            scores.append(operated.profile(IDS, **options).symbolic)
    assert torch.equal(*scores)
    calls = [0, 0]
    for place, one in enumerate((model, compiled)):
        with hook_attention(model, lambda call: None) as seen:
            logits(one)
        calls[place] = next(seen)
    assert calls == [3, 3]


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
@pytest.mark.parametrize("name", ["zero", "stopped"])
@pytest.mark.parametrize("way", ["layers", "in place", "function", "adapters within", "adapters around", "a part"])
def test_whatever_is_compiled_is_edited(way, name):
    model, edit = build("Llama"), EDITS[name]
    asked, ask = model, logits
    if way == "layers":
        for layer in model.model.layers:
            layer.compile(backend="eager")
    elif way == "in place":
        model.compile(backend="eager")
    elif way == "function":
        step = torch.compile(lambda ids: model(ids, use_cache=False).logits[:, -1], backend="eager")
        ask = lambda _: step(IDS)  # noqa: E731
    elif way == "a part":
        model.model = torch.compile(model.model, backend="eager")
    else:
        peft = pytest.importorskip("peft")
        config = peft.LoraConfig(r=4, init_lora_weights=False, target_modules=["q_proj", "o_proj"])
        around = way == "adapters around"
        asked = peft.get_peft_model(torch.compile(model, backend="eager") if around else model, config).eval()
        asked = asked if around else torch.compile(asked, backend="eager")
        model = copy.deepcopy(asked if around else asked._orig_mod).merge_and_unload()
    reference = build("Llama") if not way.startswith("adapters") else model
    error = 1e-5 if way.startswith("adapters") else 0
    with torch.no_grad():
        plain, edited = logits(reference), within(edit, reference)
        torch.testing.assert_close(ask(asked), plain, atol=error, rtol=0)
        with edit(asked):
            torch.testing.assert_close(ask(asked), edited, atol=error, rtol=0)
        torch.testing.assert_close(ask(asked), plain, atol=error, rtol=0)
    assert (edited - plain).abs().max() > 1e-4


def test_a_block_that_ends_in_an_error_leaves_the_compiler_as_it_was():
    model, graphs = build("Llama"), Graphs()
    compiled = torch.compile(model, backend=graphs)
    plain, before = logits(compiled), graphs.runs
    for edit in EDITS.values():
        with pytest.raises(ZeroDivisionError), edit(compiled):
            raise ZeroDivisionError
        with pytest.raises(ValueError, match="layer and head must be"), ablate_heads(compiled, [(0, 99)]):
            raise AssertionError
    assert torch.equal(logits(compiled), plain)
    assert graphs.runs == 2 * before
    with torch.compiler.set_stance("fail_on_recompile"):
        assert not torch.equal(within(EDITS["zero"], compiled), plain)
        assert torch._dynamo.eval_frame._stance.stance == "fail_on_recompile"


@pytest.mark.parametrize("name", WAYS)
def test_another_thread_meets_no_edit_and_compiles_none(name):
    model, edit, graphs = build("Llama"), EDITS[name], Graphs()
    compiled = torch.compile(model, backend=graphs, fullgraph=True)
    plain, shorter = logits(compiled), logits(model, IDS[:1, 1:])
    assert torch.equal(logits(model), plain)
    before = graphs.compiled, graphs.runs
    with edit(compiled):
        assert not torch.equal(logits(model), plain)
        assert torch.equal(in_another_thread(lambda: logits(model)), plain)
        assert torch.equal(in_another_thread(lambda: logits(compiled)), plain)
        # Prompts of another shape would be compiled anew, and the hooks along with the model.
        assert torch.equal(in_another_thread(lambda: logits(compiled, IDS[:1, 1:])), shorter)
        assert (graphs.compiled, graphs.runs) == before
    assert torch.equal(logits(compiled), plain)
    assert torch.equal(in_another_thread(lambda: logits(compiled, IDS[:1, 1:])), shorter)
    assert graphs.compiled > before[0]


def test_blocks_of_two_threads_may_overlap_in_any_order():
    model, graphs = build("Llama"), Graphs()
    compiled = torch.compile(model, backend=graphs)
    plain, before = logits(compiled), graphs.runs
    one, other = EDITS["zero"], EDITS["changed"]
    expected = within(one, model), within(other, model)
    found, opened, closed, done = [], threading.Event(), threading.Event(), threading.Event()

    def meanwhile():
        with other(compiled):
            opened.set()
            closed.wait(60)
            found.append(logits(compiled))
            done.set()

    thread = threading.Thread(target=meanwhile)
    with one(compiled):
        thread.start()
        opened.wait(60)
        assert torch.equal(logits(compiled), expected[0])
    # The other block is open still: it acts there, and not here.
    assert torch.equal(logits(compiled), plain)
    closed.set()
    assert done.wait(60)
    thread.join(60)
    assert torch.equal(found[0], expected[1])
    assert torch.equal(logits(compiled), plain)
    assert graphs.runs == 2 * before
