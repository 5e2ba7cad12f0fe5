"""Lists that look the same to all who may see the same: when many have one open, it is made once for each news.

When something has changed, every open page asks for itself again. Who asks is recognised each time, as anywhere else;
then whoever asks first has the list made, and the others get it with the token of their own forms in it. What somebody
asks for by hand is made for them alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from fastapi import Request
from fastapi.responses import HTMLResponse, Response

from towpath.access.principal import Principal
from towpath.web.console.pages import POLICY, looking, theme_of
from towpath.web.console.sharing import FRESH_S, LIVE_HEADER, MOST_KEPT
from towpath.web.visiting import seen_of

Make = Callable[[Request, Principal], Response]
Key = tuple[object, ...]


@dataclass(slots=True)
class _Made:
    """A list, once somebody has made it; `body` is none until then, and after a failure."""

    begun: float
    form_token: bytes = b""
    body: bytes | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Common:
    """What was made last, in one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[Key, _Made] = {}

    def answer(self, request: Request, principal: Principal, make: Make) -> Response:
        """The list of a request that a page has made by itself."""
        token = looking(request).form_token.encode()
        made = self._newest(_key(request, principal))
        with made.lock:
            if made.body is None:
                answer = make(request, principal)
                if answer.status_code != 200 or "set-cookie" in answer.headers:
                    return answer
                made.body, made.form_token = bytes(answer.body), token
                return answer
        return HTMLResponse(made.body.replace(made.form_token, token), headers=POLICY)

    def _newest(self, key: Key) -> _Made:
        now = time.monotonic()
        with self._lock:
            found = self._made.get(key)
            if found is None or now - found.begun >= FRESH_S:
                found = self._made[key] = _Made(now)
                for old in list(self._made)[: max(0, len(self._made) - MOST_KEPT)]:
                    del self._made[old]
            return found


def in_common(request: Request, principal: Principal, make: Make) -> Response:
    """A list that depends on nothing but the address and what somebody may see and do: never on who they are."""
    if LIVE_HEADER not in request.headers or not looking(request).form_token:
        return make(request, principal)
    common: Common = request.app.state.common
    return common.answer(request, principal, make)


def _key(request: Request, principal: Principal) -> Key:
    rights = (principal.role, frozenset(principal.scopes), seen_of(principal))
    address = (request.url.path, request.url.query, theme_of(request))
    return (*rights, *address, request.app.state.broadcaster.version)
