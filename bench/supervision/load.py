"""A machine with more to do than it can, and what one process has cost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

LOOPS_OF_A_CORE = 2
TICKS = os.sysconf("SC_CLK_TCK")


def busy(seconds: float) -> None:
    """Two endless loops for each core, for so long."""
    count = LOOPS_OF_A_CORE * (os.cpu_count() or 1)
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        time.sleep(seconds)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def share_of_a_core(pid: int, seconds: float) -> float:
    """What a process uses meanwhile, by the kernel."""
    began, used = time.monotonic(), _cpu_s(pid)
    time.sleep(seconds)
    return (_cpu_s(pid) - used) / (time.monotonic() - began)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
