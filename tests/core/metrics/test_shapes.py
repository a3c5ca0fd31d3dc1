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
    from posym_core.metrics._rope import multiply_planes
    from posym_core.metrics import dirichlet_kernel
    from posym_core.metrics._rope import split_planes

query, keys, angles = torch.randn(2, 3, 8), torch.randn(2, 3, 9, 8), posym_core.rope_angles(8)
for pairing in ("halves", "neighbours"):
    posym_core.rotate(keys, torch.arange(9), angles, pairing=pairing)
    for per_frequency in (False, True):
        posym_core.cross_logits(query, keys, angles, pairing=pairing, per_frequency=per_frequency)
        posym_core.swap_scores(query, keys, angles, pairing=pairing, per_frequency=per_frequency)
        posym_core.swap_scores(query, keys, angles, visible=torch.arange(9) > 3, sinks=torch.zeros(2, 3), softcap=2.0)
    posym_core.frequency_shares(query, keys, angles, pairing=pairing)
    posym_core.frequency_use(query, keys, angles, pairing=pairing)
posym_core.exclusion(posym_core.cross_logits(query, keys, angles))
dirichlet_kernel(angles, 5)
try:
    split_planes(torch.ones(4, dtype=torch.int64), "halves") and multiply_planes(
        torch.randn(4), torch.randn(5), "halves"
    )
except TypeCheckError:
    print("refused")
"""


def test_signatures_tell_the_truth():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "refused"
