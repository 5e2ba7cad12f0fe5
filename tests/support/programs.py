"""Real processes for tests: each begins when all are ready, and prints one line of JSON at its end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

HEAD = """
import json, random, sys, threading
import towpath
database = json.loads(sys.argv[1])
argument = json.loads(sys.argv[2])
"""
READY = """
print("ready", flush=True)
sys.stdin.readline()
"""


def run_together(
    program: str, database: dict[str, Any], arguments: Sequence[Any], *, prepare: str = "", timeout_s: float = 60
) -> list[Any]:
    """Run the program once for each argument, all at the same moment, and return what each printed as JSON.

    What is in `prepare` each does before it says that it is ready.
    """
    running = [
        subprocess.Popen(
            [sys.executable, "-c", HEAD + prepare + READY + program, json.dumps(database), json.dumps(argument)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for argument in arguments
    ]
    try:
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        ended = [process.communicate(timeout=timeout_s) for process in running]
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.communicate()
    failed = [error for process, (_, error) in zip(running, ended, strict=True) if process.returncode != 0]
    assert not failed, failed[0]
    return [json.loads(output.splitlines()[-1]) for output, _ in ended]
