"""`towpath desk rehearse` and `run`: what would become of cases if they were replayed now, and the desk at work.

A rehearsal runs the code that was named, or that `[up]` runs, or the one file here that has the flow.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.context import FAILED, CliContext, UsageError, open_runtime, say, working_runtime
from towpath.cli.desk.options import GroupNumber
from towpath.cli.flows.run import with_workers_path
from towpath.cli.options import AsJson, ProcessName, Who, operating_user
from towpath.cli.output import Column, can_redraw, print_json, print_table
from towpath.cli.progress import SignalHandler, StopRequest
from towpath.core.exact_json import to_json
from towpath.errors import DatabaseError, Refused

if TYPE_CHECKING:
    from towpath.desk.background import DeskPart, DeskServices, DeskStatus
    from towpath.desk.rehearsal import Rehearsed
    from towpath.desk.rehearsal_queue import RehearsalRequest
    from towpath.flow.flow import FlowFile
    from towpath.runtime import Runtime
    from towpath.settings import Settings


app = typer.Typer()

LOOK_S = 0.1
SHOW_S = 1.0
CLEAR = "\r\x1b[2K"
BY_OPTION = "--flow MODULE:FLOW or FILE.py:FLOW"
BY_CODE = "`code` with a name among the settings desk.code"

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
        runtime.settings = with_workers_path(runtime.settings, tried.found)
        rehearsed = runtime.rehearsal.rehearse(group, tried.found.flow, most=most, passes_effects=pass_effects)
        replayed = _replay(runtime, rehearsed, who, why or "") if replay_passing else None
    if as_json:
        more = {} if replayed is None else {"replayed": replayed}
        print_json({**rehearsed.to_json(), "tried_with": tried.target, **more})
        return
    _print_rehearsed(rehearsed, tried.target)
    if replayed is not None:
        typer.echo(f"replayed: {replayed}")


@app.command("rehearse-asked", hidden=True)
def rehearse_asked(ctx: typer.Context) -> None:
    """Carry out a rehearsal that somebody has asked for over HTTP; for the process that `towpath desk run` starts."""
    from towpath.desk.rehearsal_queue import REFUSED, RehearsalRequest

    asked = RehearsalRequest(**json.load(sys.stdin))
    with open_runtime(ctx) as runtime:
        try:
            print_json(_carried_out(runtime, asked, _directory(ctx)))
        except Exception as error:
            if not isinstance(error, Refused | UsageError):
                raise
            print_json({REFUSED: str(error)})  # it need not be tried again


@app.command()
def run(
    ctx: typer.Context,
    until_idle: Annotated[
        bool,
        typer.Option("--until-idle", help="End when there is nothing to do now; what waits for its time is left."),
    ] = False,
    name: ProcessName = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Only intake, relay, replayer, jobs, notices or janitor; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the desk: intake, relay, lanes, bulk jobs and notifications. Ctrl-C ends it; typed again, at once."""
    given = ctx.ensure_object(CliContext)
    with working_runtime(given, name, "desk") as runtime:
        services, wanted = runtime.desk_services(_parts(only)), StopRequest()
        line = _StatusLine(services, as_json)
        with SignalHandler(grace_s=runtime.settings.process.grace_s, run=wanted):
            say(f"the desk runs as process {runtime.process().id}; Ctrl-C ends it")
            runtime.process().ready(f"runs {', '.join(only)} of the desk" if only else "runs the desk")
            if until_idle:
                services.run_until_idle(wanted.is_set, line.show)
            else:
                services.start()
                while not wanted.wait(LOOK_S):
                    line.show()
            line.show(is_last=True)
            _stop(services, runtime.settings.desk.grace_s)


@dataclass(frozen=True, slots=True)
class FlowCandidate:
    """The code of a flow, and where that was found."""

    found: FlowFile
    target: str


def flow_to_try(
    target: str | None, name: str, settings: Settings, directory: Path, *, how: str = BY_OPTION
) -> FlowCandidate:
    """Find the flow's code. Targets of `[up]` are relative to `directory`; `how` tells people what to give instead."""
    from towpath.flow.flow import find_flow

    if target is not None:
        return FlowCandidate(find_flow(target), target)
    targets = _in_up(settings, directory, name) or _in_files(sorted(Path().glob("*.py")), name)
    if not targets:
        raise UsageError(f"no file in this directory has the flow {name}; say where it is: {how}")
    if len(targets) > 1:
        raise UsageError(f"the flow {name} is in {' and in '.join(targets)}; say which one to rehearse with: {how}")
    return FlowCandidate(find_flow(targets[0]), targets[0])


def _in_up(settings: Settings, directory: Path, name: str) -> list[str]:
    """Targets of this flow among what `towpath up` runs."""
    found: list[str] = []
    for up in settings.up.values():
        if up.kind == "flow" and up.launcher == "subprocess":
            place, _, called = up.target.partition(":")
            file = place if place.endswith(".py") else f"{place.replace('.', '/')}.py"
            here = Path(os.path.relpath(directory / up.directory / file))
            found += (each for each in _in_files([here], name) if not called or each.endswith(f":{called}"))
    return list(dict.fromkeys(found))


