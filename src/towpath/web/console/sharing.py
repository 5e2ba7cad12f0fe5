"""One answer for all pages of a browser that ask for the same at the same moment.

When something has changed, every open page asks for itself again at once. Who asks while another's answer is made,
or a moment later, gets that one, unless there was news in between. Only questions that pages ask by themselves are
shared, never a person's; and only pages are: what comes as a stream goes to whoever asked for it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from towpath.web.asking import SESSION

LIVE_HEADER = "X-Live"
FRESH_S = 1.0
MOST_KEPT = 64

Key = tuple[str, str, bytes, int]


@dataclass(slots=True)
class _Answer:
    """What is said to all who ask for it."""

    begun: float
    is_page: bool = True
    messages: list[Message] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Sharing:
    """Around the pages. Used from the event loop only."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._answers: dict[Key, _Answer] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = _key(scope)
        if key is None:
            await self._app(scope, receive, send)
            return
        answer = self._fresh(key)
        if answer is None:
            answer = await self._made(key, scope, receive, send)
        else:
            await answer.ended.wait()
            if not answer.messages:  # whoever made it has failed, or it is not to be shared
                await self._app(scope, receive, send)
                return
        for message in answer.messages:
            await send({**message, "headers": list(message["headers"])} if "headers" in message else message)

    def _fresh(self, key: Key) -> _Answer | None:
        found = self._answers.get(key)
        return found if found is not None and time.monotonic() - found.begun < FRESH_S else None

    async def _made(self, key: Key, scope: Scope, receive: Receive, send: Send) -> _Answer:
        self._answers[key] = answer = _Answer(time.monotonic())

        async def keep(message: Message) -> None:
            if message["type"] == "http.response.start" and not _is_page(message):
                answer.is_page = False
                self._answers.pop(key, None)
                answer.ended.set()
            if answer.is_page:
                answer.messages.append(message)
            else:
                await send(message)

        try:
            await self._app(scope, receive, keep)
        except BaseException:
            self._answers.pop(key, None)
            answer.messages.clear()
            raise
        finally:
            answer.ended.set()
            self._forget()
        return answer

    def _forget(self) -> None:
        """The oldest, when there are many."""
        for key in list(self._answers)[: max(0, len(self._answers) - MOST_KEPT)]:
            del self._answers[key]


def _is_page(message: Message) -> bool:
    return Headers(raw=message["headers"]).get("content-type", "").startswith("text/html")


def _key(scope: Scope) -> Key | None:
    """Whose browser asks for which page; none: not a question that is shared."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    headers = Headers(scope=scope)
    cookies = headers.get("cookie", "")
    if LIVE_HEADER not in headers or SESSION not in cookies:
        return None
    news: int = scope["app"].state.broadcaster.version
    return cookies, scope["path"], scope["query_string"], news
