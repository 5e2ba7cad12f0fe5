"""Starting Spark for a flow: what takes long is shown, and what Java prints does not run through the picture."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from towpath.cli.flow_screen import Screen

if TYPE_CHECKING:
    from towpath.runtime import Runtime
    from towpath.spark.artifacts import Progress

LOOK_S = 0.1
MEGABYTE = 1_000_000
NOISE = "WARNING: Using incubator modules"  # of every Java that Spark starts


def start_spark(runtime: Runtime, name: str, screen: Screen) -> None:
    """Start this process's Spark session; in a thread of its own, so that a signal is heard meanwhile."""
    with java_output_to(screen.say):
        start = _Start(runtime, name)
        start.thread.start()
        while start.thread.is_alive():
            start.thread.join(LOOK_S)
            screen.phase(start.phase, time.monotonic() - start.begun_at)
    if start.error is not None:
        raise start.error


@dataclass(slots=True)
class _Start:
    runtime: Runtime
    name: str
    phase: str = field(init=False)
    thread: threading.Thread = field(init=False)
    begun_at: float = field(default_factory=time.monotonic)
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.phase = f"starting Spark on {self.runtime.settings.spark.master}"
        self.thread = threading.Thread(target=self._run, name="start-spark", daemon=True)

    def _run(self) -> None:
        from towpath.log.open import KAFKA_PREFIX
        from towpath.spark.session import build_session

        settings = self.runtime.settings
        try:
            is_kafka = settings.log.url.startswith(KAFKA_PREFIX)
            build_session(settings.spark, self.name, connector=is_kafka, report=self._fetching)
        except Exception as error:
            self.error = error

    def _fetching(self, progress: Progress) -> None:
        if progress.is_waiting:
            self.phase = f"waiting for another process that is fetching {progress.name}"
        elif progress.files < progress.files_total:
            done, total = progress.bytes / MEGABYTE, progress.bytes_total / MEGABYTE
            self.phase = f"fetching {progress.name}: {done:.0f} of {total:.0f} MB"
        else:
            self.phase = f"starting Spark on {self.runtime.settings.spark.master}"


@contextmanager
def java_output_to(say: Callable[[str], None]) -> Iterator[None]:
    """What is started inside has a pipe for its output, of which each line is said. Standard output is for results."""
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    kept = {number: os.dup(number) for number in (1, 2)}
    threading.Thread(target=_pump, args=(reading, say), name="java-output", daemon=True).start()
    try:
        for number in kept:
            os.dup2(writing, number)
        yield
    finally:
        for number, own in kept.items():
            os.dup2(own, number)
            os.close(own)
        os.close(writing)


def _pump(reading: int, say: Callable[[str], None]) -> None:
    with open(reading, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.strip() and not line.startswith(NOISE):
                try:
                    say(line.rstrip())
                except ValueError:  # the screen is closed, and Java is ending
                    return
