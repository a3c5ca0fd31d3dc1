"""Settings of a profile of a set of prompts, which are checked before anything is loaded."""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from posym_core._checks import require_count, require_counts, require_positive
from posym_core.store import sha256
from posym_profile.language_models._loading import PACKAGED, identify_model, require_one_place
from posym_profile.prompts._prompt_tasks import find_prompt_task, make_prompts
from posym_profile.report._prompt_files import BlockedPrompt, read_fields, read_prompts, split_prompts
from posym_profile.scores._layer_measurement import LAST, Queries

DTYPES = ("float32", "float64", "bfloat16", "float16")


@dataclass(frozen=True, kw_only=True)
class ProfileSettings:
    """What to measure: the options of ``posym profile``, by their names, and as its help describes them.

    ``task`` is None with an ``input``. ``energy`` and ``cube`` are of the last token alone.
    """

    model: str = PACKAGED
    task: str | None = "binding"
    facts: int = 16
    prompts: int = 64
    seed: int = 0
    input: str | None = None
    tau: float = 1e-4
    per_frequency: bool = False
    visible_only: bool = False
    energy: bool = False
    cube: bool = False
    queries: Queries = LAST
    labels: bool = False
    batch_size: int | None = None
    device: str = "auto"
    dtype: str | None = None
    device_map: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", tuple(self.queries))
        of_last = [name for name in ("energy", "cube") if getattr(self, name)]
        if of_last and self.queries != LAST:
            raise ValueError(
                f"{' and '.join(of_last)} {'is' if len(of_last) == 1 else 'are'} measured at the last token alone; got "
                f"queries={self.queries!r}. Leave out one or the other"
            )
        if (self.task is None) == (self.input is None):
            raise ValueError(f"pass either a task or an input file; got task={self.task!r} and input={self.input!r}")
        if self.dtype is not None and self.dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(map(repr, DTYPES))}; got {self.dtype!r}")
        require_one_place(self.device, self.device_map)
        require_positive("tau", self.tau)
        if self.batch_size is not None:
            require_count("batch_size", self.batch_size, 1)
        if self.input is not None:
            if not Path(self.input).is_file():
                raise FileNotFoundError(
                    f"there is no prompt file at {self.input}; pass a .txt file of text with [[blocks]], one prompt a "
                    "line, a file of token ids, or a task"
                )
            read_fields(self.input)
        else:
            require_counts(facts=(self.facts, 2), prompts=(self.prompts, 1))
            find_prompt_task(str(self.task))

    def describe_settings(self) -> dict[str, Any]:
        """Describe all that the numbers depend on, as JSON."""
        left_out = ("facts", "prompts", "seed") if self.input is not None else ()
        described = {name: value for name, value in asdict(self).items() if name not in left_out}
        if self.input is not None:
            described |= {"input": Path(self.input).name, "input_sha256": sha256(Path(self.input))}
        if self.task is not None and ":" in self.task:
            described["task_sha256"] = sha256(Path(inspect.getfile(find_prompt_task(self.task))))
        return described | {"identity": identify_model(self.model)}

    def make_prompts(self, tokenizer: Any) -> list[BlockedPrompt]:
        """Make the prompts of the task, or read those of the input file."""
        if self.input is not None:
            return read_prompts(self.input, tokenizer)
        drawn = {"facts": self.facts, "count": self.prompts, "seed": self.seed}
        prompts = make_prompts(tokenizer, str(self.task), **drawn)
        ids = torch.cat([prompts.input_ids.flatten(), prompts.answer_ids.flatten()])
        if ids.min() < 0 or ids.max() >= len(tokenizer):
            raise ValueError(
                f"tokens of the task {self.task!r} must lie between 0 and {len(tokenizer) - 1} for this model; got "
                f"{int(ids.min())} to {int(ids.max())}; make them with the tokenizer that is given"
            )
        return split_prompts(prompts)
