"""What other libraries wrap around a model against the model itself, with the libraries as they are installed."""

import copy

import numpy as np
import pytest
import torch
from architectures import build, shared, tokens
from refusals import refuse_each
from saved_models import save_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from posym_profile.capture._capturing import capture
from posym_profile.capture._wrappers import unwrap
from posym_profile.interventions import ablate_heads, edit_rope, freeze_rotation
from posym_profile.language_models._refusals import UnsupportedModelError
from posym_profile.planes._rotary_planes import find_planes
from posym_profile.scores._profiling import profile

nnsight, peft = pytest.importorskip("nnsight"), pytest.importorskip("peft")
TransformerBridge = pytest.importorskip("transformer_lens.model_bridge").TransformerBridge
# What these libraries ask of transformers and of themselves is theirs.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:LanguageModel is deprecated:FutureWarning"),
]
# Attention of TransformerLens is code of its own, rounded otherwise; merged adapters round, too.
WEIGHT_ERROR = 1e-5
OPTIONS = {"start": 3, "block_length": 4, "tau": 0.05, "progress": False, "visible_only": False}
LORA = {"r": 4, "init_lora_weights": False, "target_modules": ["q_proj", "k_proj"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("llama"))


def with_lora(mixed=False):
    torch.manual_seed(0)
    model = build("Llama")
    if mixed:
        return peft.get_peft_model(model, peft.LoraConfig(**LORA), mixed=True).eval()
    return peft.get_peft_model(model, peft.LoraConfig(**LORA)).eval()


def same(wrapper, model, error):
    """Attention and scores of all heads in the wrapper against those of a model, in either order of asking."""
    input_ids = tokens()
    for found, expected in zip(capture(wrapper, input_ids), capture(model, input_ids), strict=True):
        torch.testing.assert_close(found.weights(), expected.weights(), atol=error, rtol=0)
    found, expected = profile(wrapper, input_ids, **OPTIONS), profile(model, input_ids, **OPTIONS)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], atol=10 * error, rtol=0)
    planes = zip(find_planes(wrapper, 44), find_planes(model, 44), strict=True)
    assert all(torch.equal(a.order, b.order) and torch.allclose(a.angles, b.angles) for a, b in planes)


@pytest.mark.parametrize("name", ["Llama", "GPT-J"])
def test_compiled_models_are_scored_and_not_edited(name):
    model, compiled = build(name), torch.compile(build(name), backend="eager")
    same(compiled, model, 0)
    said = f"^{type(model).__name__} is compiled by torch.compile; pass the model itself$"
    edits = (ablate_heads(compiled, [(0, 1)]), edit_rope(compiled, freeze_rotation(), length=44))
    for edit in edits:
        with pytest.raises(UnsupportedModelError, match=r"is compiled by torch.compile; pass"), edit:
            pass
    layers = model.model.layers if name == "Llama" else model.transformer.h
    layers[0].compile(backend="eager")
    for refused in (lambda: capture(model, tokens()), lambda: ablate_heads(model, [(0, 1)]).__enter__()):
        with pytest.raises(UnsupportedModelError, match=said):
            refused()


@pytest.mark.parametrize("mixed", [False, True])
def test_adapters_act(mixed):
    wrapper = with_lora(mixed)
    merged = copy.deepcopy(wrapper).merge_and_unload()
    same(wrapper, merged, WEIGHT_ERROR)
    base, found = profile(shared("Llama"), tokens(), **OPTIONS), profile(wrapper, tokens(), **OPTIONS)
    assert np.abs(found.symbolic - base.symbolic).max() > 0.1


def adapted(kind, **options):
    config = getattr(peft, f"{kind}Config")(**options)
    return lambda: profile(peft.get_peft_model(build("Llama"), config).eval(), tokens(), **OPTIONS)


CAUSAL = {"task_type": "CAUSAL_LM"}
test_adapters_beside_the_layers_are_refused = refuse_each(
    *((call, rf"adapter 'default' \({kind}\) does not act in .* alone; profile its base model", UnsupportedModelError)
      for kind, call in (
          ("PROMPT_TUNING", adapted("PromptTuning", num_virtual_tokens=4, **CAUSAL)),
          ("PREFIX_TUNING", adapted("PrefixTuning", num_virtual_tokens=4, **CAUSAL)),
          ("POLY", adapted("Poly", target_modules=["q_proj"], r=4)),
          ("LORA", adapted("Lora", alora_invocation_tokens=[7], **CAUSAL, **LORA)),
      )),
)  # fmt: skip


def test_models_of_nnsight(folder):
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    wrappers = nnsight.LanguageModel(copy.deepcopy(model), tokenizer=tokenizer), nnsight.NNsight(copy.deepcopy(model))
    for wrapper in wrappers:
        same(wrapper, model, 0)
    with wrappers[0].edit(inplace=True):
        wrappers[0].model.layers[0].mlp.output[:] = 0
    with pytest.raises(UnsupportedModelError, match="LanguageModel holds 1 edits, which act in traces only"):
        profile(wrappers[0], tokens(), **OPTIONS)
    wrappers[0].clear_edits()
    same(wrappers[0], model, 0)


@pytest.mark.parametrize("name", ["Llama", "Gemma3", "HunYuan", "GPT-NeoX", "GPT-J", "DeepSeek-V3"])
def test_bridges_of_transformer_lens(name, tmp_path):
    folder = str(save_model(tmp_path, name))
    bridge = TransformerBridge.boot_transformers(folder, device="cpu")
    same(bridge, AutoModelForCausalLM.from_pretrained(folder), WEIGHT_ERROR)


def test_a_bridge_in_compatibility_mode(folder):
    bridge = TransformerBridge.boot_transformers(str(folder), device="cpu")
    bridge.enable_compatibility_mode()
    same(bridge, AutoModelForCausalLM.from_pretrained(folder), WEIGHT_ERROR)


@pytest.mark.parametrize(("name", "what"), [("Gemma2", "adds a bias to its logits"), ("gpt-oss", "no attention call")])
def test_what_a_bridge_hides_is_refused(name, what, tmp_path):
    bridge = TransformerBridge.boot_transformers(str(save_model(tmp_path, name)), device="cpu")
    with pytest.raises(UnsupportedModelError, match=what):
        profile(bridge, tokens(), **OPTIONS)


def test_wrappers_around_wrappers():
    wrapper = with_lora()
    same(torch.compile(wrapper, backend="eager"), copy.deepcopy(wrapper).merge_and_unload(), WEIGHT_ERROR)
    assert unwrap(nnsight.NNsight(wrapper)) is unwrap(wrapper)
