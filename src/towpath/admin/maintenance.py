"""Cleaning by hand, in a person's name, and what the caches of this process hold and how often that helps."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from towpath.admin.cleanup import Cleanup, Size, cleanings_of
from towpath.core.events import Event, EventKind
from towpath.db.event_log import check_who, check_why, commit_by_hand
from towpath.errors import NotWhileInUse, UnknownCleaning
from towpath.runtime import Runtime

# Caches by the names that people read. A part of Towpath that this process has not loaded remembers nothing.
_CACHES = (
    ("partitions of keys", "towpath.log.record", "partition_of"),
    ("names in JSON", "towpath.flow.documents.splice", "spelt"),
    ("readers of JSON members", "towpath.flow.documents.splice", "_cutter"),
    ("finders of JSON members", "towpath.flow.documents.splice", "_finder"),
    ("names of messages", "towpath.queue.payload", "_is_name"),
    ("fingerprints of failures", "towpath.desk.groups.model", "_fingerprint"),
    ("frames of traces", "towpath.desk.groups.model", "frames_of"),
    ("ids of traces", "towpath.desk.groups.model", "trace_id"),
    ("definitions of actors", "towpath.actors.definition", "define"),
)


class Maintenance:
    """Cleans one installation. Each run leaves an event with who, why, and the size before and after."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._cleanings = {each.name: each for each in cleanings_of(runtime)}

    @property
    def names(self) -> list[str]:
        return list(self._cleanings)

    def list(self) -> list[CleaningView]:
        """All that can be cleaned."""
        return [self.show(name) for name in self._cleanings]

    def show(self, name: str) -> CleaningView:
        """One thing that can be cleaned; raises `UnknownCleaning`."""
        found = self._found(name)
        return CleaningView(name, found.about, found.size(), self.last(name), found.hindrance())

    def run(self, name: str, *, who: str, why: str, force: bool = False) -> LastRun:
        """Clean it now; `NotWhileInUse` when others would be disturbed, unless that is wanted."""
        cleaning = self._found(name)
        check_who(who)
        check_why(why)
        if not force and (hindrance := cleaning.hindrance()) is not None:
            raise NotWhileInUse(f"{name}: {hindrance}. Stop them first, or say that it is to be done all the same")
        before, began = cleaning.size(), time.monotonic()
        done = dict(cleaning.run(who, why))
        took_s, after = round(time.monotonic() - began, 3), cleaning.size()
        data = {"before": before._asdict(), "after": after._asdict(), "done": done, "took_s": took_s}
        event = Event(EventKind.CLEANED_BY_HAND, name, who, why, data)
        commit_by_hand(self._runtime.database, lambda tx: self._runtime.event_log.record(tx, event))
        last = self.last(name)
        assert last is not None  # noqa: S101 - it was just written down
        return last

    def last(self, name: str) -> LastRun | None:
        """When it was cleaned last by hand."""
        with self._runtime.database.glance() as tx:
            kind = EventKind.CLEANED_BY_HAND
            found = self._runtime.event_log.page(tx, limit=1, kind=kind, subject=name)
        if not found:
            return None
        event, data = found[0], found[0].data
        sizes = Size(**data["before"]), Size(**data["after"])
        return LastRun(event.at, event.who, event.why, *sizes, data["done"], data["took_s"])

    def _found(self, name: str) -> Cleanup:
        if name not in self._cleanings:
            raise UnknownCleaning(name, self._cleanings)
        return self._cleanings[name]


class LastRun(NamedTuple):
    """When something was cleaned by hand last, and what came of it."""

    at: datetime
    who: str
    why: str
    before: Size
    after: Size
    done: Mapping[str, int]
    took_s: float


class CleaningView(NamedTuple):
    """Something that can be cleaned, as it is now."""

    name: str
    about: str
    size: Size
    last: LastRun | None  # None: never by hand, as far as events are kept
    hindrance: str | None  # why it should not be done now


def last_item(last: LastRun | None) -> dict[str, Any] | None:
    """The last run as JSON."""
    if last is None:
        return None
    sizes = {"before": last.before._asdict(), "after": last.after._asdict()}
    return {**last._asdict(), **sizes, "done": dict(last.done)}


def cleaning_item(view: CleaningView) -> dict[str, Any]:
    """A cleaning as JSON: one shape for the command line and the API."""
    return {**view._asdict(), "size": view.size._asdict(), "last": last_item(view.last)}


class Cache(NamedTuple):
    """A cache of this process, and how often it has helped since the process began."""

    name: str
    hits: int
    misses: int
    held: int
    most: int | None  # None: as many as there are

    @property
    def hit_rate(self) -> float | None:
        """None when the cache has not been asked yet."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else None


def caches() -> Iterator[Cache]:
    """Those of this process."""
    for name, module, function in _CACHES:
        if module in sys.modules:
            found = getattr(sys.modules[module], function).cache_info()
            yield Cache(name, found.hits, found.misses, found.currsize, found.maxsize)
