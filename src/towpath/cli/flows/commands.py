"""`towpath flow`: looking at flows, their batches in the ledger, and what failed in them.

All of it comes from the database and the error topic; neither Spark nor the flow file is needed.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from heapq import merge
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.context import UsageError, open_runtime
from towpath.cli.options import AsJson, Limit
from towpath.cli.output import Column, console, print_fields, print_json, print_table, short_time, time_and_age
from towpath.cli.topics.commands import LogUrl, open_topics
from towpath.core.clock import to_datetime

if TYPE_CHECKING:
    from datetime import datetime

    from towpath.flow.delivery.ledger import Batch, Gap
    from towpath.flow.records.errors import ErrorRecord
    from towpath.flow.stage.status import StageStatus
    from towpath.log import Log, Record


app = typer.Typer(help="Look at flows and their batches, and steer them.", no_args_is_help=True)

DEFAULT_BATCHES = 20
DEFAULT_ERRORS = 20

FlowName = Annotated[str, typer.Argument(metavar="FLOW", show_default=False, help="The flow's name.")]
StageName = Annotated[
    str | None, typer.Argument(metavar="[STAGE]", show_default=False, help="Only this stage; all if not given.")
]


@app.command("list")
def list_(ctx: typer.Context, as_json: AsJson = False) -> None:
    """The stages of all flows that have run here: their state, how far behind they are, and who runs them."""
    from towpath.cli.flows.views import number, time_in_state
    from towpath.flow.stage.status import stage_statuses
    from towpath.operations.flows import stage_item

    with open_runtime(ctx) as runtime:
        found = stage_statuses(runtime.database)
    if as_json:
        print_json({"items": [stage_item(look) for look in found]})
        return
    columns = [
        Column("flow"),
        Column("stage"),
        Column("state", whole=True),
        Column("for", right=True, whole=True),
        Column("rate/s", right=True, whole=True),
        Column("lag", right=True, whole=True),
        Column("run by"),
    ]
    rows = [
        [
            look.stage.flow,
            look.stage.name,
            look.state,
            time_in_state(look.stage.machine, look.now),
            f"{look.stage.sample.get('rate', 0.0) if look.is_run else 0.0:,.1f}",
            number(look.stage.sample.get("lag")),
            look.stage.owner if look.is_run else look.run_by,
        ]
        for look in found
    ]
    print_table(columns, rows)


@app.command()
def show(ctx: typer.Context, flow: FlowName, as_json: AsJson = False) -> None:
    """One flow: what its stages read, do and write, all that they have counted, and what they will never read."""
    from towpath.flow.delivery.ledger import Ledger
    from towpath.flow.stage.status import stage_statuses
    from towpath.operations.flows import gap_item, stage_view

    with open_runtime(ctx) as runtime:
        found = stage_statuses(runtime.database, flow)
        ledger = Ledger(runtime.database)
        with runtime.database.read() as tx:
            totals = ledger.totals(tx, flow)
            gaps = ledger.gaps(tx, flow)
    if as_json:
        stages = [stage_view(look, totals.get(look.stage.name, {})) for look in found]
        print_json({"flow": flow, "stages": stages, "gaps": [gap_item(gap) for gap in gaps]})
        return
    for number, look in enumerate(found):
        if number:
            typer.echo()
        _print_stage(look, totals.get(look.stage.name, {}))
    for gap in gaps:
        console().print(f"\ngap: {_gap_text(gap)}", style="yellow", soft_wrap=True)


@app.command()
def state(
    ctx: typer.Context,
    flow: FlowName,
    stage: StageName = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing it, until Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """What each stage is doing, since when, what troubles it, how far it is in each partition, and who runs it."""
    from towpath.cli.flows.views import print_look, watched
    from towpath.flow.stage.status import stage_statuses
    from towpath.operations.flows import stage_item

    with open_runtime(ctx) as runtime:
        if watch:
            watched(runtime, flow, stage, as_json)
            return
        found = stage_statuses(runtime.database, flow, stage)
    if as_json:
        print_json({"items": [stage_item(look) for look in found]})
        return
    for number, look in enumerate(found):
        if number:
            typer.echo()
        print_look(look)


@app.command()
def batches(
    ctx: typer.Context,
    flow: FlowName,
    stage: StageName = None,
    limit: Limit = DEFAULT_BATCHES,
    before: Annotated[
        str | None,
        typer.Option(metavar="GENERATION/BATCH", help="Go on with those before this one; with a STAGE."),
    ] = None,
    positions: Annotated[bool, typer.Option("--positions", help="Also the offsets that each has read.")] = False,
    as_json: AsJson = False,
) -> None:
    """What each batch read and what became of it, newest first: read = loaded + filtered + failed + rarer places."""
    from towpath.flow.delivery.ledger import Ledger
    from towpath.flow.stage.status import stage_statuses
    from towpath.operations.flows import batch_item

    start = parse_batch(before)
    with open_runtime(ctx) as runtime:
        stages = [look.stage.name for look in stage_statuses(runtime.database, flow, stage)]
        if start is not None and len(stages) > 1:
            raise UsageError(f"--before: say of which stage: {', '.join(stages)}")
        ledger = Ledger(runtime.database)
        with runtime.database.read() as tx:
            found = [each for name in stages for each in ledger.batches(tx, flow, name, limit, start)]
        now = to_datetime(runtime.database.now())
    page = sorted(found, key=lambda each: (each.started_at, each.generation, each.batch_id), reverse=True)[:limit]
    if as_json:
        print_json({"items": [batch_item(each) for each in page]})
    else:
        _print_batches(page, now, positions, len(stages) > 1)


@app.command()
def errors(
    ctx: typer.Context,
    flow: FlowName,
    code: Annotated[int | None, typer.Option(min=0, max=13, metavar="CODE", help="Only of this code.")] = None,
    step: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this step or output.")] = None,
    limit: Limit = DEFAULT_ERRORS,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="The flow's error topic, if it is not FLOW.errors.")
    ] = None,
    url: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """The last records that failed: where each came from, with which code, at which step, and what was said.

    `topic read TOPIC/PARTITION/OFFSET` shows one of them whole, with its value and its trace.
    """
    kept: deque[tuple[Record, ErrorRecord]] = deque(maxlen=limit)
    with open_topics(ctx, url) as (_, log):
        for record, error in _error_records(log, topic or f"{flow}.errors"):
            fits = (code is None or error.failure.code == code) and (step is None or error.failure.step == step)
            if fits and error.flow == flow:
                kept.append((record, error))
    if as_json:
        print_json({"items": [_error_item(record, error) for record, error in kept]})
        return
    columns = [
        Column("error record", whole=True),
        Column("of", whole=True),
        Column("code", right=True, whole=True),
        Column("step"),
        Column("what happened"),
    ]
    rows = [
        [
            f"{record.topic}/{record.partition}/{record.offset}",
            f"{error.topic}/{error.partition}/{error.offset}",
            int(error.failure.code),
            error.failure.step,
            _said(error),
        ]
        for record, error in kept
    ]
    print_table(columns, rows)


def parse_batch(before: str | None) -> tuple[int, int] | None:
    """The option `--before`."""
    if before is None:
        return None
    found = re.fullmatch(r"(\d{1,9})/(\d{1,18})", before)
    if found is None:
        raise UsageError(f"--before {before!r} is not GENERATION/BATCH, such as 1/20")
    return int(found[1]), int(found[2])


def _print_batches(page: list[Batch], now: datetime, positions: bool, several: bool) -> None:
    from towpath.flow.delivery.places import counts_of, names_of

    names = names_of(counts_of(each.counts) for each in page)
    columns = [
        *([Column("stage")] if several else []),
        Column("batch", whole=True),
        Column("state", whole=True),
        Column("tries", right=True, whole=True),
        *(Column(name, right=True, whole=True) for name in names),
        Column("took", right=True, whole=True),
        Column("begun (UTC)", whole=True),
        *([Column("positions")] if positions else []),
    ]
    rows: list[list[object]] = []
    for each in page:
        counts = counts_of(each.counts)
        ranges = ", ".join(str(part) for part in each.positions if not part.is_empty)
        rows.append(
            [
                *([each.stage] if several else []),
                f"{each.generation}/{each.batch_id}",
                each.state,
                each.attempts,
                *(f"{counts.get(name, 0):,}" if each.counts else "" for name in names),
                _took(each),
                short_time(each.started_at, now),
                *([ranges or "nothing"] if positions else []),
            ]
        )
    print_table(columns, rows)


def _took(batch: Batch) -> str:
    return f"{batch.timings['total_s']:,.1f}s" if "total_s" in batch.timings else ""


def _print_stage(look: StageStatus, totals: dict[str, Any]) -> None:
    from towpath.cli.flows.screen import parts_text
    from towpath.flow.delivery.places import RARE, counts_of

    stage = look.stage
    shape = stage.topology
    outputs = [f"{each['name']} from {each['input']}" for each in shape["outputs"]]
    counts = counts_of(totals)
    print_fields(
        [
            ("flow", stage.flow),
            ("version", stage.version or None),
            ("stage", stage.name),
            ("state", look.state),
            ("run by", look.run_by),
            ("reads", ", ".join(shape["topics"])),
            ("steps", ", ".join(f"{each['name']} ({each['kind']})" for each in shape["steps"])),
            ("loads", "; ".join(outputs)),
            ("generation", stage.generation or "none yet"),
            ("checkpoint", stage.checkpoint or None),
            ("read", f"{counts['read']:,} records since {stage.created_at:%Y-%m-%d %H:%M} UTC"),
            ("loaded", f"{counts['loaded']:,}"),
            ("filtered", parts_text(counts["filtered"], totals.get("filtered", {}), "by {}")),
            ("failed", parts_text(counts["failed"], totals.get("failed", {}), "with code {}")),
            *((name, f"{counts[name]:,}") for name in RARE if name in counts),
            ("changed", time_and_age(stage.updated_at, to_datetime(look.now))),
        ]
    )


def _gap_text(gap: Gap) -> str:
    where = f"{gap.topic}/{gap.partition} from {gap.start} to before {gap.stop}"
    return f"{gap.stage} will never read {where}: {gap.reason} ({gap.noticed_at:%Y-%m-%d %H:%M} UTC)"


def _error_records(log: Log, topic: str) -> Iterator[tuple[Record, ErrorRecord]]:
    """The error records of a topic, ordered by time. Records that are no error records are skipped."""
    from towpath.flow.records.errors import ErrorRecord

    parts = [log.read(topic, number, start) for number, start in log.starts(topic).items()]
    for record in merge(*parts, key=lambda record: record.timestamp_ms):
        try:
            yield record, ErrorRecord.read(record)
        except (KeyError, ValueError):
            continue


def _said(error: ErrorRecord) -> str:
    failure = error.failure
    return failure.message if failure.exception in failure.message else f"{failure.exception}: {failure.message}"


def _error_item(record: Record, error: ErrorRecord) -> dict[str, Any]:
    return {
        "record": f"{record.topic}/{record.partition}/{record.offset}",
        "kind": error.kind,
        "flow": error.flow,
        "stage": error.stage,
        "topic": error.topic,
        "partition": error.partition,
        "offset": error.offset,
        "code": int(error.failure.code),
        "step": error.failure.step,
        "exception": error.failure.exception,
        "message": error.failure.message,
        "output": error.output,
        "generation": error.generation,
        "batch_id": error.batch_id,
    }
