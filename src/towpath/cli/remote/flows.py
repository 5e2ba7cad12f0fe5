"""Flows, where their records are, and topics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from towpath.cli.context import UsageError, say
from towpath.cli.flows.audit import parse_traced
from towpath.cli.flows.changes import NEXT_START
from towpath.cli.flows.commands import parse_batch
from towpath.cli.options import confirm
from towpath.cli.remote.call import Item, Options, RemoteCall, fields, listing, looking, sentence, table, without
from towpath.cli.remote.server import MOST_AT_ONCE, RemoteServer, path_of
from towpath.cli.topics.lines import from_line
from towpath.cli.topics.records import parse_place
from towpath.core.exact_json import to_json
from towpath.errors import Refused

if TYPE_CHECKING:
    from towpath.log.record import Record


ROUND_S = 0.2
AUDIT_S = 20.0
WATCHED = {"watch": "it is shown once; `watch towpath --remote … flow state` shows it again and again"}
NO_ERRORS = {"errors": "the server knows the error topic of its flows"}
NO_FILE = {**NO_ERRORS, "deep": "the flow file is needed for it, and the sinks"}
_STAGES = table("flow…", "stage…", "state", "for=since", "rate/s=rate", "lag", "run by…=owner")


def _list(server: RemoteServer, options: Options) -> Item:
    return {"items": [stage for flow in server.look("/flows")["items"] for stage in flow["stages"]]}


def _state(server: RemoteServer, options: Options) -> Item:
    path, stage = path_of("/flows/{flow}", options), options["stage"]
    server.look(f"{path}/batches", {"stage": stage, "limit": 1})  # says what there is not
    return {"items": _stages(server, options["flow"], stage)}


def _stages(server: RemoteServer, flow: str, stage: str | None) -> list[Item]:
    found: list[Item] = next((each["stages"] for each in server.look("/flows")["items"] if each["flow"] == flow), [])
    return [each for each in found if stage in (None, each["stage"])]


def _before(options: Options) -> Options:
    start = parse_batch(options["before"])
    return options | {"before": None if start is None else f"{start[0]}-{start[1]}"}


def _steering(kind: str, *body: str) -> RemoteCall:
    """Command a stage, and wait until the process that runs it has carried that out."""

    def ask(server: RemoteServer, options: Options) -> Item:
        flow, stage = options["flow"], options["stage"]
        if kind == "reset" and not options["yes"]:
            _confirm_reset(options)
        was = {each["stage"]: each for each in _stages(server, flow, stage)}
        said = {name: options[name] for name in (*body, "stage", "why") if options[name] is not None}
        items = server.change(f"{path_of('/flows/{flow}', options)}/{kind}", said)["items"]
        deadline = time.monotonic() + options["wait"]
        while any(each["is_run"] and not each["is_done"] for each in items) and time.monotonic() < deadline:
            time.sleep(ROUND_S)
            now = {each["stage"]: each for each in _stages(server, flow, stage)}
            items = [_looked(kind, was.get(each["stage"]), now.get(each["stage"], each)) for each in items]
        return {"items": items}

    return RemoteCall(ask, sentence(_said))


def _looked(kind: str, was: Item | None, item: Item) -> Item:
    from towpath.flow.stage import RESTING

    is_taken = item["wish"] is None
    match kind:
        case "pause":
            is_done = item["state"] == "paused"
        case "stop":
            is_done = item["state"] in RESTING
        case "reset":
            is_done = was is None or int(item["generation"]) > int(was["generation"])
        case _:
            is_done = True
    return {**item, "is_done": is_taken and is_done}


def _confirm_reset(options: Options) -> None:
    from towpath.flow.stage.history import MEANS

    flow, stage, to = options["flow"], options["stage"], options["to"]
    confirm(f"{MEANS[to]}\nReset {flow}{f'/{stage}' if stage else ''} to {to}?", "nothing was changed")


def _said(found: Item, options: Options) -> str:
    def came(item: Item) -> str:
        if item["is_done"]:
            return f"done: {item['state']}"
        return f"asked; {item['owner']} has not done it yet" if item["is_run"] else f"asked; {NEXT_START}"

    return "\n".join(f"{each['flow']}/{each['stage']}: {came(each)}" for each in found["items"])


def _audit(server: RemoteServer, options: Options) -> Item:
    found = server.look(f"{path_of('/flows/{flow}', options)}/audit", {"within_s": AUDIT_S})
    if found["counted"] is None:
        raise Refused(f"{found['why']}; `towpath audit` where the database is takes as long as it needs")
    counted: Item = found["counted"]
    return counted


def _trace(server: RemoteServer, options: Options) -> Item:
    flow = options["flow"]
    if ":" in flow or flow.endswith(".py"):
        raise UsageError("--flow: with --remote it is the flow's name; its sinks are not looked into")
    wanted = _wanted(options)
    found = server.look("/trace", {"flow": flow, **wanted})
    if options["key"] is not None:
        _tell_of_key(found, wanted["topic"])
    return {"items": found["items"]}


def _tell_of_key(found: Item, topic: str) -> None:
    """Say how much was searched for the key, and how much of what was found is shown."""
    if found["offsets_read"] is not None:
        say(f"only the last {int(found['offsets_read']):,} offsets of each partition were read")
    if not found["items"]:
        raise UsageError(f"--key: no record of {topic} has it")
    if int(found["matches"]) > len(found["items"]):
        say(f"{int(found['matches']):,} records have this key; these are the last {len(found['items'])}")


def _wanted(options: Options) -> dict[str, Any]:
    record, key, id, case = (options[name] for name in ("record", "key", "id", "case"))
    if case is not None:
        if record is not None or key is not None or id is not None:
            raise UsageError("--case says which record: leave the rest away")
        return {"case": case}
    found = parse_traced(record, key, id)
    if found is None:
        return {"id": id}
    return {"topic": found[1], "key": key, "partition": found[2], "offset": found[3]}


def _print_traces(found: Item, options: Options) -> None:
    for each in found["items"]:
        fields()(each, options)


def _read(server: RemoteServer, options: Options) -> list[Record] | Iterator[Record]:
    """Read page by page, while they are shown."""
    from towpath.cli.topics.views import RecordFilter

    topic, partition, offset = parse_place(options["place"], options["partition"])
    others = [options[name] for name in ("start", "stop", "limit", "key", "contains", "header")]
    if offset is not None and any(each not in (None, [], ()) for each in others):
        raise UsageError(f"{options['place']} is one record: leave the other options away")
    path = path_of("/topics/{topic}", {"topic": topic})
    if offset is not None:
        return [_one(server, path, f"{topic}/{partition}/{offset}", partition or 0, offset)]
    wanted = RecordFilter.of(options["key"], options["contains"], list(options["header"] or ()))
    starts = _starts(server, path, partition, options["start"], options["stop"])
    found = (
        each for number, start in starts.items() for each in _records(server, path, number, start, options["stop"])
    )
    return islice(filter(wanted.fits, found), options["limit"])


def _starts(
    server: RemoteServer, path: str, partition: int | None, start: int | None, stop: int | None
) -> dict[int, int]:
    offsets = {int(each["partition"]): int(each["start"]) for each in server.look(path)["offsets"]}
    if partition is None and (start is not None or stop is not None):
        if len(offsets) > 1:
            raise UsageError(f"an offset is of one partition: say which of the {len(offsets)} with --partition")
        partition = 0
    if partition is None:
        return offsets
    return {partition: offsets.get(partition, 0) if start is None else start}


def _records(server: RemoteServer, path: str, partition: int, start: int, stop: int | None) -> Iterator[Record]:
    at: int | None = start
    while at is not None and (stop is None or at < stop):
        page = server.look(f"{path}/records", {"partition": partition, "offset": at, "limit": MOST_AT_ONCE})
        for item in page["items"]:
            if stop is not None and int(item["offset"]) >= stop:
                return
            yield _record(item)
        at = None if page["next"] is None else int(page["next"])


def _one(server: RemoteServer, path: str, name: str, partition: int, offset: int) -> Record:
    items = server.look(f"{path}/records", {"partition": partition, "offset": offset, "limit": 1})["items"]
    if not items or int(items[0]["offset"]) != offset:
        raise Refused(f"{name} holds no record: offsets have holes")
    return _record(items[0])


def _record(item: Item) -> Record:
    from towpath.log.record import Record

    read = from_line(to_json(item).encode())
    place = item["topic"], int(item["partition"]), int(item["offset"]), int(item["timestamp"])
    return Record(*place, read.key, read.value, tuple(read.headers))


def _print(found: Any, options: Options) -> None:
    from towpath.cli.topics.views import print_record, record_printer

    if isinstance(found, list):
        print_record(found[0])
        return
    show = record_printer(False)
    for record in found:
        show(record)


def _write(found: Any) -> None:
    from towpath.cli.topics.views import record_printer

    show = record_printer(True)
    for record in found:
        show(record)


CALLS = {
    # flows
    "flow list": RemoteCall(_list, _STAGES),
    "flow show": looking("/flows/{flow}", shape=without("mermaid"), show=fields()),
    "flow state": RemoteCall(_state, _STAGES, never=WATCHED),
    "flow batches": listing(
        "/flows/{flow}/batches",
        "stage",
        prepare=_before,
        has_next=False,
        show=table("stage…", "generation", "batch=batch_id", "state", "tries=attempts", "counts…", "begun=started_at"),
    ),
    "flow pause": _steering("pause"),
    "flow resume": _steering("resume"),
    "flow stop": _steering("stop"),
    "flow reset": _steering("reset", "to"),
    "audit": RemoteCall(_audit, fields(), lambda found, options: not found["is_balanced"], NO_FILE),
    "trace": RemoteCall(_trace, _print_traces, never=NO_ERRORS),
    # topics
    "topic list": listing(
        "/topics",
        by="after",
        has_next=False,
        show=table("topic=name", "partitions", "records, at most=records_at_most", "kept for s=retention_s", "id…"),
    ),
    "topic show": looking("/topics/{topic}", show=fields()),
    "topic read": RemoteCall(_read, _print, never={"since": "say --from, an offset"}, write=_write),
}
