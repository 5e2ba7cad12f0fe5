"""`towpath queue`: looking at inboxes and messages, and changing them by hand.

Each change leaves an event with who, what and why.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from towpath.cli.context import FAILED, UsageError, open_runtime
from towpath.cli.options import DEFAULT_ROWS, AsJson, Before, Last, Limit, Who, Why, read_argument
from towpath.cli.output import Column, age, cut, print_done, print_json, print_table
from towpath.core.clock import to_datetime
from towpath.core.exact_json import Exact, read_exactly
from towpath.errors import BadPayload

app = typer.Typer(help="Look at inboxes and messages, and change them by hand.", no_args_is_help=True)

MessageId = Annotated[str, typer.Argument(metavar="MESSAGE", show_default=False, help="The message's id.")]
Payload = Annotated[
    str, typer.Argument(metavar="PAYLOAD", show_default=False, help="JSON; `-` reads standard input, `@FILE` a file.")
]
Headers = Annotated[
    list[str] | None, typer.Option("--header", metavar="KEY=VALUE", help="A header; may be given several times.")
]
InboxFilter = Annotated[str | None, typer.Option(metavar="NAME", help="Only this inbox.")]


@app.command()
def inboxes(ctx: typer.Context, as_json: AsJson = False) -> None:
    """How many messages each inbox has in each state; `+`: or more, since not every one is counted."""
    from towpath.operations.queue import inbox_item
    from towpath.queue import MessageState

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
    from towpath.cli.queue.views import as_item, print_messages
    from towpath.queue import MessageState

    wanted = None if state is None else MessageState.named(state)
    with open_runtime(ctx) as runtime:
        browser = runtime.queue.browser()
        if inbox is not None:
            browser.check_inbox(inbox)
        found = browser.page(limit=limit + 1, before=before, inbox=inbox, state=wanted, function=function, owner=owner)
        now = to_datetime(runtime.database.now())
    page, cursor = cut(found, limit)
    if as_json:
        print_json({"items": [as_item(message) for message in page], "next": cursor})
    else:
        print_messages(page, now, cursor)


@app.command()
def show(ctx: typer.Context, message: MessageId, as_json: AsJson = False) -> None:
    """One message: its fields, payload and headers, the messages related to it, and what happened to it."""
    from towpath.cli.queue.views import print_message
    from towpath.operations.queue import view_item

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
    from towpath.cli.interactive import follow
    from towpath.cli.queue.views import as_item, print_line

    with open_runtime(ctx) as runtime:
        browser = runtime.queue.browser()
        if inbox is not None:
            browser.check_inbox(inbox)
        start = browser.last_seq()
        recent = browser.page(limit=last, before=start + 1, inbox=inbox) if last else []
        show_one = (lambda message: print_json(as_item(message))) if as_json else print_line
        for message in reversed(recent):
            show_one(message)
        for message in follow(runtime, lambda after: browser.newer(after, inbox), start, wakeup=inbox):
            show_one(message)


@app.command()
def send(
    ctx: typer.Context,
    inbox: Annotated[str, typer.Argument(metavar="INBOX", show_default=False, help="Where to.")],
    function: Annotated[str, typer.Argument(metavar="FUNCTION", show_default=False, help="What to do.")],
    why: Why,
    payload: Payload = "null",
    header: Headers = None,
    delay: Annotated[float | None, typer.Option(metavar="SECONDS", help="Deliver it after this time.")] = None,
    ttl: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Let it die if nobody takes it in this time.")
    ] = None,
    reply: Annotated[bool, typer.Option("--reply", help="Expect an answer.")] = False,
    wait: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="Expect an answer and wait so long for it.")
    ] = None,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Send a message, and print its id."""
    value, headers = read_payload(payload), read_headers(header)
    with open_runtime(ctx) as runtime:
        message_id = runtime.queue.operator(who).send(
            inbox,
            function,
            value,
            why,
            headers=headers,
            delay_s=delay,
            ttl_s=ttl,
            reply=reply or wait is not None,
        )
        if wait is None:
            print_done({"id": message_id}, f"sent {message_id}", as_json)
            return
        answer = runtime.queue.outbox("operator").wait(message_id, wait)
    if as_json:
        print_json({"id": message_id, "answer": {"state": answer.state, "payload": answer.payload}})
    else:
        from towpath.cli.queue.views import print_answer

        print_answer(message_id, answer)
    if not answer.is_ok:
        raise typer.Exit(FAILED)


