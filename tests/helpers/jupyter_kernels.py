"""nbval as this book needs it: kernels end when they are told to, and outputs are compared with what was accepted."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from accept import differences, printed
from nbval.kernel import RunningKernel
from nbval.plugin import IPyNbCell


def stop_in_time(seconds: float = 60, kernel: Any = RunningKernel) -> None:
    """Let kernels be stopped in so many seconds, or killed: closing a kernel's sockets was seen to block for ever after
    the last cell of a chapter that had passed.
    """
    stop: Callable[[Any], None] = kernel.stop

    def stop_or_kill(self: Any) -> None:
        provisioner = self.km.provisioner
        pid = provisioner and provisioner.pid
        stopping = threading.Thread(target=stop, args=[self], daemon=True)
        stopping.start()
        stopping.join(seconds)
        if stopping.is_alive() and pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    kernel.stop = stop_or_kill


def compare_with_accepted(cell: Any = IPyNbCell) -> None:
    """Let a cell pass if it shows the text that was accepted, but for rounding."""

    def compare(self: Any, outputs: Any, accepted: Any, skip_compare: Any = None) -> bool:
        wrong = [*differences(printed({"outputs": accepted}), printed({"outputs": outputs}), "this cell")]
        self.comparison_traceback = wrong
        return not wrong

    cell.compare_outputs = compare
