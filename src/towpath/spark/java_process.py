"""Spark's Java process. pyspark has one for the whole life of a process: one that is gone cannot be replaced."""

from __future__ import annotations

import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def how_java_ended(session: SparkSession, within_s: float = 0.0) -> str | None:
    """How the Java process of a session has ended, as the end of a sentence; None while it lives.

    One that dies refuses connections a moment before it has ended: `within_s` waits for that.
    """
    gateway: Any = session.sparkContext._gateway
    java: Any = getattr(gateway, "proc", None)  # none when it was not started here
    if java is not None and within_s > 0:
        with suppress(subprocess.TimeoutExpired):
            java.wait(within_s)
    code = None if java is None else java.poll()
    if code is None:
        return None
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was ended by {signal.Signals(-code).name}"
