"""Heads whose outputs are replaced: against hooks made by hand, and against changed weights."""

import copy
import importlib
import re

import pytest
import torch
from architectures import build, shared, tokens
from every_decoder import KINDS as DECODERS
from every_decoder import LENGTH, NOT_BUILT, tiny_model
from every_decoder import REFUSED as NO_PROFILE
from refusals import refuse_each

from posym_companion.solvers.single_heads import patch_each_head
from posym_profile.capture._capturing import capture
from posym_profile.interventions._head_patching import (
    ablate_heads,
    edit_head_outputs,
    find_output_projections,
    patch_heads,
    record_head_outputs,
)
from posym_profile.interventions._plane_interventions import freeze_rotation, select_fastest
from posym_profile.interventions._plane_surgery import edit_rope
from posym_profile.language_models._refusals import UnsupportedModelError

KINDS = ("Llama", "Qwen2", "Gemma2", "Gemma3", "Cohere", "GPT-NeoX", "Phi")
ANSWERS = torch.tensor([7, 30, 96])


def logits(model, ids):
    with torch.no_grad():
        return model(ids, use_cache=False).logits[:, -1]


def hooked(model, layer, change):
    """By hand: the input of one output projection, changed in place."""

    def before(module, args):
        x = args[0].clone()
        change(x)
        return (x, *args[1:])

    return find_output_projections(model)[layer].register_forward_pre_hook(before)


@pytest.mark.parametrize("kind", KINDS)
def test_seen_outputs_are_what_the_projection_gets_and_looking_on_changes_nothing(kind):
    model, ids = shared(kind), tokens()
    said = record_head_outputs(model, ids)
    seen = []
    hook = find_output_projections(model)[1].register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    torch.testing.assert_close(said.logits, logits(model, ids))
    hook.remove()
    torch.testing.assert_close(said.outputs[:, 1].flatten(-2), seen[0])


@pytest.mark.parametrize("kind", KINDS)
def test_one_head_replaced_at_the_last_token_is_what_a_hook_by_hand_does(kind):
    model, ids = shared(kind), tokens(1)
    outputs = torch.randn(3, 4, 16, generator=torch.Generator().manual_seed(1))
    found = patch_each_head(model, ids[0], outputs, ANSWERS)
    for layer, head in ((0, 0), (1, 3), (2, 2)):

        def change(x, layer=layer, head=head):
            x[:, -1, head * 16 : (head + 1) * 16] = outputs[layer, head]

        hook = hooked(model, layer, change)
        expected = logits(model, ids)[0, ANSWERS]
        hook.remove()
        torch.testing.assert_close(found[layer, head], expected, atol=2e-4, rtol=1e-4)


def test_a_heads_own_output_replaces_nothing_and_more_heads_than_rows_are_no_matter(monkeypatch):
    model, ids = shared("Gemma3"), tokens(1)
    said = record_head_outputs(model, ids)
    # The face has a function of the module's name.
    monkeypatch.setattr(importlib.import_module("posym_companion.solvers.single_heads"), "ROWS", 5)
    found = patch_each_head(model, ids[0], said.outputs[0, :, -1], ANSWERS)
    torch.testing.assert_close(found, said.logits[0, ANSWERS].expand(3, 4, 3), atol=2e-4, rtol=1e-4)


# A part of another model, that does not run without it.
NOT_ALONE = "gemma4_unified_assistant"
# Of the kinds that can be profiled those whose heads are refused, with words that the reason must hold.
REFUSED = {
    "bamba": "gives other logits by what it keeps of a prompt",
    "dory": "attends 8 times in a pass with 4 modules",
    "hrm_text": "attends 32 times in a pass with 8 modules",
    "jetmoe": "without one output projection of its heads",
    "moshi": "without one output projection of its heads",
    "recurrent_gemma": "keeps no keys and values of the tokens before the last",
}


@pytest.mark.parametrize("kind", [kind for kind in DECODERS if kind not in {*NO_PROFILE, *NOT_BUILT, NOT_ALONE}])
def test_logits_of_every_kind_are_its_own_or_its_heads_are_refused_in_one_line(kind):
    """A head replaced by its own output changes nothing, and by another it changes what a whole pass does."""
    model = tiny_model(kind)
    ids = torch.randint(10, 90, (1, LENGTH), generator=torch.Generator().manual_seed(0))
    answers = torch.arange(97)
    if kind in REFUSED:
        with pytest.raises(UnsupportedModelError, match=f"^{type(model).__name__} .*{REFUSED[kind]}.*; ") as caught:
            patch_each_head(model, ids[0], record_head_outputs(model, ids).outputs[0, :, -1], answers)
        assert len(str(caught.value).splitlines()) == 1
        return
    said = record_head_outputs(model, ids)
    whole, outputs = said.logits[0, :97], said.outputs[0, :, -1]
    error = 1e-3 * float(whole.abs().max())
    layer, head = len(outputs) - 1, 1

    def change(here, x):
        x = x.clone()
        x[:, -1, head] = 0 if here == layer else x[:, -1, head]
        return x

    with edit_head_outputs(model, change), torch.no_grad():
        silent = model(ids, use_cache=False).logits[0, -1, :97]
    outputs[layer, head] = 0
    found = patch_each_head(model, ids[0], outputs, answers)
    expected = whole.expand_as(found).clone()
    expected[layer, head] = silent
    torch.testing.assert_close(found, expected, atol=error, rtol=0)
    assert (silent - whole).abs().max() > 2 * error


