"""`towpath topic`: making, growing, deleting and copying topics by hand. Each leaves an event with who and why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.asking import confirm
from towpath.cli.failures import say
from towpath.cli.given import open_runtime
from towpath.cli.options import AsJson, Who, Why
from towpath.cli.output import print_json
from towpath.cli.topic_logs import FORMS, LogUrl, TopicName, open_one, open_topics, settings_for
from towpath.cli.topic_progress import counted

if TYPE_CHECKING:
    from towpath.events import EventKind
    from towpath.log.copying import Copied
    from towpath.runtime import Runtime

app = typer.Typer()

Reason = Annotated[str, typer.Option("--why", help="Why you do this; kept with the change.")]


@app.command()
def create(
    ctx: typer.Context,
    topic: TopicName,
    partitions: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many partitions; else as the settings say.")
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="Age at which records are deleted: 12h, 7d, `never`; else as the settings say."
        ),
    ] = None,
    if_missing: Annotated[bool, typer.Option("--if-missing", help="Do nothing when the topic is there.")] = False,
    why: Reason = "",
    who: Who = "",
    url: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Make a topic."""
    from towpath.cli.topic_times import age_text, parse_age_s
    from towpath.errors import TopicExists
    from towpath.events import EventKind
    from towpath.log.topic_json import topic_item

    retention_s = None if retention is None else parse_age_s(retention, "--retention")
    with open_topics(ctx, url, makes=True) as (runtime, log):
        is_new = True
        try:
            made = log.create_topic(topic, partitions, retention_s=retention_s)
        except TopicExists:
            if not if_missing:
                raise
            made, is_new = log.topic(topic), False
        if is_new:
            data = {"id": made.id, "partitions": made.partitions, "retention_s": made.retention_s, "log": log.url}
            _record(runtime, EventKind.TOPIC_CREATED_BY_HAND, topic, who, why, data)
        item = topic_item(log, made)
    shape = f"{made.partitions} partitions, records are kept for {age_text(made.retention_s)}"
    if made.retention_s is None:
        shape = f"{made.partitions} partitions, records are kept until somebody deletes them"
    if as_json:
        print_json({**item, "is_new": is_new})
    else:
        typer.echo(f"made {topic}: {shape}" if is_new else f"{topic} is there: {shape}")


