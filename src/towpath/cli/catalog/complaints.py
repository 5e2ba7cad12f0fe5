"""`towpath complaint`: what readers say about documents, and what is done about it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import UsageError, open_runtime
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
    time_and_age,
)
from towpath.core.clock import to_datetime

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from towpath.catalog.complaints.store import Complaint


app = typer.Typer(help="Complaints of readers about documents.", no_args_is_help=True)

Number = Annotated[int, typer.Argument(min=1, metavar="NUMBER", show_default=False, help="The complaint's number.")]

_COLUMNS = (
    Column("complaint", right=True, whole=True),
    Column("state", whole=True),
    Column("as", whole=True),
    Column("age", right=True, whole=True),
    Column("in"),
    Column("document"),
    Column("by"),
    Column("text", from_width=100),
)


class ComplaintAction(StrEnum):
    """What can be done about a complaint."""

    TAKE = "take"
    LINK = "link"
    DISMISS = "dismiss"
    BLOCK = "block"
    RERUN = "re-run"


@app.command("list")
def list_(
    ctx: typer.Context,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Only those that are new, taken or settled.")
    ] = None,
    limit: Limit = DEFAULT_ROWS,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """Complaints, the newest first."""
    from towpath.catalog.complaints.store import ComplaintState
    from towpath.operations.catalog import complaint_item

    wanted = parse_state(ComplaintState, state, "a complaint")
    with open_runtime(ctx) as runtime:
        found = runtime.complaints.list(state=wanted, limit=limit + 1, before=before)
        now = to_datetime(runtime.database.now())
    page, cursor = cut(found, limit)
    if as_json:
        print_json({"items": [complaint_item(each) for each in page], "next": cursor})
        return
    print_table(_COLUMNS, [_cells(each, now) for each in page])
    print_older(cursor)


@app.command()
def show(ctx: typer.Context, number: Number, as_json: AsJson = False) -> None:
    """One complaint: what was said, which record it is about, and what was done."""
    from towpath.operations.catalog import complaint_item

    with open_runtime(ctx) as runtime:
        found = runtime.complaints.show(number)
        others = [each.number for each in runtime.complaints.others(found)]
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json({**complaint_item(found), "others": others})
    else:
        _print(found, others, now)


@app.command()
def add(
    ctx: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", show_default=False, help="The index, table or output that it is in.")
    ],
    document: Annotated[str, typer.Argument(metavar="DOCUMENT", show_default=False, help="The document's id.")],
    text: Annotated[str, typer.Option(metavar="TEXT", help="What is wrong with it.")],
    contact: Annotated[str | None, typer.Option(metavar="CONTACT", help="Where its reader can be reached.")] = None,
    flow: Annotated[str | None, typer.Option(metavar="FLOW", help="The flow, if it is known.")] = None,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Write down what a reader has said by other ways."""
    from towpath.catalog.complaints.store import NewComplaint
    from towpath.operations.catalog import complaint_item

    with open_runtime(ctx) as runtime:
        made = runtime.complaints.make(NewComplaint(target, document, text, contact, flow), who=who)
    print_done(complaint_item(made), f"complaint {made.number} is written down; {_about_record(made)}", as_json)


@app.command()
def act(
    ctx: typer.Context,
    number: Number,
    what: Annotated[
        ComplaintAction, typer.Argument(metavar="ACT", show_default=False, help="take, link, dismiss, block or re-run.")
    ],
    why: Why,
    reply: Annotated[str | None, typer.Option(metavar="TEXT", help="What its reader may be told.")] = None,
    record: Annotated[
        str | None, typer.Option(metavar="TOPIC/PARTITION/OFFSET", help="link: the record of the document.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="block: when the rule ends.")] = None,
    refuse: Annotated[bool, typer.Option("--refuse", help="block: such records become cases.")] = False,
    approved_by: Annotated[
        str | None, typer.Option(metavar="PERSON", help="block: who answers for the rule, if not you.")
    ] = None,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Take a complaint on, say which record it is about, or settle it.

    `dismiss` needs --reply; `block` makes a rule for the key of its record, and needs --until; `re-run` sends its
    record to its topic again, where it counts as a new one.
    """
    from towpath.blocks.rule import BlockAction
    from towpath.operations.catalog import complaint_item

    with open_runtime(ctx) as runtime:
        complaints = runtime.complaints
        match what:
            case ComplaintAction.TAKE:
                done = complaints.take(number, who=who, why=why)
            case ComplaintAction.LINK:
                done = complaints.link(number, *place_of(record), who=who, why=why)
            case ComplaintAction.DISMISS:
                done = complaints.dismiss(number, reply=reply or "", who=who, why=why)
            case ComplaintAction.BLOCK:
                action = BlockAction.REFUSE if refuse else BlockAction.IGNORE
                done = complaints.block(
                    number, until=end_of(until), action=action, approved_by=approved_by, reply=reply, who=who, why=why
                )
            case ComplaintAction.RERUN:
                done = complaints.rerun(number, who=who, why=why, reply=reply)
    print_done(complaint_item(done), _told(done), as_json)


def end_of(until: str | None) -> str:
    """The option `--until`, which a block rule needs."""
    if until is None:
        raise UsageError("block: a rule needs an end: --until 2027-01-31")
    return until


def place_of(record: str | None) -> tuple[str, int, int]:
    """Split TOPIC/PARTITION/OFFSET into its three parts."""
    topic, _, rest = (record or "").partition("/")
    partition, _, offset = rest.partition("/")
    if not topic or not partition.isdigit() or not offset.isdigit():
        raise UsageError("link: say which record: --record TOPIC/PARTITION/OFFSET")
    return topic, int(partition), int(offset)


def _told(done: Complaint) -> str:
    if done.outcome is None:
        return f"complaint {done.number} is {done.state}; {_about_record(done)}"
    rule = "" if done.rule is None else f", by block rule {done.rule}"
    return f"complaint {done.number} is settled: {done.outcome}{rule}"


def _about_record(found: Complaint) -> str:
    return "its record is not known" if found.origin is None else f"it is about {found.origin}"


def _cells(found: Complaint, now: datetime) -> list[object]:
    about = found.about
    by = found.settled_by or found.taken_by
    return [
        found.number,
        found.state,
        found.outcome,
        age(found.made_at, now),
        about.target,
        about.document,
        by,
        about.said,
    ]


def _print(found: Complaint, others: Sequence[int], now: datetime) -> None:
    about = found.about
    print_fields(
        [
            ("complaint", found.number),
            ("state", found.state),
            ("in", about.target),
            ("document", about.document),
            ("flow", about.flow),
            ("record", found.origin),
            ("text", about.said),
            ("contact", about.contact),
            ("made", time_and_age(found.made_at, now)),
            ("made by", found.made_by or "a reader"),
            ("others", ", ".join(map(str, others)) or None),
            ("taken by", found.taken_by),
            ("taken", time_and_age(found.taken_at, now)),
            ("settled as", found.outcome),
            ("block rule", found.rule),
            ("settled by", found.settled_by),
            ("settled", time_and_age(found.settled_at, now)),
            ("why", found.why),
            ("reply", found.reply),
        ]
    )
