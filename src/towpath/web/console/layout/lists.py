"""Lists: filters and places from the address of a page, what masks hide, and lists that are made once for many.

Reasons and details of events, actors and processes quote records, and nobody can say where in them a masked field is:
they are hidden whole.

When something has changed, every open page asks for itself again. Who asks is recognised each time, as anywhere else. A
list that looks the same to all who may see the same is then made once for each news: whoever asks first has it made,
and the others get it with the token of their own forms in it. What a person asks for by hand is made for them alone.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from fastapi import Request
from fastapi.responses import HTMLResponse, Response

from towpath.access.roles import Principal
from towpath.actors.instance import Instance
from towpath.db.event_log import StoredEvent
from towpath.desk.masks import MASK, Masks
from towpath.errors import BadValue
from towpath.operations.model import LARGEST
from towpath.supervision.duties.model import Duty
from towpath.supervision.duties.store import Death
from towpath.web.console.layout.page import FRESH_S, LIVE_HEADER, MOST_KEPT, POLICY, page_viewer, theme_of
from towpath.web.visitors import seen_of

if TYPE_CHECKING:
    from towpath.runtime import Runtime


MOST_DIGITS = 19
_AGE = re.compile(r"([0-9]{1,5})\s*([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

E = TypeVar("E", bound=StrEnum)
Troubled = TypeVar("Troubled", Duty, Death)

Make = Callable[[Request, Principal], Response]
SharedPageKey = tuple[object, ...]


def chosen(request: Request, *names: str) -> dict[str, str]:
    """The filters that are filled in."""
    return {name: value for name in names if (value := request.query_params.get(name, "").strip())}


def whole_of(request: Request, name: str) -> int | None:
    """A number of the address; none: it is not there."""
    text = request.query_params.get(name, "").strip()
    if not text:
        return None
    is_number = text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS
    if not (is_number and int(text) <= LARGEST):
        raise BadValue(f"{name}: {text!r} is not a number")
    return int(text)


def time_of(request: Request, name: str, now: datetime) -> datetime | None:
    """A time of the address: an age (`15m`, `6h`, `7d`: so long ago) or a time as ISO 8601 has it, UTC if not said."""
    text = request.query_params.get(name, "").strip()
    if not text:
        return None
    if found := _AGE.fullmatch(text):
        return now - timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadValue(f"{name}: {text!r} is not a time such as 2026-01-31 10:00, or an age such as 15m") from None


def one_of(request: Request, name: str, kind: type[E]) -> E | None:
    """A word of the address, of those that there are; none: it is not there."""
    text = request.query_params.get(name, "").strip()
    if not text:
        return None
    try:
        return kind(text)
    except ValueError:
        raise BadValue(f"{name}: there is no {text!r}; there are: {', '.join(kind)}") from None


def before_of(request: Request) -> int | None:
    """Where a page of a list begins."""
    return whole_of(request, "before") or None


def enum_of(kind: type[E], name: str, text: str) -> E:
    """The word of a field, of those that there are."""
    try:
        return kind(text)
    except ValueError:
        raise BadValue(f"{name}: {text!r} is not one of {', '.join(kind)}") from None


def utc_time(name: str, text: str) -> datetime:
    """The time of a field: as browsers send it, without a zone, it is in UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadValue(f"{name}: write a time as 2026-01-31T18:00, not {text!r}") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def events_of(runtime: Runtime, subject: str, limit: int, kind: str | None = None) -> list[StoredEvent]:
    """The last things that happened to something, the newest first."""
    with runtime.database.read() as tx:
        return runtime.event_log.page(tx, limit=limit, subject=subject, kind=kind)


def events_seen(events: Iterable[StoredEvent], masks: Masks) -> list[StoredEvent]:
    return [replace(each, why=MASK, data={}) if masks else each for each in events]


def instances_seen(instances: Iterable[Instance], masks: Masks) -> list[Instance]:
    return [each._replace(reason=MASK) if masks and each.reason else each for each in instances]


def troubles_seen(found: Iterable[Troubled], masks: Masks) -> list[Troubled]:
    return [replace(each, trouble=MASK) if masks and each.trouble else each for each in found]


def in_common(request: Request, principal: Principal, make: Make) -> Response:
    """A list that depends on nothing but the address and what somebody may see and do: never on who they are."""
    if LIVE_HEADER not in request.headers or not page_viewer(request).form_token:
        return make(request, principal)
    shared: SharedPages = request.app.state.shared_pages
    return shared.answer(request, principal, make)


class SharedPages:
    """What was made last, in one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[SharedPageKey, _Made] = {}

    def answer(self, request: Request, principal: Principal, make: Make) -> Response:
        """The list of a request that a page has made by itself."""
        token = page_viewer(request).form_token.encode()
        made = self._newest(_key(request, principal))
        with made.lock:
            if made.body is None:
                answer = make(request, principal)
                if answer.status_code != 200 or "set-cookie" in answer.headers:
                    return answer
                made.body, made.form_token = bytes(answer.body), token
                return answer
        return HTMLResponse(made.body.replace(made.form_token, token), headers=POLICY)

    def _newest(self, key: SharedPageKey) -> _Made:
        now = time.monotonic()
        with self._lock:
            found = self._made.get(key)
            if found is None or now - found.begun >= FRESH_S:
                found = self._made[key] = _Made(now)
                for old in list(self._made)[: max(0, len(self._made) - MOST_KEPT)]:
                    del self._made[old]
            return found


@dataclass(slots=True)
class _Made:
    """A list, once somebody has made it; `body` is none until then, and after a failure."""

    begun: float
    form_token: bytes = b""
    body: bytes | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


def _key(request: Request, principal: Principal) -> SharedPageKey:
    rights = (principal.role, frozenset(principal.scopes), seen_of(principal))
    address = (request.url.path, request.url.query, theme_of(request))
    return (*rights, *address, request.app.state.broadcaster.version)
