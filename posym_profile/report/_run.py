"""Profiles of whole sets of prompts: measured in chunks, anywhere, and resumed after a kill."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from posym_core._arguments import check_places, find_folder_above
from posym_core.metrics import BlockLayout
from posym_core.store import (
    DamagedError,
    UnfinishedWork,
    choose_device,
    describe_work,
    read_part,
    record_provenance,
    require_keeping,
    run_grid,
    write_part,
)
from posym_profile.language_models._loading import load_tokenizer
from posym_profile.report._chunks import Chunk, belongs_to_model, choose_chunk_size, is_disk_full, measure_chunk
from posym_profile.report._folder import (
    CHUNKS,
    MANIFEST,
    ProfileError,
    ProfileRun,
    add_files,
    discard,
    find_extras,
    load_profile,
    lock_folder,
    require_same,
    write_profile,
)
from posym_profile.report._profile_settings import ProfileSettings
from posym_profile.report._prompt_files import BlockedPrompt
from posym_profile.report._tables import describe_lists
from posym_profile.scores._layer_measurement import resolve_queries
from posym_profile.scores._profiling import check_queries
from posym_profile.scores._visibility import describe_hidden_blocks, describe_long_prompts, format_count


@dataclass(frozen=True, kw_only=True)
class Extra:
    """Further files made out of a finished profile.

    Attributes:
        make: the files by name.
        check: refuses, before anything is measured, prompts of which they cannot be made.
        settings: what they are made with, as JSON; files that were made with other settings are made anew.
        says: what takes a while, for the user.
    """

    make: Callable[[ProfileRun], Mapping[str, bytes]]
    check: Callable[[Sequence[BlockedPrompt]], None] = lambda prompts: None
    settings: Mapping[str, Any] = field(default_factory=dict)
    says: str = ""


def run_profile(
    settings: ProfileSettings,
    folder: Path | str,
    *,
    jobs: int = 1,
    cluster: str | None = None,
    force: bool = False,
    progress: bool = True,
    extras: Mapping[str, Extra] = {},
    lists: bool = True,
    report: Callable[[str], None] = lambda line: None,
) -> ProfileRun:
    """Measure prompts and keep the profile in ``folder``; a run that was killed goes on where it stopped.

    Args:
        settings: what to measure.
        folder: made if missing.
        jobs: processes of this machine.
        cluster: address of a Dask scheduler, in place of ``jobs``; numbers are the same.
        force: discard what the folder holds of a profile.
        progress: show a progress bar on standard error.
        extras: further files out of the finished profile, by the name of the one that matters. A profile that is there
            already without it gets them.
        lists: report prompts that are lists of one frame, too; a survey does so once for all.
        report: called with a line about what a user may want to know.

    Raises:
        ProfileError: if the folder holds something else, and not ``force``.
        ImportError, OSError: if the profile could not be kept, see
            :func:`posym_core.store.require_keeping`; before anything is loaded.
        OSError: if the disk is full; what is finished is kept.
        KeyboardInterrupt: if the user ends the run; the message says how to go on.
    """
    folder = Path(folder)
    check_places(jobs, cluster)
    if cluster is None:
        choose_device(settings.device)
    require_keeping(find_folder_above(folder))
    described = settings.describe_settings()
    # Before the folder is touched, so that prompts that are refused leave it as it was.
    prompts: list[BlockedPrompt] = []
    if force or not (folder / MANIFEST).exists():
        prompts = settings.prompts_for(load_tokenizer(settings.model))
        settings = replace(settings, queries=read_queries(settings, prompts))
        for extra in extras.values():
            extra.check(prompts)
    folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder):
        if force:
            discard(folder)
        finished = _finished(folder, settings, described)
        if finished is not None:
            there = find_extras(folder)
            lacking = {name: extra for name, extra in extras.items() if there.get(name) != extra.settings}
            added = _made(lacking, finished, report)
            if added:
                add_files(folder, added, {name: extra.settings for name, extra in lacking.items()})
            what = f"{format_count(len(added), 'file')} added" if added else "pass --force to measure again"
            report(f"{folder} holds this profile already; {what}")
            return finished
        threads = _begin(folder, settings, described, jobs)
        chunks = _Chunks(folder / CHUNKS, prompts, settings, report)
        with _explained(chunks):
            measure = partial(measure_chunk, settings=settings, identity=described["identity"])
            chunks.measure(measure, progress, jobs=jobs, cluster=cluster, threads=threads)
            profile = _finish(folder, described, prompts, chunks, extras, threads, report)
        for line in list_caveats(profile, lists=lists):
            report(line)
        return profile


def read_queries(settings: ProfileSettings, prompts: Sequence[BlockedPrompt]) -> list[int]:
    """The queries as numbers, or an error: in every prompt each must stand behind two blocks."""
    layouts = {
        (prompt.start, prompt.block_length, len(prompt.input_ids)): BlockLayout(
            start=prompt.start, block_length=prompt.block_length
        )
        for prompt in prompts
    }
    lengths = [length for *_, length in layouts]
    first = max(swaps.start + 2 * swaps.block_length for swaps in layouts.values())
    asked = resolve_queries(settings.queries, lengths, first)
    for swaps, length in zip(layouts.values(), lengths, strict=True):
        check_queries(asked, [length], swaps)
    return asked


def list_caveats(profile: ProfileRun, *, lists: bool = True) -> list[str]:
    """What must be said of a finished profile.

    Blocks that layers do not see, prompts that are too long, and prompts that are lists of one frame.
    """
    arrays, said = profile.arrays, []
    if not profile.settings.get("visible_only"):
        visible = arrays["visible_blocks"].reshape(-1, arrays["visible_blocks"].shape[-1])
        blocks = np.repeat(arrays["blocks"], len(visible) // len(arrays["blocks"]))
        hidden = describe_hidden_blocks(visible.tolist(), blocks.tolist(), last="queries" not in profile.settings)
        said.append(hidden and f"{hidden}; pass --visible-only to score visible blocks alone, or shorter prompts")
    said.append(describe_long_prompts(arrays["tokens_beyond"].tolist()))
    said.append(lists and describe_lists(profile.prompts, cube=bool(profile.settings.get("cube"))))
    return [line for line in said if line]


class _Chunks:
    """The chunks of a run: which prompts they hold, and what is measured of them."""

    def __init__(
        self, folder: Path, prompts: Sequence[BlockedPrompt], settings: ProfileSettings, report: Callable[[str], None]
    ) -> None:
        self.folder, self.prompts, self.report, self.cube = folder, prompts, report, settings.cube
        self.queries = settings.queries
        self.members: list[list[int]] = []
        shapes: dict[tuple, list[int]] = {}
        for number, prompt in enumerate(prompts):
            shapes.setdefault(prompt.shape, []).append(number)
        for numbers in shapes.values():
            size = choose_chunk_size(prompts[numbers[0]], settings)
            self.members += [numbers[first : first + size] for first in range(0, len(numbers), size)]
        self.finished: dict[int, Chunk] = {}

    def path(self, chunk: int) -> Path:
        return self.folder / f"chunk-{chunk:05d}.safetensors"

    def measure(self, function: Callable[[Sequence[BlockedPrompt]], Chunk], progress: bool, **places: Any) -> None:
        """Measure what is not kept yet, and keep every chunk as it comes."""
        from tqdm import tqdm

        for chunk in range(len(self.members)):
            if self.path(chunk).exists():
                try:
                    arrays, about = read_part(self.path(chunk))
                    self.finished[chunk] = Chunk(arrays={name: x.numpy() for name, x in arrays.items()}, **about)
                except DamagedError as error:
                    self.report(f"{error}; it is measured again")
        if self.finished:
            self.report(f"going on: {len(self.finished)} of {len(self.members)} chunks are finished")
        todo = [chunk for chunk in range(len(self.members)) if chunk not in self.finished]
        items = [tuple(self.prompts[number] for number in self.members[chunk]) for chunk in todo]
        if self.cube and items:
            left = [prompt for item in items for prompt in item]
            passes = sum(prompt.blocks for prompt in left)
            self.report(
                f"--cube: about {passes:,} passes more, one for each block of {format_count(len(left), 'prompt')}"
            )
        done = sum(len(self.members[chunk]) for chunk in self.finished)
        with (
            tqdm(total=len(self.prompts), initial=done, unit="prompt", disable=not progress) as bar,
            contextlib.closing(run_grid(function, items, **places)) as results,
        ):
            for place, chunk in results:
                about = {"device": chunk.device, "seconds": chunk.seconds, "batch": chunk.batch}
                write_part(self.path(todo[place]), chunk.arrays, about)
                self.finished[todo[place]] = chunk
                bar.update(len(self.members[todo[place]]))

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything measured, in the order of the prompts; NaN for what a prompt has no value of."""
        order = np.argsort(np.concatenate([np.array(numbers) for numbers in self.members]))
        chunks = [self.finished[chunk] for chunk in range(len(self.members))]
        arrays = {}
        for name in sorted(set().union(*(chunk.arrays for chunk in chunks))):
            if not belongs_to_model(name):
                arrays[name] = np.concatenate([chunk.arrays[name] for chunk in chunks])[order]
            elif name != "plane_angle":
                arrays[name] = chunks[0].arrays[name]
        if len(self.queries) > 1:
            arrays["queries"] = np.array(self.queries)
        for name in ("start", "block_length", "blocks"):
            arrays[name] = np.array([getattr(prompt, name) for prompt in self.prompts])
        arrays["length"] = np.array([len(prompt.input_ids) for prompt in self.prompts])
        if "plane_angle" in chunks[0].arrays:
            lengths, arrays["shape"] = np.unique(arrays["length"], return_inverse=True)
            first = {len(self.prompts[numbers[0]].input_ids): chunk for numbers, chunk in
                     zip(reversed(self.members), reversed(chunks), strict=True)}  # fmt: skip
            arrays["plane_angle"] = np.stack([first[length].arrays["plane_angle"] for length in lengths.tolist()])
        return arrays


