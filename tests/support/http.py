"""The HTTP interface in this process, and somebody who uses it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI
from fastapi.testclient import TestClient
from tests.support.roles import MAY

from towpath.access.roles import Role
from towpath.runtime import Runtime
from towpath.web.app import build_app

BASE = "http://127.0.0.1:8470"
API = "/api/v1"
_loops = ExitStack()


@cache
def _event_loop() -> BlockingPortal:
    """One for all requests of this process: to start one, with its thread, takes longer than most requests."""
    return _loops.enter_context(start_blocking_portal())


def close_loop() -> None:
    """To be done at the end of a process, which would wait for its thread."""
    _loops.close()


def pytest_unconfigure() -> None:
    close_loop()


class OnOneLoop(TestClient):
    """Starts no event loop of its own."""

    def __init__(self, app: FastAPI, **options: Any) -> None:
        super().__init__(app, base_url=BASE, raise_server_exceptions=False, **options)
        self.portal = _event_loop()


class Client(OnOneLoop):
    """Asks as one person. What breaks inside is an answer here, as it is for everybody."""

    def __init__(self, runtime: Runtime, key: str | None = None, app: FastAPI | None = None) -> None:
        """With an app that was built before it takes no third of a second to build another."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        super().__init__(app or build_app(runtime), headers=headers)

    def ask(self, path: str, body: Any = None, **headers: str) -> Any:
        """Post a body as JSON; `idempotency_key="x"` becomes a header."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.post(f"{API}{path}", json={"why": "a test"} if body is None else body, headers=named)


MakeClient = Callable[..., Client]


def make_key(runtime: Runtime, role: Role | str = Role.ADMIN, scopes: Sequence[str] | None = None) -> str:
    """The key of a new user of that role, called as the role is."""
    role = Role(role)
    if role not in {user.name for user in runtime.access.users()}:
        runtime.access.add_user(str(role), role, who="test", why="a test")
    wanted = MAY[role] if scopes is None else scopes
    return runtime.access.make_key(str(role), sorted(wanted), who="test", why="a test")[1].text


@pytest.fixture
def make_client(runtime: Runtime) -> MakeClient:
    """Clients by role: `make_client("viewer")`; without one, somebody who has no key."""

    def make(role: Role | str | None = Role.ADMIN, scopes: Sequence[str] | None = None) -> Client:
        return Client(runtime, None if role is None else make_key(runtime, role, scopes))

    return make


def error_of(answer: Any) -> dict[str, Any]:
    """What an answer says is wrong, in the one shape and nothing else."""
    body = answer.json()
    assert set(body) == {"error"}, body
    assert set(body["error"]) == {"code", "message", "details"}
    assert "Traceback" not in answer.text
    found: dict[str, Any] = body["error"]
    return found
