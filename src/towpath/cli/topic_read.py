"""`towpath topic read` and `tail`: records as they are, and as they come."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.failures import UsageError
from towpath.cli.options import MOST_ROWS, AsJson
from towpath.cli.topic_logs import LogUrl, open_topics

if TYPE_CHECKING:
    from towpath.cli.topic_records import Span
    from towpath.log import Log
    from towpath.log.record import Record

app = typer.Typer()

PLACE = re.compile(r"(?P<topic>[^/]*)(?:/(?P<partition>\d{1,9})(?:/(?P<offset>\d{1,18}))?)?")

Place = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC[/PARTITION[/OFFSET]]",
        show_default=False,
        help="A topic, one of its partitions, or one record, which is shown whole.",
    ),
]
Partition = Annotated[int | None, typer.Option(min=0, metavar="P", help="Only this partition.")]
Key = Annotated[str | None, typer.Option(metavar="KEY", help="Only records with this key.")]
Contains = Annotated[str | None, typer.Option(metavar="TEXT", help="Only records with this text in their value.")]
Header = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Only records with this header; may be given several times."),
]


@app.command()
def read(
    ctx: typer.Context,
    place: Place,
    partition: Partition = None,
    start: Annotated[
        int | None, typer.Option("--from", min=0, metavar="OFFSET", help="Begin with this offset of the partition.")
    ] = None,
    stop: Annotated[
        int | None, typer.Option("--to", min=0, metavar="OFFSET", help="End before this offset of the partition.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Begin with records of this time: 2026-01-31T10:00:00Z, or 15m (ago)."),
    ] = None,
    limit: Annotated[int | None, typer.Option("-n", "--limit", min=1, metavar="N", help="At most N records.")] = None,
    key: Key = None,
    contains: Contains = None,
    header: Header = None,
    url: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Records that are there now: one partition after the other, each in the order of its offsets.

    With --json one document a line, which `send --records` takes back as it is.
    """
    from towpath.cli.topic_records import Filter, Span, span_of

    topic, partition, offset = parsed(place, partition)
    if offset is not None and (start, stop, since, limit, key, contains, header) != (None,) * 7:
        raise UsageError(f"{place} is one record: leave the other options away")
    if start is not None and since is not None:
        raise UsageError("--from and --since: only one of them can be the beginning")
    wanted = Filter.of(key, contains, header)
    with open_topics(ctx, url) as (runtime, log):
        if offset is not None:
            _show_one(log, topic, partition or 0, offset, as_json)
            return
        span = span_of(log, topic, Span(partition, start, stop), since, runtime.database.now() // 1000)
        _print(islice(filter(wanted.fits, _records(log, topic, span)), limit), as_json)


@app.command()
def tail(
    ctx: typer.Context,
    place: Place,
    partition: Partition = None,
    last: Annotated[
        int, typer.Option("-n", "--last", min=0, max=MOST_ROWS, metavar="N", help="Begin with the last N.")
    ] = 10,
    key: Key = None,
    contains: Contains = None,
    header: Header = None,
    url: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """New records as they come, until Ctrl-C. Waits while the log is away."""
    from towpath.cli.topic_records import Filter
    from towpath.cli.topic_tail import Follower, pause_for
    from towpath.cli.topic_view import record_printer

    topic, partition, offset = parsed(place, partition)
    if offset is not None:
        raise UsageError(f"{place} is one record, which cannot be followed")
    wanted = Filter.of(key, contains, header)
    with open_topics(ctx, url) as (_, log):
        found = log.topic(topic)
        if partition is not None:
            found.check_partition(partition)
        pause = pause_for(log, topic)
        follower = Follower(log, found, partition)
        show = record_printer(as_json, at_once=True)
        for record in filter(wanted.fits, follower.last(last)):
            show(record)
        for record in filter(wanted.fits, follower.follow(pause)):
            show(record)


def parsed(place: str, partition: int | None) -> tuple[str, int | None, int | None]:
    """TOPIC[/PARTITION[/OFFSET]] as the three."""
    found = PLACE.fullmatch(place)
    if not found:
        raise UsageError(f"{place!r} is not TOPIC, TOPIC/PARTITION or TOPIC/PARTITION/OFFSET")
    if found["partition"] is not None:
        if partition is not None:
            raise UsageError(f"{place} names a partition: leave --partition away")
        partition = int(found["partition"])
    return found["topic"], partition, None if found["offset"] is None else int(found["offset"])


def _records(log: Log, topic: str, span: Span) -> Iterator[Record]:
    for number, start in span.starts.items():
        # What retention has taken since the command began is not there any more, and no error.
        first = start if span.is_exact else max(start, log.starts(topic)[number])
        yield from log.read(topic, number, first, span.stop)


def _show_one(log: Log, topic: str, partition: int, offset: int, as_json: bool) -> None:
    from towpath.cli.topic_view import print_record
    from towpath.errors import Refused

    found = log.record(topic, partition, offset)
    if found is None:
        raise Refused(f"{topic}/{partition}/{offset} holds no record: offsets have holes")
    if as_json:
        _print(iter([found]), as_json)
    else:
        print_record(found)


def _print(records: Iterator[Record], as_json: bool) -> None:
    from towpath.cli.topic_view import record_printer

    show = record_printer(as_json)
    for record in records:
        show(record)
