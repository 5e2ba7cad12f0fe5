"""Pages: rendered from templates, with the menu, who looks, and the sentence that the last change left.

That sentence comes in a cookie, which is read once.

`SharedAnswers` gives one answer to all pages of a browser that ask for the same at the same moment. When something has
changed, every open page asks for itself again at once. Who asks while another's answer is made, or a moment later, gets
that one, unless there was news in between. Only questions that pages ask by themselves are shared, never a person's;
and only pages are: what comes as a stream goes to whoever asked for it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as HttpScope

from towpath.access.roles import Principal, Scope
from towpath.core.clock import to_datetime
from towpath.web.auth import SESSION, runtime_of
from towpath.web.console.layout.filters import FILTERS
from towpath.web.console.static import url_of

if TYPE_CHECKING:
    from towpath.runtime import Runtime


SAID = "towpath_said"
SAID_S = 60
LONGEST_SAID = 600
_WRONG = "!"

LIVE_HEADER = "X-Live"
FRESH_S = 1.0
MOST_KEPT = 64

THEME = "towpath_theme"
THEMES = ("system", "light", "dark")
# Nothing that stands in a page can run: scripts and styles come from this server's own files alone.
POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class MenuLink(NamedTuple):
    """A page. `key` goes there after `g`; whoever lacks the scope does not see it."""

    path: str
    title: str
    key: str
    scope: str = "read"


class MenuGroup(NamedTuple):
    """Pages that belong together."""

    title: str
    links: tuple[MenuLink, ...]


GROUPS = (
    MenuGroup("", (MenuLink("/", "Overview", "o"),)),
    MenuGroup(
        "Data",
        (
            MenuLink("/flows", "Flows", "f"),
            MenuLink("/topics", "Topics", "t"),
            MenuLink("/uploads", "Uploads", "u"),
            MenuLink("/data-sets", "Data sets", "d"),
        ),
    ),
    MenuGroup(
        "Error desk",
        (
            MenuLink("/desk/groups", "Groups", "e"),
            MenuLink("/desk/cases", "Cases", "c"),
            MenuLink("/desk/lanes", "Lanes", "l"),
            MenuLink("/desk/jobs", "Bulk jobs", "j"),
            MenuLink("/desk/policies", "Policies", "r"),
            MenuLink("/desk/corrections", "Corrections", "x"),
        ),
    ),
    MenuGroup(
        "Control",
        (
            MenuLink("/workflows", "Workflows", "w"),
            MenuLink("/actors", "Actors", "a"),
            MenuLink("/queue", "Queue", "q"),
            MenuLink("/processes", "Processes", "p"),
            MenuLink("/events", "Events", "v"),
            MenuLink("/notices", "Notices", "i"),
        ),
    ),
    MenuGroup(
        "Tools",
        (
            MenuLink("/blocks", "Block rules", "b"),
            MenuLink("/complaints", "Complaints", "n"),
            MenuLink("/maintenance", "Maintenance", "m"),
            MenuLink("/keys", "API keys", "k", "admin"),
            MenuLink("/users", "Users", "s", "admin"),
            MenuLink("/trail", "Audit trail", "y", "admin"),
        ),
    ),
)


def page(request: Request, template: str, *, status: int = 200, **context: Any) -> Response:
    """A whole page. The sentence that the last change left is shown once."""
    who = page_viewer(request)
    is_live = LIVE_HEADER in request.headers
    sentence = None if is_live else _said(request)
    shown = {
        "request": request,
        "here": request.url.path,
        "address": _address(request),
        "query": request.query_params,
        "me": who,
        "may": who.may,
        "form_token": who.form_token,
        "now": to_datetime(runtime_of(request).database.now()),
        "said": sentence,
        "theme": theme_of(request),
        "is_live": is_live,
        "views": [] if is_live else _views(runtime_of(request), who),
        **context,
    }
    answer = HTMLResponse(templates().get_template(template).render(shown), status, POLICY)
    if sentence is not None:
        answer.delete_cookie(SAID, path="/")
    return answer


def page_viewer(request: Request) -> PageViewer:
    principal: Principal | None = getattr(request.state, "principal", None)
    return PageViewer(principal, getattr(request.state, "form_token", ""))


@dataclass(frozen=True, slots=True)
class PageViewer:
    """Who looks at a page, for its template: `may("desk:write")` says which buttons are there."""

    principal: Principal | None
    form_token: str

    def may(self, scope: str) -> bool:
        return self.principal is not None and Scope(scope) in self.principal.scopes

    @property
    def name(self) -> str:
        return self.principal.name if self.principal else ""


def went(address: str, text: str = "", *, is_wrong: bool = False) -> Response:
    """Go to a page of this console after a form, and say something there."""
    answer = RedirectResponse(_local(address), 303)
    if text:
        kept = quote((_WRONG if is_wrong else "") + text[:LONGEST_SAID], safe="")
        answer.set_cookie(SAID, kept, max_age=SAID_S, httponly=True, samesite="lax", path="/")
    return answer


def theme_of(request: Request) -> str:
    found = request.cookies.get(THEME, "")
    return found if found in THEMES else THEMES[0]


@cache
def templates() -> Environment:
    """The templates. All that is put into one is escaped; what is not defined is an error."""
    made = Environment(
        loader=PackageLoader("towpath.web.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(FILTERS)
    made.globals.update(static=url_of, groups=GROUPS)
    return made


@dataclass(frozen=True, slots=True)
class FlashMessage:
    """What was done, or why it was not."""

    text: str
    is_wrong: bool = False


def _said(request: Request) -> FlashMessage | None:
    kept = unquote(request.cookies.get(SAID, ""))
    if not kept:
        return None
    return FlashMessage(kept.removeprefix(_WRONG)[:LONGEST_SAID], kept.startswith(_WRONG))


def _local(address: str) -> str:
    """Never to another server, whatever a form says."""
    is_ours = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if is_ours and address.isprintable() else "/"


def _address(request: Request) -> str:
    """The page with its filters, as a link would have it."""
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def _views(runtime: Runtime, who: PageViewer) -> list[tuple[str, str]]:
    return runtime.access.sessions.views(who.name) if who.principal else []


Key = tuple[str, str, bytes, int]


class SharedAnswers:
    """Around the pages. Used from the event loop only."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._answers: dict[Key, _Answer] = {}

    async def __call__(self, scope: HttpScope, receive: Receive, send: Send) -> None:
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

    async def _made(self, key: Key, scope: HttpScope, receive: Receive, send: Send) -> _Answer:
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


@dataclass(slots=True)
class _Answer:
    """What is said to all who ask for it."""

    begun: float
    is_page: bool = True
    messages: list[Message] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


def _is_page(message: Message) -> bool:
    return Headers(raw=message["headers"]).get("content-type", "").startswith("text/html")


def _key(scope: HttpScope) -> Key | None:
    """Whose browser asks for which page; none: not a question that is shared."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    headers = Headers(scope=scope)
    cookies = headers.get("cookie", "")
    if LIVE_HEADER not in headers or SESSION not in cookies:
        return None
    news: int = scope["app"].state.broadcaster.version
    return cookies, scope["path"], scope["query_string"], news
