"""One message in the hands of a spawned process: the `Job` that its code is given, and plain commands run for it.

A command reads the payload on standard input; the last line of its standard output is the answer.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from towpath.actors.spawner.launch import shown
from towpath.queue.model import Message

if TYPE_CHECKING:
    from towpath.runtime import Runtime

CHUNK = 64 << 10
ERROR_BYTES = 8 << 10
AFTER_END_S = 2.0  # what it left running may keep its output open for ever
_PROGRESS = re.compile(rb"towpath:\s*(\d{1,3}(?:\.\d{1,6})?)\s*%\s*(.*)")


class Job:
    """Handed to the entry point for each message. What that returns is the answer; what it raises makes it ERR."""

    def __init__(self, message: Message, runtime: Runtime) -> None:
        self.message = message
        self.runtime = runtime
        """Towpath with the same settings: queue, topics, flows."""
        self.told: tuple[float, str] | None = None

    @property
    def payload(self) -> Any:
        return self.message.payload

    @property
    def function(self) -> str:
        return self.message.function

    @property
    def attempt(self) -> int:
        """1, and one more for every process that died over this message."""
        return self.message.failures

    def progress(self, percent: float, stage: str = "") -> None:
        """Say how far it is, 0 to 100, and at what. It costs nothing: it is written down about twice a second."""
        percent = 0.0 if math.isnan(percent) else min(max(float(percent), 0.0), 100.0)
        self.told = (percent, str(stage))


class Cancelled(BaseException):
    """Raised in the code that works on a message when the process is to end. Clean up in `finally`, and be quick."""


@dataclass(frozen=True, slots=True)
class JobFailed:
    """The work came to nothing: its message is ERR, with the reason."""

    reason: str


class SpawnedCommand:
    """Runs a command for each message; it is called as the entry point of a Python process is."""

    def __init__(self, command: Sequence[str], longest_answer: int, grace_s: float) -> None:
        self._command = list(command)
        self._longest_answer = longest_answer
        self._grace_s = grace_s

    def __call__(self, job: Job) -> Any:
        message = job.message
        # In the same process group: whoever ends this process ends the command with it.
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "SPAWNED_MESSAGE": message.id, "SPAWNED_FUNCTION": message.function},
        )
        try:
            return self._follow(process, job)
        finally:
            self._end(process)

    def _follow(self, process: subprocess.Popen[bytes], job: Job) -> Any:
        output, errors = CommandOutput(self._longest_answer, job.progress), ErrorOutput()
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None  # noqa: S101, PT018
        threads = [
            _beside(_write, process.stdin, job.message.payload_json.encode()),
            _beside(_read, process.stdout, output.feed),
            _beside(_read, process.stderr, errors.feed),
        ]
        code = process.wait()
        for thread in threads:
            thread.join(AFTER_END_S)
        if code == 0:
            return output.answer()
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        return JobFailed(f"{self._command[0]} ended with {how}: {errors.end}".removesuffix(": "))

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Only of use when this process is to end: then the command ends first."""
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(self._grace_s)
            process.kill()
            process.wait()


class CommandOutput:
    """Reads what a command writes, in pieces of any size: progress as it comes, and the last line for the answer."""

    def __init__(self, longest_line: int, progress: Callable[[float, str], None]) -> None:
        self._longest = longest_line
        self._progress = progress
        self._line = bytearray()
        self._is_too_long = False
        self._last = b""

    def feed(self, data: bytes) -> None:
        first, *others = data.split(b"\n")
        self._add(first)
        for each in others:
            self._end_line()
            self._add(each)

    def answer(self) -> Any:
        """The last line if it is JSON; otherwise none."""
        self._end_line()
        try:
            return json.loads(self._last.decode(), parse_constant=_refuse)
        except (ValueError, RecursionError):
            return None

    def _add(self, data: bytes) -> None:
        if len(self._line) + len(data) > self._longest:
            self._is_too_long = True
            self._line.clear()
        elif not self._is_too_long:
            self._line += data

    def _end_line(self) -> None:
        line = bytes(self._line).strip()
        if self._is_too_long:
            self._last = b""
        elif found := _PROGRESS.fullmatch(line):
            self._progress(float(found[1]), found[2].decode(errors="replace"))
        elif line:
            self._last = line
        self._line.clear()
        self._is_too_long = False


class ErrorOutput:
    """Keeps the end of what a command writes to standard error."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0

    def feed(self, data: bytes) -> None:
        self._pieces.append(data[-ERROR_BYTES:])
        self._size += len(self._pieces[-1])
        while self._size - len(self._pieces[0]) >= ERROR_BYTES:
            self._size -= len(self._pieces.popleft())

    @property
    def end(self) -> str:
        return shown(b"".join(self._pieces))


def _beside(act: Callable[..., None], *given: Any) -> threading.Thread:
    thread = threading.Thread(target=act, args=given, daemon=True)
    thread.start()
    return thread


def _write(pipe: IO[bytes], data: bytes) -> None:
    with suppress(OSError):  # it need not read what it is given
        pipe.write(data)
    with suppress(OSError):
        pipe.close()


def _read(pipe: IO[bytes], feed: Callable[[bytes], None]) -> None:
    while data := os.read(pipe.fileno(), CHUNK):
        with suppress(OSError):  # a full disk does not end the work
            os.write(1, data)
        feed(data)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
