"""`towpath desk run`: takes errors in, sends records back, releases lanes, carries out jobs, until it is stopped."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.failures import FAILED, UsageError, say
from towpath.cli.given import Given, working_runtime
from towpath.cli.options import AsJson
from towpath.cli.output import can_redraw

if TYPE_CHECKING:
    from towpath.desk.desk_part import DeskPart
    from towpath.desk.desk_services import DeskServices, DeskStatus

app = typer.Typer()

LOOK_S = 0.1
SHOW_S = 1.0
CLEAR = "\r\x1b[2K"


@app.command()
def run(
    ctx: typer.Context,
    until_idle: Annotated[
        bool,
        typer.Option("--until-idle", help="End when there is nothing to do now; what waits for its time is left."),
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What people see as this process's name; else as the settings say."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Only intake, relay, replayer, jobs, notices or janitor; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the desk: intake, relay, lanes, bulk jobs and notifications. Ctrl-C ends it; typed again, at once."""
    from towpath.cli.flow_stop import EndWish, Stopping

    given = ctx.ensure_object(Given)
    with working_runtime(given, name, "desk") as runtime:
        services, wanted = runtime.desk_services(_parts(only)), EndWish()
        line = _StatusLine(services, as_json)
        with Stopping(lambda: None, runtime.settings.process.grace_s) as stopping:
            stopping.of(wanted)
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


def _parts(only: list[str] | None) -> set[DeskPart] | None:
    from towpath.desk.desk_part import DeskPart

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
    """On a terminal one line that changes; otherwise a line whenever something has."""

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
            typer.echo(f"{CLEAR}{said(status)}", err=True, nl=is_last)
        elif (text := said(status, with_due=False)) != self._said:
            self._said = text
            say(text)

    def _status(self) -> DeskStatus | None:
        from towpath.errors import DatabaseError

        try:
            return self._services.status()
        except DatabaseError:
            return None  # the services say themselves that it is away

    def _print_json(self, status: DeskStatus) -> None:
        from towpath.exact_json import to_json

        text = to_json({name: value for name, value in status.to_json().items() if name != "next_due_s"})
        if text != self._said:
            self._said = text
            typer.echo(text)
            sys.stdout.flush()


def said(status: DeskStatus, *, with_due: bool = True) -> str:
    """`12 open, 3 waiting (next in 40 s), 2 to send, 1 job`."""
    parts = [f"{count} {state}" for state, count in status.cases.items()]
    if with_due and status.next_due_s is not None:
        parts.append(f"next due in {max(0, round(status.next_due_s))} s")
    if status.to_send:
        parts.append(f"{status.to_send} to send")
    if status.jobs:
        parts.append(f"{status.jobs} jobs at work")
    return ", ".join(parts) or "no cases"
