"""Whether a model is supported, from its configuration alone, and the table of what the sweep found."""

import re

import pytest
import transformers
from architectures import build, tokens
from every_decoder import KINDS, NOT_BUILT, REFUSED, outcome, tiny_config, untried
from packaging.version import Version
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from posym_profile import profile
from posym_profile.__main__ import main
from posym_profile.language_models._refusals import UnsupportedModelError
from posym_profile.scores import _supported as module
from posym_profile.scores._supported import find_support, read_supported_decoders

ROWS = {row["kind"]: row for row in read_supported_decoders()["decoders"]}
# Some of each verdict, and hybrids, sparse indexers, shared or convolved keys; the nightly run compares every row.
SAMPLE = (
    *("llama", "gemma3_text", "cohere2", "zamba2", "bert", "ctrl", "bart", "gpt2", "mamba", "bloom", "blt", "zaya"),
    *("bamba", "deepseek_v32", "gemma4_text", "minimax_m3_vl_text", "granite_swa", "longcat_flash", "qwen3_5"),
    *("deepseek_v4", "inkling2_text", "musicgen", "roformer"),
)


def found_now(kind: str) -> dict[str, str]:
    if kind in NOT_BUILT:
        return untried(kind) | {"since": ROWS[kind]["since"]}
    found = outcome(kind)
    found.check()
    return found.row() | {"since": ROWS[kind]["since"]}


# ---- the table -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(
    transformers.__version__ != read_supported_decoders()["transformers"], reason="the table is of the locked version"
)
def test_the_table_has_all_kinds_and_their_verdicts():
    """All that is known without building a model; with another version: python -m benchmarks.architectures."""
    assert list(ROWS) == sorted(KINDS)
    assert {kind: row["model"] for kind, row in ROWS.items()} == {
        kind: MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind] for kind in KINDS
    }
    assert {kind for kind, row in ROWS.items() if row["verdict"] == "refused"} == {*REFUSED} & {*KINDS}
    assert {kind for kind, row in ROWS.items() if row["verdict"] == "not tried"} == set(NOT_BUILT)
    for row in ROWS.values():
        assert Version("5.0.0") <= Version(row["since"]) <= Version(read_supported_decoders()["transformers"])
        assert bool(row["why"]) == (row["verdict"] in ("refused", "not tried"))
        assert bool(row["planes"]) == (row["verdict"] in ("exact", "swapped keys"))


@pytest.mark.parametrize("kind", [*SAMPLE, *NOT_BUILT])
def test_a_row_is_what_the_sweep_finds(kind):
    if kind not in KINDS:
        assert Version(ROWS[kind]["since"]) > Version(transformers.__version__)
        pytest.skip(f"transformers {transformers.__version__} does not have {kind}")
    assert found_now(kind) == ROWS[kind]


# ---- one model -------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "llama", "llamaforcausallm"])
def test_a_class_or_kind_is_looked_up(name, monkeypatch):
    monkeypatch.setattr(module, "load_config", None)
    said = f"{name}: supported, exact (LlamaForCausalLM, from transformers 5.0.0 on)"
    assert find_support(name) == ("exact", said)


def test_a_folder_is_answered_from_its_configuration_whatever_it_is_called(tmp_path, monkeypatch):
    build("Mistral").config.save_pretrained(tmp_path / "llama")
    monkeypatch.chdir(tmp_path)
    assert "MistralForCausalLM" in find_support("llama")[1]


@pytest.mark.parametrize(("kind", "changed", "verdict", "why"), [
    ("gpt2", {}, "refused", "has no rotary encoding: in no layer do position ids turn the keys"),
    ("t5", {}, "not tried", "'t5' is none of the "),
    ("falcon", {"alibi": True}, "refused", "adds a bias to its logits"),
    ("granitemoehybrid", {"position_embedding_type": None}, "refused", "has no rotary encoding"),
    ("llama", {"is_causal": False}, "refused", "attends as an encoder"),
    ("gemma3_text", {"use_bidirectional_attention": True}, "refused", "attends as an encoder"),
])  # fmt: skip
def test_a_folder_is_refused_by_its_configuration_as_a_profile_refuses_it(tmp_path, kind, changed, verdict, why):
    config = tiny_config(transformers.CONFIG_MAPPING[kind])
    for name, value in changed.items():
        setattr(config, name, value)
    config.save_pretrained(tmp_path)
    found, answer = find_support(str(tmp_path))
    assert found == verdict
    assert answer.partition("\n")[2].startswith(why)
    if changed:
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
        with pytest.raises(UnsupportedModelError, match=why):
            profile(model, tokens(1, 26), start=1, block_length=4, progress=False)


@pytest.mark.parametrize(("name", "way"), [
    ("gemma3-270m", rf"nor one of {len(ROWS)} kinds of transformers, .* lists them"),
    ("owner/model", r"the hub gives \(.*\)"),
    ("LamaForCausalLM", r"asked for as llama or LlamaForCausalLM: \S+\.read_supported_decoders\(\) lists them"),
    ("nosuchkind", rf"nor one of {len(ROWS)} kinds of transformers, .* lists them"),
])  # fmt: skip
def test_what_is_no_model_is_an_error_in_one_line(capsys, name, way):
    assert main(["support", name]) == 1
    assert re.fullmatch(
        rf"error: '{name}' is no packaged model, no folder and no model .*{way}\n", capsys.readouterr().err
    )


@pytest.mark.parametrize(("name", "status", "said"), [
    ("llama", 0, "llama: supported, exact ("),
    ("zaya", 0, "zaya: supported; its keys mix neighbouring tokens, so that swaps are of keys ("),
    ("gpt2", 3, "gpt2: refused (GPT2LMHeadModel, from transformers 5.0.0 on)\nhas no rotary encoding"),
    ("gemma3n", 1, "gemma3n: not tried (Gemma3nForConditionalGeneration, from"),
])  # fmt: skip
def test_the_command_ends_with_a_status(capsys, name, status, said):
    assert main(["support", name]) == status
    assert capsys.readouterr().out.startswith(said)
