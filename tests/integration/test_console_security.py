"""Who may do what over all routes of the console, generated from the routes; and nothing that is shown can run.

What a log-in, a session, a link and a form's token are worth is tested in test_console_access.py; here it is asked of
every route that there is, so that a new one is held to it without being named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from httpx2 import Response
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.routing import Match
from tests.support.console import Visitor, make_user
from tests.support.console_world import ConsoleWorld, console_runtime
from tests.support.crawling import ROUTES as PAGE_ROUTES
from tests.support.crawling import crawl, route_of
from tests.support.roles import MAY
from tests.support.sweep import sweep

from towpath.access.roles import Role, Scope
from towpath.runtime import Runtime
from towpath.web.app import ROUTERS, Surface, build_app
from towpath.web.auth import TOKEN_HEADER, scopes_of

# Whoever can reach the server may ask for these. Nothing is added here without a reason.
OPEN = {
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),  # looks for itself whether somebody may
    ("POST", "/complaints"),  # readers of documents are no users; off unless the settings say so
    ("GET", "/complain"),
    ("POST", "/complain"),
    ("GET", "/static/{name}"),
    ("GET", "/login"),
    ("POST", "/login"),
    ("GET", "/logout"),  # does nothing
    ("GET", "/welcome/{secret}"),
    ("POST", "/welcome/{secret}"),
    ("POST", "/theme"),
}
ENDLESS = {"/live"}
EVERYBODYS = {"/login", "/logout", "/theme", "/complain", "/views", "/views/delete"}
TRAIL = "access_audit"
COLUMNS = {"access_session": "hash, id, user_name, address, browser, made_at"}
_API_ROUTES = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
ALL = [(method, route) for route in (*_API_ROUTES, *PAGE_ROUTES) for method in sorted(route.methods or ())]
CLOSED = [(method, route) for method, route in ALL if (method, route.path) not in OPEN]
_HOLE = re.compile(r"{(\w+)(?::\w+)?}")


def name_of(case: object) -> str:
    return f"{case[0]} {case[1].path}" if isinstance(case, tuple) else str(case)


def is_page(route: APIRoute) -> bool:
    return route in PAGE_ROUTES


def filled(path: str, value: str = "999999") -> str:
    """With ids that nothing has."""
    return _HOLE.sub(value, path)


class House:
    """A console with everything in it, and somebody of each role in front of it."""

    def __init__(self, runtime: Runtime, world: ConsoleWorld) -> None:
        self.runtime = runtime
        self.world = world
        self.app: FastAPI = build_app(runtime, Surface.CONSOLE)
        self.nobody = Visitor(self.app)
        self.by_role = {role: self._visitor(role) for role in Role}

    def _visitor(self, role: Role) -> Visitor:
        visitor = Visitor(self.app)
        assert visitor.log_in(make_user(self.runtime, role)).status_code == 303
        return visitor

    def contents(self, *, without: tuple[str, ...] = ()) -> dict[str, list[Any]]:
        """Every row of every table, but for when somebody was seen last, which is noted once in a while."""
        database: Any = self.runtime.database
        connection = database.connection()
        names = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
        return {
            name: sorted(repr(row) for row in connection.execute(f"select {COLUMNS.get(name, '*')} from {name}"))
            for name in names
            if name not in without
        }


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    home: Path = tmp_path_factory.mktemp("house")
    with console_runtime(home) as runtime:
        world = ConsoleWorld(runtime, home).fill()
        yield House(runtime, world)


def ask(visitor: Visitor, method: str, route: APIRoute, path: str = "", *, token: str | None = None) -> Response:
    """As a page of ours would, with the token of the session unless another is given."""
    token = visitor.token if token is None else token
    path = path or filled(route.path)
    if is_page(route):
        data = {"token": token, "why": "a test"} if method == "POST" else None
        return visitor.client.request(method, path, data=data)
    return visitor.client.request(method, path, json={} if method != "GET" else None, headers={TOKEN_HEADER: token})


# Who may do what


def test_there_are_routes() -> None:
    assert len(PAGE_ROUTES) > 80
    assert len(_API_ROUTES) > 100


def test_what_is_open_is_a_short_list() -> None:
    assert {(method, route.path) for method, route in ALL if not scopes_of(route)} == OPEN


def test_what_changes_something_needs_more_than_looking() -> None:
    weak = {
        (method, route.path)
        for method, route in CLOSED
        if method != "GET" and {Scope.READ, Scope.METRICS} & set(scopes_of(route)) and route.path not in EVERYBODYS
    }
    assert {path for _, path in weak if not path.endswith("/count")} == set()


@sweep(("method", "route"), CLOSED)
def test_who_is_not_logged_in_gets_nothing(method: str, route: APIRoute, house: House) -> None:
    answer = ask(house.nobody, method, route)
    if is_page(route) and method == "GET":
        assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, "/login")
    else:
        assert answer.status_code == 401


@sweep(("method", "route"), CLOSED)
def test_roles(method: str, route: APIRoute, house: House) -> None:
    """Who lacks the scope is refused; who has it gets an answer, never a fault."""
    scopes = scopes_of(route)
    for role, visitor in house.by_role.items():
        may = not MAY[role].isdisjoint(scopes)
        if may and (route.path in ENDLESS or route.path == "/logout"):
            continue
        answer = ask(visitor, method, route)
        assert (answer.status_code == 403) != may, (role, answer.status_code, answer.text[:500])
        assert answer.status_code < 500
        assert answer.status_code != 401


@sweep(("method", "route"), [each for each in CLOSED if each[0] != "GET"])
def test_no_change_without_the_token(method: str, route: APIRoute, house: House) -> None:
    """Each route is asked by every role, and with none, a made-up and somebody else's token."""
    turn = len(route.path)
    for number, (role, visitor) in enumerate(house.by_role.items()):
        another = house.by_role[Role.ADMIN if role is not Role.ADMIN else Role.VIEWER]
        token = ("", "0" * 64, another.token)[(turn + number) % 3]
        assert ask(visitor, method, route, token=token).status_code == 403, (role, token)


