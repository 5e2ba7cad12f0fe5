"""How a message looks: as a row, as a line, whole with the tree of its relatives, and as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.text import Text
from rich.tree import Tree

from towpath.cli.output import (
    Column,
    age,
    console,
    plain,
    pretty,
    print_fields,
    print_older,
    print_part,
    print_table,
    short_time,
    styled,
    time_and_age,
)
from towpath.cli.queue.events import print_events
from towpath.core.clock import to_datetime
from towpath.core.exact_json import Exact, read_exactly
from towpath.db.event_log import StoredEvent
from towpath.operations.queue import message_item
from towpath.queue import Answer, Message

_COLUMNS = (
    Column("id", whole=True),
    Column("state", whole=True),
    Column("inbox"),
    Column("function"),
    Column("age", right=True, whole=True),
    Column("sent (UTC)", whole=True, from_width=100),
    Column("tries", right=True, whole=True, from_width=110),
    Column("owner", from_width=120),
    Column("reason", from_width=140),
)


def as_item(message: Message) -> dict[str, Any]:
    """A message for programs, with payload and headers exactly as they are stored."""
    return message_item(message, Exact)


def print_messages(messages: Sequence[Message], now: datetime, cursor: int | None) -> None:
    rows = [
        [
            m.id,
            m.state,
            m.inbox,
            m.function,
            age(m.created_at, now),
            short_time(m.created_at, now),
            m.attempts,
            m.owner,
            m.reason,
        ]
        for m in messages
    ]
    print_table(_COLUMNS, rows)
    print_older(cursor)


def print_line(message: Message) -> None:
    """One line for a log that grows."""
    head = f"{message.created_at:%H:%M:%S}  {message.id}  "
    what = f"  {plain(message.inbox)}  {plain(message.function)}  {plain(message.payload_json)}"
    line = Text.assemble((head, "dim"), styled(message.state), what)
    console().print(line, no_wrap=True, overflow="ellipsis", crop=True)


def print_message(message: Message, tree: Sequence[Message], events: Sequence[StoredEvent], now: datetime) -> None:
    expires = None if message.expires_us is None else to_datetime(message.expires_us)
    print_fields(
        [
            ("id", message.id),
            ("state", message.state),
            ("reason", message.reason),
            ("inbox", message.inbox),
            ("function", message.function),
            ("owner", message.owner),
            ("tries", _tries(message)),
            ("answers to", message.reply_to),
            ("sent", time_and_age(message.created_at, now)),
            ("changed", time_and_age(message.updated_at, now)),
            ("not before", time_and_age(message.deliver_after, now)),
            ("expires", time_and_age(expires, now)),
        ]
    )
    print_part("payload", pretty(read_exactly(message.payload_json)))
    if message.headers_json != "{}":
        print_part("headers", pretty(read_exactly(message.headers_json)))
    if len(tree) > 1:
        print_part("related messages")
        for root in _trees(tree, message.id, now):
            console().print(root)
    if events:
        print_part("events")
        print_events(events, now, without_subject=True)


def print_answer(message_id: str, answer: Answer) -> None:
    console().print(Text.assemble("sent ", (message_id, "dim"), ", answer: ", styled(answer.state)), soft_wrap=True)
    console().print(Text(pretty(answer.payload)), soft_wrap=True)


def _tries(message: Message) -> str:
    given_back = f", {message.give_backs} of them given back" if message.give_backs else ""
    return f"{message.attempts}{given_back}"


def _trees(messages: Sequence[Message], marked: str, now: datetime) -> list[Tree]:
    """A message stands under the one that it answers or else under the one being handled when it was sent."""
    ids = {message.id for message in messages}
    below: dict[str | None, list[Message]] = defaultdict(list)
    for message in messages:
        below[next((i for i in (message.related_id, message.audit_id) if i in ids), None)].append(message)

    def grow(message: Message, tree: Tree) -> None:
        for child in below.pop(message.id, ()):
            grow(child, tree.add(_label(child, marked, now)))

    roots = []
    while below:
        # Those without anybody above them; then, should messages name each other in a circle, any.
        for message in below.pop(None, None) or below.pop(next(iter(below))):
            root = Tree(_label(message, marked, now), guide_style="dim")
            grow(message, root)
            roots.append(root)
    return roots


def _label(message: Message, marked: str, now: datetime) -> Text:
    label = Text.assemble(
        (message.id, "bold" if message.id == marked else "dim"),
        " ",
        styled(message.state),
        f" {plain(message.function)} → {plain(message.inbox)}",
        (f" {age(message.created_at, now)}", "dim"),
        (" ◄" if message.id == marked else "", "bold"),
    )
    label.no_wrap, label.overflow = True, "ellipsis"
    return label
