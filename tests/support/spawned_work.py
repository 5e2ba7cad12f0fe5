"""What spawned processes of the tests do. Each that comes so far as to import this writes its number to a journal."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from towpath.actors import Job

JOURNAL = "TEST_JOURNAL"
WAIT_S = 120.0


def note(text: object) -> None:
    journal = os.environ.get(JOURNAL)
    if journal:
        with Path(journal).open("a") as file:
            file.write(f"{text}\n")


note(f"process {os.getpid()}")


def work(job: Job) -> Any:
    """Do what the payload says: what, and a value for it."""
    what, value = job.payload
    note(f"began {value} attempt {job.attempt}")
    match what:
        case "double":
            return 2 * value
        case "slowly double":
            time.sleep(0.1)
            return 2 * value
        case "hold":  # until the file is there
            job.progress(40, f"holding {value}")
            hold(Path(value))
            return "held"
        case "die once":
            if job.attempt == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return job.attempt
        case "die":
            sys.stderr.write("this is the end\n")
            os.kill(os.getpid(), signal.SIGKILL)
        case "raise":
            raise ValueError(value)
        case "exit":
            sys.exit(value)
        case "answer":
            return {"bytes": b"no JSON", "huge": "x" * 2_000_000, "nul": "\0", "surrogate": "\ud800"}[value]
        case "connect":
            import towpath

            with towpath.connect() as runtime:
                return runtime.settings == job.runtime.settings
        case "linger":  # a thread that never ends
            import threading

            threading.Thread(target=time.sleep, args=(WAIT_S,)).start()
            return "left a thread"
    return None


def hold(gate: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while not gate.exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def stubborn(job: Job) -> None:
    """Does not let itself be ended."""
    note(f"began {job.payload} attempt {job.attempt}")
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            time.sleep(1)
        except BaseException as error:
            note(f"was told {type(error).__name__}")