@app.command()
def grow(
    ctx: typer.Context,
    topic: TopicName,
    partitions: Annotated[int, typer.Option(min=1, metavar="N", help="How many partitions it shall have.")],
    why: Reason = "",
    who: Who = "",
    url: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Give a topic more partitions. New records of a key may then go elsewhere; what is there stays where it is."""
    from towpath.events import EventKind
    from towpath.log.topic_json import topic_item

    with open_topics(ctx, url) as (runtime, log):
        before = log.topic(topic).partitions
        grown = log.add_partitions(topic, partitions)
        if grown.partitions > before:
            data = {"id": grown.id, "was": before, "now": grown.partitions, "log": log.url}
            _record(runtime, EventKind.TOPIC_GROWN_BY_HAND, topic, who, why, data)
        item = topic_item(log, grown)
    if as_json:
        print_json(item)
    else:
        typer.echo(f"{topic} has {grown.partitions} partitions; it had {before}")


@app.command()
def delete(
    ctx: typer.Context,
    topic: TopicName,
    why: Why,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    who: Who = "",
    url: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Delete a topic with its records and the positions of groups in it. It cannot be brought back."""
    from towpath.events import EventKind
    from towpath.log.topic_json import topic_item

    with open_topics(ctx, url) as (runtime, log):
        item = topic_item(log, log.topic(topic))
        if not yes:
            question = f"delete topic {topic} of {log.url} with at most {item['records_at_most']:,} records?"
            confirm(question, "nothing was deleted")
        log.delete_topic(topic)
        ends = {str(each["partition"]): each["end"] for each in item["offsets"]}
        data = {"id": item["id"], "ends": ends, "log": log.url}
        _record(runtime, EventKind.TOPIC_DELETED_BY_HAND, topic, who, why, data)
    if as_json:
        print_json({"name": topic, "id": item["id"]})
    else:
        typer.echo(f"deleted {topic} ({item['id']})")


@app.command("forget-group")
def forget_group(
    ctx: typer.Context,
    group: Annotated[str, typer.Argument(metavar="GROUP", show_default=False, help="The group's name.")],
    why: Why,
    who: Who = "",
    url: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Delete the positions of a group that reads no more: on SQLite, records wait until all groups have read them."""
    from towpath.errors import Refused
    from towpath.events import EventKind

    with open_topics(ctx, url) as (runtime, log):
        before = {f"{topic}/{number}": position for (topic, number), position in log.positions(group).items()}
        if not before:
            raise Refused(f"no group {group!r} has a position in {log.url}")
        log.forget_group(group)
        data = {"positions": before, "log": log.url}
        _record(runtime, EventKind.GROUP_FORGOTTEN_BY_HAND, group, who, why, data)
    if as_json:
        print_json({"group": group, "positions": before})
    else:
        typer.echo(f"forgot {group}: it had {len(before):,} positions")


@app.command()
def copy(
    ctx: typer.Context,
    topic: TopicName,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", show_default=False, help="Its name there, if another.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="URL", help=f"The log to copy from, if not that of the settings: {FORMS}."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--to", metavar="URL", help=f"The log to copy to, if not that of the settings: {FORMS}."),
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Also into a topic that has records of somebody else.")
    ] = False,
    why: Reason = "",
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Copy what a topic holds now to another log or name: keys, values, headers, times and partitions.

    The target is made, if it is not there, with the same partitions and retention. A copy that was cut off, however,
    goes on when the same command is given again: no record is lost and none is there twice. When it was complete, the
    same command brings what has come since.
    """
    from towpath.events import EventKind
    from towpath.log.copying import TopicCopy

    with open_runtime(ctx) as runtime, _told_how_to_go_on():
        limit = settings_for(runtime.settings.log, target, "--to").max_record_bytes
        with (
            open_one(runtime, source, option="--from") as origin,
            open_one(runtime, target, option="--to", makes=True) as goal,
        ):
            copied, seconds = _copied(TopicCopy(origin, goal, limit), topic, name or topic, append)
            data = {
                "from": f"{origin.url} {topic}",
                "from_id": copied.source.id,
                "to": goal.url,
                "id": copied.target.id,
                "records": copied.total,
            }
            _record(runtime, EventKind.TOPIC_COPIED_BY_HAND, copied.target.name, who, why, data)
            where = goal.url
    if as_json:
        partitions = {str(number): count for number, count in copied.records.items()}
        print_json({**data, "name": copied.target.name, "partitions": partitions, "went_on": copied.went_on})
        return
    again = ", after those of an earlier run" if copied.went_on else ""
    typer.echo(f"copied {counted(copied.total)} to {copied.target.name} of {where} in {seconds:.1f} s{again}")


def _copied(work: Any, topic: str, name: str, append: bool) -> tuple[Copied, float]:
    from towpath.cli.topic_progress import Counting

    with Counting("copied") as counting:
        return work.run(topic, name, append=append, report=counting.show), counting.elapsed_s


@contextmanager
def _told_how_to_go_on() -> Iterator[None]:
    from towpath.errors import LogUnavailable, TransactionUnknown

    try:
        yield
    except KeyboardInterrupt:
        say("stopped: the same command goes on from there")
        raise
    except LogUnavailable as error:
        raise LogUnavailable(f"{error}; the same command goes on from there") from error
    except TransactionUnknown as error:
        raise TransactionUnknown(f"{error}; the same command finds out and goes on from there") from error


def _record(runtime: Runtime, kind: EventKind, subject: str, who: str, why: str, data: dict[str, Any]) -> None:
    from towpath.events import Event

    with runtime.database.transaction() as tx:
        runtime.event_log.record(tx, Event(kind, subject, who, why, data))
