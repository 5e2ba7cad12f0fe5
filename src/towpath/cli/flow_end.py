"""How a run ended: what was read and what became of it, what failed and why, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from towpath.cli.flow_tally import Tally
from towpath.cli.output import Column, console, plain, print_json, print_table
from towpath.flow.batch_counts import counts_of, names_of
from towpath.flow.codes import MEANINGS, ErrorCode
from towpath.flow.pilot import PilotState

if TYPE_CHECKING:
    from towpath.cli.given import Given
    from towpath.flow.flow import Flow
    from towpath.flow.pilot import Pilot

SOME_ERRORS = 10


def print_end(flow: Flow, pilots: Mapping[str, Pilot], tally: Tally, given: Given) -> None:
    """For people."""
    names = names_of(counts_of(tally.of(stage)) for stage in pilots)
    columns = [
        Column("stage"),
        Column("state", whole=True),
        *(Column(name, right=True, whole=True) for name in (*names, "batches")),
        Column("because"),
    ]
    rows = []
    for stage, pilot in pilots.items():
        counts = counts_of(tally.of(stage))
        numbers = [f"{counts.get(name, 0):,}" for name in names]
        rows.append([stage, pilot.state, *numbers, tally.of(stage).get("batches", 0), pilot.reason])
    print_table(columns, rows)
    filtered, failed = _parts(pilots, tally, "filtered"), _parts(pilots, tally, "failed")
    if filtered:
        typer.echo("\nfiltered")
        print_table(
            [Column("records", right=True), Column("by step")], [[f"{n:,}", step] for step, n in filtered.items()]
        )
    if failed:
        typer.echo("\nfailed")
        print_table(
            [Column("records", right=True), Column("code", right=True), Column("meaning")],
            [[f"{count:,}", code, MEANINGS[ErrorCode(int(code))]] for code, count in failed.items()],
        )
        own = "" if flow.error_topic == f"{flow.name}.errors" else f" --topic {flow.error_topic}"
        typer.echo("\nLook at them, or read them whole:")
        typer.echo(f"  {command(given, f'flow errors {flow.name}{own}')}")
        typer.echo(f"  {command(given, f'topic read {flow.error_topic} -n {SOME_ERRORS}')}")
    for stage, pilot in pilots.items():
        if pilot.state is PilotState.HALTED:
            console().print(f"\n✗ {stage} is halted: {plain(pilot.reason)}", style="bold red", soft_wrap=True)
            resume = command(given, f"flow resume {flow.name} {shlex.quote(stage)} --why 'it is mended'")
            typer.echo(f"When that is mended, let it go on and run it again:\n  {resume}")


def print_end_json(flow: Flow, pilots: Mapping[str, Pilot], tally: Tally) -> None:
    """For programs."""
    stages = [
        {
            "stage": stage,
            "state": pilot.state,
            "reason": pilot.reason,
            "batches": tally.of(stage).get("batches", 0),
            **counts_of(tally.of(stage)),
            "filtered_by": tally.of(stage).get("filtered", {}),
            "failed_by_code": tally.of(stage).get("failed", {}),
            "delivered": tally.of(stage).get("delivered", {}),
        }
        for stage, pilot in pilots.items()
    ]
    print_json({"flow": flow.name, "stages": stages, "error_topic": flow.error_topic})


def command(given: Given, words: str) -> str:
    """How to call this program again with the same settings."""
    options = ""
    if given.config is not None:
        options += f" --config {shlex.quote(str(given.config))}"
    if given.database is not None:
        options += f" --database {shlex.quote(given.database)}"
    return f"towpath{options} {words}"


def _parts(pilots: Mapping[str, Any], tally: Tally, name: str) -> dict[str, int]:
    """By step or code, over all stages."""
    total: dict[str, int] = {}
    for stage in pilots:
        for part, count in tally.of(stage).get(name, {}).items():
            total[part] = total.get(part, 0) + count
    return {part: total[part] for part in sorted(total, key=lambda part: (len(part), part)) if total[part]}
