"""`towpath trace`: where a record is, and how it got there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.audit import ErrorTopic
from towpath.cli.failures import UsageError, say
from towpath.cli.options import AsJson
from towpath.cli.output import plain, print_json
from towpath.cli.topic_logs import open_topics

if TYPE_CHECKING:
    from towpath.desk.tracing import CaseTrace, CaseTracer
    from towpath.flow.flow import Flow
    from towpath.flow.ledger_row import Batch
    from towpath.flow.trace import Trace, Tracer
    from towpath.flow.trace_finding import Coordinates
    from towpath.log import Log, Record

MOST_SCANNED = 1_000_000
_PLACE = re.compile(r"([^/\s]+)(?:/(\d+)/(\d+))?")


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
    case: Annotated[
        str | None,
        typer.Option(metavar="CASE", help="By a case of the desk: its number, or its id, which is the correlation id."),
    ] = None,
    errors: ErrorTopic = None,
    as_json: AsJson = False,
) -> None:
    """Where is this record, and how did it get there?"""
    from towpath.desk.tracing import CaseTracer, told_item, trace_all
    from towpath.flow.trace import Tracer
    from towpath.flow.trace_sinks import SinkLook

    declared = _declared(flow) if ":" in flow or flow.endswith(".py") else None
    name = declared.name if declared is not None else flow
    errors = errors or (declared.error_topic if declared is not None else None)
    with open_topics(ctx) as (runtime, log):
        tracer = Tracer(
            runtime.database, log, name, SinkLook(declared, log), errors or runtime.policies.error_topic(name)
        )
        desk = CaseTracer(runtime.database)
        if case is not None:
            if record is not None or key is not None or id is not None:
                raise UsageError("--case says which record: leave the rest away")
            wanted = [_from_case(desk, name, case)]
        else:
            wanted = _wanted(tracer, log, record, key, id)
        found = trace_all(tracer, desk, wanted)
    if as_json:
        print_json({"items": [told_item(each, cases) for each, cases in found]})
        return
    for at, (each, cases) in enumerate(found):
        typer.echo("\n" * bool(at) + "\n".join(map(plain, _story(each, cases))))


def _from_case(desk: CaseTracer, flow: str, text: str) -> Coordinates:
    case = desk.of_case(text).case
    if case.flow != flow:
        raise UsageError(f"--case {text}: that case is of flow {case.flow!r}, not {flow!r}")
    return case.topic, case.partition, case.offset, case.topic_id


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
    from towpath.flow.trace_finding import by_document

    if parse_coordinates(id) is None:
        raise UsageError(f"--id {id!r} is not made from a record's place (topic:incarnation:partition:offset)")
    return by_document(tracer, id)


def _with_key(log: Log, topic: str, key: bytes) -> list[Record]:
    from towpath.flow.trace_finding import MOST_FOUND, by_key

    found = by_key(log, topic, key, MOST_SCANNED)
    if found.offsets is not None:
        say(f"only the last {found.offsets:,} offsets of each partition were read")
    if not found.records:
        raise UsageError(f"--key: no record of {topic} has it")
    if found.total > MOST_FOUND:
        say(f"{found.total:,} records have this key; these are the last {MOST_FOUND}")
    return found.records


# As a story


def _story(trace: Trace, cases: Sequence[CaseTrace]) -> Iterator[str]:
    from towpath.clock import to_millisecond

    yield f"{trace.topic}/{trace.partition}/{trace.offset}, stage {trace.stage}"
    told = [*_events(trace), *(event for case in cases for event in case.events())]
    for at, text in sorted(told, key=lambda each: to_millisecond(each[0])):
        yield f"  {at:%Y-%m-%d %H:%M:%S}  {text}"
    yield f"  {'now':<19}  {trace.now}"
    for each in trace.found:
        name = each.name if each.id is None or each.id in each.name else f"{each.id}, {each.name}"
        yield f"  {'':<19}  in {each.output}: {name}"


def _events(trace: Trace) -> Iterator[tuple[datetime, str]]:
    """Of one moment, the cause before its effect."""
    from towpath.clock import to_datetime

    if trace.record is not None:
        yield to_datetime(trace.record.timestamp_ms * 1000), f"arrived: {_facts(trace.record)}"
    for gap in trace.gaps:
        yield gap.noticed_at, f"found to be gone: {gap.topic}/{gap.partition} from {gap.start} to {gap.stop}"
    for batch in trace.readings:
        tries = f", tried {batch.attempts} times" if batch.attempts > 1 else ""
        yield batch.started_at, f"read by {_name(batch)}{tries}"
    for seen in trace.failures:
        failure = seen.record.failure
        at = f"{failure.step}, output {seen.record.output}" if seen.record.output else failure.step
        text = f"failed with code {int(failure.code)} at {at}: {failure.exception}: {failure.message}"
        yield seen.time, f"{text} ({seen.at})"
    for batch in trace.readings:
        if batch.committed_at is not None:
            yield batch.committed_at, f"{_name(batch)} was committed"
        elif batch.state == "superseded":
            yield batch.started_at, f"{_name(batch)} was given up by a reset"


def _name(batch: Batch) -> str:
    return f"batch {batch.batch_id} of generation {batch.generation}"


def _facts(record: Record) -> str:
    key = "no key" if record.key is None else f"key {record.key.decode(errors='backslashreplace')}"
    return f"{key}, {'no value' if record.value is None else f'{len(record.value):,} bytes'}"
