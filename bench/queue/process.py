"""One contender process: started, released together with its fellows, read and ended."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.page import ROOT
from bench.queue.contenders.contract import Order

TIMEOUT_S = 180
ERROR_LINES = 6


class ContenderFailed(Exception):
    """A contender did not do what it was asked to; the text ends with what it wrote."""


class ContenderProcess:
    """Runs one order with one interpreter; killed when the block ends."""

    def __init__(self, python: Path, module: str, order: Order) -> None:
        self._module = module
        self._process = subprocess.Popen(
            [python, "-m", f"bench.queue.contenders.{module}", json.dumps(asdict(order))],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self) -> None:
        """Return when the process is set up and waits for `go`."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if line != "ready":
            raise self._failed(f"said {line!r} in place of 'ready'")

    def go(self) -> None:
        """Let it begin."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def lines(self) -> list[dict[str, Any]]:
        """Everything that it reports until it ends."""
        try:
            said, complaints = self._process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise self._failed(f"did not end in {TIMEOUT_S} s") from None
        if self._process.returncode > 0:
            raise ContenderFailed(f"{self._module}: {_last_lines(complaints)}")
        return [json.loads(line) for line in said.splitlines() if line.startswith("{")]

    def kill(self) -> None:
        """End it without ceremony."""
        self._process.kill()

    def _failed(self, what: str) -> ContenderFailed:
        self._process.kill()
        _, complaints = self._process.communicate()
        return ContenderFailed(f"{self._module} {what}: {_last_lines(complaints)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def _last_lines(text: str) -> str:
    return " | ".join(text.strip().splitlines()[-ERROR_LINES:])
