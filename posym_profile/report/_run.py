"""Profile whole sets of prompts: in chunks, anywhere, and resumed after a kill."""

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
    describe_difference,
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
    refuse_difference,
    take_model_name,
    write_profile,
)
from posym_profile.report._profile_settings import ProfileSettings
from posym_profile.report._prompt_files import BlockedPrompt, group_prompts
from posym_profile.report._tables import describe_lists
from posym_profile.scores._layer_measurement import resolve_queries
from posym_profile.scores._profiling import check_queries
from posym_profile.scores._visibility import POSITIONAL, describe_hidden_blocks, describe_long_prompts, format_count


@dataclass(frozen=True, kw_only=True)
class Extra:
    """Further files that are made from a finished profile.

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
        OSError: if nothing could be kept there, before anything is loaded; or if the disk is full: what is finished is
            kept.
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
        prompts = settings.make_prompts(load_tokenizer(settings.model))
        settings = replace(settings, queries=read_queries(settings, prompts))
        for extra in extras.values():
            extra.check(prompts)
    folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder):
        if force:
            discard(folder)
        finished = _load_finished(folder, settings, described)
        if finished is not None:
            present = find_extras(folder)
            lacking = {name: extra for name, extra in extras.items() if present.get(name) != extra.settings}
            added = _make_extras(lacking, finished, report)
            if added:
                add_files(folder, added, {name: extra.settings for name, extra in lacking.items()})
            what = f"{format_count(len(added), 'file')} added" if added else "pass --force to measure again"
            report(f"{folder} holds this profile already; {what}")
            return finished
        threads = _begin(folder, settings, described, jobs)
        chunks = _Chunks(folder / CHUNKS, prompts, settings, report)
        with _explain_ends(chunks):
            measure = partial(measure_chunk, settings=settings, identity=described["identity"])
            chunks.measure(measure, progress, jobs=jobs, cluster=cluster, threads=threads)
            profile = _finish(folder, described, prompts, chunks, extras, threads, report)
        for line in list_caveats(profile, lists=lists):
            report(line)
        return profile


def read_queries(settings: ProfileSettings, prompts: Sequence[BlockedPrompt]) -> list[int]:
    """Return the queries as numbers; in every prompt each must stand behind two blocks."""
    kinds = {(len(prompt.input_ids), prompt.start, prompt.block_length) for prompt in prompts}
    first = max(start + 2 * block_length for _, start, block_length in kinds)
    numbers = resolve_queries(settings.queries, [length for length, *_ in kinds], first)
    for length, start, block_length in kinds:
        check_queries(numbers, [length], BlockLayout(start=start, block_length=block_length))
    return numbers


def list_caveats(profile: ProfileRun, *, lists: bool = True) -> list[str]:
    """List what must be said of a finished profile: hidden blocks, prompts too long, and prompts that are lists."""
    arrays, lines = profile.arrays, []
    if not profile.settings.get("visible_only"):
        visible = arrays["visible_blocks"].reshape(-1, arrays["visible_blocks"].shape[-1])
        blocks = np.repeat(arrays["blocks"], len(visible) // len(arrays["blocks"]))
        consequence = f"{POSITIONAL}; pass --visible-only to score visible blocks alone, or shorter prompts"
        last = "queries" not in profile.settings
        lines.append(describe_hidden_blocks(visible.tolist(), blocks.tolist(), consequence, last=last))
    lines.append(describe_long_prompts(arrays["tokens_beyond"].tolist()))
    lines.append(lists and describe_lists(profile.prompts, cube=bool(profile.settings.get("cube"))))
    return [line for line in lines if line]


class _Chunks:
    """The chunks of a run: which prompts they hold, and what is measured of them."""

    def __init__(
        self, folder: Path, prompts: Sequence[BlockedPrompt], settings: ProfileSettings, report: Callable[[str], None]
    ) -> None:
        self.folder, self.prompts, self.report, self.cube = folder, prompts, report, settings.cube
        self.queries = settings.queries
        self.members: list[list[int]] = []
        for numbers in group_prompts(prompts, range(len(prompts))).values():
            size = choose_chunk_size(prompts[numbers[0]], settings)
            self.members += [numbers[first : first + size] for first in range(0, len(numbers), size)]
        self.finished: dict[int, Chunk] = {}

    def path(self, chunk: int) -> Path:
        return self.folder / f"chunk-{chunk:05d}.safetensors"

    def describe_stored(self) -> str:
        return f"{len(list(self.folder.glob('chunk-*')))} of {len(self.members)} chunks are kept"

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
        """Return everything measured, in the order of the prompts; NaN for what a prompt has no value of."""
        order = np.argsort(np.concatenate([np.array(numbers) for numbers in self.members]))
        chunks = [self.finished[chunk].arrays for chunk in range(len(self.members))]
        of_model = {name: x for chunk in reversed(chunks) for name, x in chunk.items() if belongs_to_model(name)}
        arrays = {name: np.concatenate([chunk[name] for chunk in chunks])[order] for name in chunks[0]
                  if name not in of_model}  # fmt: skip
        if len(self.queries) > 1:
            arrays["queries"] = np.array(self.queries)
        for name in ("start", "block_length", "blocks"):
            arrays[name] = np.array([getattr(prompt, name) for prompt in self.prompts])
        arrays["length"] = np.array([len(prompt.input_ids) for prompt in self.prompts])
        lengths, shape = np.unique(arrays["length"], return_inverse=True)
        angles = [of_model.pop(f"plane_angle/{length}") for length in lengths if f"plane_angle/{length}" in of_model]
        if angles:
            arrays |= {"plane_angle": np.stack(angles), "shape": shape}
        return dict(sorted((arrays | of_model).items()))


def _load_finished(folder: Path, settings: ProfileSettings, described: Mapping[str, Any]) -> ProfileRun | None:
    """Return the folder's profile if it is finished; refuse another than the one that is asked for."""
    if not (folder / MANIFEST).exists():
        return None
    profile = load_profile(folder)
    stored, wanted = dict(profile.settings), take_model_name(described, profile.settings)
    if settings.threads is not None:
        stored["threads"], wanted["threads"] = profile.provenance["threads"], settings.threads
    refuse_difference(folder, describe_difference({"settings": stored}, {"settings": wanted}))
    return profile


