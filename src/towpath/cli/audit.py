"""`towpath audit`: whether every record of a flow is in exactly one place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.failures import FAILED, UsageError, say
from towpath.cli.options import AsJson
from towpath.cli.output import Column, console, print_json, print_table
from towpath.cli.topic_logs import open_topics

if TYPE_CHECKING:
    from towpath.flow.audit.balance import Balance
    from towpath.flow.audit.verdict import Verdict
    from towpath.flow.flow import Flow

MOST_SHOWN = 100

FlowName = Annotated[str, typer.Argument(metavar="FLOW", show_default=False, help="The flow's name.")]
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
    from towpath.desk.places import DeskPlaces
    from towpath.flow.audit.audit import Audit

    declared = None if deep is None else _declared(flow, deep)
    with open_topics(ctx, look=False) as (runtime, log), _telling() as telling:
        known = runtime.policies.error_topic(flow) if declared is None else None  # the audit asks the flow itself
        found = Audit(
            runtime.database, log, flow, declared, errors or known, DeskPlaces(runtime.database), telling
        ).run()
    if as_json:
        print_json(found.to_json())
    else:
        _print(found)
    if not found.is_balanced:
        raise typer.Exit(FAILED)


def _declared(name: str, target: str) -> Flow:
    from towpath.flow.flow_file import find_flow

    flow = find_flow(target).flow
    if flow.name != name:
        raise UsageError(f"--deep {target}: that flow is named {flow.name!r}, not {name!r}")
    return flow


@contextmanager
def _telling() -> Iterator[Callable[[str], Callable[[int], None]]]:
    """A line of progress for each part of the work."""
    from contextlib import ExitStack

    from towpath.cli.topic_progress import Counting

    with ExitStack() as closing:
        yield lambda what: closing.enter_context(Counting(what)).show


def _print(found: Verdict) -> None:
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
    from towpath.flow.place import Place

    rows = [[place, f"{balance.places[place]:,}"] for place in Place if place.is_balanced and _is_shown(place, balance)]
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


def _is_shown(place: str, balance: Balance) -> bool:
    from towpath.flow.place import Place

    return place in (Place.LOADED, Place.FILTERED, Place.FAILED, Place.IN_FLIGHT) or bool(balance.places[Place(place)])


def _print_outputs(found: Verdict) -> None:
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


def _print_end(found: Verdict) -> None:
    batches = "1 batch" if found.batches == 1 else f"{found.batches:,} batches"
    beside = [f"{found.errors['repeats']:,} repeated error records"] if found.errors.get("repeats") else []
    if found.unproven:
        beside.append("not all of it is provable any more")
    if found.is_balanced:
        typer.echo(". ".join([f"{found.flow} balances: {batches}", *beside]))
    else:
        count = len(found.problems)
        say(f"{found.flow} does not balance: {'1 problem' if count == 1 else f'{count:,} problems'} in {batches}")
