"""Keep profiles of whole sets of prompts in folders, and check them when they are read.

A finished folder holds ``profile.json`` (settings, where the numbers come from, SHA-256 of every file; written last,
so that a profile exists only when it is whole), ``scores.safetensors`` (all arrays), ``heads.csv`` and ``prompts.csv``
(tables), ``prompts.jsonl`` (the prompts, as a prompt file) and what else was asked for, such as figures. While a run
is under way there is ``chunks/`` instead, unfinished work as ``keeping`` keeps it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posym_core.store import (
    DamagedError,
    ResultError,
    UnfinishedWork,
    record,
    require_whole,
    seal,
    unseal,
    write_files,
)
from posym_profile.report._prompt_files import BlockedPrompt, write_prompts
from posym_profile.report._tables import find_share_medians, write_heads_table, write_prompts_table
from posym_profile.scores._head_tables import count_hidden_blocks
from posym_profile.scores._layer_measurement import LAST
from posym_profile.scores._profiling import Profile, Score, average_columns, make_table, read_profile_arrays

FORMAT = 1
MANIFEST, CHUNKS, SCORES = "profile.json", "chunks", "scores.safetensors"
HEADS, PROMPTS_TABLE, PROMPTS_FILE = "heads.csv", "prompts.csv", "prompts.jsonl"
# What every profile has.
FILES = {SCORES, HEADS, PROMPTS_TABLE, PROMPTS_FILE}


class ProfileError(ResultError):
    """A folder's profile is missing, unfinished, altered or another than the one asked for."""


@dataclass(frozen=True, kw_only=True)
class ProfileRun:
    """A finished profile.

    Attributes:
        folder: where it is.
        settings: what was asked for.
        provenance: ``code_version``, ``code_digest``, ``device``, ``date``, ``seconds``, ``versions``, ``threads`` and
            ``smallest_batch``.
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
        queries = self.settings.get("queries", LAST)
        # All that there are may be one.
        numbers = self.arrays.get("queries", LAST if queries == "all" else queries)
        return read_profile_arrays(self.arrays, [int(query) for query in numbers])

    def top(self, k: int, score: Score) -> list[tuple[int, int]]:
        """Return the ``k`` heads of the highest score, see :meth:`posym_profile.scores.Profile.top`."""
        return self.scores.top(k, score)

    def at(self, query: int) -> Profile:
        """Return the scores of one query, see :meth:`posym_profile.scores.Profile.at`."""
        return self.scores.at(query)

    def frame(self, *, intervals: bool = False) -> Any:
        """Make the table of :meth:`posym_profile.scores.Profile.frame`; with ``intervals`` that of ``heads.csv``."""
        return make_table(average_columns(self.arrays)) if intervals else self.scores.frame()


def write_profile(profile: ProfileRun, extras: Mapping[str, bytes], made_with: Mapping[str, Mapping[str, Any]]) -> None:
    """Write a finished profile with further files, each whole or not at all and the description last.

    ``made_with`` says of those that matter what they were made with.
    """
    from safetensors.numpy import save

    contents: dict[str, bytes] = {
        SCORES: save({name: np.ascontiguousarray(x) for name, x in profile.arrays.items()}),
        HEADS: write_heads_table(profile.arrays),
        PROMPTS_TABLE: write_prompts_table(profile.arrays, [prompt.id for prompt in profile.prompts]),
        PROMPTS_FILE: write_prompts(profile.prompts),
        **extras,
    }
    described = {
        "format": FORMAT,
        "settings": profile.settings,
        "marks": collect_marks(profile.arrays),
        "arrays": {name: {"shape": list(x.shape), "dtype": str(x.dtype)} for name, x in profile.arrays.items()},
        "provenance": profile.provenance,
        "extras": made_with,
        "files": {name: record(content) for name, content in contents.items()},
    }
    write_files(profile.folder, {**contents, MANIFEST: seal(described)})


def find_extras(folder: Path) -> dict[str, Any]:
    """Find the files of a finished profile beside those of every one, and what they were made with."""
    described = read_manifest(folder)
    # Profiles from before that was kept had a report that is made with nothing.
    return {name: {} for name in described["files"]} | described.get("extras", {})


def add_files(folder: Path, extras: Mapping[str, bytes], made_with: Mapping[str, Mapping[str, Any]]) -> None:
    """Add files to a finished profile; what it measured stays as it is, and so does where that comes from."""
    described = read_manifest(folder)
    described["extras"] = {**described.get("extras", {}), **made_with}
    described["files"] |= {name: record(content) for name, content in extras.items()}
    write_files(folder, {**extras, MANIFEST: seal(described)})


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the description of a finished profile, which names its files and nothing outside its folder."""
    described = unseal(folder / MANIFEST, format=FORMAT)
    if missing := sorted(FILES - set(described["files"])):
        raise DamagedError(f"{MANIFEST} names no {missing[0]}, which every profile has")
    if wrong := [name for name in described["files"] if Path(name).name != name or "\\" in name]:
        raise DamagedError(f"{MANIFEST} names {wrong[0]!r}, which is no file of this folder")
    return described


def load_profile(folder: Path | str) -> ProfileRun:
    """Read a finished profile and check every file against its checksum.

    Raises:
        ProfileError: if it is missing, unfinished, altered or truncated.
    """
    from safetensors.numpy import load_file

    folder = Path(folder)
    if not (folder / MANIFEST).is_file():
        if UnfinishedWork(folder / CHUNKS).read() is not None:
            raise ProfileError(f"{folder} holds an unfinished profile; run the same command again to finish it")
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


def collect_marks(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Collect what readers of a profile must know beside its scores.

    Returns:
        ``hidden_blocks``, by layer, how many blocks of a prompt its last token does not see whole at most, for layers
        where there are such; ``tokens_beyond``, by how much the longest prompt exceeds the model's
        ``max_position_embeddings``; with a cube ``cube``, medians over heads of the columns of shares in ``heads.csv``,
        of all layers and by thirds of them.
    """
    hidden = {str(layer): int(number) for layer, number in enumerate(count_hidden_blocks(arrays)) if number > 0}
    marks = {"hidden_blocks": hidden, "tokens_beyond": int(arrays.get("tokens_beyond", np.zeros(1)).max())}
    medians = find_share_medians(arrays)
    return marks | ({"cube": medians} if medians else {})


def discard(folder: Path) -> None:
    """Remove a profile's files, the description first, so that no half of it passes for a whole."""
    names: list[str] = []
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        names = [name for name in json.loads((folder / MANIFEST).read_text())["files"] if Path(name).name == name]
    for name in (MANIFEST, SCORES, HEADS, PROMPTS_TABLE, PROMPTS_FILE, *names):
        (folder / name).unlink(missing_ok=True)
    UnfinishedWork(folder / CHUNKS).remove("chunk-*")


def take_model_name(settings: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Call the model as in the settings that are stored, where both have its checksum: its path tells nothing."""
    same = settings["identity"] == stored.get("identity") and "sha256" in settings["identity"]
    return {**settings, "model": stored["model"]} if same else dict(settings)


def refuse_difference(folder: Path, difference: str) -> None:
    """Refuse a folder's profile of other settings, code or libraries, which ``difference`` names if there are any."""
    if difference:
        raise ProfileError(
            f"{folder} holds a profile of other {difference}; pass another --out, or --force to discard it"
        )


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep other processes from writing a profile to ``folder`` within the block, where the system has such locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise ProfileError(f"another process is writing a profile to {folder}; wait, or pass another --out") from None
    try:
        yield
    finally:
        os.close(handle)
