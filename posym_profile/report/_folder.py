"""Keep profiles of whole sets of prompts in folders, and check them when they are read.

A folder holds ``profile.json`` (settings, where the numbers come from, SHA-256 of every file; written last,
so that a profile exists only when it is whole), ``scores.safetensors`` (all arrays), ``heads.csv`` (a row a head),
``prompts.jsonl`` (the prompts, as a prompt file) and what else was asked for, such as figures. The folder is written
beside its place, under another name, and then renamed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posym_core.store import (
    DamagedError,
    ResultError,
    record,
    require_whole,
    seal,
    unseal,
    write_files,
)
from posym_profile.report._prompt_files import BlockedPrompt, write_prompts
from posym_profile.report._tables import write_heads_table
from posym_profile.scores._layer_measurement import LAST
from posym_profile.scores._profiling import Profile, read_profile_arrays

FORMAT = 1
MANIFEST, SCORES, HEADS, PROMPTS_FILE = "profile.json", "scores.safetensors", "heads.csv", "prompts.jsonl"
# What every profile has.
FILES = {SCORES, HEADS, PROMPTS_FILE}


class ProfileError(ResultError):
    """A folder's profile is missing or altered, or its place is taken."""


@dataclass(frozen=True, kw_only=True)
class ProfileRun:
    """A finished profile.

    Attributes:
        folder: where it is.
        settings: what was asked for.
        provenance: ``code_version``, ``code_digest``, ``device``, ``date``, ``seconds``, ``versions`` and ``threads``.
        arrays: ``positional``, ``symbolic``, ``entropy`` ``[prompt, layer, head]``; ``visible_blocks`` ``[prompt,
            layer]``; with several queries these have a dimension behind the prompts', and ``queries`` says which they
            are; ``window`` ``[layer]``, NaN for none; labels ``label_...`` ``[layer, head]``; ``length``, ``start``,
            ``block_length``, ``blocks``, ``tokens_beyond`` ``[prompt]``; ``correct``, ``log_probability``,
            ``alternatives`` ``[prompt]`` for tasks; ``plane_...`` ``[prompt, layer, head, plane]`` and ``plane_angle``
            ``[shape, layer, plane]`` with ``shape`` ``[prompt]`` per frequency or with energies; with a cube
            ``cube_...``, the shares of :class:`posym_profile.KeyAnova`, and ``symbolic_part_symbol`` and
            ``symbolic_part_origin``, of its ``symbolic_shares``, ``[prompt, layer, head]``.
        prompts: the prompts, in the order of the arrays.
    """

    folder: Path
    settings: Mapping[str, Any]
    provenance: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    prompts: Sequence[BlockedPrompt]

    @property
    def scores(self) -> Profile:
        """Return scores, visible blocks, windows and labels as :func:`posym_profile.profile` does."""
        numbers = self.arrays.get("queries", self.settings.get("queries", LAST))
        return read_profile_arrays(self.arrays, [int(query) for query in numbers])


def require_place(folder: Path, *, force: bool = False) -> None:
    """Raise if a profile cannot be written to ``folder``: it must be new or empty, or with ``force`` hold a profile.

    Raises:
        ProfileError: if it holds something else.
        NotADirectoryError: if it, or what it is to lie in, is a file.
    """
    above = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not above.is_dir():
        raise NotADirectoryError(f"{above} is no folder, so none can be made there; pass another --out")
    held = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if not held:
        return
    if MANIFEST not in held:
        raise ProfileError(f"{folder} holds other files, such as {min(held)}; pass a new folder as --out")
    if not force:
        raise ProfileError(f"{folder} holds a profile; pass another --out, or --force to put this one in its place")
    others = held - {MANIFEST, *read_manifest(folder)["files"]}
    if others:
        raise ProfileError(f"{folder} holds {min(others)} beside a profile, which --force would discard; move it away")


def write_profile(profile: ProfileRun, pages: Mapping[str, bytes]) -> None:
    """Write a profile with its pages to its folder: beside its place, and then in one step there."""
    from safetensors.numpy import save

    contents: dict[str, bytes] = {
        SCORES: save({name: np.ascontiguousarray(x) for name, x in profile.arrays.items()}),
        HEADS: write_heads_table(profile.arrays),
        PROMPTS_FILE: write_prompts(profile.prompts),
        **pages,
    }
    described = {
        "format": FORMAT,
        "settings": profile.settings,
        "arrays": {name: {"shape": list(x.shape), "dtype": str(x.dtype)} for name, x in profile.arrays.items()},
        "provenance": profile.provenance,
        "files": {name: record(content) for name, content in contents.items()},
    }
    place = profile.folder.absolute()
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        write_files(beside, {**contents, MANIFEST: seal(described)})
        require_place(place, force=True)
        if place.exists():
            shutil.rmtree(place)
        beside.rename(place)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the description of a finished profile, which names its files and nothing outside its folder."""
    described = unseal(folder / MANIFEST, format=FORMAT)
    if missing := sorted(FILES - set(described["files"])):
        raise DamagedError(f"{MANIFEST} names no {missing[0]}, which every profile has")
    if wrong := [name for name in described["files"] if Path(name).name != name or "\\" in name or name == ".."]:
        raise DamagedError(f"{MANIFEST} names {wrong[0]!r}, which is no file of this folder")
    return described


def load_profile(folder: Path | str) -> ProfileRun:
    """Read a finished profile and check every file against its checksum.

    Raises:
        ProfileError: if it is missing, altered or truncated.
    """
    from safetensors.numpy import load_file

    folder = Path(folder)
    if not (folder / MANIFEST).is_file():
        raise ProfileError(f"{folder} holds no profile ({MANIFEST} is missing); make one with `profile --out {folder}`")
    try:
        described = read_manifest(folder)
        require_whole(folder, described["files"])
    except DamagedError as error:
        raise ProfileError(f"in {folder} {error}; measure again with --force, or restore the file") from error
    return ProfileRun(
        folder=folder,
        settings=described["settings"],
        provenance=described["provenance"],
        arrays=load_file(folder / SCORES),
        prompts=[
            BlockedPrompt.from_line(line) for line in (folder / PROMPTS_FILE).read_text(encoding="utf-8").splitlines()
        ],
    )
