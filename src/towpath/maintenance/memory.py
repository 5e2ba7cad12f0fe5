"""What the process remembers so as not to work it out again, and how often that helps."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

# Where they are, by what people call them. A part of Towpath that this process has not loaded remembers nothing.
_CACHES = (
    ("partitions of keys", "towpath.log.partitioner", "partition_of"),
    ("names in JSON", "towpath.flow.text.members", "spelt"),
    ("readers of JSON members", "towpath.flow.text.members", "_cutter"),
    ("finders of JSON members", "towpath.flow.text.splicing", "_finder"),
    ("names of messages", "towpath.queue.payload", "_is_name"),
    ("fingerprints of failures", "towpath.desk.fingerprint", "_fingerprint"),
    ("frames of traces", "towpath.desk.fingerprint", "frames_of"),
    ("ids of traces", "towpath.desk.fingerprint", "trace_id"),
    ("definitions of actors", "towpath.actors.definition", "define"),
)


class Cache(NamedTuple):
    """One of them, in this process, since it began."""

    name: str
    hits: int
    misses: int
    held: int
    most: int | None  # None: as many as there are

    @property
    def hit_rate(self) -> float | None:
        """None: nobody has asked yet."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else None


def caches() -> Iterator[Cache]:
    """Those of this process."""
    for name, module, function in _CACHES:
        if module in sys.modules:
            yield _cache(name, getattr(sys.modules[module], function).cache_info)


def _cache(name: str, info: Callable[[], Any]) -> Cache:
    found = info()
    return Cache(name, found.hits, found.misses, found.currsize, found.maxsize)