def test_all_heads_from_another_prompt_make_its_answer_but_for_the_token_itself():
    model, ids = shared("Llama"), tokens(2)
    ids[1, -1] = ids[0, -1]
    said = record_head_outputs(model, ids)
    with edit_head_outputs(model, lambda layer, x: said.outputs[:1, layer]):
        torch.testing.assert_close(logits(model, ids[1:]), said.logits[:1], atol=2e-4, rtol=1e-4)
    assert (said.logits[0] - said.logits[1]).abs().max() > 0.1


def test_it_goes_with_gradients_and_within_surgery():
    model, ids = build("Gemma3").requires_grad_(False), tokens(1)
    factor = torch.ones((), requires_grad=True)
    with (
        edit_rope(model, freeze_rotation(select_fastest(0.5)), length=ids.shape[1]),
        edit_head_outputs(model, lambda _, x: factor * x),
    ):
        operated = model(ids, use_cache=False).logits[:, -1]
    operated.sum().backward()
    assert factor.grad is not None
    assert factor.grad.abs() > 0
    with edit_rope(model, freeze_rotation(select_fastest(0.5)), length=ids.shape[1]):
        said = record_head_outputs(model, ids)
        found = patch_each_head(model, ids[0], said.outputs[0, :, -1], ANSWERS)
    torch.testing.assert_close(said.logits, operated.detach())
    torch.testing.assert_close(found[0, 0], operated.detach()[0, ANSWERS], atol=2e-4, rtol=1e-4)
    assert (operated - logits(model, ids)).abs().max() > 0.01


def asked(model=None, ids=None, outputs=None, answers=ANSWERS, place=(1, 2)):
    """What replaces or records outputs of heads, by name."""
    model, ids = shared("Llama") if model is None else model, tokens(1) if ids is None else ids
    outputs = torch.zeros(3, 4, 16) if outputs is None else outputs
    return {
        "record": lambda: record_head_outputs(model, ids),
        "each": lambda: patch_each_head(model, ids[0], outputs, answers),
        "one": lambda: patch_heads(model, [place], outputs).__enter__(),
    }


SHAPES = [(5, 4, 16), (3, 5, 16), (3, 4, 1), (3, 4)]
test_refusals = refuse_each(
    *((asked(ids=tokens(1).index_fill_(1, torch.tensor([5]), wrong))["record"],
       f"input_ids must be token ids from 0 to 96.*got {wrong}") for wrong in (-1, 97)),
    (asked(answers=torch.tensor([3, 97]))["each"], "answers must be token ids from 0 to 96.*got 97"),
    *((asked(place=(layer, head))["one"], f"from 0 to 2 and from 0 to 3; got {layer} and {head}")
      for layer, head in ((3, 0), (0, 4), (-1, 0))),
    *((asked(outputs=torch.zeros(shape))["each"], re.escape(f"(3, 4, 16) for this model, or so for each token and "
                                                            f"prompt; got {shape}")) for shape in SHAPES),
    (ablate_heads(shared("Llama"), []).__enter__, "heads must be a list of at least one"),
    (ablate_heads(shared("Llama"), [(0, -1)]).__enter__, "from 0 to 2 and from 0 to 3; got 0 and -1"),
    (lambda: find_output_projections(build("Mamba")), "makes no attention call that could", UnsupportedModelError),
)  # fmt: skip


HYBRIDS = ("bailing_hybrid", "bamba", "minimax", "mllama", "qwen3_next", "gemma4_text", "lfm2_moe")


@pytest.mark.parametrize("kind", HYBRIDS)
def test_layers_are_those_that_attend_as_profiles_number_them(kind):
    """Other mixers have projections of the same names; a head of a profile's layer is not one of theirs."""
    model, ids = tiny_model(kind), tokens(2, 20)
    calls = capture(model, ids)
    projections = find_output_projections(model)
    assert len(projections) == len(calls)
    for call, projection in zip(calls, projections, strict=True):
        assert any(part is projection for part in call.module.children())
    layer, without = len(calls) - 1, copy.deepcopy(model)
    width = projections[layer].in_features // calls[layer].query.shape[1]
    with torch.no_grad():
        find_output_projections(without)[layer].weight[:, width : 2 * width] = 0
    plain = model(ids, use_cache=False).logits[:, -1].detach()
    with ablate_heads(model, [(layer, 1)]):
        found = model(ids, use_cache=False).logits[:, -1].detach()
    torch.testing.assert_close(found, without(ids, use_cache=False).logits[:, -1].detach(), atol=2e-4, rtol=1e-4)
    assert (found - plain).abs().max() > 1e-3
    said = record_head_outputs(model, ids)
    assert said.outputs.shape[1:3] == (len(calls), 20)
    torch.testing.assert_close(said.logits, plain, atol=2e-4, rtol=1e-4)
    with patch_heads(model, [(layer, 1)], said.outputs):
        torch.testing.assert_close(model(ids, use_cache=False).logits[:, -1].detach(), plain, atol=2e-4, rtol=1e-4)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_adapters_are_looked_through():
    peft = pytest.importorskip("peft")
    model, ids = build("Llama"), tokens(2)
    wrapped = peft.get_peft_model(model, peft.LoraConfig(target_modules=["o_proj", "q_proj"], r=2)).eval()
    expected = logits_without(copy.deepcopy(wrapped).merge_and_unload().eval(), ids)
    torch.testing.assert_close(logits_without(wrapped, ids), expected, atol=1e-5, rtol=1e-4)


