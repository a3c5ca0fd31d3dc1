"""The section *From scores to causes* in other tools: its text, run on a small model, gives the logits of ours."""

import json
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from architectures import tokens
from saved_models import save_model

from posym_profile import load_model
from posym_profile.interventions import ablate_heads, patch_heads, record_head_outputs

PAGE = Path(__file__).resolve().parents[3] / "book" / "package" / "your_model.ipynb"
HEADS = [(2, 0), (1, 2), (1, 3)]


def shown(tool: str) -> str:
    """The code that the page shows for a tool."""
    text = "\n".join("".join(cell["source"]) for cell in json.loads(PAGE.read_text("utf-8"))["cells"])
    (code,) = re.findall(rf"admonition}} {tool}.*?```python\n(.*?)```", text, re.DOTALL)
    return code


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("tool", "package", "lines"), [("TransformerLens", "transformer_lens", 17), ("nnsight", "nnsight", 15)]
)
def test_other_tools_say_the_same_in_the_lines_that_the_page_shows(tool, package, lines, tmp_path):
    pytest.importorskip(package)
    folder = save_model(tmp_path / "model", "Gemma3")
    model, _ = load_model(str(folder), device="cpu")
    ids, others = tokens(2), tokens(4)[2:]
    with torch.no_grad():
        with ablate_heads(model, HEADS):
            removed = model(ids).logits[:, -1]
        with patch_heads(model, HEADS, record_head_outputs(model, others).outputs):
            moved = model(ids).logits[:, -1]
    code = shown(tool)
    assert len([line for line in code.splitlines() if line]) == lines
    # From a file, as nnsight reads the source of its blocks.
    (tmp_path / "shown.py").write_text(code, encoding="utf-8")
    wrapped, tokenizer = load_model(str(folder), device="cpu")
    given = {"prompts": SimpleNamespace(input_ids=ids), "elsewhere": SimpleNamespace(input_ids=others)}
    given |= {"model": wrapped, "tokenizer": tokenizer, "heads": HEADS, "torch": torch}
    found = runpy.run_path(str(tmp_path / "shown.py"), init_globals=given)
    torch.testing.assert_close(found["removed"].detach(), removed, atol=1e-4, rtol=0)
    torch.testing.assert_close(found["moved"].detach(), moved, atol=1e-4, rtol=0)
