"""`towpath topic send`: records from a file, from standard input or from the command line."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Annotated

import typer

from towpath.cli.failures import UsageError, say
from towpath.cli.options import AsJson
from towpath.cli.output import print_json
from towpath.cli.topic_logs import LogUrl, TopicName, open_topics
from towpath.cli.topic_progress import counted

if TYPE_CHECKING:
    from towpath.cli.topic_lines import Batch
    from towpath.log import Log

app = typer.Typer()

STANDARD_INPUT = "-"


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
    from towpath.cli.topic_lines import LineForm, Lines

    if raw and (records or key_field is not None):
        raise UsageError("--raw takes lines as they are: leave --records and --key-field away")
    if key_field is not None and (records or key is not None):
        raise UsageError("--key-field is for JSON without --records and --key")
    if value is not None and file != STANDARD_INPUT:
        raise UsageError("--value and a file: only one of them can be sent")
    form = LineForm(raw, records, None if key is None else key.encode(), key_field, _headers(header))
    with open_topics(ctx, url, look=False) as (runtime, log):
        limit = runtime.settings.log.max_record_bytes
        found = log.topic(topic)
        if value is None:
            with _input(file) as (stream, size):
                sent = _send(log, topic, Lines(stream, form, found, limit).batches(from_line), size)
        else:
            sent = Counter(number for number, _ in log.append(topic, [form.only_record(value.encode())]))
    count = sum(sent.values())
    if as_json:
        print_json({"topic": topic, "records": count, "partitions": {str(p): sent[p] for p in sorted(sent)}})
    else:
        parts = ", ".join(f"{sent[number]:,} in partition {number}" for number in sorted(sent))
        typer.echo(f"sent {counted(count)} to {topic}" + (f": {parts}" if parts else ""))


def _send(log: Log, topic: str, batches: Iterator[Batch], size: int | None) -> Counter[int]:
    from towpath.cli.topic_lines import BadLine
    from towpath.cli.topic_progress import Counting
    from towpath.errors import BadRecord

    sent: Counter[int] = Counter()
    with Counting("sent", size) as counting:
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


def _append(log: Log, topic: str, batch: Batch, sent: Counter[int]) -> None:
    from towpath.errors import LogUnavailable, PartlyAppended

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
    return f"{counted(count)} {'was' if count == 1 else 'were'} sent"


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


def _headers(given: list[str] | None) -> tuple[tuple[str, bytes], ...]:
    return tuple(parse_header(pair) for pair in given or ())


def parse_header(pair: str) -> tuple[str, bytes]:
    """`name=value`."""
    name, sign, value = pair.partition("=")
    if not sign or not name.isascii() or not name.isprintable() or not name.strip():
        raise UsageError(f"--header {pair!r} is not NAME=VALUE with a name of printable ASCII")
    return name, value.encode()
