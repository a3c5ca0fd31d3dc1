"""Command line: profile a language model; packages that build on this one add commands of their own."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from importlib.metadata import entry_points

import posym_core

PROFILE_HELP = """
Scores of every attention head on the prompts of a task or a file, kept in a folder: scores.nc (which
xarray.open_dataset reads), heads.csv, figures and report.html. The folder appears whole. Several models have a folder
each, and one table beside these; those that are finished are skipped when the command is given again.
"""

SUPPORT_HELP = """
Whether a model is profiled exactly or refused, and why, from its configuration alone: no weights are fetched. A class
or kind of transformers (LlamaForCausalLM, llama) asks no network. The exit status is 0 if the model is supported, 3 if
it is refused, and 1 if there is no answer: there is no such model, the hub is not reached, or the kind was not tried.
"""

# Said again here: the help imports nothing of what holds them, which takes seconds.
PACKAGED = "gemma-3-270m, smollm2-135m, gemma-3-270m-binds, smollm2-135m-binds (packaged; -binds: taught to bind)"
TASKS = (
    *("binding", "binding-likes", "binding-bought", "binding-lives", "binding-with-lead", "binding-varied"),
    *("index", "keyvalue", "induction", "text"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status: 0 or the command's own, 1 for what went wrong, 130 if interrupted."""
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what a terminal's encoding lacks
    try:
        status = options.command(options) or 0
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever reads has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (RuntimeError, ValueError, OSError, ImportError) as error:
        if not str(error):
            raise
        reason = getattr(error, "strerror", None)
        print(f"error: {getattr(error, 'filename', '')}: {reason}" if reason else f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        print(error if str(error) else "interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="posym", description=__doc__)
    parser.add_argument("--version", action="version", version=f"posym-core {posym_core.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    profile = commands.add_parser("profile", help="scores of every head of a language model", description=PROFILE_HELP)
    named = f"{PACKAGED}, a folder, or a name on the Hugging Face hub"
    profile.add_argument("models", nargs="+", metavar="MODEL", help=named)
    source = profile.add_mutually_exclusive_group(required=True)
    source.add_argument("--task", help=f"{', '.join(TASKS)}, or module:function for one of your own")
    source.add_argument("--input", metavar="FILE", help=".txt with [[blocks]], or token ids; see the guide")
    profile.add_argument("--out", required=True, metavar="DIR", help="folder for the profile, new or empty")
    profile.add_argument("--facts", type=int, help="blocks per prompt of a task (default: 16)")
    profile.add_argument("--prompts", type=int, help="prompts of a task (default: 64)")
    profile.add_argument("--seed", type=int, help="seed of a task's prompts (default: 0)")
    profile.add_argument("--batch-size", type=int, help="prompts at a time (default: 4,096 tokens, at most 16)")
    profile.add_argument("--jobs", type=int, default=1, metavar="N", help="processes that measure batches (default: 1)")
    profile.add_argument("--cluster", metavar="ADDRESS", help="measure batches on the workers of a Dask scheduler")
    profile.add_argument("--device", default="auto", help="auto (default), cpu, cuda")
    dtypes = ("float32", "float64", "bfloat16", "float16")
    profile.add_argument("--dtype", choices=dtypes, help="of weights and passes (default: the checkpoint's)")
    profile.add_argument("--device-map", help="auto spreads a large model over all GPUs and main memory")
    cube = "also tell a block's symbol, origin and place apart; as many passes more a prompt as it has blocks"
    profile.add_argument("--cube", action="store_true", help=cube)
    profile.add_argument("--tau", type=float, default=1e-4, help="temperature of pairs of blocks (default: 1e-4)")
    profile.add_argument("--per-frequency", action="store_true", help="also score every rotation plane")
    seen = "score only the blocks that a layer's last token sees whole, as through a sliding window"
    profile.add_argument("--visible-only", action="store_true", help=seen)
    known = "also tell attention to the previous and the first token, induction and copying of every head"
    profile.add_argument("--labels", action="store_true", help=known)
    profile.add_argument("--explorer", action="store_true", help="also write explorer.html, to look into every head")
    profile.add_argument("--no-report", action="store_true", help="write no figures and no report.html")
    profile.add_argument("--force", action="store_true", help="put the profile in the place of one that is there")
    profile.add_argument("--no-progress", action="store_true", help="no progress bar")
    profile.set_defaults(command=_profile)

    support = commands.add_parser("support", help="whether a model can be profiled", description=SUPPORT_HELP)
    support.add_argument("model", help=f"{PACKAGED}, a folder, a name on the Hugging Face hub, or a class or kind")
    support.set_defaults(command=_support)

    for entry in entry_points(group="posym_profile.commands"):  # of packages that build on this one
        entry.load()(commands)
    return parser


def _profile(options: argparse.Namespace) -> None:
    from posym_profile.report._page import NAME, describe_answers
    from posym_profile.report._run import ProfileSettings, run_profiles
    from posym_profile.scores._visibility import format_count

    known = {field.name for field in fields(ProfileSettings)}
    given = {name: value for name, value in vars(options).items() if name in known and value is not None}
    if options.input is not None and (drawn := [f"--{name}" for name in ("facts", "prompts", "seed") if name in given]):
        raise ValueError(f"a task's prompts are drawn, those of --input are given; leave out {' and '.join(drawn)}")
    found = run_profiles(
        options.models,
        ProfileSettings(**given),
        options.out,
        figures=not options.no_report,
        explorer=options.explorer,
        force=options.force,
        progress=not options.no_progress,
        report=lambda line: print(line, file=sys.stderr),
        jobs=options.jobs,
        cluster=options.cluster,
    )
    for folder, scores in found.items():
        parts = [format_count(scores.sizes[name], name) for name in ("prompt", "layer", "head")]
        parts.append(f"{json.loads(scores.attrs['provenance'])['seconds']:.0f} s")
        parts += filter(None, [describe_answers(scores)])
        print(f"{', '.join(parts)}: {folder / NAME if (folder / NAME).exists() else folder}")


def _support(options: argparse.Namespace) -> int:
    from posym_profile.scores._supported import find_support

    verdict, answer = find_support(options.model)
    print(answer)
    return {"refused": 3, "not tried": 1}.get(verdict, 0)


if __name__ == "__main__":
    sys.exit(main())
