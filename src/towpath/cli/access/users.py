"""`towpath user`: who may use Towpath over HTTP."""

from __future__ import annotations

import getpass
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import UsageError, open_runtime
from towpath.cli.options import AsJson, Who, Why
from towpath.cli.output import Column, age, print_done, print_json, print_table, short_time
from towpath.core.clock import to_datetime

if TYPE_CHECKING:
    from collections.abc import Callable

    from towpath.access import AccessService, User


app = typer.Typer(help="Users: who may use Towpath over HTTP, and as what.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="USER", show_default=False, help="The user's name.")]
RoleName = Annotated[str, typer.Option("--role", metavar="ROLE", help="viewer, operator or admin.")]
FromStdin = Annotated[
    bool, typer.Option("--stdin", help="Read the password from standard input in place of asking for it.")
]

_COLUMNS = (
    Column("user", whole=True),
    Column("role", whole=True),
    Column("state", whole=True),
    Column("password", whole=True),
    Column("made (UTC)", whole=True),
)


@app.command("list")
def list_(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Users, by name."""
    from towpath.operations.access import UserOut

    with open_runtime(ctx) as runtime:
        found = runtime.access.users()
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json({"items": [UserOut.of(user).model_dump() for user in found]})
        return
    rows = []
    for user in found:
        password = "none" if user.password_at is None else f"{age(user.password_at, now)} old"
        state = "enabled" if user.is_enabled else "disabled"
        rows.append([user.name, user.role, state, password, short_time(user.made_at, now)])
    print_table(_COLUMNS, rows)


@app.command()
def add(
    ctx: typer.Context,
    user: Name,
    why: Why,
    role: RoleName = "viewer",
    password: Annotated[
        bool, typer.Option("--password", help="With a password, which is asked for; otherwise keys only.")
    ] = False,
    stdin: FromStdin = False,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Add a user."""
    secret = ask_password(stdin) if password or stdin else None
    _change(
        ctx,
        "add user",
        user,
        who,
        lambda a: a.add_user(user, role, who=who, why=why, password=secret),
        "added",
        as_json,
    )


@app.command()
def role(
    ctx: typer.Context,
    user: Name,
    role: Annotated[str, typer.Argument(metavar="ROLE", show_default=False, help="viewer, operator or admin.")],
    why: Why,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Give a user another role. It counts at once, also for keys that there are."""
    _change(ctx, "set role", user, who, lambda a: a.set_role(user, role, who=who, why=why), "changed", as_json)


@app.command()
def password(
    ctx: typer.Context, user: Name, why: Why, stdin: FromStdin = False, who: Who = "", as_json: AsJson = False
) -> None:
    """Give a user a new password. It is asked for, or read from standard input; never an argument."""
    secret = ask_password(stdin)
    _change(
        ctx, "set password", user, who, lambda a: a.set_password(user, secret, who=who, why=why), "changed", as_json
    )


@app.command()
def disable(ctx: typer.Context, user: Name, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Let a user and their keys open nothing from now on."""
    _change(ctx, "disable user", user, who, lambda a: a.disable_user(user, who=who, why=why), "disabled", as_json)


@app.command()
def enable(ctx: typer.Context, user: Name, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Let a user use Towpath again, with the password and the keys that they had."""
    _change(ctx, "enable user", user, who, lambda a: a.enable_user(user, who=who, why=why), "enabled", as_json)


@app.command()
def link(ctx: typer.Context, user: Name, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """A link with which a user chooses a password at the console, once. Earlier ones are void."""
    from towpath.access.changes import AuditRequest

    with open_runtime(ctx) as runtime:
        with runtime.access.changes.recorded(AuditRequest(who, "terminal", "make link", user)):
            secret = runtime.access.sessions.make_link(user, who=who, why=why)
        api = runtime.settings.api
    path = f"/welcome/{secret}"
    if as_json:
        print_json({"user": user, "path": path})
        return
    scheme = "https" if api.tls_certificate else "http"
    typer.echo(f"give this to {user} and to nobody else; it works once:\n  {scheme}://{api.host}:{api.port}{path}")


def ask_password(from_stdin: bool) -> str:
    """Ask the person at the terminal, twice, or read standard input."""
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise UsageError("nobody is there to ask for the password: say --stdin and pipe it in")
    first = getpass.getpass("password: ")
    if first != getpass.getpass("once more: "):
        raise UsageError("the two passwords differ")
    return first


def _change(
    ctx: typer.Context,
    what: str,
    subject: str,
    who: str,
    act: Callable[[AccessService], User],
    said: str,
    as_json: bool,
) -> None:
    from towpath.access.changes import AuditRequest
    from towpath.operations.access import UserOut

    with open_runtime(ctx) as runtime, runtime.access.changes.recorded(AuditRequest(who, "terminal", what, subject)):
        changed = act(runtime.access)
    text = f"{said} {changed.name}: {changed.role}{'' if changed.is_enabled else ', disabled'}"
    print_done(UserOut.of(changed).model_dump(), text, as_json)
