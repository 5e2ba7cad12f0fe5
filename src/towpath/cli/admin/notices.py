"""`towpath notify`: who is told of what, and whether it reaches them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import open_runtime
from towpath.cli.options import DEFAULT_ROWS, AsJson, Before, Limit
from towpath.cli.output import Column, age, cut, print_done, print_json, print_older, print_table, short_time
from towpath.core.clock import to_datetime

if TYPE_CHECKING:
    from datetime import datetime

    from towpath.notify.model import TargetDelivery


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
    from towpath.operations.catalog import target_item

    with open_runtime(ctx) as runtime:
        targets, deliveries = runtime.notify.targets(), runtime.notify.deliveries()
        found = runtime.notify.page(limit=limit + 1, before=before)
        now = to_datetime(runtime.database.now())
    page, cursor = cut(found, limit)
    if as_json:
        shown = {"items": [asdict(each) for each in page], "next": cursor}
        print_json({"targets": [target_item(each, deliveries[each.name]) for each in targets], **shown})
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
    print_done({"target": target, "id": message_id}, f"{target} has taken message {message_id}", as_json)


def _said(found: TargetDelivery, now: datetime) -> str:
    """Whether notices reach the target, in words."""
    if found.tries:
        again = "is tried now" if found.next_try_at is None else f"next in {age(now, max(now, found.next_try_at))}"
        return f"failing: {found.tries} {'try' if found.tries == 1 else 'tries'}, {again}: {found.error or ''}"
    if found.given_up_at is not None:
        return f"given up {age(found.given_up_at, now)} ago: {found.error or ''}"
    if found.waiting:
        return f"waiting: {found.waiting}, which towpath desk run delivers"
    return "nothing yet" if found.delivered_at is None else f"delivered {age(found.delivered_at, now)} ago"
