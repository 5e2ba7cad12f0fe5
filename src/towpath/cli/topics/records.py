"""`towpath topic read`, `tail` and `send`: records as they are, as they come, and from a file or the command line."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import IO, TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import UsageError, say
from towpath.cli.options import MOST_ROWS, AsJson
from towpath.cli.output import counted, print_json
from towpath.cli.progress import RecordProgress
from towpath.cli.topics.commands import LogUrl, TopicName, open_topics
from towpath.cli.topics.lines import BadLine, LineForm, RecordLines, parse_header
from towpath.errors import BadRecord, LogUnavailable, PartlyAppended, Refused

if TYPE_CHECKING:
    from towpath.cli.topics.lines import LineBatch
    from towpath.cli.topics.views import OffsetSpan
    from towpath.log import Log
    from towpath.log.record import Record


app = typer.Typer()

STANDARD_INPUT = "-"
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
    from towpath.cli.topics.views import OffsetSpan, RecordFilter, span_of

    topic, partition, offset = parse_place(place, partition)
    if offset is not None and (start, stop, since, limit, key, contains, header) != (None,) * 7:
        raise UsageError(f"{place} is one record: leave the other options away")
    if start is not None and since is not None:
        raise UsageError("--from and --since: only one of them can be the beginning")
    wanted = RecordFilter.of(key, contains, header)
    with open_topics(ctx, url) as (runtime, log):
        if offset is not None:
            _show_one(log, topic, partition or 0, offset, as_json)
            return
        span = span_of(log, topic, OffsetSpan(partition, start, stop), since, runtime.database.now() // 1000)
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
    from towpath.cli.topics.views import RecordFilter, TopicFollower, pause_for, record_printer

    topic, partition, offset = parse_place(place, partition)
    if offset is not None:
        raise UsageError(f"{place} is one record, which cannot be followed")
    wanted = RecordFilter.of(key, contains, header)
    with open_topics(ctx, url) as (_, log):
        found = log.topic(topic)
        if partition is not None:
            found.check_partition(partition)
        pause = pause_for(log, topic)
        follower = TopicFollower(log, found, partition)
        show = record_printer(as_json, at_once=True)
        for record in filter(wanted.fits, follower.last(last)):
            show(record)
        for record in filter(wanted.fits, follower.follow(pause)):
            show(record)


@app.command()
def send(
    ctx: typer.Context,
    topic: TopicName,
    file: Annotated[
        str,
        typer.Argument(metavar="[FILE]", show_default=False, help="One record a line; `-` or nothing: standard input."),
    ] = STANDARD_INPUT,
    value: Annotated[str | None, typer.Option(metavar="TEXT", help="Send this one record, and read nothing.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="A line is any bytes, not a document of JSON.")] = False,
    records: Annotated[
        bool,
        typer.Option(
            "--records",
            help="A line is a whole record: key, value, headers, timestamp, partition, as `read --json` has it.",
        ),
    ] = False,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="The key of every record.")] = None,
    key_field: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Take the key from this field of the JSON.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A header of every record; may be given several times."),
    ] = None,
    from_line: Annotated[
        int, typer.Option(min=1, metavar="N", help="Go on with this line, where an earlier run ended.")
    ] = 1,
    url: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Append records to a topic, one for each line. A line is sent as it stands, byte for byte.

    The first line that cannot be sent ends it: the lines before are sent, and the error says with which line to go on.
    """
    if raw and (records or key_field is not None):
        raise UsageError("--raw takes lines as they are: leave --records and --key-field away")
    if key_field is not None and (records or key is not None):
        raise UsageError("--key-field is for JSON without --records and --key")
    if value is not None and file != STANDARD_INPUT:
        raise UsageError("--value and a file: only one of them can be sent")
    headers = tuple(map(parse_header, header or ()))
    form = LineForm(raw, records, None if key is None else key.encode(), key_field, headers)
    with open_topics(ctx, url, look=False) as (runtime, log):
        limit = runtime.settings.log.max_record_bytes
        found = log.topic(topic)
        if value is None:
            with _input(file) as (stream, size):
                sent = _send(log, topic, RecordLines(stream, form, found, limit).batches(from_line), size)
        else:
            sent = Counter(number for number, _ in log.append(topic, [form.only_record(value.encode())]))
    count = sum(sent.values())
    if as_json:
        print_json({"topic": topic, "records": count, "partitions": {str(p): sent[p] for p in sorted(sent)}})
    else:
        parts = ", ".join(f"{sent[number]:,} in partition {number}" for number in sorted(sent))
        typer.echo(f"sent {counted(count, 'record')} to {topic}" + (f": {parts}" if parts else ""))


