"""A command that can be run here or, with `--remote`, by a server."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from towpath.cli.context import CliContext

AS_EVER = frozenset({"send", "receive"})  # these talk to a server anyway


class RemoteAwareCommand(TyperCommand):
    """A command that decides where it runs once its options are parsed, before anything is done."""

    def invoke(self, ctx: Any) -> Any:
        given = ctx.ensure_object(CliContext)
        if given.remote is None or words_of(ctx) in AS_EVER:
            return super().invoke(ctx)
        from towpath.cli.remote.run import run

        return run(words_of(ctx), ctx, given)


def words_of(ctx: typer.Context) -> str:
    """`queue list`: the command without its program and its options."""
    words: list[str] = []
    at: Any = ctx
    while at.parent is not None:
        words.append(str(at.info_name))
        at = at.parent
    return " ".join(reversed(words))


def let_run_remotely(app: typer.Typer) -> None:
    """Make every command of the app and of its groups a `RemoteAwareCommand`."""
    for each in app.registered_commands:
        each.cls = RemoteAwareCommand
    for group in app.registered_groups:
        if group.typer_instance is not None:
            let_run_remotely(group.typer_instance)
