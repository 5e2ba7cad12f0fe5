"""`towpath api`: the HTTP interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.given import Given

if TYPE_CHECKING:
    from towpath.runtime import Runtime

app = typer.Typer(help="The HTTP interface.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """The HTTP interface."""


Host = Annotated[str | None, typer.Option(metavar="HOST", help="The interface to listen on; else as set.")]
Port = Annotated[
    int | None, typer.Option(min=0, max=65535, metavar="PORT", help="The port; 0 for a free one; else as set.")
]


@app.command()
def run(ctx: typer.Context, host: Host = None, port: Port = None) -> None:
    """Answer requests until Ctrl-C or SIGTERM. An interface that others can reach needs the setting api.remote."""
    serving(ctx, "api", host, port)


def serving(
    ctx: typer.Context,
    kind: str,
    host: str | None,
    port: int | None,
    on_ready: Callable[[Runtime, str], None] = lambda _, address: typer.echo(f"listening at {address}"),
) -> None:
    """Serve what the kind says; `on_ready` is told the address."""
    from towpath import logs, settings
    from towpath.runtime import Runtime
    from towpath.web.app import Surface
    from towpath.web.serving import serve

    given = ctx.ensure_object(Given)
    flags = given.flags()
    flags["api"] = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    loaded = settings.load(flags, given.config)
    logs.configure(loaded.logging)
    with Runtime(loaded, kind=kind) as runtime:
        directory = settings.directory_of(given.config)
        serve(runtime, lambda address: on_ready(runtime, address), Surface(kind), directory)
