"""The shapes that signatures state are the shapes that come and go: checked at run time in a process of its own.

The check would replace the package's own errors, so it is not switched on for the other tests.
"""

import subprocess
import sys

PROGRAM = """
import torch
from jaxtyping import TypeCheckError, install_import_hook

with install_import_hook(["posym_core._checks", "posym_core.metrics"], "beartype.beartype"):
    import posym_core
    from posym_core.metrics import dirichlet_kernel

query, keys, angles = torch.randn(2, 3, 8), torch.randn(2, 3, 9, 8), posym_core.rope_angles(8)
for per_frequency in (False, True):
    posym_core.cross_logits(query, keys, angles, per_frequency=per_frequency)
    posym_core.swap_scores(query, keys, angles, per_frequency=per_frequency)
posym_core.swap_scores(query, keys, angles, visible=torch.arange(9) > 3, sinks=torch.zeros(2, 3), softcap=2.0)
posym_core.frequency_shares(query, keys, angles)
posym_core.frequency_use(query, keys, angles)
posym_core.exclusion(posym_core.cross_logits(query, keys, angles))
try:
    dirichlet_kernel(torch.ones(4, dtype=torch.int64), 5)
except TypeCheckError:
    print("refused")
"""


def test_signatures_tell_the_truth():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "refused"
