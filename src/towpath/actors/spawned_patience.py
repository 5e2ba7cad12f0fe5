"""Doing something although the database is away for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from towpath.errors import CommitUnknown, DatabaseUnavailable, ProcessDead

T = TypeVar("T")

AWAY_S = 600.0  # a process that cannot reach the database for longer ends: another one begins its work anew
PAUSE_S = 0.5


def patiently(act: Callable[[], T], limit_s: float = AWAY_S) -> T:
    """Do it, again and again while the database is away, but not for ever. It has to bear being done twice."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            return act()
        except (DatabaseUnavailable, CommitUnknown, ProcessDead):
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_S)
