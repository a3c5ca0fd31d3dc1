"""Files of results and prompts, altered at random: what was written is read, or the error names the file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_inputs import cases

from posym_companion.results import find_attached_file, load_result, save_result
from posym_core.store._resuming import ResultError
from posym_core.store._sealing import DamagedError
from posym_profile.report._prompt_files import PromptFileError, read_prompts


class Words:
    """A tokenizer of whole words, which knows where they stand."""

    is_fast = True
    bos_token_id = 0

    def __len__(self) -> int:
        return 9

    def __call__(self, text: str, **_: object) -> dict[str, list]:
        ends = [place for place, letter in enumerate(text) if letter == " "] + [len(text)]
        starts = [0, *[end + 1 for end in ends[:-1]]]
        offsets = [(start, end) for start, end in zip(starts, ends, strict=True) if end > start]
        return {"input_ids": [1 + (end - start) % 8 for start, end in offsets], "offset_mapping": offsets}


@st.composite
def damages(draw, content: bytes) -> bytes:
    """Some bytes changed, left out, put in or cut off."""
    content = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(0, len(content) - 1)))
        match draw(st.sampled_from(["change", "flip", "leave out", "put in", "cut"])):
            case "change":
                content[place : place + 1] = draw(st.binary(min_size=1, max_size=1))
            case "flip":
                content[place : place + 1] = (
                    bytes([content[place] ^ (1 << draw(st.integers(0, 7)))]) if content else b""
                )
            case "leave out":
                del content[place : place + draw(st.integers(1, 9))]
            case "put in":
                content[place:place] = draw(st.binary(min_size=1, max_size=5))
            case "cut":
                del content[place:]
    return bytes(content)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a result with a file attached."""
    folder = tmp_path_factory.mktemp("kept")
    save_result(
        "trial/demo",
        {"scores": torch.arange(6.0).reshape(2, 3), "names": np.array(["a", "bc"])},
        dims={"scores": "layer head", "names": "head"},
        settings={"seed": 3, "tau": 1e-4, "tasks": ["index", "text"]},
        device="CPU",
        seconds=1.25,
        folder=folder,
        attached={".bin": bytes(range(64))},
    )
    return {path.name: path.read_bytes() for path in (folder / "trial").iterdir()}


def attempt(function: Callable[..., Any], *args: object, **options: object) -> Any:
    """What a function returns, or what it says when it refuses."""
    try:
        return function(*args, **options)
    except (ResultError, DamagedError, PromptFileError) as refusal:
        return str(refusal)


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)


@cases
@given(st.data(), st.sampled_from(["demo.json", "demo.npz", "demo.bin"]))
def test_results(tmp_path_factory, kept, data, name):
    folder = tmp_path_factory.getbasetemp()
    damaged = data.draw(damages(kept[name]))
    (folder / "trial").mkdir(exist_ok=True)
    write(folder / "trial", kept)
    whole = load_result("trial/demo", folder=folder)
    (folder / "trial" / name).write_bytes(damaged)
    found = attempt(load_result, "trial/demo", folder=folder)
    attached = found if isinstance(found, str) else attempt(find_attached_file, found, "demo.bin", folder=folder)
    if isinstance(attached, str):
        assert name in attached
        assert "restore it with git checkout" in attached
        return
    # White space in a description may be altered, and bytes may be put back.
    assert found.settings == whole.settings
    assert found.provenance == whole.provenance
    assert {key: x.tolist() for key, x in found.arrays.items()} == {key: x.tolist() for key, x in whole.arrays.items()}
    assert attached.read_bytes() == kept["demo.bin"]


PROMPT = {"input_ids": [1, 3, 4, 5, 3, 4, 6, 3], "start": 1, "block_length": 3, "blocks": 2, "id": 7}
MARKED = "[[Ann likes red.]] [[Bob likes blue.]] Bob likes <<blue|red>>"
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 60), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)


@cases
@given(st.data(), st.sampled_from(["text", "bytes", "values"]))
def test_prompts(tmp_path_factory, data, damage):
    path = tmp_path_factory.getbasetemp() / ("prompts.txt" if damage == "text" else "prompts.jsonl")
    if damage != "values":
        path.write_bytes(data.draw(damages((MARKED if damage == "text" else json.dumps(PROMPT)).encode())))
    else:
        names = st.sampled_from([*PROMPT, "answer_ids", "target", "other"])
        changed = PROMPT | data.draw(st.dictionaries(names, VALUES, max_size=2))
        path.write_text(json.dumps(changed) + "\n", encoding="utf-8")
    prompts = attempt(read_prompts, path, Words())
    if isinstance(prompts, str):
        assert prompts.startswith(str(path))
        return
    for found in prompts:
        assert bool(((found.input_ids >= 0) & (found.input_ids < 9)).all())
        assert found.start >= 0
        assert found.block_length >= 1
        assert found.blocks >= 2
        # The query is in no block.
        assert found.start + found.blocks * found.block_length < found.input_ids.shape[1]
