"""Pages: rendered from templates, with what each of them needs to know about who looks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from towpath.access.principal import Principal
from towpath.access.role import Scope
from towpath.clock import to_datetime
from towpath.web.asking import runtime_of
from towpath.web.console import desk_filters, filters
from towpath.web.console.flash import SAID, said
from towpath.web.console.navigation import GROUPS
from towpath.web.console.sharing import LIVE_HEADER
from towpath.web.console.static import url_of

if TYPE_CHECKING:
    from towpath.runtime import Runtime

# Nothing that stands in a page can run: scripts and styles come from this server's own files alone.
POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
THEME = "towpath_theme"
THEMES = ("system", "light", "dark")


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
    made.filters.update({**filters.FILTERS, **desk_filters.FILTERS})
    made.globals.update(static=url_of, groups=GROUPS)
    return made


@dataclass(frozen=True, slots=True)
class Looking:
    """Who looks at a page, for its template: `may("desk:write")` says which buttons are there."""

    principal: Principal | None
    form_token: str

    def may(self, scope: str) -> bool:
        return self.principal is not None and Scope(scope) in self.principal.scopes

    @property
    def name(self) -> str:
        return self.principal.name if self.principal else ""


def looking(request: Request) -> Looking:
    principal: Principal | None = getattr(request.state, "principal", None)
    return Looking(principal, getattr(request.state, "form_token", ""))


def page(request: Request, template: str, *, status: int = 200, **context: Any) -> Response:
    """A whole page. The sentence that the last change left is shown once."""
    who = looking(request)
    is_live = LIVE_HEADER in request.headers
    sentence = None if is_live else said(request)
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


def theme_of(request: Request) -> str:
    found = request.cookies.get(THEME, "")
    return found if found in THEMES else THEMES[0]


def _address(request: Request) -> str:
    """The page with its filters, as a link would have it."""
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def _views(runtime: Runtime, who: Looking) -> list[tuple[str, str]]:
    return runtime.access.sessions.views(who.name) if who.principal else []
