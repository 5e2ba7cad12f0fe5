"""Spark's Java process: when it is gone, a part cannot go on. It leaves too, and its spawner tries again."""

from __future__ import annotations

import logging
import os
import threading
from typing import Any, NoReturn

from towpath.errors import SparkFailed
from towpath.runtime import Runtime

logger = logging.getLogger(__name__)

EXIT_CODE = 70

_watched: set[int] = set()


def start_spark(runtime: Runtime) -> None:
    """Start it, or find it; from then on this process ends with it.

    pyspark has one Java for the whole life of a process: one that was killed cannot be replaced from within.
    """
    try:
        session: Any = runtime.spark()
    except SparkFailed as error:
        logger.error("this process ends, since Spark did not start: %s", error)
        leave()
    java: Any = session.sparkContext._gateway.proc
    if java.pid not in _watched:
        _watched.add(java.pid)
        threading.Thread(target=_leave_with, args=(java,), name="java-watch", daemon=True).start()


def leave() -> NoReturn:
    """At once: the order in hand is still this process's, and is given to the next one."""
    logging.shutdown()
    os._exit(EXIT_CODE)


def _leave_with(java: Any) -> None:
    code = java.wait()
    logger.error("this process ends, since Spark's Java process ended with %s", code)
    leave()
