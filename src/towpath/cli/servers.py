"""`towpath api`, `console` and `gateway`: the HTTP interface, the web pages, and uploads alone."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import CliContext

if TYPE_CHECKING:
    from towpath.runtime import Runtime


app = typer.Typer(help="The HTTP interface.", no_args_is_help=True)
gateway_app = typer.Typer(help="Uploads and their results over HTTP.", no_args_is_help=True)

Host = Annotated[str | None, typer.Option(metavar="HOST", help="The interface to listen on; else as set.")]
Port = Annotated[
    int | None, typer.Option(min=0, max=65535, metavar="PORT", help="The port; 0 for a free one; else as set.")
]

_REACHABLE = (
    "WARNING: others can reach this console over the network. Whoever logs in here as an operator can change data, and "
    "an admin can do everything: see that TLS is on, and that only those who should can connect."
)


@app.callback()
def group() -> None:
    """The HTTP interface."""


@app.command()
def run(ctx: typer.Context, host: Host = None, port: Port = None) -> None:
    """Answer requests until Ctrl-C or SIGTERM. An interface that others can reach needs the setting api.remote."""
    serve(ctx, "api", host, port)


def console(
    ctx: typer.Context,
    host: Host = None,
    port: Port = None,
    browser: Annotated[bool, typer.Option("--open", help="Open it in this machine's browser.")] = False,
) -> None:
    """Serve the console until Ctrl-C or SIGTERM, with the JSON API, uploads and results. The first start prints a link
    with which an admin chooses a password.
    """

    def tell(runtime: Runtime, address: str) -> None:
        typer.echo(f"listening at {address}")
        if not _is_near(runtime.settings.api.host):
            typer.secho(_REACHABLE, fg="red", bold=True, err=True)
        secret = runtime.access.sessions.first_link()
        if secret is not None:
            typer.echo(f"nobody can log in yet; choose the password of admin, once, at\n  {address}/welcome/{secret}")
        if browser:
            typer.launch(f"{address}/welcome/{secret}" if secret else address)

    serve(ctx, "console", host, port, tell)


@gateway_app.callback()
def gateway_group() -> None:
    """Uploads and their results over HTTP."""


@gateway_app.command("run")
def run_gateway(ctx: typer.Context, host: Host = None, port: Port = None) -> None:
    """Take uploads and give out results until Ctrl-C or SIGTERM. `towpath api run` does so, too."""
    serve(ctx, "gateway", host, port)


def serve(
    ctx: typer.Context,
    kind: str,
    host: str | None,
    port: int | None,
    on_ready: Callable[[Runtime, str], None] = lambda _, address: typer.echo(f"listening at {address}"),
) -> None:
    """Serve the surface of this kind until it is stopped; `on_ready` gets the address."""
    from towpath.core import logs
    from towpath.runtime import Runtime
    from towpath.settings import directory_of
    from towpath.web import server
    from towpath.web.app import Surface

    given = ctx.ensure_object(CliContext)
    loaded = given.settings(api={k: v for k, v in (("host", host), ("port", port)) if v is not None})
    logs.configure(loaded.logging)
    with Runtime(loaded, kind=kind) as runtime:
        server.serve(runtime, lambda address: on_ready(runtime, address), Surface(kind), directory_of(given.config))


def _is_near(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
