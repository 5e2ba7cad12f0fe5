"""Somebody who sends uploads or receives results, at one request: whose uploads they see, and how fast they may be."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, Request

from towpath.access.principal import Principal
from towpath.access.role import Role, Scope
from towpath.settings import GatewaySettings
from towpath.web.asking import needs, runtime_of
from towpath.web.places import Lines, Places
from towpath.web.rate import Rates

MaySend = Annotated[Principal, Depends(needs(Scope.GATEWAY_SEND))]
MayReceive = Annotated[Principal, Depends(needs(Scope.GATEWAY_RECEIVE))]
MayLook = Annotated[Principal, Depends(needs(Scope.GATEWAY_SEND, Scope.GATEWAY_RECEIVE, Scope.READ))]
MayAbort = Annotated[Principal, Depends(needs(Scope.GATEWAY_SEND, Scope.DESK_WRITE))]

MOST_CHUNKS, MOST_CHUNKS_OF_ONE = 64, 16  # in memory
MOST_STREAMS, MOST_STREAMS_OF_ONE = 200, 50


class Hall:
    """What all visitors of one process share."""

    def __init__(self, settings: GatewaySettings, threads: int) -> None:
        self.rates = Rates(settings.requests_per_s, settings.bytes_per_s, time.monotonic)
        self.streams = Places("streams", MOST_STREAMS, MOST_STREAMS_OF_ONE)
        self.ending = threading.Event()  # the process was told to stop
        self._lines = Lines()
        self._most_takes = max(1, threads // 2)

    @asynccontextmanager
    async def room_for_chunk(self, key: str) -> AsyncIterator[None]:
        """For the body of one more."""
        async with self._lines.one_of(MOST_CHUNKS_OF_ONE, "key", key), self._lines.one_of(MOST_CHUNKS, "chunks"):
            yield

    @asynccontextmanager
    async def turn_of(self, upload: str, sender: str) -> AsyncIterator[None]:
        """Chunks of one sender come one after the other; half of the threads are for other requests."""
        async with self._lines.one_of(1, "sender", upload, sender), self._lines.one_of(self._most_takes, "takes"):
            yield


class Visitor:
    """One person at one request. An upload of somebody else is for them as if there was none."""

    def __init__(self, request: Request, principal: Principal) -> None:
        self.principal = principal
        self.runtime = runtime_of(request)
        self.hall: Hall = request.app.state.hall
        self.hall.rates.admit(self.key)

    @property
    def name(self) -> str:
        return self.principal.name

    @property
    def key(self) -> str:
        """What limits go by."""
        return self.principal.by

    def own(self, upload: str) -> str:
        """The id of their upload, as it is kept; raises `UnknownUpload` when it is another's."""
        return self.runtime.gateway.status(upload, owner=self.name).upload.id


class Sender(Visitor):
    """Who may send."""

    def __init__(self, request: Request, principal: MaySend) -> None:
        super().__init__(request, principal)


class Receiver(Visitor):
    """Who may receive."""

    def __init__(self, request: Request, principal: MayReceive) -> None:
        super().__init__(request, principal)


class Looker(Visitor):
    """Who may see how far an upload is: its owner, and operators."""

    def __init__(self, request: Request, principal: MayLook) -> None:
        super().__init__(request, principal)

    @property
    def owner(self) -> str | None:
        """Whose uploads are seen; none: everybody's."""
        return seen_of(self.principal)


class Ender(Visitor):
    """Who may give an upload up: its owner, and operators."""

    def __init__(self, request: Request, principal: MayAbort) -> None:
        super().__init__(request, principal)

    @property
    def owner(self) -> str | None:
        """Whose uploads may be given up; none: everybody's."""
        return ended_by(self.principal)


def seen_of(principal: Principal) -> str | None:
    """Whose uploads somebody sees; none: everybody's."""
    sees_all = principal.role is not Role.VIEWER and Scope.READ in principal.scopes
    return None if sees_all else principal.name


def ended_by(principal: Principal) -> str | None:
    """Whose uploads somebody may give up; none: everybody's."""
    return None if Scope.DESK_WRITE in principal.scopes else principal.name


ASender = Annotated[Sender, Depends(Sender)]
AReceiver = Annotated[Receiver, Depends(Receiver)]
ALooker = Annotated[Looker, Depends(Looker)]
AnEnder = Annotated[Ender, Depends(Ender)]
