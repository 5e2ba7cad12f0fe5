"""`towpath block`: what is not taken, by whose word, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import open_runtime
from towpath.cli.options import DEFAULT_ROWS, AsJson, Before, Limit, Who, Why, parse_state
from towpath.cli.output import (
    Column,
    age,
    cut,
    print_done,
    print_fields,
    print_json,
    print_older,
    print_table,
    short_time,
    time_and_age,
)
from towpath.core.clock import to_datetime
from towpath.errors import BadValue

if TYPE_CHECKING:
    from datetime import datetime

    from towpath.blocks.rule import BlockAction
    from towpath.blocks.service import Block


app = typer.Typer(help="Block rules: records that are refused or ignored.", no_args_is_help=True)

Number = Annotated[int, typer.Argument(min=1, metavar="NUMBER", show_default=False, help="The rule's number.")]

_COLUMNS = (
    Column("rule", right=True, whole=True),
    Column("state", whole=True),
    Column("does", whole=True),
    Column("records with"),
    Column("caught", right=True, whole=True),
    Column("last", right=True, whole=True),
    Column("until (UTC)", whole=True),
    Column("approved by"),
    Column("why", from_width=110),
)


@app.command("list")
def list_(
    ctx: typer.Context,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Only those that are active, ended or withdrawn.")
    ] = None,
    limit: Limit = DEFAULT_ROWS,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """Block rules, the newest first."""
    from towpath.blocks.rule import BlockState
    from towpath.operations.access import block_item

    wanted = parse_state(BlockState, state, "a rule")
    with open_runtime(ctx) as runtime:
        found = runtime.blocks.list(state=wanted, limit=limit + 1, before=before)
        now = to_datetime(runtime.database.now())
    page, cursor = cut(found, limit)
    if as_json:
        print_json({"items": [block_item(each) for each in page], "next": cursor})
        return
    print_table(_COLUMNS, [_cells(each, now) for each in page])
    print_older(cursor)


@app.command()
def show(ctx: typer.Context, number: Number, as_json: AsJson = False) -> None:
    """One rule: what it matches, who answers for it, and what it has caught."""
    from towpath.operations.access import block_item

    with open_runtime(ctx) as runtime:
        found = runtime.blocks.show(number)
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json(block_item(found))
    else:
        _print(found, now)


@app.command()
def add(
    ctx: typer.Context,
    action: Annotated[
        str,
        typer.Argument(
            metavar="ACTION", show_default=False, help="`refuse`: they become cases; `ignore`: counted, and no more."
        ),
    ],
    until: Annotated[
        str, typer.Option(metavar="TIME", help="When it ends: 2027-01-31 (to its end, in UTC), or a time with zone.")
    ],
    why: Why,
    stream: Annotated[str | None, typer.Option(metavar="STREAM", help="Of this stream; at the gateway.")] = None,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Of this topic.")] = None,
    sender: Annotated[str | None, typer.Option(metavar="SENDER", help="Of this sender of an upload.")] = None,
    user: Annotated[str | None, typer.Option(metavar="USER", help="Of uploads of this user; at the gateway.")] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="With this key.")] = None,
    prefix: Annotated[str | None, typer.Option(metavar="TEXT", help="With a key that begins so.")] = None,
    where: Annotated[
        str | None, typer.Option(metavar="EXPRESSION", help="Of which this is true: \"value.country = 'DE'\".")
    ] = None,
    approved_by: Annotated[
        str | None, typer.Option(metavar="PERSON", help="Who answers for it, if not who makes it.")
    ] = None,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Refuse or ignore records from now on. All that is said of them must fit."""
    from towpath.blocks.rule import BlockMatch
    from towpath.operations.access import block_item

    names = {"stream": stream, "topic": topic, "sender": sender, "user": user, "key": key, "prefix": prefix}
    match, act = BlockMatch.of(where=where, **names), parse_action(action)
    with open_runtime(ctx) as runtime:
        made = runtime.blocks.add(act, match, until=until, who=who, why=why, approved_by=approved_by)
    text = f"rule {made.rule.number} counts until {made.until:%Y-%m-%d %H:%M} UTC: {act} {match}"
    print_done(block_item(made), text, as_json)


@app.command()
def withdraw(ctx: typer.Context, number: Number, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Take a rule away. What it has kept out stays out; what comes from now on is taken."""
    from towpath.operations.access import block_item

    with open_runtime(ctx) as runtime:
        gone = runtime.blocks.withdraw(number, who=who, why=why)
    print_done(block_item(gone), f"rule {number} does not count any more; it has caught {gone.caught:,}", as_json)


def parse_action(text: str) -> BlockAction:
    """The argument ACTION."""
    from towpath.blocks.rule import BlockAction

    try:
        return BlockAction(text)
    except ValueError:
        raise BadValue(f"{text}: a rule says {' or '.join(BlockAction)}") from None


def _cells(found: Block, now: datetime) -> list[object]:
    last = None if found.caught_at is None else age(found.caught_at, now)
    rule = found.rule
    said = [rule.number, found.state, rule.action, rule.match, f"{found.caught:,}", last]
    return [*said, short_time(found.until, now), found.approved_by, rule.why]


def _print(found: Block, now: datetime) -> None:
    rule = found.rule
    print_fields(
        [
            ("rule", rule.number),
            ("state", found.state),
            ("does", rule.action),
            *rule.match.to_json().items(),
            ("why", rule.why),
            ("approved by", found.approved_by),
            ("made by", found.made_by),
            ("since", time_and_age(found.since, now)),
            ("until", time_and_age(found.until, now)),
            ("caught", f"{found.caught:,}"),
            ("last", time_and_age(found.caught_at, now)),
            ("withdrawn", time_and_age(found.withdrawn_at, now)),
            ("withdrawn by", found.withdrawn_by),
            ("withdrawn why", found.withdrawn_why),
        ]
    )
