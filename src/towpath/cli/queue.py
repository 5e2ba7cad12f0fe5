"""`towpath queue`: looking at inboxes and messages."""

from __future__ import annotations

from typing import Annotated

import typer

from towpath.cli.given import open_runtime
from towpath.cli.options import DEFAULT_ROWS, AsJson, Before, Last, Limit, MessageId
from towpath.cli.output import Column, age, print_json, print_table

app = typer.Typer(help="Look at inboxes and messages, and change them by hand.", no_args_is_help=True)

InboxFilter = Annotated[str | None, typer.Option(metavar="NAME", help="Only this inbox.")]


@app.command()
def inboxes(ctx: typer.Context, as_json: AsJson = False) -> None:
    """How many messages each inbox has in each state; `+`: or more, since not every one is counted."""
    from towpath.clock import to_datetime
    from towpath.queue import MessageState
    from towpath.queue.message_json import inbox_item

    with open_runtime(ctx) as runtime:
        found = runtime.queue.browser().inboxes()
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json({"items": [inbox_item(inbox) for inbox in found]})
        return
    columns = [
        Column("inbox"),
        *(Column(state, right=True, whole=True) for state in MessageState),
        Column("oldest NEW", right=True, whole=True),
        Column("owner dies", whole=True, from_width=80),
        Column("most tries", right=True, whole=True, from_width=80),
    ]
    rows = [
        [
            inbox.name,
            *(f"{inbox.counts.get(state, 0):,}{'+' if state in inbox.more else ''}" for state in MessageState),
            age(inbox.oldest_new, now) if inbox.oldest_new else "",
            inbox.on_owner_death,
            inbox.max_attempts,
        ]
        for inbox in found
    ]
    print_table(columns, rows)


@app.command("list")
def list_(
    ctx: typer.Context,
    inbox: InboxFilter = None,
    state: Annotated[str | None, typer.Option(help="Only NEW, ACK, OK, ERR or DEAD.")] = None,
    function: Annotated[str | None, typer.Option(metavar="NAME", help="Only this function.")] = None,
    owner: Annotated[str | None, typer.Option(metavar="PROCESS", help="Only what this process has or had.")] = None,
    limit: Limit = DEFAULT_ROWS,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """Messages, the newest first."""
    from towpath.cli.message_view import as_item, print_messages
    from towpath.clock import to_datetime
    from towpath.queue import MessageState

    wanted = None if state is None else MessageState.named(state)
    with open_runtime(ctx) as runtime:
        browser = runtime.queue.browser()
        if inbox is not None:
            browser.check_inbox(inbox)
        # One more than asked for tells whether there is a next page.
        found = browser.page(limit=limit + 1, before=before, inbox=inbox, state=wanted, function=function, owner=owner)
        now = to_datetime(runtime.database.now())
    page = found[:limit]
    cursor = page[-1].seq if len(found) > limit else None
    if as_json:
        print_json({"items": [as_item(message) for message in page], "next": cursor})
    else:
        print_messages(page, now, cursor)


@app.command()
def show(ctx: typer.Context, message: MessageId, as_json: AsJson = False) -> None:
    """One message: its fields, payload and headers, the messages related to it, and what happened to it."""
    from towpath.cli.message_view import print_message
    from towpath.clock import to_datetime
    from towpath.exact_json import Exact
    from towpath.queue.message_json import view_item

    with open_runtime(ctx) as runtime:
        found = runtime.queue.browser().view(message)
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json(view_item(found, Exact))
    else:
        print_message(found.message, found.tree, found.events, now)


@app.command()
def tail(ctx: typer.Context, inbox: InboxFilter = None, last: Last = 10, as_json: AsJson = False) -> None:
    """New messages as they are sent, until Ctrl-C."""
    from towpath.cli.following import follow
    from towpath.cli.message_view import as_item, print_line

    with open_runtime(ctx) as runtime:
        browser = runtime.queue.browser()
        if inbox is not None:
            browser.check_inbox(inbox)
        start = browser.last_seq()
        recent = browser.page(limit=last, before=start + 1, inbox=inbox) if last else []
        show_one = (lambda message: print_json(as_item(message))) if as_json else print_line
        for message in reversed(recent):
            show_one(message)
        for message in follow(runtime, lambda after: browser.newer(after, inbox), start, bell=inbox):
            show_one(message)
