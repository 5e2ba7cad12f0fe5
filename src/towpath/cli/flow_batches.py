"""`towpath flow batches`: the ledger."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.failures import UsageError
from towpath.cli.flow import FlowName, StageName
from towpath.cli.given import open_runtime
from towpath.cli.options import AsJson, Limit
from towpath.cli.output import Column, print_json, print_table, short_time

if TYPE_CHECKING:
    from datetime import datetime

    from towpath.flow.ledger import Batch

app = typer.Typer()

DEFAULT_BATCHES = 20


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
    from towpath.clock import to_datetime
    from towpath.flow.flow_json import batch_item
    from towpath.flow.ledger import Ledger
    from towpath.flow.look import looks

    start = parsed(before)
    with open_runtime(ctx) as runtime:
        stages = [look.stage.name for look in looks(runtime.database, flow, stage)]
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
        _print(page, now, positions, len(stages) > 1)


def parsed(before: str | None) -> tuple[int, int] | None:
    """The option `--before`."""
    if before is None:
        return None
    found = re.fullmatch(r"(\d{1,9})/(\d{1,18})", before)
    if found is None:
        raise UsageError(f"--before {before!r} is not GENERATION/BATCH, such as 1/20")
    return int(found[1]), int(found[2])


def _print(page: list[Batch], now: datetime, positions: bool, several: bool) -> None:
    from towpath.flow.batch_counts import counts_of, names_of

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