def parse_place(place: str, partition: int | None) -> tuple[str, int | None, int | None]:
    """Split TOPIC[/PARTITION[/OFFSET]] into its parts."""
    found = PLACE.fullmatch(place)
    if not found:
        raise UsageError(f"{place!r} is not TOPIC, TOPIC/PARTITION or TOPIC/PARTITION/OFFSET")
    if found["partition"] is not None:
        if partition is not None:
            raise UsageError(f"{place} names a partition: leave --partition away")
        partition = int(found["partition"])
    return found["topic"], partition, None if found["offset"] is None else int(found["offset"])


def _records(log: Log, topic: str, span: OffsetSpan) -> Iterator[Record]:
    for number, start in span.starts.items():
        # What retention has taken since the command began is not there any more, and no error.
        first = start if span.is_exact else max(start, log.starts(topic)[number])
        yield from log.read(topic, number, first, span.stop)


def _show_one(log: Log, topic: str, partition: int, offset: int, as_json: bool) -> None:
    from towpath.cli.topics.views import print_record

    found = log.record(topic, partition, offset)
    if found is None:
        raise Refused(f"{topic}/{partition}/{offset} holds no record: offsets have holes")
    if as_json:
        _print([found], as_json)
    else:
        print_record(found)


def _print(records: Iterable[Record], as_json: bool) -> None:
    from towpath.cli.topics.views import record_printer

    show = record_printer(as_json)
    for record in records:
        show(record)


def _send(log: Log, topic: str, batches: Iterator[LineBatch], size: int | None) -> Counter[int]:
    sent: Counter[int] = Counter()
    with RecordProgress("sent", size) as counting:
        try:
            for batch in batches:
                _append(log, topic, batch, sent)
                counting.show(sum(sent.values()), batch.bytes)
        except BadLine as error:
            raise BadRecord(f"{error}; {_so_far(sent)}: mend it and go on with --from-line {error.number}") from error
        except KeyboardInterrupt:
            say(f"stopped; {_so_far(sent)}")
            raise
    return sent


def _append(log: Log, topic: str, batch: LineBatch, sent: Counter[int]) -> None:
    first, last = batch.lines[0], batch.lines[-1]
    try:
        sent.update(number for number, _ in log.append(topic, batch.records))
    except LogUnavailable as error:
        raise LogUnavailable(f"{error}; {_so_far(sent)}: go on with --from-line {first}") from error
    except PartlyAppended as error:
        # In order, all of them or none: then it is known with which line to go on.
        done = len(error.appended)
        if not error.unknown and error.appended == list(range(done)):
            raise LogUnavailable(f"{error}: go on with --from-line {batch.lines[done]}") from error
        raise LogUnavailable(
            f"{error}; {_so_far(sent)} before: some of lines {first} to {last} are there, and --from-line {first} "
            "would double them"
        ) from error


def _so_far(sent: Counter[int]) -> str:
    count = sum(sent.values())
    return f"{counted(count, 'record')} {'was' if count == 1 else 'were'} sent"


@contextmanager
def _input(file: str) -> Iterator[tuple[IO[bytes], int | None]]:
    """The bytes to send, and how many they are if that is known."""
    if file == STANDARD_INPUT:
        if sys.stdin.isatty():
            say("one record a line; Ctrl-D ends")
        yield sys.stdin.buffer, None
    else:
        with _opened(file) as opened:
            size = os.fstat(opened.fileno()).st_size
            yield opened, size or None


def _opened(file: str) -> IO[bytes]:
    try:
        return open(file, "rb")
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error
