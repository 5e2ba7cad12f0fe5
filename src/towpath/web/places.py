"""Room for what is under way, and lines of those who wait: nothing fills the memory, and no key keeps others out."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from towpath.errors import TooFast

RETRY_S = 1.0
PATIENCE_S = 10.0


class Places:
    """So many at once in this process, and a part of them for one key. Used from the event loop only."""

    def __init__(self, what: str, most: int, most_of_one: int) -> None:
        self._what = what
        self._most = most
        self._most_of_one = most_of_one
        self._taken: Counter[str] = Counter()

    def check(self, key: str) -> None:
        """Raises `TooFast` when there is no room."""
        if self._taken[key] >= self._most_of_one:
            raise TooFast(f"this key has {self._most_of_one} {self._what} under way, which is the most", RETRY_S)
        if self._taken.total() >= self._most:
            raise TooFast(f"the server has {self._most} {self._what} under way, which is the most", RETRY_S)

    @contextmanager
    def held(self, key: str) -> Iterator[None]:
        """One more is under way."""
        self._taken[key] += 1
        try:
            yield
        finally:
            self._taken[key] -= 1
            self._taken += Counter()  # forgets the keys that have none


@dataclass(slots=True)
class _Line:
    room: asyncio.Semaphore
    people: int = 0  # inside and waiting


class Lines:
    """Who has to wait does so in order, and where it takes no thread and no memory for a body.

    A client that was cut off comes back while its last request is still being worked on; one that sends a hundred
    chunks at once must not keep others out.
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[object, ...], _Line] = {}

    @asynccontextmanager
    async def one_of(self, most: int, *name: str) -> AsyncIterator[None]:
        """One of so many under that name; raises `TooFast` when none of them ends for long."""
        full_name = (id(asyncio.get_running_loop()), *name)
        line = self._lines.setdefault(full_name, _Line(asyncio.Semaphore(most)))
        line.people += 1
        try:
            await self._enter(line, most)
            try:
                yield
            finally:
                line.room.release()
        finally:
            line.people -= 1
            if line.people == 0:
                self._lines.pop(full_name, None)

    async def _enter(self, line: _Line, most: int) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await line.room.acquire()
        except TimeoutError:
            raise TooFast(f"too much is under way: {most} at once is the most", RETRY_S) from None
