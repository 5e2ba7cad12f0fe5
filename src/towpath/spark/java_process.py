"""Spark's Java process. pyspark has one for the whole life of a process: one that is gone cannot be replaced."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def how_java_ended(session: SparkSession) -> str | None:
    """How the Java process of a session has ended, as the end of a sentence; None while it lives."""
    gateway: Any = session.sparkContext._gateway
    java: Any = getattr(gateway, "proc", None)  # none when it was not started here
    code = None if java is None else java.poll()
    if code is None:
        return None
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was ended by {signal.Signals(-code).name}"
