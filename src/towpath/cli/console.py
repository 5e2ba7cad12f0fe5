"""`towpath console`: the web pages from which people run all of it."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.api import Host, Port, serving

if TYPE_CHECKING:
    from towpath.runtime import Runtime


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

    serving(ctx, "console", host, port, tell)


_REACHABLE = (
    "WARNING: others can reach this console over the network. Whoever logs in here as an operator can change data, and "
    "an admin can do everything: see that TLS is on, and that only those who should can connect."
)


def _is_near(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
