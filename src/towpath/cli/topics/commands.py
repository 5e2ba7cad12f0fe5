"""`towpath topic`: looking at topics and groups, and making, growing, deleting and copying topics by hand.

Each change leaves an event with who and why. Other commands open their log here, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.context import UsageError, open_runtime, say
from towpath.cli.options import AsJson, OptionalWhy, Who, Why, Yes, age_text, confirm, parse_age_s, parse_time_ms
from towpath.cli.output import Column, counted, print_done, print_fields, print_json, print_part, print_table
from towpath.cli.progress import RecordProgress
from towpath.core.events import Event, EventKind
from towpath.errors import LogUnavailable, Refused, TopicExists, TransactionUnknown

if TYPE_CHECKING:
    from towpath.log import Log
    from towpath.runtime import Runtime
    from towpath.settings import LogSettings


app = typer.Typer(help="Look at topics, and send, read, copy and delete them.", no_args_is_help=True)

# A person waits for the answer; the time of the settings is for processes, which have to outlast a restart.
LOOK_TIMEOUT_S = 10.0
FORMS = "`embedded`, `sqlite:///path` or `kafka://host:port`"

_TITLES = {
    "topic": "topic",
    "partition": "partition",
    "start": "first",
    "end": "next",
    "at": "at that time",
    "position": "group is at",
}

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False, help="The topic's name.")]
LogUrl = Annotated[
    str | None, typer.Option("--log", metavar="URL", help=f"Another log than that of the settings: {FORMS}.")
]


@app.command("list")
def list_(ctx: typer.Context, url: LogUrl = None, as_json: AsJson = False) -> None:
    """All topics. Offsets have holes, so `at most` is no count: a topic never holds more records than that."""
    from towpath.operations.topics import topic_item

    with open_topics(ctx, url) as (_, log):
        items = [topic_item(log, topic) for topic in log.topics()]
    if as_json:
        print_json({"items": items})
        return
    columns = [
        Column("topic"),
        Column("partitions", right=True, whole=True),
        Column("records, at most", right=True, whole=True),
        Column("kept for", right=True, whole=True),
        Column("id", from_width=100),
    ]
    rows = [
        [item["name"], item["partitions"], f"{item['records_at_most']:,}", age_text(item["retention_s"]), item["id"]]
        for item in items
    ]
    print_table(columns, rows)


@app.command()
def show(ctx: typer.Context, topic: TopicName, url: LogUrl = None, as_json: AsJson = False) -> None:
    """One topic: its partitions with their offsets, and the groups that read it with what they have still to read."""
    from towpath.operations.topics import topic_view

    with open_topics(ctx, url) as (_, log):
        item = topic_view(log, log.topic(topic))
        where = log.url
    if as_json:
        print_json(item)
        return
    print_fields(
        [
            ("topic", item["name"]),
            ("id", item["id"]),
            ("log", where),
            ("partitions", item["partitions"]),
            ("kept for", age_text(item["retention_s"])),
            ("records", f"{item['records_at_most']:,} at most"),
        ]
    )
    typer.echo()
    _print_offsets(item["offsets"])
    if item["groups"]:
        print_part("groups")
        _print_positions(item["groups"])


@app.command()
def offsets(
    ctx: typer.Context,
    topic: Annotated[
        str | None,
        typer.Argument(metavar="[TOPIC]", show_default=False, help="The topic's name; not needed for a group."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Also the first offset of that time or later: 2026-01-31T10:00:00Z, or 15m (ago)."
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="Also where this group is; alone, in all topics.")
    ] = None,
    url: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """The first and the next offset of each partition, now or for a time, and the position of a group."""
    from towpath.log.topic import check_group
    from towpath.operations.topics import position_items

    if group is not None:
        check_group(group)
    with open_topics(ctx, url) as (runtime, log):
        if topic is not None:
            time_ms = None if at is None else parse_time_ms(at, "--at", runtime.database.now() // 1000)
            found = _offsets_of(log, topic, time_ms, group)
        elif group is not None and at is None:
            found = position_items(log, group)
        else:
            raise UsageError("say which topic, or which --group")
    if as_json:
        print_json({"items": found})
    else:
        _print_offsets(found)


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
    why: OptionalWhy = "",
    who: Who = "",
    url: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Make a topic."""
    from towpath.operations.topics import topic_item

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
    kept = "until somebody deletes them" if made.retention_s is None else f"for {age_text(made.retention_s)}"
    shape = f"{made.partitions} partitions, records are kept {kept}"
    text = f"made {topic}: {shape}" if is_new else f"{topic} is there: {shape}"
    print_done({**item, "is_new": is_new}, text, as_json)


