"""`towpath trace`: where a record is, and how it got there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.audit import ErrorTopic
from towpath.cli.failures import UsageError, say
from towpath.cli.options import AsJson
from towpath.cli.output import plain, print_json
from towpath.cli.topic_logs import open_topics

if TYPE_CHECKING:
    from towpath.flow.flow import Flow
    from towpath.flow.trace import Trace, Tracer
    from towpath.log import Log, Record

MOST_SCANNED = 1_000_000
MOST_FOUND = 20
_PLACE = re.compile(r"([^/\s]+)(?:/(\d+)/(\d+))?")
Coordinates = tuple[str, int, int, str | None]  # topic, partition, offset, topic id


def trace(
    ctx: typer.Context,
    flow: Annotated[
        str,
        typer.Option(
            metavar="FLOW", show_default=False, help="The flow's name, or MODULE:FLOW to look into its sinks too."
        ),
    ],
    record: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOPIC/PARTITION/OFFSET]", show_default=False, help="The record; with --key the topic alone."
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help=f"Records of that key: the last {MOST_SCANNED:,} of TOPIC are read for it."),
    ] = None,
    id: Annotated[
        str | None, typer.Option(metavar="ID", help="By document id, where that is made from the record's place.")
    ] = None,
    errors: ErrorTopic = None,
    as_json: AsJson = False,
) -> None:
    """Where is this record, and how did it get there?"""
    from towpath.flow.trace import Tracer
    from towpath.flow.trace_sinks import SinkLook

    declared = _declared(flow) if ":" in flow or flow.endswith(".py") else None
    name = declared.name if declared is not None else flow
    errors = errors or (declared.error_topic if declared is not None else None)
    with open_topics(ctx) as (runtime, log):
        tracer = Tracer(runtime.database, log, name, SinkLook(declared, log), errors)
        wanted = _wanted(tracer, log, record, key, id)
        found = [each for topic, number, offset, its in wanted for each in tracer.trace(topic, number, offset, its)]
    if as_json:
        print_json({"items": [_item(each) for each in found]})
        return
    for at, each in enumerate(found):
        typer.echo("\n" * bool(at) + "\n".join(map(plain, _story(each))))


def _declared(target: str) -> Flow:
    from towpath.flow.flow_file import find_flow

    return find_flow(target).flow


def _wanted(tracer: Tracer, log: Log, record: str | None, key: str | None, id: str | None) -> list[Coordinates]:
    if id is not None and record is None and key is None:
        return [_from_id(tracer, id)]
    found = _PLACE.fullmatch(record or "")
    if found is None or id is not None or (key is None) == (found[2] is None):
        raise UsageError("say which record: TOPIC/PARTITION/OFFSET, or TOPIC with --key, or --id alone")
    if key is None:
        return [(found[1], int(found[2]), int(found[3]), None)]
    return [(each.topic, each.partition, each.offset, None) for each in _with_key(log, found[1], key.encode())]


def _from_id(tracer: Tracer, id: str) -> Coordinates:
    from towpath.flow.audit.sink_readers import parse_coordinates

    place = parse_coordinates(id)
    if place is None:
        raise UsageError(f"--id {id!r} is not made from a record's place (topic:incarnation:partition:offset)")
    topic, incarnation, number, offset, _ = place
    return topic, number, offset, tracer.topic_id(topic, incarnation)


def _with_key(log: Log, topic: str, key: bytes) -> list[Record]:
    """The newest records of a key, oldest first. Nothing says where they are, so the topic is read."""
    starts, ends = log.starts(topic), log.ends(topic)
    share = max(1, MOST_SCANNED // max(1, len(ends)))
    first = {number: max(starts.get(number, 0), end - share) for number, end in ends.items()}
    found = [
        each for number, end in ends.items() for each in log.read(topic, number, first[number], end) if each.key == key
    ]
    if any(first[number] > starts.get(number, 0) for number in ends):
        say(f"only the last {share:,} offsets of each partition were read")
    if not found:
        raise UsageError(f"--key: no record of {topic} has it")
    found.sort(key=lambda each: each.timestamp_ms)
    if len(found) > MOST_FOUND:
        say(f"{len(found):,} records have this key; these are the last {MOST_FOUND}")
    return found[-MOST_FOUND:]


# As a story


def _story(trace: Trace) -> Iterator[str]:
    yield f"{trace.topic}/{trace.partition}/{trace.offset}, stage {trace.stage}"
    for at, text in sorted(_events(trace), key=lambda each: each[0]):
        yield f"  {at:%Y-%m-%d %H:%M:%S}  {text}"
    yield f"  {'now':<19}  {trace.now}"
    for each in trace.found:
        name = each.name if each.id is None or each.id in each.name else f"{each.id}, {each.name}"
        yield f"  {'':<19}  in {each.output}: {name}"


def _events(trace: Trace) -> Iterator[tuple[datetime, str]]:
    from towpath.clock import to_datetime

    if trace.record is not None:
        yield to_datetime(trace.record.timestamp_ms * 1000), f"arrived: {_facts(trace.record)}"
    for gap in trace.gaps:
        yield gap.noticed_at, f"found to be gone: {gap.topic}/{gap.partition} from {gap.start} to {gap.stop}"
    for batch in trace.readings:
        name = f"batch {batch.batch_id} of generation {batch.generation}"
        tries = f", tried {batch.attempts} times" if batch.attempts > 1 else ""
        yield batch.started_at, f"read by {name}{tries}"
        if batch.committed_at is not None:
            yield batch.committed_at, f"{name} was committed"
        elif batch.state == "superseded":
            yield batch.started_at, f"{name} was given up by a reset"
    for seen in trace.failures:
        failure = seen.record.failure
        at = f"{failure.step}, output {seen.record.output}" if seen.record.output else failure.step
        text = f"failed with code {int(failure.code)} at {at}: {failure.exception}: {failure.message}"
        yield seen.time, f"{text} ({seen.at})"


def _facts(record: Record) -> str:
    key = "no key" if record.key is None else f"key {record.key.decode(errors='backslashreplace')}"
    return f"{key}, {'no value' if record.value is None else f'{len(record.value):,} bytes'}"


# As JSON


def _item(trace: Trace) -> dict[str, Any]:
    return {
        "topic": trace.topic,
        "partition": trace.partition,
        "offset": trace.offset,
        "stage": trace.stage,
        "place": trace.place,
        "now": trace.now,
        "records_before": trace.before,
        "record": None if trace.record is None else _record_item(trace.record),
        "readings": [
            {
                "generation": batch.generation,
                "batch_id": batch.batch_id,
                "state": batch.state,
                "attempts": batch.attempts,
                "started_at": batch.started_at,
                "committed_at": batch.committed_at,
            }
            for batch in trace.readings
        ],
        "failures": [
            {
                "at": seen.at,
                "time": seen.time,
                "batch_id": seen.record.batch_id,
                "generation": seen.record.generation,
                "output": seen.record.output,
                **seen.record.failure._asdict(),
            }
            for seen in trace.failures
        ],
        "found": [each._asdict() for each in trace.found],
        "gaps": [{"start": gap.start, "stop": gap.stop, "reason": gap.reason} for gap in trace.gaps],
    }


def _record_item(record: Record) -> dict[str, Any]:
    key = None if record.key is None else record.key.decode(errors="backslashreplace")
    size = None if record.value is None else len(record.value)
    return {"timestamp_ms": record.timestamp_ms, "key": key, "bytes": size}
