"""What counts as a process that runs."""

from __future__ import annotations

import subprocess
import sys

from towpath.core import os_processes as processes
from towpath.testing.clock import wait_until

# Ends its first thread alone (the call that ends one thread, not the process) while another goes on.
FIRST_THREAD_ENDS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_runs_until_its_last_thread_has_ended() -> None:
    """A killed server closes its port only then; to start the next one sooner finds the port taken."""
    process = subprocess.Popen([sys.executable, "-c", FIRST_THREAD_ENDS])
    try:
        wait_until(lambda: state(process.pid) == "Z")
        assert processes.find_process(process.pid) is not None
    finally:
        process.kill()
        process.wait()
    assert processes.find_process(process.pid) is None


def state(pid: int) -> str:
    return (processes.PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
