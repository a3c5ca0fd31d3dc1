"""Sharing a profile: its folder goes to the Hugging Face hub as a dataset, with a card that says what it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from posym_core.store import ResultError
from posym_profile.report._folder import HEADS, MANIFEST, PROMPTS_TABLE, ProfileRun, load_profile, read_manifest
from posym_profile.report._hub import Repository, log_in, publish, require_name
from posym_profile.scores._visibility import format_count

CARD = "README.md"
TAGS = ("posym", "attention-heads", "rope", "interpretability")


def share_profile(
    folder: Path | str, to: str, *, private: bool = False, report: Callable[[str], None] = lambda line: None
) -> Repository:
    """Put a finished profile on the Hugging Face hub, where ``load_profile("hf://owner/name")`` reads it.

    What is sent are the files that ``profile.json`` names, checked against their checksums, and a card; by one commit.

    Args:
        folder: of a profile.
        to: ``owner/name`` of a dataset, which must be new or empty.
        private: let its owner alone see it.
        report: called with a line about what is sent, before it is.

    Returns:
        The repository, at the commit that holds the profile.

    Raises:
        ValueError: if ``to`` is no such name.
        posym_profile.report._folder.ProfileError: if the folder holds no whole profile.
        ImportError: if the hub's library is missing.
        OSError: without a login that may write there, if the dataset has content, or if the hub is not reached.
    """
    require_name(to, "a dataset on the hub is named owner/name, with your login or organisation as the owner")
    folder = Path(folder)
    profile = load_profile(folder)
    files = {name: folder / name for name in (*read_manifest(folder)["files"], MANIFEST)}
    if CARD in files:
        raise ResultError(f"{folder} has a {CARD} of its own, where the card goes; rename it and measure again")
    api = log_in(to)
    size = sum(path.stat().st_size for path in files.values())
    model = profile.settings["model"]
    told = f"; {MANIFEST} names the folder {model}" if _name(model) != model else ""
    report(f"sending {format_count(len(files), 'file')}, {size / 1e6:.1f} MB, the prompts among them{told}")
    says = f"Profile of {_name(model)}"
    return publish(api, to, {**files, CARD: write_card(profile, to).encode()}, private=private, says=says)


def write_card(profile: ProfileRun, to: str) -> str:
    """The text of a profile's card: front matter for the hub, what was measured, and how it is read.

    Args:
        profile: what is shared.
        to: ``owner/name``, where it is going to be.
    """
    from huggingface_hub import DatasetCardData

    model, task = _name(profile.settings["model"]), profile.settings.get("task")
    prompts, layers, heads = (
        format_count(number, thing)
        for number, thing in zip(profile.arrays["positional"].shape, ("prompt", "layer", "head"), strict=True)
    )
    title = f"Attention heads of {model}" + (f" on {task}" if task else "")
    tables = [
        {"config_name": name, "data_files": file, **({"default": True} if file == HEADS else {})}
        for name, file in (("heads", HEADS), ("prompts", PROMPTS_TABLE))
    ]
    front = DatasetCardData(pretty_name=title, tags=list(TAGS), configs=tables).to_yaml()
    made = profile.provenance
    settings = {name: value for name, value in profile.settings.items() if value not in (None, False)}
    rows = "\n".join(f"| {name} | {value} |" for name, value in (settings | {"model": model}).items())
    return f"""---
{front}
---

# {title}

How positional and how symbolic every attention head of `{model}` is ({layers} of {heads}), on {prompts}\
{f" of the task {task}" if task else ""}. Measured on {made["date"]} by posym-core ({made["device"]}).

```python
from posym_profile.report import load_profile

profile = load_profile("hf://{to}")  # every file is checked against its SHA-256
profile.arrays["positional"].mean(0)  # [layer, head]
```

`heads.csv` has a row a head, `prompts.csv` a row a prompt, `scores.safetensors` all arrays, `prompts.jsonl` the
prompts; `profile.json` says what the numbers come from, with the checksum of every file.

| setting | value |
| --- | --- |
{rows}
"""


def _name(model: str) -> str:
    """The name of a model, without the folders of somebody's machine that it lies in."""
    return Path(model).name if Path(model).exists() or model.startswith(("/", ".", "~")) else model
