"""`towpath notify`: who is told of what, and whether it reaches them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.context import open_runtime
from towpath.cli.options import DEFAULT_ROWS, AsJson, Before, Limit
from towpath.cli.output import Column, age, print_json, print_older, print_table, short_time

if TYPE_CHECKING:
    from datetime import datetime

    from towpath.notify.model import StoredNotice, TargetDelivery
    from towpath.notify.service import NotificationTarget


app = typer.Typer(help="Notifications by webhook and e-mail.", no_args_is_help=True)

_TARGETS = (
    Column("target", whole=True),
    Column("way", whole=True),
    Column("to"),
    Column("told of"),
    Column("delivery"),
)
_NOTICES = (
    Column("at (UTC)", whole=True),
    Column("notice", whole=True),
    Column("about"),
    Column("times", right=True, whole=True),
    Column("handed over", right=True, whole=True),
    Column("title"),
)


@app.command("list")
def list_(
    ctx: typer.Context,
    limit: Limit = DEFAULT_ROWS,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """The targets in the settings and whether they are reached, and the notices, the newest first."""
    from towpath.core.clock import to_datetime

    with open_runtime(ctx) as runtime:
        targets, deliveries = runtime.notify.targets(), runtime.notify.deliveries()
        found = runtime.notify.page(limit=limit + 1, before=before)
        now = to_datetime(runtime.database.now())
    page = found[:limit]
    cursor = page[-1].seq if len(found) > limit else None
    if as_json:
        shown = {"items": [_item(each) for each in page], "next": cursor}
        print_json({"targets": [_target(each, deliveries[each.name]) for each in targets], **shown})
        return
    said = {name: _said(each, now) for name, each in deliveries.items()}
    print_table(_TARGETS, [[each.name, each.way, each.to, " ".join(each.kinds), said[each.name]] for each in targets])
    typer.echo()
    rows: list[list[object]] = []
    for each in page:
        handed = "not yet" if each.handed_at is None else f"{age(each.handed_at, now)} ago"
        rows.append([short_time(each.at, now), each.kind, each.subject, each.times, handed, each.title])
    print_table(_NOTICES, rows)
    print_older(cursor)


@app.command("try")
def try_(
    ctx: typer.Context,
    target: Annotated[str, typer.Argument(metavar="TARGET", show_default=False, help="Its name in the settings.")],
    as_json: AsJson = False,
) -> None:
    """Send one message for trial to a target, at once, and say whether it was taken."""
    with open_runtime(ctx) as runtime:
        message_id = runtime.notify.try_out(target)
    if as_json:
        print_json({"target": target, "id": message_id})
    else:
        typer.echo(f"{target} has taken message {message_id}")


def _said(found: TargetDelivery, now: datetime) -> str:
    """Whether a target is reached, for people."""
    if found.tries:
        again = "is tried now" if found.next_try_at is None else f"next in {age(now, max(now, found.next_try_at))}"
        return f"failing: {found.tries} {'try' if found.tries == 1 else 'tries'}, {again}: {found.error or ''}"
    if found.given_up_at is not None:
        return f"given up {age(found.given_up_at, now)} ago: {found.error or ''}"
    if found.waiting:
        return f"waiting: {found.waiting}, which towpath desk run delivers"
    return "nothing yet" if found.delivered_at is None else f"delivered {age(found.delivered_at, now)} ago"


def _target(target: NotificationTarget, found: TargetDelivery) -> dict[str, Any]:
    about = {"name": target.name, "way": target.way, "to": target.to, "kinds": list(target.kinds)}
    return {**about, "delivery": asdict(found)}


def _item(notice: StoredNotice) -> dict[str, Any]:
    return {
        "seq": notice.seq,
        "kind": notice.kind,
        "subject": notice.subject,
        "title": notice.title,
        "data": notice.data,
        "times": notice.times,
        "state": notice.state,
        "at": notice.at,
        "last_at": notice.last_at,
        "handed_at": notice.handed_at,
    }
