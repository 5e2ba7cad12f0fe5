"""The rows of a result as they come: lines that go on until the result is complete, or server-sent events.

A stream is asked by a coroutine, which looks for more now and then in a thread: fifty waiting clients need no fifty
threads. It ends when the result is complete, when something goes wrong (which it says), when the client is gone or the
process is told to stop. Whoever was cut off asks again from the last cursor that came.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool

from towpath.boundary.outlet import Page
from towpath.errors import TowpathError
from towpath.web.failures import code_of, message_of

FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 1.0
HEARTBEAT_S = 10.0

Read = Callable[[str], Page]


@dataclass(frozen=True, slots=True)
class Failed:
    """Why a stream cannot go on."""

    code: str
    message: str


Portion = Page | Failed | None  # none: nothing is new


async def portions(read: Read, first: Page, is_ending: Callable[[], bool]) -> AsyncIterator[Portion]:
    """A page, and what comes after it, until it is complete."""
    page, wait_s, silent_s = first, FIRST_WAIT_S, 0.0
    while True:
        if page.lines or page.is_end:
            yield page
            wait_s, silent_s = FIRST_WAIT_S, 0.0
        else:
            await asyncio.sleep(wait_s)
            wait_s, silent_s = min(2 * wait_s, LONGEST_WAIT_S), silent_s + wait_s
        if page.is_end or is_ending():
            return
        if silent_s >= HEARTBEAT_S:
            yield None
            silent_s = 0.0
        try:
            page = await run_in_threadpool(read, page.cursor)
        except TowpathError as error:
            yield Failed(code_of(type(error)), message_of(error))
            return


async def as_lines(found: AsyncIterator[Portion]) -> AsyncIterator[bytes]:
    """Rows as they are, and after each portion what no row can be: an array that says how far they go."""
    async for each in found:
        match each:
            case None:
                yield b"\n"
            case Failed(code, message):
                yield _line("error", code, message)
            case page:
                yield page.lines + _line("end" if page.is_end else "cursor", page.cursor)


async def as_events(found: AsyncIterator[Portion]) -> AsyncIterator[bytes]:
    """Server-sent events: `rows` with the rows as lines, `end`, `error`; the id is the cursor."""
    async for each in found:
        match each:
            case None:
                yield b":\n\n"
            case Failed(code, message):
                yield _event("error", None, json.dumps({"code": code, "message": message}).encode())
            case page:
                if page.lines:
                    yield _event("rows", page.cursor, page.lines)
                if page.is_end:
                    yield _event("end", page.cursor, b"{}")


def _line(*values: str | None) -> bytes:
    return json.dumps(values).encode() + b"\n"


def _event(kind: str, cursor: str | None, data: bytes) -> bytes:
    head = f"event: {kind}\n" if cursor is None else f"id: {cursor}\nevent: {kind}\n"
    return head.encode() + b"".join(b"data: " + line + b"\n" for line in data.splitlines()) + b"\n"
