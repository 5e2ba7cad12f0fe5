"""`towpath audit` and `trace`: whether every record of a flow is in exactly one place, and how a record got there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import FAILED, UsageError, say
from towpath.cli.flows.commands import FlowName
from towpath.cli.options import AsJson
from towpath.cli.output import Column, console, plain, print_json, print_table
from towpath.cli.progress import RecordProgress
from towpath.cli.topics.commands import open_topics
from towpath.core.clock import to_datetime, to_millisecond

if TYPE_CHECKING:
    from towpath.desk.record_queries import CaseTrace, CaseTracer
    from towpath.flow.audit.balance import AuditVerdict, Balance
    from towpath.flow.audit.trace import Coordinates, Trace, Tracer
    from towpath.flow.delivery.ledger import Batch
    from towpath.flow.flow import Flow
    from towpath.log import Log, Record


MOST_SHOWN = 100
MOST_SCANNED = 1_000_000
_PLACE = re.compile(r"([^/\s]+)(?:/(\d+)/(\d+))?")

ErrorTopic = Annotated[
    str | None,
    typer.Option("--errors", metavar="TOPIC", help="The flow's error topic, where it is not FLOW.errors."),
]


def audit(
    ctx: typer.Context,
    flow: FlowName,
    deep: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FLOW", help="Also compare what the sinks hold; the flow file says where they are."
        ),
    ] = None,
    errors: ErrorTopic = None,
    as_json: AsJson = False,
) -> None:
    """Prove that every record of a flow is in exactly one place, from the topics, the error topic and the sinks.

    It does not take the ledger's word, and works while the flow runs. Ends with 1 when something does not fit.
    """
    from towpath.desk.record_queries import DeskPlaceSource
    from towpath.flow.audit.audit import Audit

    declared = None if deep is None else _declared(flow, deep)
    with open_topics(ctx, look=False) as (runtime, log), _progress() as progress:
        known = runtime.policies.error_topic(flow) if declared is None else None  # the audit asks the flow itself
        found = Audit(
            runtime.database, log, flow, declared, errors or known, DeskPlaceSource(runtime.database), progress
        ).run()
    if as_json:
        print_json(found.to_json())
    else:
        _print_verdict(found)
    if not found.is_balanced:
        raise typer.Exit(FAILED)


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
    from towpath.desk.record_queries import CaseTracer, trace_all
    from towpath.flow.audit.trace import SinkTracer, Tracer
    from towpath.flow.flow import find_flow
    from towpath.operations.traces import trace_item

    declared = find_flow(flow).flow if ":" in flow or flow.endswith(".py") else None
    name = declared.name if declared is not None else flow
    errors = errors or (declared.error_topic if declared is not None else None)
    with open_topics(ctx) as (runtime, log):
        tracer = Tracer(
            runtime.database, log, name, SinkTracer(declared, log), errors or runtime.policies.error_topic(name)
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
        print_json({"items": [trace_item(each, cases) for each, cases in found]})
        return
    for at, (each, cases) in enumerate(found):
        typer.echo("\n" * bool(at) + "\n".join(map(plain, _story(each, cases))))


def parse_traced(record: str | None, key: str | None, id: str | None) -> re.Match[str] | None:
    """TOPIC, PARTITION and OFFSET of a record, or TOPIC alone with a key; None when only an id is given."""
    if id is not None and record is None and key is None:
        return None
    found = _PLACE.fullmatch(record or "")
    if found is None or id is not None or (key is None) == (found[2] is None):
        raise UsageError("say which record: TOPIC/PARTITION/OFFSET, or TOPIC with --key, or --id alone")
    return found


def _declared(name: str, target: str) -> Flow:
    from towpath.flow.flow import find_flow

    flow = find_flow(target).flow
    if flow.name != name:
        raise UsageError(f"--deep {target}: that flow is named {flow.name!r}, not {name!r}")
    return flow


@contextmanager
def _progress() -> Iterator[Callable[[str], Callable[[int], None]]]:
    """A line of progress for each part of the work."""
    with ExitStack() as closing:
        yield lambda what: closing.enter_context(RecordProgress(what)).show


def _print_verdict(found: AuditVerdict) -> None:
    _print_balance(found.balance)
    if found.outputs:
        typer.echo()
        _print_outputs(found)
    if found.unproven:
        console().print("\nno longer provable", style="bold")
        columns = [Column("stage"), Column("what"), Column("records, as the ledger says", right=True), Column("why")]
        rows = [
            [each.stage, each.what, f"{each.records:,}" if each.records else "", each.why] for each in found.unproven
        ]
        print_table(columns, rows)
    if found.problems:
        console().print("\nproblems", style="bold")
        columns = [Column("problem", whole=True), Column("where"), Column("expected"), Column("found")]
        shown = found.problems[:MOST_SHOWN]
        print_table(columns, [[each.kind, each.where, each.expected, each.found] for each in shown])
        if more := len(found.problems) - len(shown):
            typer.echo(f"and {more:,} more; --json has them all")
    typer.echo()
    _print_end(found)


def _print_balance(balance: Balance) -> None:
    from towpath.flow.delivery.places import RecordPlace

    always = (RecordPlace.LOADED, RecordPlace.FILTERED, RecordPlace.FAILED, RecordPlace.IN_FLIGHT)
    rows = [
        [place, f"{balance.places[place]:,}"]
        for place in RecordPlace
        if place.is_balanced and (place in always or balance.places[place])
    ]
    rows.append(["together", f"{balance.placed:,}"])
    rows.append(["arrived", f"{balance.arrived:,}"])
    if balance.again:
        rows.append(["read again after a reset", f"{balance.again:,}"])
    if balance.returned:
        rows.append(["came back from the desk, and ticks", f"{balance.returned:,}"])
    if balance.difference:
        rows.append(["difference", f"{balance.difference:+,}"])
    if balance.skipped:
        rows.append(["skipped", f"{balance.skipped:,} at most"])
    print_table([Column("place"), Column("records", right=True, whole=True)], rows)


def _print_outputs(found: AuditVerdict) -> None:
    columns = [
        Column("output"),
        Column("stage"),
        Column("delivered", right=True, whole=True),
        Column("found", right=True, whole=True),
        Column("contents", whole=True),
        Column("why"),
    ]
    rows = [
        [
            each.output,
            each.stage,
            f"{each.delivered:,}",
            "" if each.found is None else f"{each.found:,}",
            each.proof,
            each.why or (f"{each.repeats:,} repeats" if each.repeats else ""),
        ]
        for each in found.outputs
    ]
    print_table(columns, rows)


def _print_end(found: AuditVerdict) -> None:
    batches = "1 batch" if found.batches == 1 else f"{found.batches:,} batches"
    beside = [f"{found.errors['repeats']:,} repeated error records"] if found.errors.get("repeats") else []
    if found.unproven:
        beside.append("not all of it is provable any more")
    if found.is_balanced:
        typer.echo(". ".join([f"{found.flow} balances: {batches}", *beside]))
    else:
        count = len(found.problems)
        say(f"{found.flow} does not balance: {'1 problem' if count == 1 else f'{count:,} problems'} in {batches}")


def _from_case(desk: CaseTracer, flow: str, text: str) -> Coordinates:
    case = desk.of_case(text).case
    if case.flow != flow:
        raise UsageError(f"--case {text}: that case is of flow {case.flow!r}, not {flow!r}")
    return case.topic, case.partition, case.offset, case.topic_id


def _wanted(tracer: Tracer, log: Log, record: str | None, key: str | None, id: str | None) -> list[Coordinates]:
    found = parse_traced(record, key, id)
    if found is None:
        return [_from_id(tracer, id or "")]
    if key is None:
        return [(found[1], int(found[2]), int(found[3]), None)]
    return [(each.topic, each.partition, each.offset, None) for each in _with_key(log, found[1], key.encode())]


def _from_id(tracer: Tracer, id: str) -> Coordinates:
    from towpath.flow.audit.trace import by_document
    from towpath.flow.sinks.index.reader import parse_coordinates

    if parse_coordinates(id) is None:
        raise UsageError(f"--id {id!r} is not made from a record's place (topic:incarnation:partition:offset)")
    return by_document(tracer, id)


def _with_key(log: Log, topic: str, key: bytes) -> list[Record]:
    from towpath.flow.audit.trace import MOST_FOUND, by_key

    found = by_key(log, topic, key, MOST_SCANNED)
    if found.offsets is not None:
        say(f"only the last {found.offsets:,} offsets of each partition were read")
    if not found.records:
        raise UsageError(f"--key: no record of {topic} has it")
    if found.total > MOST_FOUND:
        say(f"{found.total:,} records have this key; these are the last {MOST_FOUND}")
    return found.records


def _story(trace: Trace, cases: Sequence[CaseTrace]) -> Iterator[str]:
    yield f"{trace.topic}/{trace.partition}/{trace.offset}, stage {trace.stage}"
    told = [*_events(trace), *(event for case in cases for event in case.events())]
    for at, text in sorted(told, key=lambda each: to_millisecond(each[0])):
        yield f"  {at:%Y-%m-%d %H:%M:%S}  {text}"
    yield f"  {'now':<19}  {trace.now}"
    for each in trace.found:
        name = each.name if each.id is None or each.id in each.name else f"{each.id}, {each.name}"
        yield f"  {'':<19}  in {each.output}: {name}"


def _events(trace: Trace) -> Iterator[tuple[datetime, str]]:
    """What happened to a record, causes before their effects."""
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