def _finished(folder: Path, settings: ProfileSettings, described: Mapping[str, Any]) -> ProfileRun | None:
    """The folder's profile if it is finished and is the one asked for."""
    if not (folder / MANIFEST).exists():
        return None
    profile = load_profile(folder)
    there, asked = dict(profile.settings), dict(described)
    if settings.threads is not None:
        there["threads"], asked["threads"] = profile.provenance["threads"], settings.threads
    require_same(folder, {"settings": there}, {"settings": asked})
    return profile


def _begin(folder: Path, settings: ProfileSettings, described: Mapping[str, Any], jobs: int) -> int:
    """Begin a run, or go on with the one that was begun if it is the same; returns its number of threads."""
    try:
        there = UnfinishedWork(folder / CHUNKS).read()
    except DamagedError as error:
        raise ProfileError(f"in {folder / CHUNKS} {error}; pass --force to begin anew") from error
    kept = None if there is None else there["settings"]["threads"]
    threads = settings.threads or kept or max(1, torch.get_num_threads() // jobs)
    asked = describe_work({**described, "threads": threads})
    if there is None:
        UnfinishedWork(folder / CHUNKS).resume(asked)
    else:
        require_same(folder, there, asked)
    return threads


def _finish(
    folder: Path,
    described: Mapping[str, Any],
    prompts: Sequence[BlockedPrompt],
    chunks: _Chunks,
    extras: Mapping[str, Extra],
    threads: int,
    report: Callable[[str], None],
) -> ProfileRun:
    """Write the files of a finished run, the description last."""
    arrays, measured = chunks.arrays(), chunks.finished.values()
    provenance = {
        **record_provenance(
            sum(chunk.seconds for chunk in measured),
            device=" and ".join(sorted({chunk.device for chunk in measured})),
        ),
        "threads": threads,
        "smallest_batch": min(chunk.batch for chunk in measured),
    }
    profile = ProfileRun(folder=folder, settings=described, provenance=provenance, arrays=arrays, prompts=prompts)
    write_profile(profile, _made(extras, profile, report), {name: extra.settings for name, extra in extras.items()})
    UnfinishedWork(folder / CHUNKS).remove("chunk-*")
    return profile


def _made(extras: Mapping[str, Extra], profile: ProfileRun, report: Callable[[str], None]) -> dict[str, bytes]:
    """The files of all of them; nothing is made while one refuses the prompts."""
    for extra in extras.values():
        extra.check(profile.prompts)
    files: dict[str, bytes] = {}
    for extra in extras.values():
        if extra.says:
            report(extra.says)
        files |= extra.make(profile)
    return files


@contextlib.contextmanager
def _explained(chunks: _Chunks) -> Iterator[None]:
    """Within the block, a full disk and the user's end of the run say what is kept and how to go on."""
    kept = lambda: f"{len(list(chunks.folder.glob('chunk-*')))} of {len(chunks.members)} chunks are kept"  # noqa: E731
    again = "run the same command again to go on"
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        raise OSError(f"the disk of {chunks.folder.parent} is full; {kept()}; make room and {again}") from error
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(f"interrupted; {kept()}; {again}") from error
