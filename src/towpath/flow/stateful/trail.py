"""At which record a function with state is, for the driver to tell when a worker dies of it.

Such a function is called before there is a batch for the worker: one small file for each worker, beside the checkpoint.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from towpath.flow.worker.breadcrumb import SUFFIX, Breadcrumb, suspects

DIRECTORY = "trail"


def own_trail(directory: str) -> Breadcrumb:
    """That of this worker. It may outlive a query, and its file not: then it gets a new one."""
    path = Path(directory) / f"{os.getpid()}{SUFFIX}"
    if not path.exists():
        _opened.cache_clear()
        path.parent.mkdir(parents=True, exist_ok=True)
    return _opened(path)


@cache
def _opened(path: Path) -> Breadcrumb:
    return Breadcrumb(path)


def trail_of(checkpoint: Path) -> Path:
    return checkpoint / DIRECTORY


def forget_trail(checkpoint: Path) -> None:
    """Of workers of before: a new query begins."""
    for path in trail_of(checkpoint).glob(f"*{SUFFIX}"):
        path.unlink(missing_ok=True)


def last_seen(checkpoint: Path) -> str:
    """Where workers were in functions with state when they ended, for people to read; empty: nobody knows."""
    found = sorted({f"{one.topic}/{one.partition} at offset {one.offset}" for one in suspects(trail_of(checkpoint))})
    return "; ".join(found[:3])
