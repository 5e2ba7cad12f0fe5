"""Fifty open pages: each follows the stream of news and asks for itself again, as the script of the console does."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

from bench.console.goals import OPEN_PAGES
from bench.console.serving import Served
from bench.supervision.load import share_of_a_core

PEOPLE = 10  # each has as many of the pages
# With what each shows, as its template has it; nothing is said: everything.
PAGES = (
    ("/", ""),
    ("/queue/messages", "message"),
    ("/desk/groups", "case desk group"),
    ("/desk/cases?state=open", "case desk"),
    ("/events", "event"),
)
LEAST_S = 1.5  # that the script of the pages waits between two looks
EVENT_S = 1.0


class Crowd:
    """All of them, in a loop of a thread of its own."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._ended = threading.Event()
        self.looks = 0
        self.failures: list[str] = []

    def share(self, seconds: float) -> float:
        """What the console uses of a core while something happens every second."""
        cookies = [self._served.cookie(f"person-{number}") for number in range(PEOPLE)]
        pages = [(cookies[at % PEOPLE], *PAGES[at // PEOPLE % len(PAGES)]) for at in range(OPEN_PAGES)]
        threads = [
            threading.Thread(target=lambda: asyncio.run(self._all(pages))),
            threading.Thread(target=self._happen),
        ]
        for thread in threads:
            thread.start()
        try:
            time.sleep(5 * LEAST_S)  # all are there and have looked
            before = self.looks
            used = share_of_a_core(self._served.pid, seconds)
            # Two of the five pages show nothing of what happens, and are asked for when the clock ticks.
            least = OPEN_PAGES * 3 / 5 * seconds / (LEAST_S + EVENT_S) / 2
            if self.looks - before < least:
                self.failures.append(f"the pages have looked {self.looks - before} times, {least:.0f} are too few")
            return used
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()

    def _happen(self) -> None:
        operator = self._served.runtime.queue.operator("bench")
        while not self._ended.wait(EVENT_S):
            operator.send("inbox-1", "something", {}, "bench")

    async def _all(self, pages: Sequence[tuple[str, str, str]]) -> None:
        tasks = [asyncio.create_task(self._page(*each)) for each in pages]
        await asyncio.to_thread(self._ended.wait)
        for task in tasks:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        self.failures += [str(each) for each in found if isinstance(each, Exception)]

    async def _page(self, cookie: str, path: str, shown: str) -> None:
        """A page: its stream, and a connection that is kept for looks as long as the server keeps it."""
        host, port = self._served.host.split(":")
        lines, stream = await asyncio.open_connection(host, int(port))
        stream.write(_request("/live", self._served.host, cookie))
        look = await asyncio.open_connection(host, int(port))
        is_due = asyncio.Event()
        follower = asyncio.create_task(_follow(lines, set(shown.split()), is_due))
        last = 0.0
        try:
            while True:
                await is_due.wait()
                await asyncio.sleep(max(0.0, last + LEAST_S - time.monotonic()))
                is_due.clear()  # what comes from now on is not in the answer for sure
                last = time.monotonic()
                request = _request(path, self._served.host, cookie, "X-Live: 1")
                try:
                    await self._look(*look, request)
                except (ConnectionError, asyncio.IncompleteReadError):  # the server keeps none that is idle for long
                    look = await asyncio.open_connection(host, int(port))
                    await self._look(*look, request)
        finally:
            follower.cancel()

    async def _look(self, answer: asyncio.StreamReader, asking: asyncio.StreamWriter, request: bytes) -> None:
        asking.write(request)
        head = await answer.readuntil(b"\r\n\r\n")
        length = next(
            int(each.split(b":")[1]) for each in head.lower().split(b"\r\n") if each.startswith(b"content-le")
        )
        await answer.readexactly(length)
        if b" 200 " not in head.partition(b"\r\n")[0]:
            self.failures.append(head.partition(b"\r\n")[0].decode())
        self.looks += 1


async def _follow(lines: asyncio.StreamReader, shown: set[str], is_due: asyncio.Event) -> None:
    """The news of a stream, as the script of a page takes it."""
    while line := await lines.readline():
        if line.startswith(b"data: "):
            words = set(line.decode().removeprefix("data: ").split())
            if "*" in words or not shown or shown & words:
                is_due.set()


def _request(path: str, host: str, cookie: str, *headers: str) -> bytes:
    lines: Sequence[str] = (f"GET {path} HTTP/1.1", f"Host: {host}", f"Cookie: {cookie}", *headers, "", "")
    return "\r\n".join(lines).encode()