@app.command()
def grow(
    ctx: typer.Context,
    topic: TopicName,
    partitions: Annotated[int, typer.Option(min=1, metavar="N", help="How many partitions it shall have.")],
    why: OptionalWhy = "",
    who: Who = "",
    url: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Give a topic more partitions. New records of a key may then go elsewhere; what is there stays where it is."""
    from towpath.operations.topics import topic_item

    with open_topics(ctx, url) as (runtime, log):
        before = log.topic(topic).partitions
        grown = log.add_partitions(topic, partitions)
        if grown.partitions > before:
            data = {"id": grown.id, "was": before, "now": grown.partitions, "log": log.url}
            _record(runtime, EventKind.TOPIC_GROWN_BY_HAND, topic, who, why, data)
        item = topic_item(log, grown)
    print_done(item, f"{topic} has {grown.partitions} partitions; it had {before}", as_json)


@app.command()
def delete(
    ctx: typer.Context,
    topic: TopicName,
    why: Why,
    yes: Yes = False,
    who: Who = "",
    url: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Delete a topic with its records and the positions of groups in it. It cannot be brought back."""
    from towpath.operations.topics import topic_item

    with open_topics(ctx, url) as (runtime, log):
        item = topic_item(log, log.topic(topic))
        if not yes:
            question = f"delete topic {topic} of {log.url} with at most {item['records_at_most']:,} records?"
            confirm(question, "nothing was deleted")
        log.delete_topic(topic)
        ends = {str(each["partition"]): each["end"] for each in item["offsets"]}
        data = {"id": item["id"], "ends": ends, "log": log.url}
        _record(runtime, EventKind.TOPIC_DELETED_BY_HAND, topic, who, why, data)
    print_done({"name": topic, "id": item["id"]}, f"deleted {topic} ({item['id']})", as_json)


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
    with open_topics(ctx, url) as (runtime, log):
        before = {f"{topic}/{number}": position for (topic, number), position in log.positions(group).items()}
        if not before:
            raise Refused(f"no group {group!r} has a position in {log.url}")
        log.forget_group(group)
        data = {"positions": before, "log": log.url}
        _record(runtime, EventKind.GROUP_FORGOTTEN_BY_HAND, group, who, why, data)
    print_done({"group": group, "positions": before}, f"forgot {group}: it had {len(before):,} positions", as_json)


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
    why: OptionalWhy = "",
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Copy what a topic holds now to another log or name: keys, values, headers, times and partitions.

    The target is made, if it is not there, with the same partitions and retention. A copy that was cut off, however,
    goes on when the same command is given again: no record is lost and none is there twice. When it was complete, the
    same command brings what has come since.
    """
    from towpath.log.topic_copy import TopicCopy

    with open_runtime(ctx) as runtime, _told_how_to_go_on():
        limit = _settings_for(runtime.settings.log, target, "--to").max_record_bytes
        with (
            open_one(runtime, source, option="--from") as origin,
            open_one(runtime, target, option="--to", makes=True) as goal,
        ):
            with RecordProgress("copied") as progress:
                work = TopicCopy(origin, goal, limit)
                copied = work.run(topic, name or topic, append=append, report=progress.show)
                seconds = progress.elapsed_s
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
    typer.echo(f"copied {counted(copied.total, 'record')} to {copied.target.name} of {where} in {seconds:.1f} s{again}")


@contextmanager
def open_topics(
    ctx: typer.Context, url: str | None = None, *, look: bool = True, makes: bool = False
) -> Iterator[tuple[Runtime, Log]]:
    """The runtime, and the log of the settings or the one at `url`."""
    with open_runtime(ctx) as runtime, open_one(runtime, url, look=look, makes=makes) as log:
        yield runtime, log


@contextmanager
def open_one(
    runtime: Runtime, url: str | None, *, option: str = "--log", look: bool = False, makes: bool = False
) -> Iterator[Log]:
    """A log. `look` waits only briefly for a broker; without `makes` no file is created."""
    from towpath.log import open_log

    settings = _settings_for(runtime.settings.log, url, option)
    if look:
        settings = settings.model_copy(update={"timeout_s": min(settings.timeout_s, LOOK_TIMEOUT_S)})
    if not makes:
        _check_file(settings.url)
    log = open_log(settings, runtime.database)
    try:
        yield log
    finally:
        log.close()


def _settings_for(settings: LogSettings, url: str | None, option: str) -> LogSettings:
    """The settings, with another URL if one is given."""
    from pydantic import ValidationError

    from towpath.settings import LogSettings

    if url is None:
        return settings
    try:
        return LogSettings(**{**settings.model_dump(), "url": url})
    except ValidationError as error:
        raise UsageError(f"{option} {url!r} is not {FORMS.replace('`', '')}") from error


def _check_file(url: str) -> None:
    """Raise an error for a log file that does not exist, rather than create it."""
    from towpath.db.open import SQLITE_PREFIX

    if url.startswith(SQLITE_PREFIX) and not Path(url.removeprefix(SQLITE_PREFIX)).expanduser().exists():
        raise LogUnavailable(f"{url}: there is no log yet; type: towpath topic create")


def _offsets_of(log: Log, topic: str, time_ms: int | None, group: str | None) -> list[dict[str, Any]]:
    from towpath.operations.topics import offset_items, with_position

    found = offset_items(log, topic)
    if time_ms is not None:
        since = log.offsets_at(topic, time_ms)
        found = [{**item, "at": since.get(item["partition"], item["end"])} for item in found]
    if group is not None:
        positions = log.positions(group)
        found = [with_position(item, positions.get((topic, item["partition"]))) for item in found]
    return found


def _print_offsets(found: list[dict[str, Any]]) -> None:
    names = [name for name in (*_TITLES, "lag") if any(name in item for item in found)] or ["topic", "partition"]
    columns = [Column(_TITLES.get(name, name), right=name != "topic", whole=True) for name in names]
    print_table(columns, [[_cell(item[name]) for name in names] for item in found])


def _print_positions(groups: list[dict[str, Any]]) -> None:
    titles = ("partition", "position", "lag")
    columns = [Column("group"), *(Column(title, right=True, whole=True) for title in titles)]
    rows = [[each["group"], *(_cell(item[name]) for name in titles)] for each in groups for item in each["positions"]]
    print_table(columns, rows)


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


@contextmanager
def _told_how_to_go_on() -> Iterator[None]:
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
    with runtime.database.transaction() as tx:
        runtime.event_log.record(tx, Event(kind, subject, who, why, data))
