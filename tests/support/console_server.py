"""The console on a port of its own, in a thread of this process, and pages of a real browser that look at it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from tests.support.console import PASSWORD, make_user

from towpath.access.roles import Role
from towpath.runtime import Runtime
from towpath.settings import ApiSettings
from towpath.testing.clock import wait_until
from towpath.web.app import Surface, build_app
from towpath.web.auth import SESSION
from towpath.web.server import address, listen
from towpath.web.visitors import VisitorLimits

Cookie = dict[str, str]


class ConsoleServer:
    """Answers under `address` what is in the database of `runtime`."""

    def __init__(self, runtime: Runtime, at: str) -> None:
        self.runtime = runtime
        self.address = at

    def cookie(self, role: Role | str, name: str | None = None) -> Cookie:
        """The session of somebody of that role who has just logged in."""
        user = make_user(self.runtime, role, name)
        begun = self.runtime.access.sessions.begin(user, PASSWORD, address="127.0.0.1", browser="a test")
        return {"name": SESSION, "value": begun.secret, "url": self.address}


@contextmanager
def console_server(runtime: Runtime) -> Iterator[ConsoleServer]:
    """As `towpath console` has it, but for the signals, which belong to the process of the tests."""
    settings = ApiSettings(port=0)
    app = build_app(runtime, Surface.CONSOLE)
    limits: VisitorLimits = app.state.visitor_limits
    with listen(settings) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="console")
        thread.start()
        try:
            wait_until(lambda: server.started, what="the console")
            yield ConsoleServer(runtime, address(listening, settings))
        finally:
            limits.ending.set()
            server.should_exit = True
            thread.join()
