"""A worker as the demo sees it: a child process that never outlives it."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from towpath.errors import TowpathError

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0


class DemoFailed(TowpathError):
    """The demo could not be played to its end."""


class Child:
    """One worker process. Its standard input is its life-line: it ends when that is closed, by us or by our death."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        self._log = directory / f"{name}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "towpath.demo.worker", str(directory), name],
                cwd=directory,
                env={key: value for key, value in os.environ.items() if not key.upper().startswith("TOWPATH_")},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # a Ctrl-C at the terminal is ours to handle
            )
        self._said: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name=f"listen:{name}", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, word: str) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was made with a pipe
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def hear(self, timeout_s: float = START_TIMEOUT_S) -> str | None:
        """The next line that it says; none when none comes in time."""
        try:
            line = self._said.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if line is None:
            raise DemoFailed(f"{self.name} ended with {self._process.wait()}; its log is {self._log}")
        return line

    def kill(self) -> None:
        """SIGKILL: no handler, no clean-up, no last word."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Let it end in order."""
        assert self._process.stdin is not None  # noqa: S101 - it was made with a pipe
        self._process.stdin.close()
        try:
            code = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise DemoFailed(f"{self.name} did not stop; its log is {self._log}") from error
        if code != 0:
            raise DemoFailed(f"{self.name} ended with {code}; its log is {self._log}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it was made with a pipe
        try:
            for line in self._process.stdout:
                self._said.put(line.strip())
        except ValueError:
            pass  # closed under us: nobody listens any more
        self._said.put(None)
