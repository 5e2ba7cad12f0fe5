"""All commands that a server can run, and running one of them."""

from __future__ import annotations

from typing import Any

import typer

from towpath.cli.context import FAILED, CliContext, UsageError
from towpath.cli.output import print_json
from towpath.cli.remote import actors, admin, cases, flows, groups
from towpath.cli.remote.call import RemoteCall
from towpath.cli.remote.server import RemoteServer

CALLS: dict[str, RemoteCall] = {
    **actors.CALLS,
    **admin.CALLS,
    **flows.CALLS,
    **cases.CALLS,
    **groups.CALLS,
}
TYPED = "COMMANDLINE"
NEVER = {
    "who": "the server does it in the name of the user whose key it is",
    "masked": "what is shown is what the user of the key may see",
    "url": "it is the log of the server's settings",
}


def run(command: str, ctx: typer.Context, given: CliContext) -> None:
    """Ask the server, and show what it answers as the command would have done here."""
    try:
        _run(command, ctx, given)
    except Exception as error:
        if isinstance(error, UsageError):
            error.ctx = ctx  # type: ignore[attr-defined]  # whose help is to be read, as when a command runs here
        raise


def _run(command: str, ctx: typer.Context, given: CliContext) -> None:
    call = CALLS.get(command)
    if call is None:
        raise UsageError(_not_remotely(command))
    _check(ctx, call)
    options: dict[str, Any] = dict(ctx.params)
    with RemoteServer.of(given) as server:
        found = call.ask(server, options)
        if options.get("as_json"):
            (call.write or print_json)(found)
        else:
            call.show(found, options)
    if call.is_failed(found, options):
        raise typer.Exit(FAILED)


def _check(ctx: typer.Context, call: RemoteCall) -> None:
    """Refuse options that work only where the database is, rather than ignore them."""
    for name, why in {**NEVER, **call.never}.items():
        source = ctx.get_parameter_source(name)
        if name in ctx.params and source is not None and source.name == TYPED:
            option = next((each.opts[0] for each in ctx.command.params if each.name == name), name)
            raise UsageError(f"{option} cannot be said together with --remote: {why}")


def _not_remotely(command: str) -> str:
    groups: dict[str, list[str]] = {}
    for each in CALLS:
        group, _, name = each.rpartition(" ")
        groups.setdefault(group, []).append(name)
    known = "; ".join(f"{group} {', '.join(names)}".strip() for group, names in groups.items())
    return f"`{command}` cannot be run with --remote (or the variable TOWPATH_REMOTE). What can: {known}"
