"""Topics and their records."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from towpath.cli.failures import UsageError
from towpath.cli.remote.call import Call, Item, Options, listing, looking
from towpath.cli.remote.paging import MOST_AT_ONCE
from towpath.cli.remote.server import Server, path_of
from towpath.cli.remote.view import fields, table
from towpath.errors import Refused

if TYPE_CHECKING:
    from towpath.log.record import Record


def _read(server: Server, options: Options) -> list[Record] | Iterator[Record]:
    """Read page by page, while they are shown."""
    from towpath.cli.topic_read import parsed
    from towpath.cli.topic_records import Filter

    topic, partition, offset = parsed(options["place"], options["partition"])
    others = [options[name] for name in ("start", "stop", "limit", "key", "contains", "header")]
    if offset is not None and any(each not in (None, [], ()) for each in others):
        raise UsageError(f"{options['place']} is one record: leave the other options away")
    path = path_of("/topics/{topic}", {"topic": topic})
    if offset is not None:
        return [_one(server, path, f"{topic}/{partition}/{offset}", partition or 0, offset)]
    wanted = Filter.of(options["key"], options["contains"], list(options["header"] or ()))
    starts = _starts(server, path, partition, options["start"], options["stop"])
    found = (
        each for number, start in starts.items() for each in _records(server, path, number, start, options["stop"])
    )
    return islice(filter(wanted.fits, found), options["limit"])


def _starts(server: Server, path: str, partition: int | None, start: int | None, stop: int | None) -> dict[int, int]:
    offsets = {int(each["partition"]): int(each["start"]) for each in server.look(path)["offsets"]}
    if partition is None and (start is not None or stop is not None):
        if len(offsets) > 1:
            raise UsageError(f"an offset is of one partition: say which of the {len(offsets)} with --partition")
        partition = 0
    if partition is None:
        return offsets
    return {partition: offsets.get(partition, 0) if start is None else start}


def _records(server: Server, path: str, partition: int, start: int, stop: int | None) -> Iterator[Record]:
    at: int | None = start
    while at is not None and (stop is None or at < stop):
        page = server.look(f"{path}/records", {"partition": partition, "offset": at, "limit": MOST_AT_ONCE})
        for item in page["items"]:
            if stop is not None and int(item["offset"]) >= stop:
                return
            yield _record(item)
        at = None if page["next"] is None else int(page["next"])


def _one(server: Server, path: str, name: str, partition: int, offset: int) -> Record:
    items = server.look(f"{path}/records", {"partition": partition, "offset": offset, "limit": 1})["items"]
    if not items or int(items[0]["offset"]) != offset:
        raise Refused(f"{name} holds no record: offsets have holes")
    return _record(items[0])


def _record(item: Item) -> Record:
    from towpath.cli.topic_json import from_line
    from towpath.exact_json import to_json
    from towpath.log.record import Record

    read = from_line(to_json(item).encode())
    place = item["topic"], int(item["partition"]), int(item["offset"]), int(item["timestamp"])
    return Record(*place, read.key, read.value, tuple(read.headers))


def _print(found: Any, options: Options) -> None:
    from towpath.cli.topic_view import print_record, record_printer

    if isinstance(found, list):
        print_record(found[0])
        return
    show = record_printer(False)
    for record in found:
        show(record)


def _write(found: Any) -> None:
    from towpath.cli.topic_view import record_printer

    show = record_printer(True)
    for record in found:
        show(record)


CALLS = {
    "topic list": listing(
        "/topics",
        by="after",
        has_next=False,
        show=table("topic=name", "partitions", "records, at most=records_at_most", "kept for s=retention_s", "id…"),
    ),
    "topic show": looking("/topics/{topic}", show=fields()),
    "topic read": Call(_read, _print, never={"since": "say --from, an offset"}, write=_write),
}
