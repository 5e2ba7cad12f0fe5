"""Telling open pages that something has changed: one thread looks, every stream hears of it.

A page that hears of a change asks for itself again if it shows something of that kind. What says that something has
changed is the end of the events, the messages and the desk's cases; what leaves none of them (a claim, a beat) is seen
at the next tick, which is for every page. Streams are coroutines: fifty pages that wait would use up the threads that
answer requests.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from towpath.db import Queries
from towpath.errors import DatabaseError
from towpath.web.auth import Reader

if TYPE_CHECKING:
    from towpath.db import Database
    from towpath.web.visitors import VisitorLimits


router = APIRouter(include_in_schema=False)

LOOK_S = 0.25
TICK_S = 5.0
SLICE_S = 1.0
SILENT_SLICES = 20
MOST_STREAMS = 200
EVERYTHING = "*"
MOST_EVENTS = 200  # of which the kinds are looked at; more are news of everything


@dataclass(frozen=True, slots=True)
class ChangeMarks:
    """How far everything had come at one look."""

    events: int
    messages: int
    cases: int
    history: int


@dataclass(eq=False, slots=True)
class StreamWakeup:
    """Of one stream: rings when there is news, and says of what. Used from the loop of the stream only."""

    loop: asyncio.AbstractEventLoop
    _rung: asyncio.Event = field(default_factory=asyncio.Event)
    _words: set[str] = field(default_factory=set)

    def ring(self, words: Collection[str]) -> None:
        self._words.update(words)
        self._rung.set()

    async def heard(self) -> str:
        """All the news since the last time."""
        await self._rung.wait()
        self._rung.clear()
        words = EVERYTHING if EVERYTHING in self._words else " ".join(sorted(self._words))
        self._words.clear()
        return words


class Broadcaster:
    """Looks at the database while somebody listens, and wakes all who do."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.web.console.layout", "live", database.dialect)
        self._lock = threading.Lock()
        self._listeners: set[StreamWakeup] = set()
        self._thread: threading.Thread | None = None
        self._leaving = threading.Event()
        self.version = 0

    def listen(self) -> StreamWakeup | None:
        """Something that rings whenever there is news; none: too many listen already."""
        wakeup = StreamWakeup(asyncio.get_running_loop())
        with self._lock:
            if len(self._listeners) >= MOST_STREAMS:
                return None
            self._listeners.add(wakeup)
            if self._thread is None:
                self._leaving.clear()
                self._thread = threading.Thread(target=self._watch, name="live pages", daemon=True)
                self._thread.start()
        return wakeup

    def leave(self, wakeup: StreamWakeup) -> None:
        with self._lock:
            self._listeners.discard(wakeup)
            if not self._listeners:
                self._leaving.set()

    def _watch(self) -> None:
        """Until nobody listens any more."""
        seen: ChangeMarks | None = None
        silent_s = 0.0
        while True:
            found, words = self._look(seen)
            silent_s += LOOK_S
            if silent_s >= TICK_S or found is None or seen is None:
                silent_s, words = 0.0, {EVERYTHING}
            seen = found
            if words:
                self._ring(words)
            if self._leaving.wait(LOOK_S):
                with self._lock:
                    if not self._listeners:
                        self._thread = None
                        return
                    self._leaving.clear()

    def _look(self, seen: ChangeMarks | None) -> tuple[ChangeMarks | None, set[str]]:
        """How far everything is, and what has changed since; none: the database is away, as pages say themselves."""
        try:
            with self._database.glance() as tx:
                found = ChangeMarks(*tx.rows(self._sql["marks"], {})[0])
                if seen is None or found == seen:
                    return found, set()
                words = {"event"} if found.events != seen.events else set()
                for (kind,) in tx.rows(self._sql["kinds"], {"seq": seen.events, "limit": MOST_EVENTS + 1}):
                    words.add(kind.partition("_")[0])
        except DatabaseError:
            return None, set()
        if found.messages != seen.messages:
            words.add("message")
        if (found.cases, found.history) != (seen.cases, seen.history):
            words.add("case")
        return found, words if found.events - seen.events <= MOST_EVENTS else {EVERYTHING}

    def _ring(self, words: Collection[str]) -> None:
        self.version += 1
        with self._lock:
            listeners = list(self._listeners)
        for wakeup in listeners:
            if not wakeup.loop.is_closed():
                wakeup.loop.call_soon_threadsafe(wakeup.ring, words)


@router.get("/live")
async def live(request: Request, principal: Reader) -> StreamingResponse:
    """News without an end: `event: news` with the kinds of things that are new, and now and then a silent line."""
    return StreamingResponse(_stream(request), media_type="text/event-stream")


async def _stream(request: Request) -> AsyncIterator[str]:
    broadcaster: Broadcaster = request.app.state.broadcaster
    limits: VisitorLimits = request.app.state.visitor_limits
    wakeup = broadcaster.listen()
    if wakeup is None:
        yield "retry: 30000\n\n"
        return
    silent = 0
    try:
        yield "retry: 3000\n\n"
        while not limits.ending.is_set() and not await request.is_disconnected():
            try:
                words = await asyncio.wait_for(wakeup.heard(), SLICE_S)
            except TimeoutError:
                silent += 1
                if silent % SILENT_SLICES == 0:
                    yield ": still here\n\n"
                continue
            yield f"event: news\ndata: {words}\n\n"
    finally:
        broadcaster.leave(wakeup)
