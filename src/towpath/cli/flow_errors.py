"""`towpath flow errors`: what failed in a flow, and why."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.flow import FlowName
from towpath.cli.options import AsJson, Limit
from towpath.cli.output import Column, print_json, print_table
from towpath.cli.topic_logs import LogUrl, open_topics

if TYPE_CHECKING:
    from towpath.flow.error_record import ErrorRecord
    from towpath.log import Log, Record

app = typer.Typer()

DEFAULT_ERRORS = 20


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
        for record, error in _read(log, topic or f"{flow}.errors"):
            fits = (code is None or error.failure.code == code) and (step is None or error.failure.step == step)
            if fits and error.flow == flow:
                kept.append((record, error))
    if as_json:
        print_json({"items": [_item(record, error) for record, error in kept]})
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


def _read(log: Log, topic: str) -> Iterator[tuple[Record, ErrorRecord]]:
    """By their time. What somebody else has put into the topic is left out."""
    from heapq import merge

    from towpath.flow.error_record import ErrorRecord

    parts = [log.read(topic, number, start) for number, start in log.starts(topic).items()]
    for record in merge(*parts, key=lambda record: record.timestamp_ms):
        try:
            yield record, ErrorRecord.read(record)
        except (KeyError, ValueError):
            continue


def _said(error: ErrorRecord) -> str:
    failure = error.failure
    return failure.message if failure.exception in failure.message else f"{failure.exception}: {failure.message}"


def _item(record: Record, error: ErrorRecord) -> dict[str, Any]:
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
