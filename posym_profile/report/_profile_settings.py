"""Settings of a profile of a set of prompts, which are checked before anything is loaded."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from posym_core._arguments import CHECKED, check_profile
from posym_core._extensions import locate
from posym_core.store import sha256
from posym_profile.language_models._loading import PACKAGED, identify_model, load_config
from posym_profile.prompts._prompt_tasks import PROMPT_TASKS, make_prompts
from posym_profile.report._prompt_files import BlockedPrompt, read_fields, read_prompts, split_prompts
from posym_profile.scores._layer_measurement import LAST, Queries, resolve_queries
from posym_profile.scores._visibility import find_position_limit


@dataclass(frozen=True, kw_only=True)
class ProfileSettings:
    """What to measure: the options of ``posym profile``, by their names, and as its help describes them.

    ``task`` is None with an ``input``. ``energy`` and ``cube`` are of the last token alone. A run that goes on keeps
    its number of ``threads``.
    """

    model: str = PACKAGED
    task: str | None = "binding"
    facts: int = 16
    prompts: int = 64
    seed: int = 0
    input: str | None = None
    tau: float = 1e-4
    eps: float = 1e-8
    per_frequency: bool = False
    visible_only: bool = False
    energy: bool = False
    cube: bool = False
    queries: Queries = LAST
    labels: bool = False
    batch_size: int | None = None
    threads: int | None = None
    device: str = "auto"
    dtype: str | None = None
    device_map: str | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.generic | torch.Tensor):
                object.__setattr__(self, field.name, value.item())  # JSON holds Python's numbers only
        if self.queries != "all":
            # Whether prompts have such tokens is known when they are made.
            object.__setattr__(self, "queries", tuple(resolve_queries(self.queries, [sys.maxsize])))
        of_last = [name for name in ("energy", "cube") if getattr(self, name)]
        if of_last and self.queries != LAST:
            raise ValueError(
                f"{' and '.join(of_last)} {'is' if len(of_last) == 1 else 'are'} measured at the last token alone; got "
                f"queries={self.queries!r}. Leave out one or the other"
            )
        check_profile(**{name: getattr(self, name) for name in CHECKED})
        if self.task is not None:
            PROMPT_TASKS.find(self.task)
        else:
            read_fields(str(self.input))

    def describe_settings(self) -> dict[str, Any]:
        """Describe all that the numbers depend on, as JSON, but for the number of threads."""
        queries, later = self.queries, ("energy", "visible_only", "cube", "labels")
        left_out = {"threads", "queries", *(("facts", "prompts", "seed") if self.input is not None else ())}
        left_out |= {name for name in later if not getattr(self, name)}  # as before they could be asked for
        fields = {name: value for name, value in asdict(self).items() if name not in left_out}
        if queries != LAST:
            fields["queries"] = queries if queries == "all" else list(queries)
        if self.input is not None:
            fields |= {"input": Path(self.input).name, "input_sha256": sha256(Path(self.input))}
        if self.task is not None and (file := self._find_task_file()) is not None:
            fields["task_sha256"] = sha256(file)
        return fields | {"identity": identify_model(self.model)}

    def _find_task_file(self) -> Path | None:
        """Find the file that makes the prompts of another package's task; our own is in the digest of our code."""
        module = locate(PROMPT_TASKS.find(str(self.task))).partition(":")[0]
        file = getattr(sys.modules[module], "__file__", None)
        return None if file is None or module.startswith("posym_") else Path(file)

    def make_prompts(self, tokenizer: Any) -> list[BlockedPrompt]:
        """Make the prompts of the task, or read those of the input file."""
        if self.input is not None:
            positions = find_position_limit(load_config(self.model))
            return read_prompts(self.input, tokenizer, positions=positions)
        drawn = {"facts": self.facts, "count": self.prompts, "seed": self.seed}
        prompts = make_prompts(tokenizer, str(self.task), **drawn)
        ids = torch.cat([prompts.input_ids.flatten(), prompts.answer_ids.flatten()])
        if ids.min() < 0 or ids.max() >= len(tokenizer):
            raise ValueError(
                f"tokens of the task {self.task!r} must lie between 0 and {len(tokenizer) - 1} for this model; got "
                f"{int(ids.min())} to {int(ids.max())}; make them with the tokenizer that is given"
            )
        return split_prompts(prompts)
