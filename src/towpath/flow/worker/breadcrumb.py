"""Which record a worker is at, in a small file that outlives the worker.

A record that ends its worker (a segmentation fault, `os._exit`, too much memory) cannot be reported by it. The driver
looks into these files afterwards and tries the few records that workers were at, before it searches the whole batch.

A function with state is called before there is a batch for the worker. Such a worker has one file of its own beside the
checkpoint, its trail.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

SUFFIX = ".at"
SIZE = 512
_PLACE = struct.Struct("<qiH")  # offset, partition, length of what follows
_EMPTY = -1
MOST_STEP_CHARACTERS = 30
DIRECTORY = "trail"


class SuspectRecord(NamedTuple):
    """A record that a worker was at when it was last heard of."""

    topic: str
    partition: int
    offset: int
    step: str


class Breadcrumb:
    """Written by one worker: two stores into mapped memory for each record, which the system keeps when it dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_bytes(bytes(SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), SIZE)
        self._topic = ""
        self._step = ""
        self._length = 0
        self.leave()

    def enter(self, step: str) -> None:
        self._step = step
        self._topic = ""

    def at(self, topic: str, partition: int, offset: int) -> None:
        if topic != self._topic:
            self._topic = topic
            text = json.dumps([topic, self._step[:MOST_STEP_CHARACTERS]]).encode()
            if len(text) > SIZE - 32:
                text = json.dumps([topic, ""]).encode()
            self._map[32 : 32 + len(text)] = text
            self._length = len(text)
        _PLACE.pack_into(self._map, 0, offset, partition, self._length)

    def leave(self) -> None:
        _PLACE.pack_into(self._map, 0, _EMPTY, 0, 0)

    def close(self) -> None:
        """The task has come to its end: it was at no record that did harm."""
        self._map.close()
        self._path.unlink(missing_ok=True)


def suspects(directory: Path) -> Iterator[SuspectRecord]:
    """The records that the workers of a batch were at when they ended."""
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        content = path.read_bytes()
        if len(content) < SIZE:
            continue
        offset, partition, length = _PLACE.unpack_from(content)
        if offset != _EMPTY:
            topic, step = json.loads(content[32 : 32 + length])
            yield SuspectRecord(topic, partition, offset, step)


def own_trail(directory: str) -> Breadcrumb:
    """The file of this worker. The worker may outlive a query, and its file not: then it gets a new one."""
    path = Path(directory) / f"{os.getpid()}{SUFFIX}"
    if not path.exists():
        _opened.cache_clear()
        path.parent.mkdir(parents=True, exist_ok=True)
    return _opened(path)


def trail_of(checkpoint: Path) -> Path:
    return checkpoint / DIRECTORY


def forget_trail(checkpoint: Path) -> None:
    """Delete the files of earlier workers: a new query begins."""
    for path in trail_of(checkpoint).glob(f"*{SUFFIX}"):
        path.unlink(missing_ok=True)


def last_seen(checkpoint: Path) -> str:
    """Where workers were in functions with state when they ended, for people to read; empty when unknown."""
    found = sorted({f"{one.topic}/{one.partition} at offset {one.offset}" for one in suspects(trail_of(checkpoint))})
    return "; ".join(found[:3])


@cache
def _opened(path: Path) -> Breadcrumb:
    return Breadcrumb(path)
