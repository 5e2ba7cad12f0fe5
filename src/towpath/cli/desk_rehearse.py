"""`towpath desk rehearse`: what would become of the cases of a group if they were replayed now."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.desk_options import GroupNumber
from towpath.cli.desk_rehearse_flow import BY_CODE, flow_to_try
from towpath.cli.failures import UsageError
from towpath.cli.given import Given, open_runtime
from towpath.cli.options import AsJson, Who, operating_user
from towpath.cli.output import Column, print_json, print_table

if TYPE_CHECKING:
    from pathlib import Path

    from towpath.desk.rehearsal import Rehearsed
    from towpath.desk.rehearsals import Asked
    from towpath.flow.flow_file import FlowFile
    from towpath.runtime import Runtime

app = typer.Typer()

_COUNTS = (Column("cases", right=True), Column("what would become of them"), Column("such as"))


@app.command()
def rehearse(
    ctx: typer.Context,
    group: GroupNumber,
    flow: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="MODULE:FLOW or FILE.py:FLOW; if not given what [up] runs, or the file in this directory that has it.",
        ),
    ] = None,
    most: Annotated[
        int, typer.Option(min=1, max=100_000, metavar="N", help="Try at most so many cases, the newest first.")
    ] = 10_000,
    pass_effects: Annotated[
        bool, typer.Option("--pass-effects", help="Pass over steps with effects outside; otherwise they are refused.")
    ] = False,
    replay_passing: Annotated[
        bool, typer.Option("--replay-passing", help="Then replay those that would load or be filtered.")
    ] = False,
    why: Annotated[str | None, typer.Option(help="Why you replay them; kept with each case.")] = None,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Run a flow on the open cases of a group, without side effects: how many would pass now?

    Sinks are not asked: what they would refuse is not seen.
    """
    if replay_passing and not (why or "").strip():
        raise UsageError("--replay-passing needs a reason: --why")
    with open_runtime(ctx) as runtime:
        name = runtime.rehearsal.flow_of(group)
        tried = flow_to_try(flow, name, runtime.settings, _directory(ctx))
        _take_along(runtime, tried.found)
        rehearsed = runtime.rehearsal.rehearse(group, tried.found.flow, most=most, passes_effects=pass_effects)
        replayed = _replay(runtime, rehearsed, who, why or "") if replay_passing else None
    if as_json:
        more = {} if replayed is None else {"replayed": replayed}
        print_json({**rehearsed.to_json(), "tried_with": tried.target, **more})
        return
    print_rehearsed(rehearsed, tried.target)
    if replayed is not None:
        typer.echo(f"replayed: {replayed}")


@app.command("rehearse-asked", hidden=True)
def rehearse_asked(ctx: typer.Context) -> None:
    """Carry out a rehearsal that somebody has asked for over HTTP; for the process that `towpath desk run` starts."""
    import json

    from towpath.desk.rehearsals import REFUSED, Asked
    from towpath.errors import Refused

    asked = Asked(**json.load(sys.stdin))
    with open_runtime(ctx) as runtime:
        try:
            print_json(_carried_out(runtime, asked, _directory(ctx)))
        except Exception as error:
            if not isinstance(error, Refused | UsageError):
                raise
            print_json({REFUSED: str(error)})  # it need not be tried again


def _directory(ctx: typer.Context) -> Path:
    """Where the settings file is."""
    from towpath.settings import directory_of

    return directory_of(ctx.ensure_object(Given).config)


def _carried_out(runtime: Runtime, asked: Asked, directory: Path) -> dict[str, Any]:
    target = None if asked.code is None else runtime.settings.desk.code.get(asked.code)
    if asked.code is not None and target is None:
        raise UsageError(f"the setting desk.code does not say here where {asked.code!r} is")
    tried = flow_to_try(target, asked.flow, runtime.settings, directory, how=BY_CODE)
    _take_along(runtime, tried.found)
    rehearsed = runtime.rehearsal.rehearse(
        asked.group,
        tried.found.flow,
        most=asked.most,
        passes_effects=asked.passes_effects,
        tick=lambda done: _say_far(done, asked.most),
    )
    replayed = _replay(runtime, rehearsed, asked.who, asked.why) if asked.replays else None
    return {**rehearsed.to_json(), "tried_with": tried.target, "replayed": replayed}


def _say_far(done: int, most: int) -> None:
    """In the words that a spawner reads."""
    typer.echo(f"towpath: {100 * done / most:.1f}% {done} tried")
    sys.stdout.flush()


def _take_along(runtime: Runtime, found: FlowFile) -> None:
    """Let Spark's workers find the user's modules, here or elsewhere."""
    from towpath.cli.run import WORKERS_PATH
    from towpath.spark.master import is_local

    path, spark = found.take_along(), runtime.settings.spark
    if not is_local(spark.master):
        spark = spark.model_copy(update={"conf": {WORKERS_PATH: path, **spark.conf}})
        runtime.settings = runtime.settings.model_copy(update={"spark": spark})


def _replay(runtime: Runtime, rehearsed: Rehearsed, who: str, why: str) -> int:
    """Replay those that would pass and are still as they were tried; returns how many went."""
    from towpath.desk.operating import MOST_AT_ONCE

    ids, done = runtime.rehearsal.unchanged(rehearsed), 0
    for begin in range(0, len(ids), MOST_AT_ONCE):
        some = ids[begin : begin + MOST_AT_ONCE]
        done += len(runtime.desk.operate.replay(some, who=who or operating_user(), why=why).done)
    return done


def print_rehearsed(found: Rehearsed, target: str) -> None:
    """For people."""
    from towpath.desk.rehearsal import Verdict

    tried = f"{found.cases} open cases tried with {target}"
    typer.echo(f"group {found.group} of {found.flow}: {tried}, nothing was written")
    rows = []
    for verdict in Verdict:
        if found.counts[verdict]:
            example = found.examples[verdict][0]
            said = f"{example.case.input} (case {example.case.seq}){': ' + example.said if example.said else ''}"
            rows.append((found.counts[verdict], verdict, said))
    print_table(_COUNTS, rows)
    for note in found.notes:
        typer.echo(f"note: {note}")