@pytest.mark.part("matrix")
def test_refused_changes_have_changed_nothing(house: House) -> None:
    """The same requests at things that are there: by who may not, and without a token."""
    before = house.contents(without=(TRAIL,))
    asked = 0
    for address in reached(house, Role.OPERATOR):
        for action in actions(house.by_role[Role.OPERATOR].text(address)):
            asked += 1
            assert house.by_role[Role.VIEWER].post(action).status_code in (403, 404), action
            assert house.by_role[Role.OPERATOR].send(action, {"why": "x"}).status_code == 403, action
            assert house.nobody.send(action, {"why": "x"}).status_code == 401, action
    assert asked > 40
    assert house.contents(without=(TRAIL,)) == before


@pytest.mark.part("matrix")
def test_nobody_sees_a_button_that_would_be_refused(house: House) -> None:
    for role, visitor in house.by_role.items():
        for address in reached(house, role):
            for action in actions(visitor.text(address)):
                route = next(r for r in PAGE_ROUTES if matches(r, action))
                assert not MAY[role].isdisjoint(scopes_of(route)), (role, address, action)


@pytest.mark.part("matrix")
def test_looking_changes_nothing(house: House) -> None:
    """But when somebody was seen last, which is noted by the minute."""
    admin = house.by_role[Role.ADMIN]
    before = house.contents(without=("access_session",))
    pages = [address for address, _, _ in crawl(admin, most_of_one=5)]
    assert len(pages) > 60
    for method, route in ALL:
        if method == "GET" and route.path not in ENDLESS:
            ask(admin, method, route)
    assert house.contents(without=("access_session",)) == before


def test_the_uploads_of_others_stay_theirs(house: House) -> None:
    """A viewer may send uploads of their own, and abort none of somebody else's."""
    viewer = house.by_role[Role.VIEWER]
    [upload, *_] = house.runtime.gateway.list(owner=None)
    answer = viewer.post(f"/uploads/{upload.id}/abort")
    assert answer.status_code in (403, 404)
    assert house.runtime.gateway.status(upload.id, owner=None).upload.state == upload.state


# What is not there


ODD = ("0b8b4a5e-3d0f-4b0e-9a0e-1c2d3e4f5a6b", "nobody", "%2e%2e%2f", "%F0%9F%9A%A2", "-1", "1e9")


@pytest.mark.parametrize(
    "value", ["999999", "%00", *(pytest.param(each, marks=pytest.mark.part("matrix")) for each in ODD)]
)
def test_what_is_not_there_is_not_found(value: str, house: House) -> None:
    admin = house.by_role[Role.ADMIN]
    for route in PAGE_ROUTES:
        if "{" not in route.path:
            continue
        for method in route.methods or ():
            answer = ask(admin, method, route, filled(route.path, value))
            assert answer.status_code in (404, 409, 410, 422), (method, route.path, answer.status_code)
            if "text/html" in answer.headers.get("content-type", "") and not route.path.startswith("/welcome"):
                assert "<h1>" in answer.text
                assert "Traceback" not in answer.text


# What every answer carries


def test_headers_of_every_route(house: House) -> None:
    admin = house.by_role[Role.ADMIN]
    for method, route in ALL:
        if route.path in ENDLESS or route.path == "/logout":
            continue
        for visitor in (admin, house.nobody):
            headers = ask(visitor, method, route).headers
            policy = headers["content-security-policy"]
            assert policy.startswith("default-src 'none'"), route.path
            assert not re.search(r"unsafe|\*|http", policy), route.path
            assert headers["x-content-type-options"] == "nosniff", route.path
            assert headers["x-frame-options"] == "DENY", route.path
            assert headers["referrer-policy"] == "no-referrer", route.path
            assert headers["cross-origin-resource-policy"] == "same-origin", route.path
            assert "server" not in headers, route.path
            assert "access-control-allow-origin" not in headers, route.path
            if not route.path.startswith("/static"):
                assert "no-store" in headers["cache-control"], route.path


