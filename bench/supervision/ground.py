"""A supervised installation in a directory of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.page import ROOT
from towpath.runtime import Runtime, connect
from towpath.supervision.duties.model import Duty

UP_S = 600.0
LOOK_S = 0.02
SETTINGS = """
[database]
url = {database}

[up.idle]
kind = "actors"
arguments = ["bench.supervision.idle"]
copies = {copies}
environment = {{ PYTHONPATH = {root} }}
"""


@contextmanager
def supervised(copies: int) -> Iterator[Runtime]:
    """Peers and so many processes of actors, all ready; stopped in the end."""
    with tempfile.TemporaryDirectory(prefix="towpath-bench-") as name:
        home = Path(name)
        quoted = {"database": json.dumps(f"sqlite:///{home}/towpath.db"), "root": json.dumps(str(ROOT))}
        (home / "towpath.toml").write_text(SETTINGS.format(copies=copies, **quoted), encoding="utf-8")
        try:
            _towpath(home, "up", "--timeout", f"{UP_S:g}")
            with connect(config=home / "towpath.toml") as runtime:
                yield runtime
        finally:
            _towpath(home, "down", "--timeout", f"{UP_S:g}")


def _towpath(home: Path, *words: str) -> None:
    command = [sys.executable, "-m", "towpath", "--config", str(home / "towpath.toml"), *words]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=UP_S + 60, check=False)
    if done.returncode:
        raise RuntimeError(f"towpath {words[0]}: {(done.stderr or done.stdout).strip()[-500:]}")


def duty(runtime: Runtime, name: str) -> Duty:
    return next(each for each in runtime.duties.overview().duties if each.name == name)


def pid(runtime: Runtime, name: str) -> int:
    """Of the process that does a duty now."""
    found = runtime.duties.overview()
    row = found.processes[next(each for each in found.duties if each.name == name).process_id or ""]
    return row.pid


def until(is_so: Callable[[], bool], what: str, timeout_s: float = 120.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} has not come about within {timeout_s:g} s")
        time.sleep(LOOK_S)


def is_all_ready(runtime: Runtime) -> bool:
    found = runtime.duties.overview()
    return found.has_coordinator and all(each.state == "ready" for each in found.duties)
