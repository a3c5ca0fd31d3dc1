"""Kernels of nbval that end when they are told to."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from nbval.kernel import RunningKernel


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
