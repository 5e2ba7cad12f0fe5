"""`towpath gateway`: the HTTP interface of uploads and their results, alone."""

from __future__ import annotations

import typer

from towpath.cli.api import Host, Port, serving

app = typer.Typer(help="Uploads and their results over HTTP.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Uploads and their results over HTTP."""


@app.command()
def run(ctx: typer.Context, host: Host = None, port: Port = None) -> None:
    """Take uploads and give out results until Ctrl-C or SIGTERM. `towpath api run` does so, too."""
    serving(ctx, "gateway", host, port)
