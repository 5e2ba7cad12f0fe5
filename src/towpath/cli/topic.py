"""`towpath topic`: looking at topics, their partitions, and how far groups have come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.failures import UsageError
from towpath.cli.options import AsJson
from towpath.cli.output import Column, console, print_fields, print_json, print_table
from towpath.cli.topic_logs import LogUrl, TopicName, open_topics

if TYPE_CHECKING:
    from towpath.log import Log

app = typer.Typer(help="Look at topics, and send, read, copy and delete them.", no_args_is_help=True)


@app.command("list")
def list_(ctx: typer.Context, url: LogUrl = None, as_json: AsJson = False) -> None:
    """All topics. Offsets have holes, so `at most` is no count: a topic never holds more records than that."""
    from towpath.cli.topic_times import age_text
    from towpath.log.topic_json import topic_item

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
    from towpath.cli.topic_times import age_text
    from towpath.log.topic_json import topic_view

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
        console().print("\ngroups", style="bold")
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
    from towpath.cli.topic_times import parse_time_ms
    from towpath.log.topic import check_group
    from towpath.log.topic_json import position_items

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


def _offsets_of(log: Log, topic: str, time_ms: int | None, group: str | None) -> list[dict[str, Any]]:
    from towpath.log.topic_json import offset_items, with_position

    found = offset_items(log, topic)
    if time_ms is not None:
        since = log.offsets_at(topic, time_ms)
        found = [{**item, "at": since.get(item["partition"], item["end"])} for item in found]
    if group is not None:
        positions = log.positions(group)
        found = [with_position(item, positions.get((topic, item["partition"]))) for item in found]
    return found


_TITLES = {
    "topic": "topic",
    "partition": "partition",
    "start": "first",
    "end": "next",
    "at": "at that time",
    "position": "group is at",
}


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