def _begin(folder: Path, settings: ProfileSettings, described: Mapping[str, Any], jobs: int) -> int:
    """Begin a run, or go on with the one that was begun if it is the same; return its number of threads."""
    work = UnfinishedWork(folder / CHUNKS)
    try:
        begun = work.read()
    except DamagedError as error:
        raise ProfileError(f"in {folder / CHUNKS} {error}; pass --force to begin anew") from error
    stored = {} if begun is None else begun["settings"]
    threads = settings.threads or stored.get("threads") or max(1, torch.get_num_threads() // jobs)
    refuse_difference(folder, work.resume(describe_work({**take_model_name(described, stored), "threads": threads})))
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
    made_with = {name: extra.settings for name, extra in extras.items()}
    write_profile(profile, _make_extras(extras, profile, report), made_with)
    UnfinishedWork(folder / CHUNKS).remove("chunk-*")
    return profile


def _make_extras(extras: Mapping[str, Extra], profile: ProfileRun, report: Callable[[str], None]) -> dict[str, bytes]:
    """Make the files of all of them, unless one refuses the prompts."""
    for extra in extras.values():
        extra.check(profile.prompts)
    files: dict[str, bytes] = {}
    for extra in extras.values():
        if extra.says:
            report(extra.says)
        files |= extra.make(profile)
    return files


@contextlib.contextmanager
def _explain_ends(chunks: _Chunks) -> Iterator[None]:
    """Let a full disk and the user's end of the run within the block say what is kept and how to go on."""
    again = "run the same command again to go on"
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        where = chunks.folder.parent
        raise OSError(f"the disk of {where} is full; {chunks.describe_stored()}; make room and {again}") from error
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(f"interrupted; {chunks.describe_stored()}; {again}") from error
