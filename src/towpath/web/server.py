"""Running the app: on the loopback interface, unless the settings say that others may reach it."""

from __future__ import annotations

import ipaddress
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import anyio.to_thread
import uvicorn

from towpath.errors import BadSettings
from towpath.settings import ApiSettings
from towpath.web.app import Surface, build_app
from towpath.web.visitors import VisitorLimits

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi import FastAPI

    from towpath.runtime import Runtime


MOST_CONNECTIONS = 512
GRACE_S = 10
BACKLOG = 128


def serve(
    runtime: Runtime,
    on_ready: Callable[[str], None],
    surface: Surface = Surface.API,
    directory: Path | None = None,
) -> None:
    """Answer requests until the process is told to stop; `on_ready` gets the address.

    Modules of users are looked for in the directory of the settings file.
    """
    settings = runtime.settings.api
    with ExitStack() as ending:
        listening = ending.enter_context(listen(settings))
        process = runtime.process()  # a row, so that a successor sees which requests it died at
        for service in (runtime.access.janitor(), runtime.complaints.janitor(), *runtime.upload_services()):
            ending.callback(service.stop)
            service.start()
        app = build_app(runtime, surface, directory)
        at = address(listening, settings)
        process.ready(f"answers at {at}")
        on_ready(at)
        _run(app, listening, settings)


def listen(settings: ApiSettings) -> socket.socket:
    """The open port."""
    if not settings.remote and not _is_loopback(settings.host):
        raise BadSettings(
            f"api.host {settings.host} can be reached by others; keys and passwords would travel over the network in "
            "the clear. Give a certificate (api.tls_certificate, api.tls_key) and set api.remote = true; or put a "
            "server with TLS in front, and set it then"
        )
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
        # Connections have it from here. The head and the body of an answer are written one after the other: the second
        # would wait until the first is acknowledged, which takes the other side 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        raise BadSettings(
            f"api.host {settings.host}, port {settings.port}: {error.strerror or error}; choose another"
        ) from error


def address(listening: socket.socket, settings: ApiSettings) -> str:
    scheme = "https" if settings.tls_certificate else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{listening.getsockname()[1]}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _run(app: FastAPI, listening: socket.socket, settings: ApiSettings) -> None:
    config = uvicorn.Config(
        _with_threads(app, settings.threads),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # anybody could write them
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_S,
        lifespan="off",
        ssl_certfile=settings.tls_certificate or None,
        ssl_keyfile=settings.tls_key or None,
    )
    limits: VisitorLimits = app.state.visitor_limits
    _Server(config, limits.ending.set).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Ends in order when it is told to stop; uvicorn's own would then let the signal end the process as it is."""

    def __init__(self, config: uvicorn.Config, on_exit: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_exit = on_exit

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._on_exit()  # streams without an end would keep it waiting
        self.handle_exit(number, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {each: signal.signal(each, self._end) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def _with_threads(app: FastAPI, threads: int) -> Callable[..., object]:
    """The app, with so many threads for its handlers: each has a connection to the database."""

    async def limited(scope: object, receive: object, send: object) -> None:
        anyio.to_thread.current_default_thread_limiter().total_tokens = threads
        await app(scope, receive, send)  # type: ignore[arg-type]

    return limited