def _in_files(files: Iterable[Path], name: str) -> list[str]:
    """Targets of the flow of that name. Only files that seem to define it are imported."""
    from towpath.core.user_code import import_user_module

    made = re.compile(rf"Flow\(\s*['\"]{re.escape(name)}['\"]")
    targets: dict[int, str] = {}
    for file in files:
        if not file.is_file() or not made.search(file.read_text("utf-8", "replace")):
            continue
        for called, value in vars(import_user_module(str(file), Path(), UsageError).module).items():
            if type(value).__name__ == "Flow" and value.name == name:
                targets.setdefault(id(value), f"{file}:{called}")  # one with two names is one
    return list(targets.values())


def _directory(ctx: typer.Context) -> Path:
    """Where the settings file is."""
    from towpath.settings import directory_of

    return directory_of(ctx.ensure_object(CliContext).config)


def _carried_out(runtime: Runtime, asked: RehearsalRequest, directory: Path) -> dict[str, Any]:
    target = None if asked.code is None else runtime.settings.desk.code.get(asked.code)
    if asked.code is not None and target is None:
        raise UsageError(f"the setting desk.code does not say here where {asked.code!r} is")
    tried = flow_to_try(target, asked.flow, runtime.settings, directory, how=BY_CODE)
    runtime.settings = with_workers_path(runtime.settings, tried.found)
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
    """Report progress in the form that a spawner reads."""
    typer.echo(f"towpath: {100 * done / most:.1f}% {done} tried")
    sys.stdout.flush()


def _replay(runtime: Runtime, rehearsed: Rehearsed, who: str, why: str) -> int:
    """Replay those that would pass and are still as they were tried; returns how many went."""
    from towpath.desk.actions.service import MOST_AT_ONCE

    ids, done = runtime.rehearsal.unchanged(rehearsed), 0
    for begin in range(0, len(ids), MOST_AT_ONCE):
        some = ids[begin : begin + MOST_AT_ONCE]
        done += len(runtime.desk.operate.replay(some, who=who or operating_user(), why=why).done)
    return done


def _print_rehearsed(found: Rehearsed, target: str) -> None:
    """For people."""
    from towpath.desk.rehearsal import RehearsalVerdict

    tried = f"{found.cases} open cases tried with {target}"
    typer.echo(f"group {found.group} of {found.flow}: {tried}, nothing was written")
    rows = []
    for verdict in RehearsalVerdict:
        if found.counts[verdict]:
            example = found.examples[verdict][0]
            said = f"{example.case.input} (case {example.case.seq}){': ' + example.said if example.said else ''}"
            rows.append((found.counts[verdict], verdict, said))
    print_table(_COUNTS, rows)
    for note in found.notes:
        typer.echo(f"note: {note}")


def _parts(only: list[str] | None) -> set[DeskPart] | None:
    from towpath.desk.background import DeskPart

    unknown = sorted(set(only or ()) - set(DeskPart))
    if unknown:
        raise UsageError(f"--only {unknown[0]}: is one of {', '.join(DeskPart)}")
    return {DeskPart(name) for name in only} if only else None


def _stop(services: DeskServices, grace_s: float) -> None:
    left = services.stop(grace_s)
    if left:
        say(f"left while {', '.join(left)} was at work; others go on with that")
        sys.stdout.flush()
        os._exit(FAILED)  # an orderly end would call this process stopped while its threads still work


class _StatusLine:
    """One line that changes on a terminal; elsewhere a new line whenever something has changed."""

    def __init__(self, services: DeskServices, as_json: bool) -> None:
        self._services = services
        self._as_json = as_json
        self._shown_at = float("-inf")
        self._said = ""

    def show(self, *, is_last: bool = False) -> None:
        if time.monotonic() - self._shown_at < SHOW_S and not is_last:
            return
        self._shown_at = time.monotonic()
        status = self._status()
        if status is None:
            return
        if self._as_json:
            self._print_json(status)
        elif can_redraw(sys.stderr):
            typer.echo(f"{CLEAR}{_status_text(status)}", err=True, nl=is_last)
        elif (text := _status_text(status, with_due=False)) != self._said:
            self._said = text
            say(text)

    def _status(self) -> DeskStatus | None:
        try:
            return self._services.status()
        except DatabaseError:
            return None  # the services say themselves that it is away

    def _print_json(self, status: DeskStatus) -> None:
        text = to_json({name: value for name, value in status.to_json().items() if name != "next_due_s"})
        if text != self._said:
            self._said = text
            typer.echo(text)
            sys.stdout.flush()


def _status_text(status: DeskStatus, *, with_due: bool = True) -> str:
    """`12 open, 3 waiting (next in 40 s), 2 to send, 1 job`."""
    parts = [f"{count} {state}" for state, count in status.cases.items()]
    if with_due and status.next_due_s is not None:
        parts.append(f"next due in {max(0, round(status.next_due_s))} s")
    if status.to_send:
        parts.append(f"{status.to_send} to send")
    if status.jobs:
        parts.append(f"{status.jobs} jobs at work")
    return ", ".join(parts) or "no cases"