def test_modules_are_found_once_and_again_where_they_were_replaced():
    model, passes = build("Llama"), []
    model.model.embed_tokens.register_forward_hook(lambda *_: passes.append(1))
    first = find_output_projections(model)
    assert find_output_projections(model) == first
    assert len(passes) == 1
    model.model.layers[1].self_attn.o_proj = copy.deepcopy(first[1])
    assert find_output_projections(model)[1] is model.model.layers[1].self_attn.o_proj is not first[1]


@pytest.mark.parametrize(("change", "got"), [
    (lambda layer, x: x[:, -1:], r"\(1, 1, 4, 16\) for layer 0"),
    (lambda layer, x: x.flatten(-2) if layer else None, r"\(1, 44, 64\) for layer 1"),
])  # fmt: skip
def test_a_change_of_another_shape_is_refused(change, got):
    model = shared("Llama")
    whole = (
        r"change must return the outputs of all heads, \[prompt, token, head, dim\], here \(1, 44, 4, 16\), or None to "
    )
    with edit_head_outputs(model, change), pytest.raises(ValueError, match=f"{whole}leave them; got {got}"):
        model(tokens(1))


SOME = [(1, 2), (0, 3), (1, 0)]


def logits_without(model, ids, **options):
    with ablate_heads(model, SOME, **options):
        return logits(model, ids)


@pytest.mark.parametrize("kind", KINDS)
def test_removed_heads_are_those_whose_columns_of_the_projection_are_zero(kind):
    model, ids = shared(kind), tokens()
    without = copy.deepcopy(model)
    with torch.no_grad():
        for layer, head in SOME:
            find_output_projections(without)[layer].weight[:, 16 * head : 16 * (head + 1)] = 0
    torch.testing.assert_close(logits_without(model, ids), logits(without, ids), atol=2e-4, rtol=1e-4)
    torch.testing.assert_close(logits(model, ids), logits(shared(kind), ids))  # nothing is left behind


def test_a_removed_head_says_its_mean_over_prompts_and_tokens():
    model, ids, others = shared("Llama"), tokens(2), tokens(5)[2:]
    said = record_head_outputs(model, others).outputs
    means = {place: said[:, place[0], :, place[1]].flatten(0, 1).mean(0) for place in SOME}
    hooks = [
        hooked(
            model, there, lambda x, m=mean, h=head: x[:, :, 16 * h : 16 * (h + 1)].copy_(m.expand(2, x.shape[1], -1))
        )
        for (there, head), mean in means.items()
    ]
    expected = logits(model, ids)
    for hook in hooks:
        hook.remove()
    torch.testing.assert_close(logits_without(model, ids, mean_over=others), expected)
    # One token more or less is no matter.
    logits_without(model, ids[:, :-1], mean_over=others)


@pytest.mark.parametrize("form", ["heads", "tokens", "prompts"])
def test_patched_heads_say_what_is_given_at_all_tokens_at_each_or_in_each_prompt(form):
    model, ids = shared("Gemma3"), tokens(2)
    said = record_head_outputs(model, tokens(4)[2:]).outputs
    outputs = {"heads": said[0, :, -1], "tokens": said[0], "prompts": said}[form]

    def change(x, head):
        here = {"heads": said[0, 1, -1, head], "tokens": said[0, 1, :, head], "prompts": said[:, 1, :, head]}[form]
        x[:, :, 16 * head : 16 * (head + 1)] = here

    hook = hooked(model, 1, lambda x: change(x, 3))
    expected = logits(model, ids)
    hook.remove()
    with patch_heads(model, [(1, 3)], outputs):
        torch.testing.assert_close(logits(model, ids), expected)


def test_passes_that_do_not_fit_outputs_are_refused():
    model, ids = shared("Llama"), tokens(3)
    said = record_head_outputs(model, ids).outputs
    for outputs, given, of in ((said[0], ids[:, 1:], r"\(1, 44\)"), (said[:2], ids, r"\(2, 44\)")):
        with patch_heads(model, [(0, 0)], outputs), pytest.raises(ValueError, match=f"outputs are of {of} prompts"):
            logits(model, given)
