"""What a driver holds in memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

MIB = 1 << 20
COLLECTIONS = 3  # one leaves what only finalisers hold


class Memory(NamedTuple):
    """Bytes of both halves of a driver."""

    python: int  # resident
    java: int  # alive in the heap after a collection

    @property
    def total(self) -> int:
        return self.python + self.java

    def __str__(self) -> str:
        return f"{self.total / MIB:,.1f} MiB ({self.python / MIB:,.1f} in Python, {self.java / MIB:,.1f} in Java)"


def memory_of(session: SparkSession) -> Memory:
    """Of this process and the Java process of its session."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    java = session._jvm.java.lang  # type: ignore[union-attr]
    for _ in range(COLLECTIONS):
        java.System.gc()
    runtime = java.Runtime.getRuntime()
    return Memory(pages * os.sysconf("SC_PAGE_SIZE"), int(runtime.totalMemory()) - int(runtime.freeMemory()))
