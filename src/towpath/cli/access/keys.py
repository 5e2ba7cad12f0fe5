"""`towpath key`: API keys."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import open_runtime
from towpath.cli.options import DEFAULT_ROWS, NEVER, AsJson, Before, Limit, Who, Why, parse_age_s
from towpath.cli.output import Column, age, cut, print_done, print_json, print_older, print_table, short_time
from towpath.core.clock import to_datetime

if TYPE_CHECKING:
    from towpath.access import ApiKey


app = typer.Typer(help="API keys: made for a user, with scopes and an end.", no_args_is_help=True)

_COLUMNS = (
    Column("key", whole=True),
    Column("user", whole=True),
    Column("label"),
    Column("scopes"),
    Column("state", whole=True),
    Column("ends", right=True, whole=True),
    Column("used", right=True, whole=True),
    Column("made (UTC)", whole=True, from_width=110),
)


@app.command("list")
def list_(
    ctx: typer.Context,
    user: Annotated[str | None, typer.Option(metavar="USER", help="Only those of this user.")] = None,
    limit: Limit = DEFAULT_ROWS,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """Keys, the newest first. What a key is, is shown only when it is made."""
    from towpath.operations.access import KeyOut

    with open_runtime(ctx) as runtime:
        found = runtime.access.keys(user=user, limit=limit + 1, before=before)
        now = to_datetime(runtime.database.now())
    page, cursor = cut(found, limit)
    if as_json:
        print_json({"items": [KeyOut.of(key).model_dump() for key in page], "next": cursor})
        return
    print_table(_COLUMNS, [_cells(key, now) for key in page])
    print_older(cursor)


@app.command()
def make(
    ctx: typer.Context,
    user: Annotated[str, typer.Argument(metavar="USER", show_default=False, help="Whose key it is.")],
    why: Why,
    scope: Annotated[
        list[str] | None,
        typer.Option(metavar="SCOPE", help="What may be done with it; may stand several times. `read` if not given."),
    ] = None,
    label: Annotated[str, typer.Option(metavar="TEXT", help="What it is for.")] = "key",
    age: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="How long it counts, such as 30d, or `never` for without end; else as set."),
    ] = None,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Make a key and show it, this once."""
    from towpath.access.changes import AuditRequest
    from towpath.operations.access import KeyOut

    wanted = None if age is None else parse_age_s(age, "--age")
    expires = timedelta(seconds=float(wanted)) if wanted not in (None, NEVER) else None
    with open_runtime(ctx) as runtime, runtime.access.changes.recorded(AuditRequest(who, "terminal", "make key", user)):
        key, token = runtime.access.make_key(
            user,
            scope or ["read"],
            who=who,
            why=why,
            label=label,
            expires=expires,
            is_endless=wanted == NEVER,
        )
    if as_json:
        print_json({**KeyOut.of(key).model_dump(), "key": token.text})
        return
    ends = "never ends" if key.expires_at is None else f"ends {key.expires_at:%Y-%m-%d %H:%M} UTC"
    typer.echo(token.text)
    typer.echo(f"{key.prefix} of {key.user}: {', '.join(key.scopes)}; {ends}; it is not shown again", err=True)


@app.command()
def revoke(
    ctx: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", show_default=False, help="Its id, or how it begins.")],
    why: Why,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Let a key open nothing from now on."""
    from towpath.access.changes import AuditRequest
    from towpath.operations.access import KeyOut

    with (
        open_runtime(ctx) as runtime,
        runtime.access.changes.recorded(AuditRequest(who, "terminal", "revoke key", key)),
    ):
        revoked = runtime.access.revoke_key(key, who=who, why=why)
    print_done(KeyOut.of(revoked).model_dump(), f"revoked {revoked.prefix} of {revoked.user}", as_json)


def _cells(key: ApiKey, now: datetime) -> list[object]:
    state = "revoked" if key.revoked_at else "ended" if key.expires_at and key.expires_at <= now else "counts"
    return [
        key.prefix,
        key.user,
        key.label,
        " ".join(key.scopes),
        state,
        "never" if key.expires_at is None else age(key.expires_at, now),
        "never" if key.used_at is None else age(key.used_at, now),
        short_time(key.made_at, now),
    ]
