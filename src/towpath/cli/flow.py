"""`towpath flow`: looking at flows. All of it comes from the database; neither Spark nor the flow file is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.given import open_runtime
from towpath.cli.options import AsJson
from towpath.cli.output import Column, console, print_fields, print_json, print_table, time_and_age

if TYPE_CHECKING:
    from towpath.flow.ledger import Gap
    from towpath.flow.look import Look

app = typer.Typer(help="Look at flows and their batches, and steer them.", no_args_is_help=True)

FlowName = Annotated[str, typer.Argument(metavar="FLOW", show_default=False, help="The flow's name.")]
StageName = Annotated[
    str | None, typer.Argument(metavar="[STAGE]", show_default=False, help="Only this stage; all if not given.")
]


@app.command("list")
def list_(ctx: typer.Context, as_json: AsJson = False) -> None:
    """The stages of all flows that have run here: their state, how far behind they are, and who runs them."""
    from towpath.cli.flow_view import number
    from towpath.cli.flow_words import time_in_state
    from towpath.flow.flow_json import stage_item
    from towpath.flow.look import looks

    with open_runtime(ctx) as runtime:
        found = looks(runtime.database)
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
            time_in_state(look.stage.pilot, look.now),
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
    from towpath.flow.flow_json import gap_item, stage_view
    from towpath.flow.ledger import Ledger
    from towpath.flow.look import looks

    with open_runtime(ctx) as runtime:
        found = looks(runtime.database, flow)
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
    from towpath.cli.flow_watch import print_look, watched
    from towpath.flow.flow_json import stage_item
    from towpath.flow.look import looks

    with open_runtime(ctx) as runtime:
        if watch:
            watched(runtime, flow, stage, as_json)
            return
        found = looks(runtime.database, flow, stage)
    if as_json:
        print_json({"items": [stage_item(look) for look in found]})
        return
    for number, look in enumerate(found):
        if number:
            typer.echo()
        print_look(look)


def _print_stage(look: Look, totals: dict[str, Any]) -> None:
    from towpath.cli.flow_tally import parts_text
    from towpath.clock import to_datetime
    from towpath.flow.batch_counts import RARE, counts_of

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
