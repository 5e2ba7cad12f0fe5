"""A part whose database is away for a while waits for it, and begins again: it finds what it had made."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from examples.harvest.parts.order import Job

from towpath.errors import CommitUnknown, DatabaseUnavailable, LogUnavailable

logger = logging.getLogger(__name__)

AWAY_S = 600.0
PAUSE_S = 1.0

Part = Callable[[Job], dict[str, Any]]


def patient(part: Part) -> Part:
    """For parts that may be tried again at any point, as all of these."""

    @wraps(part)
    def run(job: Job) -> dict[str, Any]:
        deadline = time.monotonic() + AWAY_S
        while True:
            try:
                return part(job)
            except (DatabaseUnavailable, CommitUnknown, LogUnavailable) as error:
                if time.monotonic() > deadline:
                    raise
                logger.warning("%s waits: %s", part.__name__, error)
                time.sleep(PAUSE_S)

    return run