# Whatever is asked

TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=40),
    st.sampled_from(
        ["", "0", "-1", "1", "9" * 30, "null", "%", "'", '"', "\x00", "../..", "shop", "open", "x" * 5000, "2999-01-01"]
    ),
)
LOOKED_AT = [route for route in PAGE_ROUTES if route.methods == {"GET"} and route.path not in ENDLESS]
POSTED = [route for route in PAGE_ROUTES if "POST" in (route.methods or ()) and route.path != "/logout"]
NAMES = (
    *("flow", "stage", "step", "code", "group", "state", "states", "text", "body", "since", "until", "before", "after"),
    *("inbox", "function", "owner", "who", "kind", "subject", "q", "window", "partition", "offset", "key", "sort"),
    *("case", "cases", "name", "why", "payload", "headers", "delay_s", "ttl_s", "value", "rate_s", "title", "into"),
    *("role", "scope", "days", "user", "label", "action", "topic", "where", "document", "said", "reply", "count"),
)
FIELDS = st.lists(st.tuples(st.sampled_from(NAMES), TEXTS), max_size=6)
MANY = settings(
    max_examples=300,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.part("matrix")
@given(route=st.sampled_from(LOOKED_AT), holes=TEXTS, fields=FIELDS)
@MANY
def test_odd_addresses(house: House, route: APIRoute, holes: str, fields: list[tuple[str, str]]) -> None:
    path = filled(route.path, quote(holes.encode(), safe="") or "-")
    answer = house.by_role[Role.ADMIN].client.get(f"{path}?{urlencode(fields)}")
    assert answer.status_code < 500, (path, fields, answer.text[:300])


@pytest.mark.part("matrix")
@given(route=st.sampled_from(POSTED), fields=FIELDS)
@MANY
def test_odd_forms(house: House, route: APIRoute, fields: list[tuple[str, str]]) -> None:
    admin = house.by_role[Role.ADMIN]
    data: dict[str, Any] = {}
    for name, value in fields:
        data.setdefault(name, []).append(value)
    answer = admin.client.post(filled(route.path), data={**data, "token": admin.token})
    assert answer.status_code < 500, (route.path, fields, answer.text[:300])


@pytest.mark.part("matrix")
def test_forms_that_are_too_large(house: House) -> None:
    admin = house.by_role[Role.ADMIN]
    large = "x" * (house.runtime.settings.api.max_body_bytes + 1)
    for route in POSTED:
        answer = admin.client.post(filled(route.path), data={"token": admin.token, "why": large})
        assert answer.status_code == 413, route.path


# Nothing that is shown can run

# Without spaces and control characters, which some names may not have.
HOSTILE = "\"'><script>alert(1)</script><img/src=x/onerror=alert(1)>{{7*7}}<!--"


class Running(HTMLParser):
    """Finds what a browser would run or load, and what breaks out of where it stands."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "link") and not (given.get("src") or given.get("href") or "").startswith(
            "/static/"
        ):
            self.found.append(f"<{tag} {given}>")
        if tag in ("iframe", "object", "embed", "base", "style"):
            self.found.append(f"<{tag}>")
        self.found += [f"{name}={value}" for name, value in attrs if name.startswith("on") or name == "style"]
        for name in ("href", "action", "src", "formaction"):
            target = (given.get(name) or "").strip().lower()
            if target and not target.startswith(("/", "#", "?", "http://", "https://", "mailto:")):
                self.found.append(f"{name}={target}")

    def handle_comment(self, data: str) -> None:
        self.found.append(f"<!-- {data}")


@pytest.fixture(scope="module")
def hostile_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    home: Path = tmp_path_factory.mktemp("hostile")
    with console_runtime(home) as runtime:
        world = ConsoleWorld(runtime, home, HOSTILE).fill()
        yield House(runtime, world)


@pytest.mark.parametrize("role", Role)
def test_nothing_in_data_runs(role: Role, hostile_house: House) -> None:
    seen = set()
    for address, status, text in crawl(hostile_house.by_role[role]):
        assert status < 500, address
        parser = Running()
        parser.feed(text)
        assert parser.found == [], address
        assert "<script>alert" not in text, address
        if "&lt;script&gt;alert(1)" in text:
            route = route_of(address)
            seen.add(route.path if route else address)
    assert len(seen) >= 15, seen  # it stands on most of the pages, as text


def reached(house: House, role: Role) -> list[str]:
    return [address for address, status, text in crawl(house.by_role[role]) if status == 200 and text]


_ACTION = re.compile(r'<form[^>]*\baction="([^"]*)"[^>]*\bmethod="post"')


def actions(page: str) -> set[str]:
    """Where the forms of a page are sent, but for those that are everybody's own."""
    found = {unescape(each) for each in _ACTION.findall(page)}
    return found - EVERYBODYS


def matches(route: APIRoute, path: str) -> bool:
    scope = {"type": "http", "method": "POST", "path": path.partition("?")[0], "root_path": ""}
    return route.matches(scope)[0] is Match.FULL