@app.command()
def reply(
    ctx: typer.Context, message: MessageId, payload: Payload, why: Why, who: Who = "", as_json: AsJson = False
) -> None:
    """Answer a request in its handler's place."""
    value = read_payload(payload)
    with open_runtime(ctx) as runtime:
        runtime.queue.operator(who).reply(message, value, why)
    print_done({"id": message}, f"answered {message}", as_json)


@app.command()
def edit(
    ctx: typer.Context,
    message: MessageId,
    why: Why,
    payload: Annotated[
        str | None, typer.Option(metavar="PAYLOAD", help="The new payload: JSON, `-` or `@FILE`.")
    ] = None,
    header: Headers = None,
    drop_header: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="A header to take away; may be given several times.")
    ] = None,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Change the payload or headers of a message that waits. Without options it opens your editor."""
    by_editor = payload is None and header is None and drop_header is None
    if by_editor and not sys.stdin.isatty():
        raise UsageError("say what to change: --payload, --header or --drop-header")
    value: Any = ... if payload is None else read_payload(payload)
    changed = read_headers(header)
    with open_runtime(ctx) as runtime:
        operator = runtime.queue.operator(who)
        seen = runtime.queue.browser().message(message)
        headers = {k: v for k, v in {**seen.headers, **changed}.items() if k not in (drop_header or ())}
        if by_editor:
            from towpath.cli.interactive import edited_parts

            parts = read_exactly(seen.payload_json), read_exactly(seen.headers_json)
            with edited_parts(*parts) as (value, headers):
                operator.edit(seen.id, why, payload=value, headers=headers, seen=seen)
        else:
            operator.edit(seen.id, why, payload=value, headers=headers, seen=seen)
    print_done({"id": seen.id}, f"changed {seen.id}", as_json)


@app.command("set-state")
def set_state(
    ctx: typer.Context,
    message: MessageId,
    state: Annotated[
        str,
        typer.Argument(
            metavar="STATE", show_default=False, help="NEW (again), DEAD (give up), ERR (failed) or OK (done)."
        ),
    ],
    why: Why,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Move a message to another state, if its own allows that."""
    from towpath.queue import MessageState

    wanted = MessageState.named(state)
    with open_runtime(ctx) as runtime:
        runtime.queue.operator(who).set_state(message, wanted, why)
    print_done({"id": message}, f"{message} is {wanted}", as_json)


@app.command()
def reap(ctx: typer.Context, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Let messages die now whose time to live ran out. Running processes do it by themselves."""
    with open_runtime(ctx) as runtime:
        count = runtime.queue.operator(who).reap(why)
    print_done({"expired": count}, f"{count:,} messages had outlived their time and are DEAD now", as_json)


@app.command()
def clean(ctx: typer.Context, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Delete now what is past its retention time. Running processes do it by themselves."""
    with open_runtime(ctx) as runtime:
        deleted = runtime.queue.operator(who).clean(why)
    if as_json:
        print_json({"deleted": deleted})
    else:
        counts = ", ".join(f"{count:,} {name.upper() if len(name) < 5 else name}" for name, count in deleted.items())
        typer.echo(f"deleted: {counts}")


def read_payload(given: str) -> Any:
    """JSON from the command line, `-` or `@FILE`."""
    from towpath.queue.payload import from_json

    try:
        return from_json(read_argument(given).decode())
    except UnicodeDecodeError as error:
        raise BadPayload(f"the payload is not UTF-8 text: {error}") from error


def read_headers(given: list[str] | None) -> dict[str, str]:
    """The headers of the options `--header`."""
    headers: dict[str, str] = {}
    for pair in given or ():
        key, sign, value = pair.partition("=")
        if not sign or not key.strip():
            raise UsageError(f"--header {pair!r} is not KEY=VALUE")
        headers[key] = value
    return headers
