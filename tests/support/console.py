"""The pages of the console in this process, and somebody with a browser in front of them."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import unescape
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from httpx2 import Response
from tests.support.http import OnOneLoop

from towpath.access.roles import Role
from towpath.access.sessions import form_token
from towpath.runtime import Runtime
from towpath.web.app import Surface, build_app
from towpath.web.auth import SESSION

PASSWORD = "a long password"  # noqa: S105 - of people in tests
FOREIGN_TOKEN = "0" * 64

# What stands in data and must not run, break a page, or be worked out.
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{7*7}}",
    "'; drop table message; --",
    "\x07\x1b[31m\u202eevil",
)

_TOKEN = re.compile(r'<meta name="form-token" content="([0-9a-f]*)">')
_SAID = re.compile(r'<p class="said( wrong)?" role="status">(.*?)</p>', re.DOTALL)


class Visitor:
    """A browser. It holds cookies, does not follow redirects by itself, and gets no error pages of the test."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.runtime: Runtime = app.state.runtime
        self.client = OnOneLoop(app, follow_redirects=False)
        self.token = ""

    def log_in(self, name: str, password: str = PASSWORD, next: str = "", **headers: str) -> Response:
        """Through the log-in page, as a person does."""
        answer = self.send("/login", {"name": name, "password": password, "next": next}, **headers)
        if answer.status_code == 303:
            self.token = form_token(self.client.cookies[SESSION])
        return answer

    def token_on(self, path: str) -> str:
        """The token that the forms of a page carry."""
        found = _TOKEN.search(self.text(path))
        assert found is not None
        return found[1]

    def get(self, path: str, **headers: str) -> Response:
        return self.client.get(path, headers=_named(headers))

    def text(self, path: str) -> str:
        """A page that is there."""
        answer = self.get(path)
        assert answer.status_code == 200, (answer.status_code, answer.headers.get("location"), answer.text[:2000])
        return answer.text

    def post(self, path: str, **fields: str | Sequence[str]) -> Response:
        """A form of a page, with a reason and the token; `from_="x"` is sent as `from`."""
        return self.send(path, {"token": self.token, "why": "a test", **fields})

    def send(self, path: str, fields: dict[str, Any], **headers: str) -> Response:
        """A form with nothing but these fields; `sec_fetch_site="cross-site"` becomes a header."""
        plain = {name.removesuffix("_"): value for name, value in fields.items()}
        return self.client.post(path, data=plain, headers=_named(headers))

    def done(self, path: str, **fields: str | Sequence[str]) -> str:
        """A form that is carried out: the page that is shown after it."""
        answer = self.post(path, **fields)
        assert answer.status_code == 303, (answer.status_code, answer.text[:4000])
        return self.text(answer.headers["location"])

    def refused(self, path: str, status: int, **fields: str | Sequence[str]) -> str:
        """A form that is not: what the page says about it."""
        answer = self.post(path, **fields)
        assert answer.status_code == status, (answer.status_code, answer.text[:4000])
        return unescape(answer.text)


MakeVisitor = Callable[..., Visitor]


def said(page: str) -> str:
    """The sentence that a change has left on the page after it."""
    found = _SAID.search(page)
    return unescape(found[2]) if found else ""


def has_run(page: str) -> bool:
    """Whether something of `HOSTILE` stands in a page as more than text."""
    return "<script>alert" in page or "<img src=x" in page


def make_user(runtime: Runtime, role: Role | str, name: str | None = None) -> str:
    """Somebody of that role who can log in, called as the role is if nothing else is said."""
    name = name or str(role)
    if name not in {user.name for user in runtime.access.users()}:
        runtime.access.add_user(name, Role(role), who="test", why="a test", password=PASSWORD)
    return name


@pytest.fixture
def make_visitor(request: pytest.FixtureRequest, database_settings: dict[str, Any]) -> MakeVisitor:
    """Visitors by role: `make_visitor("viewer")`; without one, somebody who is not logged in.

    They look at the test's `runtime`, or at the one that is given; no other one is opened on either database.
    """
    apps: dict[int, FastAPI] = {}

    def make(role: Role | str | None = Role.ADMIN, runtime: Runtime | None = None, name: str | None = None) -> Visitor:
        found: Runtime = runtime or request.getfixturevalue("runtime")
        if id(found) not in apps:
            apps[id(found)] = build_app(found, Surface.CONSOLE)
        visitor = Visitor(apps[id(found)])
        if role is not None:
            assert visitor.log_in(make_user(found, role, name)).status_code == 303
        return visitor

    return make


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The same pages over the network, for what has no end: gives the address."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        app.state.visitor_limits.ending.set()
        server.should_exit = True
        thread.join(30)
